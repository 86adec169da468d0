// Package bed starts, watches and ends a test cluster.
//
// Two processes supervise a bed. The owner ('testbed up') holds what outlives the cluster: its record, its folder,
// its cgroups, its standard input. The server ('testbed serve', started by the owner) is the parent of every
// component. Where namespaces may be made, the server runs in a PID and a mount namespace (level 2: a network
// namespace, too), so that the kernel itself ends every process and mount when the owner is killed.
package bed

import (
	"encoding/json"
	"os"
	"path/filepath"
)

// Commands are the sub-commands of the supervisor.
var Commands = map[string]func(args []string) error{
	"up":      up,
	"down":    down,
	"sweep":   sweep,
	"control": control,
	"init":    initialize,
	"serve":   serve,
}

const specFile = "spec.json"

// spec is what the owner tells the server; it lies in the bed's folder.
type spec struct {
	ID         string   `json:"id"`
	Level      int      `json:"level"`
	Dir        string   `json:"dir"`
	Logs       string   `json:"logs"`
	Namespaced bool     `json:"namespaced"`
	ClusterAPI string   `json:"clusterAPI"`
	CRDs       []string `json:"crds"`
	Audit      bool     `json:"audit"`
	// Server and Registry are the addresses that the owner listens on for level 2 (host:port).
	Server   string `json:"server"`
	Registry string `json:"registry"`
}

// The values of --cluster-api.
const (
	clusterAPINone        = "none"
	clusterAPICRDs        = "crds"
	clusterAPIControllers = "controllers"
)

// ready is the line that 'testbed up' prints.
type ready struct {
	ID    string `json:"id"`
	Level int    `json:"level"`
	Dir   string `json:"dir"`
	Logs  string `json:"logs"`
	// Pid is the owner: its end is the bed's end.
	Pid int `json:"pid"`
	// Kubeconfig and Server reach the API server from the host.
	Kubeconfig string `json:"kubeconfig"`
	Server     string `json:"server"`
	// InsideKubeconfig and InsideServer reach it from pods and from the bed's network namespace.
	InsideKubeconfig string `json:"insideKubeconfig"`
	InsideServer     string `json:"insideServer"`
	// Registry takes pushes from the host, InsideRegistry is the same registry in image references of pods.
	Registry       string `json:"registry,omitempty"`
	InsideRegistry string `json:"insideRegistry,omitempty"`
	// Control is the socket that 'testbed control' speaks to.
	Control string `json:"control"`
	// AuditLog is set with --audit.
	AuditLog string `json:"auditLog,omitempty"`
	// Milliseconds tells how long after the start of the server each step was done.
	Milliseconds map[string]int64 `json:"milliseconds"`
}

func (s *spec) path(elements ...string) string {
	return filepath.Join(append([]string{s.Dir}, elements...)...)
}

func (s *spec) log(component string) string {
	return filepath.Join(s.Logs, component+".log")
}

// cgroup is the name of the bed's own folder in every cgroup hierarchy.
func (s *spec) cgroup() string {
	return cgroupName(s.ID)
}

func (s *spec) save() error {
	data, err := json.Marshal(s)
	if err != nil {
		return err
	}
	return os.WriteFile(s.path(specFile), data, 0o600)
}

func loadSpec(path string) (*spec, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	s := &spec{}
	return s, json.Unmarshal(data, s)
}
