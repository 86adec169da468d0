package bed

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// Files that a server inherits, by number.
const (
	announcementFile = 3
	recordFile       = 4
	serverListener   = 5
	registryListener = 6
)

// hiddenFolders are covered inside a node's mount namespace: the node's programs write to fixed places below them
// and would disturb the host's own programs, another bed's, or leave files behind.
var hiddenFolders = []string{"/run", "/var/lib", "/var/log"}

// startIsolated starts the bed's server, in namespaces of its own where that is allowed.
func startIsolated(s *spec, files []*os.File) (*exec.Cmd, error) {
	if os.Geteuid() == 0 {
		s.Namespaced = true
		server, err := startServerProcess(s, "init", files)
		if !errors.Is(err, syscall.EPERM) || s.Level == 2 {
			return server, err
		}
	}
	s.Namespaced = false
	return startServerProcess(s, "serve", files)
}

func startServerProcess(s *spec, command string, files []*os.File) (*exec.Cmd, error) {
	if err := s.save(); err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	server := exec.Command(self, command, s.path(specFile))
	server.Stderr = os.Stderr
	server.ExtraFiles = files
	// A process group of its own: Ctrl-C on a terminal is for the owner alone.
	server.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if command == "init" {
		server.SysProcAttr.Cloneflags = syscall.CLONE_NEWPID | syscall.CLONE_NEWNS
		if s.Level == 2 {
			server.SysProcAttr.Cloneflags |= syscall.CLONE_NEWNET
		}
	}
	// The signal comes when the thread that started the process ends, not the process: keep it.
	runtime.LockOSThread()
	return server, server.Start()
}

// initialize is the first process of the bed's PID namespace: it prepares the mounts, starts the server, and collects
// the processes whose parents ended.
func initialize(args []string) error {
	s, err := loadSpec(args[0])
	if err != nil {
		return err
	}
	if err := isolateMounts(s); err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	server := exec.Command(self, "serve", args[0])
	server.Stderr = os.Stderr
	server.ExtraFiles = inheritedFiles(s)
	// As the namespace's first process it gets no signal that it does not ask for; the owner ends it with SIGKILL.
	signal.Ignore(syscall.SIGTERM, syscall.SIGINT)
	if err := server.Start(); err != nil {
		return err
	}
	for _, file := range server.ExtraFiles {
		file.Close()
	}
	return collect(server.Process.Pid)
}

// inheritedFiles keeps the inherited files out of the components.
func inheritedFiles(s *spec) []*os.File {
	count := 2
	if s.Level == 2 {
		count = 4
	}
	files := make([]*os.File, count)
	for i := range files {
		unix.CloseOnExec(announcementFile + i)
		files[i] = os.NewFile(uintptr(announcementFile+i), "inherited "+strconv.Itoa(i))
	}
	return files
}

// collect waits for every child, own or adopted, until the server ends.
func collect(server int) error {
	for {
		var status unix.WaitStatus
		pid, err := unix.Wait4(-1, &status, 0, nil)
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return err
		case pid == server && status.Exited() && status.ExitStatus() == 0:
			return nil
		case pid == server:
			return fmt.Errorf("the server ended: %v", describe(status))
		}
	}
}

func describe(status unix.WaitStatus) string {
	if status.Signaled() {
		return "signal " + status.Signal().String()
	}
	return "exit code " + strconv.Itoa(status.ExitStatus())
}

// isolateMounts gives the bed a /proc of its own PID namespace and, for a node, hides the host's folders from it.
func isolateMounts(s *spec) error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make the mounts private: %w", err)
	}
	if err := unix.Mount("proc", "/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
		return fmt.Errorf("mount /proc: %w", err)
	}
	if s.Level == 1 {
		return nil
	}
	if err := hideFolders(s); err != nil {
		return err
	}
	if err := shieldKernelSettings(s); err != nil {
		return err
	}
	// Shared among themselves only: volumes that the kubelet mounts reach running containers.
	return unix.Mount("", "/", "", unix.MS_REC|unix.MS_SHARED, "")
}

// hideFolders lays a layer in memory over the folders: reads see the host's files, writes stay in the bed.
func hideFolders(s *spec) error {
	layers := s.path("layers")
	if err := os.Mkdir(layers, 0o700); err != nil {
		return err
	}
	if err := unix.Mount("tmpfs", layers, "tmpfs", 0, "mode=0755"); err != nil {
		return fmt.Errorf("mount a tmpfs: %w", err)
	}
	for _, folder := range hiddenFolders {
		name := strings.ReplaceAll(strings.TrimPrefix(folder, "/"), "/", "-")
		upper, work := filepath.Join(layers, name), filepath.Join(layers, name+".work")
		if err := errors.Join(os.Mkdir(upper, 0o755), os.Mkdir(work, 0o755)); err != nil {
			return err
		}
		options := fmt.Sprintf("lowerdir=%s,upperdir=%s,workdir=%s", folder, upper, work)
		if err := unix.Mount("overlay", folder, "overlay", 0, options); err != nil {
			return fmt.Errorf("lay a layer over %s: %w", folder, err)
		}
	}
	return nil
}

// kernelSettings are the ones that a kubelet insists on. They belong to the whole machine, so a node gets files that
// say what it wants to read; the machine's own settings are not touched.
var kernelSettings = map[string]string{
	"vm/overcommit_memory":      "1",
	"vm/panic_on_oom":           "0",
	"kernel/panic":              "10",
	"kernel/panic_on_oops":      "1",
	"kernel/keys/root_maxkeys":  "1000000",
	"kernel/keys/root_maxbytes": "25000000",
}

func shieldKernelSettings(s *spec) error {
	for setting, value := range kernelSettings {
		file := s.path("layers", strings.ReplaceAll(setting, "/", "."))
		if err := os.WriteFile(file, []byte(value+"\n"), 0o644); err != nil {
			return err
		}
		target := filepath.Join("/proc/sys", setting)
		if err := unix.Mount(file, target, "", unix.MS_BIND, ""); err != nil {
			return fmt.Errorf("shield %s: %w", target, err)
		}
	}
	return nil
}
