package bed

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

const controlSocket = "control.sock"

// command is one line to the control socket; its answer is one line, too.
type command struct {
	Command   string `json:"command"`
	Component string `json:"component,omitempty"`
}

type answer struct {
	Error string `json:"error,omitempty"`
	// States is the answer to "status", by component.
	States map[string]string `json:"states,omitempty"`
}

// actions are what can be done to a component. Each returns when it is done: after "stop" the program is gone.
var actions = map[string]func(*process) error{
	"start":  (*process).start,
	"stop":   func(p *process) error { return p.stop(10 * time.Second) },
	"kill":   (*process).kill,
	"pause":  func(p *process) error { return p.signal(syscall.SIGSTOP) },
	"resume": func(p *process) error { return p.signal(syscall.SIGCONT) },
}

func (b *server) listenForCommands() error {
	listener, err := net.Listen("unix", b.spec.path(controlSocket))
	if err != nil {
		return err
	}
	go func() {
		for {
			connection, err := listener.Accept()
			if err != nil {
				return
			}
			go b.answerCommands(connection)
		}
	}()
	return nil
}

func (b *server) answerCommands(connection net.Conn) {
	defer connection.Close()
	lines := json.NewDecoder(connection)
	for {
		var c command
		if err := lines.Decode(&c); err != nil {
			return
		}
		if err := json.NewEncoder(connection).Encode(b.execute(c)); err != nil {
			return
		}
	}
}

func (b *server) execute(c command) answer {
	if c.Command == "status" {
		return answer{States: b.states()}
	}
	action, known := actions[c.Command]
	if !known {
		return answer{Error: fmt.Sprintf("unknown command %q", c.Command)}
	}
	p, err := b.component(c.Component)
	if err == nil {
		err = action(p)
	}
	if err != nil {
		return answer{Error: err.Error()}
	}
	return answer{}
}

func (b *server) states() map[string]string {
	b.mu.Lock()
	defer b.mu.Unlock()
	states := map[string]string{}
	for _, p := range b.components {
		states[p.name] = p.state()
	}
	return states
}

// control sends one command to the bed in a folder.
func control(args []string) error {
	flags := flag.NewFlagSet("control", flag.ExitOnError)
	dir := flags.String("dir", "", "the bed's folder")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *dir == "" || flags.NArg() == 0 {
		return errors.New("usage: testbed control --dir DIR status, or stop|kill|start|pause|resume COMPONENT")
	}
	connection, err := net.Dial("unix", filepath.Join(*dir, controlSocket))
	if err != nil {
		return err
	}
	defer connection.Close()
	c := command{Command: flags.Arg(0), Component: flags.Arg(1)}
	if err := json.NewEncoder(connection).Encode(c); err != nil {
		return err
	}
	var a answer
	if err := json.NewDecoder(connection).Decode(&a); err != nil {
		return err
	}
	if a.Error != "" {
		return errors.New(a.Error)
	}
	for name, state := range a.States {
		fmt.Fprintf(os.Stdout, "%-24s %s\n", name, state)
	}
	return nil
}
