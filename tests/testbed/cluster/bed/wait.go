package bed

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"time"
)

// until tries again and again until the try succeeds, the component ends, or the limit has passed. The error names
// the component and what the last try saw.
func until(component *process, what string, limit time.Duration, try func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	pause := 10 * time.Millisecond
	for {
		seen := try(ctx)
		if seen == nil {
			return nil
		}
		if err := component.ended(); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return component.failure(fmt.Errorf("%s: not within %s, last seen: %w", what, limit, seen))
		case <-time.After(pause):
		}
		pause = min(pause*3/2, 100*time.Millisecond)
	}
}

// listening tries whether something accepts connections at an address.
func listening(address string) func(context.Context) error {
	return func(ctx context.Context) error {
		connection, err := (&net.Dialer{Timeout: time.Second}).DialContext(ctx, "tcp", address)
		if err != nil {
			return err
		}
		return connection.Close()
	}
}

// answersOK tries whether a GET is answered with 200.
func answersOK(client *http.Client, url, token string) func(context.Context) error {
	return func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
		defer cancel()
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return err
		}
		if token != "" {
			request.Header.Set("Authorization", "Bearer "+token)
		}
		response, err := client.Do(request)
		if err != nil {
			return err
		}
		defer response.Body.Close()
		if response.StatusCode != http.StatusOK {
			return fmt.Errorf("GET %s: %s", url, response.Status)
		}
		return nil
	}
}
