package bed

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

const nodeName = "node1"

// startRuntime starts what the node needs before the kubelet: the registry, and the container runtime with the pause
// image in it.
func (b *server) startRuntime() error {
	return together(b.startRegistry, b.startContainerd)
}

func (b *server) startRegistry() error {
	path, err := firstProgram("docker-registry", "registry")
	if err != nil {
		return err
	}
	configuration, err := b.writeFile("registry.yaml", fmt.Sprintf(`version: 0.1
storage: {filesystem: {rootdirectory: %s}, delete: {enabled: true}}
http: {addr: "%s"}
log: {level: error}
`, b.spec.path("registry"), nodeRegistry))
	if err != nil {
		return err
	}
	registry, err := b.run(&process{name: "registry", path: path, args: []string{"serve", configuration}})
	if err != nil {
		return err
	}
	err = until(registry, "answer", startLimit, answersOK(b.httpClient(), "http://"+nodeRegistry+"/v2/", ""))
	b.step("registry")
	return err
}

func (b *server) startContainerd() error {
	path, err := firstProgram("containerd")
	if err != nil {
		return err
	}
	configuration, err := b.writeContainerdFiles()
	if err != nil {
		return err
	}
	// The runtime keeps sockets of its shims below /run, which is the bed's own layer.
	containerd, err := b.run(&process{name: "containerd", path: path, args: []string{"--config", configuration}})
	if err != nil {
		return err
	}
	if err := until(containerd, "answer", startLimit, b.ctr("version")); err != nil {
		return err
	}
	archive := b.spec.path("pause.tar")
	if err := writePauseImage(archive); err != nil {
		return err
	}
	if err := b.ctr("--namespace", "k8s.io", "images", "import", archive)(context.Background()); err != nil {
		return err
	}
	b.step("containerd")
	return os.Remove(archive)
}

func (b *server) containerdSocket() string {
	return b.spec.path("containerd.sock")
}

func (b *server) ctr(args ...string) func(context.Context) error {
	return func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
		defer cancel()
		out, err := exec.CommandContext(ctx, "ctr", append([]string{"--address", b.containerdSocket()}, args...)...).CombinedOutput()
		if err != nil {
			return fmt.Errorf("ctr %v: %w: %s", args, err, out)
		}
		return nil
	}
}

func (b *server) writeContainerdFiles() (string, error) {
	plugins, err := firstFolder("/usr/lib/cni", "/opt/cni/bin")
	if err != nil {
		return "", err
	}
	hosts := fmt.Sprintf("[host.\"http://%s\"]\n  capabilities = [\"pull\", \"resolve\"]\n", nodeRegistry)
	if _, err := b.writeFile(filepath.Join("certs.d", nodeRegistry, "hosts.toml"), hosts); err != nil {
		return "", err
	}
	network := fmt.Sprintf(`{"cniVersion": "1.0.0", "name": "captf", "plugins": [{
  "type": "bridge", "bridge": "%s", "isGateway": true, "ipMasq": false,
  "ipam": {"type": "host-local", "dataDir": "%s", "routes": [{"dst": "0.0.0.0/0"}],
    "ranges": [[{"subnet": "%s", "rangeStart": "%s", "gateway": "%s"}]]}}]}
`, bridge, b.spec.path("ipam"), nodeNetwork, firstPodAddress, nodeAddress)
	if _, err := b.writeFile("cni/10-captf.conflist", network); err != nil {
		return "", err
	}
	return b.writeFile("containerd.toml", fmt.Sprintf(`version = 2
root = "%[1]s/containerd/root"
state = "%[1]s/containerd/state"
[grpc]
  address = "%[2]s"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "%[3]s"
  restrict_oom_score_adj = true
  netns_mounts_under_state_dir = true
  [plugins."io.containerd.grpc.v1.cri".registry]
    config_path = "%[1]s/certs.d"
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "%[4]s"
    conf_dir = "%[1]s/cni"
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "%[5]s"
    default_runtime_name = "runc"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
`, b.spec.Dir, b.containerdSocket(), pauseImage, plugins, b.snapshotter()))
}

// snapshotter: an overlay cannot lie on an overlay, as in a container that runs the tests.
func (b *server) snapshotter() string {
	var fs unix.Statfs_t
	if err := unix.Statfs(b.spec.Dir, &fs); err == nil && fs.Type == unix.OVERLAYFS_SUPER_MAGIC {
		return "native"
	}
	return "overlayfs"
}

// startNode starts the scheduler, the proxy and the kubelet and waits until the node is ready.
func (b *server) startNode() error {
	kubeconfig := b.spec.path(insideKubeconfig)
	if _, err := b.run(b.program("kube-scheduler", "--kubeconfig="+kubeconfig, "--leader-elect=false")); err != nil {
		return err
	}
	proxyConfiguration, err := b.writeFile("kube-proxy.yaml", fmt.Sprintf(`apiVersion: kubeproxy.config.k8s.io/v1alpha1
kind: KubeProxyConfiguration
mode: nftables
clientConnection: {kubeconfig: %s}
clusterCIDR: %s
hostnameOverride: %s
conntrack: {maxPerCore: 0, min: 0, tcpEstablishedTimeout: 0s, tcpCloseWaitTimeout: 0s}
`, kubeconfig, nodeNetwork, nodeName))
	if err != nil {
		return err
	}
	if _, err := b.run(b.program("kube-proxy", "--config="+proxyConfiguration)); err != nil {
		return err
	}
	if err := makeCgroups(b.spec.cgroup()); err != nil {
		return fmt.Errorf("make the cgroups %s: %w", b.spec.cgroup(), err)
	}
	kubeletConfiguration, err := b.writeFile("kubelet.yaml", b.kubeletConfiguration())
	if err != nil {
		return err
	}
	kubelet, err := b.run(b.program("kubelet", "--config="+kubeletConfiguration, "--kubeconfig="+kubeconfig,
		"--root-dir="+b.spec.path("kubelet"), "--cert-dir="+b.spec.path("pki"),
		"--hostname-override="+nodeName, "--node-ip="+nodeAddress))
	if err != nil {
		return err
	}
	clients, err := kubernetes.NewForConfig(b.restConfig())
	if err != nil {
		return err
	}
	err = until(kubelet, "report the node as ready", startLimit, nodeReady(clients))
	b.step("node")
	return err
}

func (b *server) kubeletConfiguration() string {
	return fmt.Sprintf(`apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
address: %[1]s
port: 10250
healthzBindAddress: 127.0.0.1
authentication: {anonymous: {enabled: true}, webhook: {enabled: false}}
authorization: {mode: AlwaysAllow}
cgroupDriver: cgroupfs
cgroupRoot: /%[2]s
failCgroupV1: false
failSwapOn: false
enforceNodeAllocatable: []
containerRuntimeEndpoint: unix://%[3]s
podLogsDir: %[4]s
volumePluginDir: %[5]s
evictionHard: {nodefs.available: "1%%", imagefs.available: "1%%", memory.available: "50Mi"}
imageGCHighThresholdPercent: 100
localStorageCapacityIsolation: true
syncFrequency: 5s
`, nodeAddress, b.spec.cgroup(), b.containerdSocket(), b.spec.path("podlogs"), b.volumePlugins())
}

func nodeReady(clients kubernetes.Interface) func(context.Context) error {
	return func(ctx context.Context) error {
		node, err := clients.CoreV1().Nodes().Get(ctx, nodeName, metav1.GetOptions{})
		if err != nil {
			return err
		}
		for _, condition := range node.Status.Conditions {
			if condition.Type == "Ready" && condition.Status == "True" {
				return nil
			}
			if condition.Type == "Ready" {
				err = fmt.Errorf("%s: %s", condition.Reason, condition.Message)
			}
		}
		return errors.Join(errors.New("the node is not ready"), err)
	}
}

// writeFile writes a file below the bed's folder and returns its path.
func (b *server) writeFile(name, content string) (string, error) {
	path := b.spec.path(name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return "", err
	}
	return path, os.WriteFile(path, []byte(content), 0o600)
}

func firstProgram(names ...string) (string, error) {
	for _, name := range names {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf("%s is not installed: run hack/dependencies.sh", names[0])
}

func firstFolder(paths ...string) (string, error) {
	for _, path := range paths {
		if info, err := os.Stat(path); err == nil && info.IsDir() {
			return path, nil
		}
	}
	return "", fmt.Errorf("%s does not exist: run hack/dependencies.sh", paths[0])
}
