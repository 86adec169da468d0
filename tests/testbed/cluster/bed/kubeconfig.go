package bed

import (
	"crypto/tls"
	"net/http"
	"os"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// The two kubeconfig files of a bed: for the host, and for its pods and components.
const (
	hostKubeconfig   = "kubeconfig"
	insideKubeconfig = "kubeconfig-inside"
)

func (b *server) writeKubeconfigs() error {
	for file, address := range map[string]string{hostKubeconfig: b.hostServer(), insideKubeconfig: b.insideServer()} {
		if err := b.writeKubeconfig(b.spec.path(file), address); err != nil {
			return err
		}
	}
	return nil
}

func (b *server) writeKubeconfig(path, address string) error {
	ca, err := os.ReadFile(b.secrets.caFile)
	if err != nil {
		return err
	}
	const name = "testbed"
	config := clientcmdapi.NewConfig()
	config.Clusters[name] = &clientcmdapi.Cluster{Server: address, CertificateAuthorityData: ca}
	config.AuthInfos["admin"] = &clientcmdapi.AuthInfo{Token: b.secrets.adminToken}
	config.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: "admin"}
	config.CurrentContext = name
	return clientcmd.WriteToFile(*config, path)
}

// insideServer is the API server's URL for components and pods.
func (b *server) insideServer() string {
	return "https://" + b.addresses.apiServer
}

// hostServer is its URL for the host.
func (b *server) hostServer() string {
	if b.spec.Level == 2 {
		return "https://" + b.spec.Server
	}
	return b.insideServer()
}

// restConfig is for the server's own requests.
func (b *server) restConfig() *rest.Config {
	return &rest.Config{
		Host:            b.insideServer(),
		BearerToken:     b.secrets.adminToken,
		TLSClientConfig: rest.TLSClientConfig{CAFile: b.secrets.caFile},
		QPS:             -1,
		Timeout:         30 * time.Second,
	}
}

func (b *server) httpClient() *http.Client {
	return &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: b.secrets.pool}}}
}
