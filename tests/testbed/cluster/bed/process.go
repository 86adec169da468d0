package bed

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"syscall"
	"time"
)

// launches carries starts to one thread that never ends: a component is killed when the thread that started it ends.
var launches = make(chan func())

func init() {
	go func() {
		runtime.LockOSThread()
		for launch := range launches {
			launch()
		}
	}()
}

// process is one component: a program that can be started again after it was stopped.
type process struct {
	name string
	// path is the program; own is set when it is this binary, which then goes by the component's name.
	path string
	own  bool
	args []string
	env  []string
	log  string

	mu      sync.Mutex
	cmd     *exec.Cmd
	done    chan struct{}
	stopped bool
}

// start runs the program; its output is appended to its log.
func (p *process) start() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.running() {
		return fmt.Errorf("%s runs already", p.name)
	}
	log, err := os.OpenFile(p.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := exec.Command(p.path, p.args...)
	if p.own {
		cmd.Args[0] = p.name
	}
	cmd.Env = append(os.Environ(), p.env...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	started := make(chan error)
	launches <- func() { started <- cmd.Start() }
	if err := <-started; err != nil {
		return fmt.Errorf("%s: %w", p.name, err)
	}
	done := make(chan struct{})
	p.cmd, p.done, p.stopped = cmd, done, false
	go func() {
		_ = cmd.Wait()
		close(done)
		p.mu.Lock()
		unexpected := !p.stopped && p.cmd == cmd
		p.mu.Unlock()
		if unexpected {
			fmt.Fprintf(os.Stderr, "testbed: %s ended by itself (%s)\n", p.name, cmd.ProcessState)
		}
	}()
	return nil
}

func (p *process) running() bool {
	if p.cmd == nil {
		return false
	}
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

// state is what 'testbed control status' says about a component.
func (p *process) state() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.cmd == nil:
		return "not started"
	case p.running():
		return fmt.Sprintf("running, pid %d", p.cmd.Process.Pid)
	default:
		return "ended: " + p.cmd.ProcessState.String()
	}
}

// stop asks the program to end and kills it when it has not within the grace; it returns when the program is gone.
func (p *process) stop(grace time.Duration) error {
	if err := p.signal(syscall.SIGTERM); err != nil {
		return err
	}
	select {
	case <-p.done:
		return nil
	case <-time.After(grace):
		return p.kill()
	}
}

func (p *process) kill() error {
	if err := p.signal(syscall.SIGKILL); err != nil {
		return err
	}
	<-p.done
	return nil
}

func (p *process) signal(signal syscall.Signal) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.running() {
		return fmt.Errorf("%s does not run", p.name)
	}
	if signal == syscall.SIGTERM || signal == syscall.SIGKILL {
		p.stopped = true
	}
	return p.cmd.Process.Signal(signal)
}

// ended tells that the program ended although nobody stopped it, with the end of its log.
func (p *process) ended() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd == nil || p.stopped || p.running() {
		return nil
	}
	return p.failure(errors.New(p.cmd.ProcessState.String()))
}

// failure says which component failed, how, and what it wrote last.
func (p *process) failure(err error) error {
	return fmt.Errorf("%s: %w\n--- the end of %s:\n%s", p.name, err, p.log, tail(p.log, 20))
}

// tail returns the last lines of a file.
func tail(path string, lines int) []byte {
	text, err := os.ReadFile(path)
	if err != nil {
		return []byte(err.Error())
	}
	text = bytes.TrimRight(text, "\n")
	start := len(text)
	for range lines {
		start = bytes.LastIndexByte(text[:start], '\n')
		if start < 0 {
			return text
		}
	}
	return text[start+1:]
}
