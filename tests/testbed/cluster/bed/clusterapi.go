package bed

import (
	"bytes"
	"context"
	"errors"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

const clusterAPINamespace = "capi-system"

// startClusterAPI applies the CustomResourceDefinitions that were asked for and starts Cluster API's own controllers.
// The programs and the definitions lie beside this binary (tests/testbed/build.sh puts them there).
func (b *server) startClusterAPI() error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	assets := filepath.Dir(self)
	definitions := b.clusterAPIDefinitions(filepath.Join(assets, "crds", "cluster-api"))
	if err := b.applyDefinitions(append(definitions, b.spec.CRDs...)); err != nil {
		return err
	}
	b.step("crds")
	if b.spec.ClusterAPI != clusterAPIControllers {
		return nil
	}
	if err := b.makeNamespace(clusterAPINamespace); err != nil {
		return err
	}
	if err := b.startClusterAPIManager(filepath.Join(assets, "capi-manager")); err != nil {
		return err
	}
	b.step("cluster-api")
	return nil
}

// clusterAPIDefinitions are all of them where Cluster API's controllers run, and otherwise those that an infrastructure
// provider meets: each definition costs the API server a fifth of a second.
func (b *server) clusterAPIDefinitions(folder string) []string {
	switch b.spec.ClusterAPI {
	case clusterAPIControllers:
		return []string{folder}
	case clusterAPICRDs:
		var files []string
		for _, kind := range []string{"clusters", "machines", "machinepools"} {
			files = append(files, filepath.Join(folder, "cluster.x-k8s.io_"+kind+".yaml"))
		}
		return files
	default:
		return nil
	}
}

func (b *server) makeNamespace(name string) error {
	clients, err := kubernetes.NewForConfig(b.restConfig())
	if err != nil {
		return err
	}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
	_, err = clients.CoreV1().Namespaces().Create(context.Background(), namespace, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}

// startClusterAPIManager tries again on other ports when another program took one in between (level 1).
func (b *server) startClusterAPIManager(path string) error {
	const attempts = 3
	var failed error
	for range attempts {
		if b.spec.Level == 1 {
			if err := b.freeClusterAPIPorts(); err != nil {
				return err
			}
		}
		manager, err := b.clusterAPIManager(path)
		if err != nil {
			return err
		}
		if err := manager.start(); err != nil {
			return err
		}
		health := "http://" + b.addresses.capiHealth + "/readyz"
		failed = until(manager, "become ready", startLimit, answersOK(http.DefaultClient, health, ""))
		if failed == nil {
			b.mu.Lock()
			b.components = append(b.components, manager)
			b.mu.Unlock()
			return nil
		}
		_ = manager.kill()
		if !bytes.Contains(tail(manager.log, 100), []byte("address already in use")) {
			break
		}
	}
	return failed
}

func (b *server) freeClusterAPIPorts() error {
	var err error
	for _, address := range []*string{&b.addresses.capiHealth, &b.addresses.capiWebhook} {
		var failed error
		*address, failed = freePort()
		err = errors.Join(err, failed)
	}
	return err
}

func (b *server) clusterAPIManager(path string) (*process, error) {
	certificates := b.spec.path("capi-certificates")
	if err := b.copyServingPair(certificates); err != nil {
		return nil, err
	}
	_, webhookPort, err := net.SplitHostPort(b.addresses.capiWebhook)
	if err != nil {
		return nil, err
	}
	return &process{
		name: "cluster-api", path: path, log: b.spec.log("cluster-api"),
		args: []string{
			"--kubeconfig=" + b.spec.path(insideKubeconfig),
			"--webhook-cert-dir=" + certificates,
			"--webhook-port=" + webhookPort,
			"--health-addr=" + b.addresses.capiHealth,
			"--diagnostics-address=0",
		},
		env: []string{"POD_NAMESPACE=" + clusterAPINamespace, "POD_NAME=capi", "POD_UID=capi"},
	}, nil
}

// copyServingPair gives a webhook server the bed's serving certificate under the names it looks for.
func (b *server) copyServingPair(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	for from, to := range map[string]string{b.secrets.servingCert: "tls.crt", b.secrets.servingKey: "tls.key"} {
		data, err := os.ReadFile(from)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, to), data, 0o600); err != nil {
			return err
		}
	}
	return nil
}

// contractLabels are what Cluster API's release puts on its definitions: the contract versions that they serve, and
// the labels by which clusterctl finds them.
var contractLabels = map[string]string{
	"cluster.x-k8s.io/provider":   "cluster-api",
	"cluster.x-k8s.io/v1beta1":    "v1beta1",
	"cluster.x-k8s.io/v1beta2":    "v1beta2",
	"clusterctl.cluster.x-k8s.io": "",
}

// isClusterAPIGroup tells whether a definition is Cluster API's own (an infrastructure provider brings its labels).
func isClusterAPIGroup(name string) bool {
	_, group, found := strings.Cut(name, ".")
	return found && strings.HasSuffix(group, "x-k8s.io") && !strings.HasPrefix(group, "infrastructure.")
}
