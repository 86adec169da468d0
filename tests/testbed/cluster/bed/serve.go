package bed

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"
)

// server is the parent of a bed's components.
type server struct {
	spec      *spec
	started   time.Time
	secrets   *secrets
	addresses addresses

	mu         sync.Mutex
	components []*process
	steps      map[string]int64
}

// addresses are where the components listen, all seen from the server.
type addresses struct {
	host        string // of the API server
	apiServer   string // host:port
	etcd        string // host:port
	capiHealth  string
	capiWebhook string
}

// serve starts every component, announces the bed, and keeps it until it is told to end.
func serve(args []string) error {
	s, err := loadSpec(args[0])
	if err != nil {
		return err
	}
	files := inheritedFiles(s)
	terminate := make(chan os.Signal, 1)
	signal.Notify(terminate, syscall.SIGTERM)
	signal.Ignore(syscall.SIGINT)
	b := &server{spec: s, started: time.Now(), steps: map[string]int64{}}
	failed := make(chan error, 1)
	go func() { failed <- b.bringUp(files) }()
	select {
	case <-terminate:
	case err := <-failed:
		if err != nil {
			b.endAll()
			return err
		}
		<-terminate
	}
	b.endAll()
	return nil
}

func (b *server) bringUp(files []*os.File) error {
	var err error
	if b.secrets, err = makeSecrets(b.spec); err != nil {
		return err
	}
	if err := b.prepareNetwork(files); err != nil {
		return err
	}
	if err := b.writeKubeconfigs(); err != nil {
		return err
	}
	if err := b.listenForCommands(); err != nil {
		return err
	}
	if b.spec.Level == 1 {
		err = b.startControlPlane()
	} else {
		err = together(b.startControlPlane, b.startRuntime)
	}
	if err != nil {
		return err
	}
	steps := []func() error{b.startControllers, b.startClusterAPI}
	if b.spec.Level == 2 {
		steps = append(steps, b.startNode)
	}
	if err := together(steps...); err != nil {
		return err
	}
	return b.announce(files[0])
}

// together runs steps at the same time and reports everything that failed.
func together(steps ...func() error) error {
	failures := make([]error, len(steps))
	var all sync.WaitGroup
	for i, step := range steps {
		all.Go(func() { failures[i] = step() })
	}
	all.Wait()
	return errors.Join(failures...)
}

// announce writes the ready line.
func (b *server) announce(to *os.File) error {
	b.step("ready")
	s := b.spec
	line := ready{
		ID: s.ID, Level: s.Level, Dir: s.Dir, Logs: s.Logs,
		Kubeconfig: s.path(hostKubeconfig), Server: b.hostServer(),
		InsideKubeconfig: s.path(insideKubeconfig), InsideServer: b.insideServer(),
		Control: s.path(controlSocket), Milliseconds: b.steps,
	}
	if s.Level == 2 {
		line.Registry, line.InsideRegistry = s.Registry, nodeRegistry
	}
	if s.Audit {
		line.AuditLog = b.auditLog()
	}
	text, err := json.Marshal(line)
	if err != nil {
		return err
	}
	_, err = to.Write(append(text, '\n'))
	return errors.Join(err, to.Close())
}

// step notes when something was done.
func (b *server) step(name string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.steps[name] = time.Since(b.started).Milliseconds()
}

// run starts a component.
func (b *server) run(p *process) (*process, error) {
	p.log = b.spec.log(p.name)
	b.mu.Lock()
	b.components = append(b.components, p)
	b.mu.Unlock()
	return p, p.start()
}

// program describes a component that is part of this binary, or lies in a folder of test assets.
func (b *server) program(name string, args ...string) *process {
	if assets := os.Getenv("KUBEBUILDER_ASSETS"); assets != "" && b.spec.Level == 1 {
		path := filepath.Join(assets, name)
		if info, err := os.Stat(path); err == nil && !info.IsDir() {
			return &process{name: name, path: path, args: args}
		}
	}
	self, err := os.Executable()
	if err != nil {
		self = "/proc/self/exe"
	}
	return &process{name: name, path: self, own: true, args: args}
}

func (b *server) component(name string) (*process, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, p := range b.components {
		if p.name == name {
			return p, nil
		}
	}
	return nil, fmt.Errorf("there is no component %q", name)
}

// endAll kills every component, those last that others need. Nothing of a bed is worth an orderly end.
func (b *server) endAll() {
	b.mu.Lock()
	components := slices.Clone(b.components)
	b.mu.Unlock()
	for _, p := range slices.Backward(components) {
		_ = p.signal(syscall.SIGCONT)
		_ = p.kill()
	}
}
