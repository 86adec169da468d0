package bed

import (
	"errors"
	"flag"
	"fmt"
	"path/filepath"
	"syscall"
	"time"
)

// down ends the bed in a folder and waits until nothing of it is left.
func down(args []string) error {
	flags := flag.NewFlagSet("down", flag.ExitOnError)
	dir := flags.String("dir", "", "the bed's folder")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *dir == "" {
		return errors.New("--dir is missing")
	}
	absolute, err := filepath.Abs(*dir)
	if err != nil {
		return err
	}
	defer sweepAll()
	for _, r := range recordsOfBeds() {
		if r.Dir != absolute {
			r.file.Close()
			continue
		}
		return endBed(r)
	}
	return fmt.Errorf("there is no bed in %s", absolute)
}

// endBed signals the owner only while the owner's lock proves that the pid is still its own.
func endBed(r *record) error {
	if r.ownerGone() {
		r.erase()
		return nil
	}
	if err := syscall.Kill(r.Pid, syscall.SIGTERM); err != nil {
		return fmt.Errorf("bed %s (pid %d): %w", r.ID, r.Pid, err)
	}
	const limit = 60 * time.Second
	err := retry(limit, func() error {
		if r.ownerGone() {
			return nil
		}
		return fmt.Errorf("bed %s (pid %d) did not end within %s", r.ID, r.Pid, limit)
	})
	r.file.Close()
	return err
}
