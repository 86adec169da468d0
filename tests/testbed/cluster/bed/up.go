package bed

import (
	"bufio"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"syscall"
	"time"
)

// maxDirLength keeps the sockets below the folder within the 108 bytes that a socket address holds.
const maxDirLength = 64

// up owns a bed from its start to its end.
func up(args []string) error {
	s, detach, background, err := parseUp(args)
	if err != nil {
		return err
	}
	if detach {
		return upDetached(args)
	}
	sweepAll()
	bedRecord, err := claim(s)
	if err != nil {
		return err
	}
	defer bedRecord.erase()
	if err := s.save(); err != nil {
		return err
	}
	ended := askedToEnd(!background)
	server, answers, err := startServer(s, bedRecord)
	if err != nil {
		return err
	}
	exited := make(chan error, 1)
	go func() { exited <- server.Wait() }()
	line := make(chan []byte, 1)
	go func() {
		text, _ := bufio.NewReader(answers).ReadBytes('\n')
		line <- text
	}()
	select {
	case <-ended:
		return endServer(s, server, exited)
	case text := <-line:
		if len(text) == 0 {
			// The server has told why on standard error.
			_ = endServer(s, server, exited)
			return errors.New("the bed did not start")
		}
		if err := announce(text); err != nil {
			_ = endServer(s, server, exited)
			return err
		}
	}
	select {
	case <-ended:
		return endServer(s, server, exited)
	case err := <-exited:
		return fmt.Errorf("the bed's server ended by itself: %v", err)
	}
}

func parseUp(args []string) (s *spec, detach, background bool, err error) {
	s = &spec{}
	flags := flag.NewFlagSet("up", flag.ExitOnError)
	flags.IntVar(&s.Level, "level", 1, "1: control plane, 2: control plane and node")
	flags.StringVar(&s.Dir, "dir", "", "folder of the bed: made at the start, removed at the end")
	flags.StringVar(&s.Logs, "logs", "", "folder for the components' logs, kept at the end (default: below --dir)")
	flags.StringVar(&s.ClusterAPI, "cluster-api", clusterAPINone, "none, crds or controllers")
	flags.BoolVar(&s.Audit, "audit", false, "let the API server write an audit log (metadata level)")
	flags.BoolVar(&detach, "detach", false, "return when the bed is ready and leave it running")
	flags.BoolVar(&background, "background", false, "internal: the process that --detach leaves running")
	flags.Func("crds", "file or folder of CustomResourceDefinitions to apply at the start (repeatable)", func(path string) error {
		absolute, err := filepath.Abs(path)
		s.CRDs = append(s.CRDs, absolute)
		return err
	})
	if err := flags.Parse(args); err != nil {
		return nil, false, false, err
	}
	if s.Level != 1 && s.Level != 2 {
		return nil, false, false, fmt.Errorf("--level is 1 or 2, not %d", s.Level)
	}
	if s.Level == 2 && os.Geteuid() != 0 {
		return nil, false, false, errors.New("a bed of level 2 needs root")
	}
	if !slices.Contains([]string{clusterAPINone, clusterAPICRDs, clusterAPIControllers}, s.ClusterAPI) {
		return nil, false, false, fmt.Errorf("--cluster-api is none, crds or controllers, not %q", s.ClusterAPI)
	}
	return s, detach, background, nil
}

// askedToEnd is closed on SIGTERM, on SIGINT and, when the starter's life is the bed's, at the end of standard input.
func askedToEnd(watchInput bool) <-chan struct{} {
	ended := make(chan struct{})
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	input := make(chan struct{})
	if watchInput {
		go func() {
			_, _ = io.Copy(io.Discard, os.Stdin)
			close(input)
		}()
	}
	go func() {
		select {
		case <-signals:
		case <-input:
		}
		close(ended)
	}()
	return ended
}

// startServer starts the bed's server with the files it inherits: the pipe it announces itself on, the record whose
// lock tells that the bed lives, and for level 2 the two listeners that stay on the host's loopback.
func startServer(s *spec, bedRecord *record) (*exec.Cmd, io.Reader, error) {
	answers, announcement, err := os.Pipe()
	if err != nil {
		return nil, nil, err
	}
	files := []*os.File{announcement, bedRecord.file}
	if s.Level == 2 {
		for _, address := range []*string{&s.Server, &s.Registry} {
			file, chosen, err := listenOnHost()
			if err != nil {
				return nil, nil, err
			}
			defer file.Close()
			*address = chosen
			files = append(files, file)
		}
	}
	server, err := startIsolated(s, files)
	announcement.Close()
	return server, answers, err
}

func listenOnHost() (*os.File, string, error) {
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return nil, "", err
	}
	defer listener.Close()
	file, err := listener.(*net.TCPListener).File()
	return file, listener.Addr().String(), err
}

// announce prints the ready line with the owner's pid in it.
func announce(text []byte) error {
	line := &ready{}
	if err := json.Unmarshal(text, line); err != nil {
		return err
	}
	line.Pid = os.Getpid()
	out, err := json.Marshal(line)
	if err != nil {
		return err
	}
	_, err = os.Stdout.Write(append(out, '\n'))
	return err
}

// endServer ends the server and with it every component.
func endServer(s *spec, server *exec.Cmd, exited <-chan error) error {
	const limit = 30 * time.Second
	first := syscall.SIGTERM
	if s.Namespaced {
		// The end of a PID namespace's first process is the end of every process in it.
		first = syscall.SIGKILL
	}
	_ = server.Process.Signal(first)
	deadline := time.Now().Add(limit)
	for time.Now().Before(deadline) {
		// A frozen process does not die before it is thawed.
		thaw(s.cgroup())
		select {
		case <-exited:
			return nil
		case <-time.After(100 * time.Millisecond):
		}
	}
	_ = server.Process.Kill()
	return fmt.Errorf("the bed's server (pid %d) did not end within %s", server.Process.Pid, limit)
}

// upDetached starts the owner in a session of its own and returns when the bed is ready.
func upDetached(args []string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	// A file without a name: the owner can write to it for as long as it lives, and nothing has to remove it.
	complaints, err := os.CreateTemp("", "testbed-up-")
	if err != nil {
		return err
	}
	defer complaints.Close()
	if err := os.Remove(complaints.Name()); err != nil {
		return err
	}
	owner := exec.Command(self, append([]string{"up", "--background"}, withoutDetach(args)...)...)
	owner.Stderr = complaints
	owner.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	out, err := owner.StdoutPipe()
	if err != nil {
		return err
	}
	if err := owner.Start(); err != nil {
		return err
	}
	line, err := bufio.NewReader(out).ReadBytes('\n')
	if err == nil {
		_, err = os.Stdout.Write(line)
		return err
	}
	_ = owner.Wait()
	_, _ = complaints.Seek(0, io.SeekStart)
	_, _ = io.Copy(os.Stderr, complaints)
	return errors.New("the detached bed did not start")
}

func withoutDetach(args []string) []string {
	return slices.DeleteFunc(slices.Clone(args), func(arg string) bool {
		return slices.Contains([]string{"-detach", "--detach", "-detach=true", "--detach=true"}, arg)
	})
}
