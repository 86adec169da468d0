package bed

import (
	"net"
	"os"
	"path/filepath"
	"time"
)

const startLimit = 90 * time.Second

// startControlPlane starts etcd and the API server and waits until requests are served.
func (b *server) startControlPlane() error {
	etcd, err := b.run(b.program("etcd",
		"--data-dir="+b.spec.path("etcd"),
		"--listen-client-urls=http://"+b.addresses.etcd,
		"--advertise-client-urls=http://"+b.addresses.etcd,
		"--listen-peer-urls=http://127.0.0.1:0",
		"--socket-reuse-port",
		// Nothing of a bed outlives a crash of the machine.
		"--unsafe-no-fsync",
		"--log-level=error",
	))
	if err != nil {
		return err
	}
	if err := until(etcd, "accept connections", startLimit, listening(b.addresses.etcd)); err != nil {
		return err
	}
	b.step("etcd")
	arguments, err := b.apiServerArguments()
	if err != nil {
		return err
	}
	apiServer, err := b.run(b.program("kube-apiserver", arguments...))
	if err != nil {
		return err
	}
	err = until(apiServer, "become ready", startLimit, answersOK(b.httpClient(), b.insideServer()+"/readyz", b.secrets.adminToken))
	b.step("kube-apiserver")
	return err
}

func (b *server) apiServerArguments() ([]string, error) {
	_, port, err := net.SplitHostPort(b.addresses.apiServer)
	if err != nil {
		return nil, err
	}
	arguments := []string{
		"--etcd-servers=http://" + b.addresses.etcd,
		"--bind-address=" + b.addresses.host,
		"--secure-port=" + port,
		"--permit-port-sharing",
		"--tls-cert-file=" + b.secrets.servingCert,
		"--tls-private-key-file=" + b.secrets.servingKey,
		"--cert-dir=" + b.spec.path("pki"),
		"--service-account-key-file=" + b.secrets.signingPublic,
		"--service-account-signing-key-file=" + b.secrets.signingKey,
		"--service-account-issuer=https://kubernetes.default.svc",
		"--token-auth-file=" + b.secrets.tokenFile,
		"--service-cluster-ip-range=" + serviceNetwork,
		"--allow-privileged=true",
	}
	if b.spec.Level == 1 {
		// It would refuse to advertise a loopback address.
		arguments = append(arguments, "--authorization-mode=RBAC", "--endpoint-reconciler-type=none")
	} else {
		arguments = append(arguments, "--authorization-mode=Node,RBAC",
			"--advertise-address="+nodeAddress, "--kubelet-preferred-address-types=InternalIP")
	}
	if b.spec.Audit {
		policy := b.spec.path("audit-policy.yaml")
		if err := os.WriteFile(policy, []byte(auditPolicy), 0o600); err != nil {
			return nil, err
		}
		arguments = append(arguments, "--audit-policy-file="+policy, "--audit-log-path="+b.auditLog())
	}
	return arguments, nil
}

// auditPolicy notes who asked for what, once per request and without bodies.
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules: [{level: Metadata}]
`

func (b *server) auditLog() string {
	return filepath.Join(b.spec.Logs, "audit.log")
}

// startControllers starts the controller manager and waits for the first thing that it does.
func (b *server) startControllers() error {
	manager, err := b.run(b.program("kube-controller-manager",
		"--kubeconfig="+b.spec.path(insideKubeconfig),
		"--service-account-private-key-file="+b.secrets.signingKey,
		"--use-service-account-credentials=true",
		"--root-ca-file="+b.secrets.caFile,
		"--leader-elect=false",
		"--secure-port=0",
		"--flex-volume-plugin-dir="+b.volumePlugins(),
		// With the default of 20 requests a second a test of many Jobs would measure this component.
		"--kube-api-qps=1000", "--kube-api-burst=2000",
		"--concurrent-job-syncs=50", "--concurrent-gc-syncs=20",
	))
	if err != nil {
		return err
	}
	account := b.insideServer() + "/api/v1/namespaces/default/serviceaccounts/default"
	err = until(manager, "make the ServiceAccount default", startLimit, answersOK(b.httpClient(), account, b.secrets.adminToken))
	b.step("kube-controller-manager")
	return err
}

// volumePlugins replaces a folder of the host that two components would make.
func (b *server) volumePlugins() string {
	return b.spec.path("volumeplugins")
}
