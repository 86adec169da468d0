package bed

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// secrets are the keys, certificates and tokens of one bed.
type secrets struct {
	// caFile signs serving certificates; pods and kubeconfigs trust it.
	caFile, servingCert, servingKey string
	// signingKey and signingPublic are for ServiceAccount tokens.
	signingKey, signingPublic string
	tokenFile                 string
	adminToken                string
	ca                        *x509.Certificate
	pool                      *x509.CertPool
}

// makeSecrets makes everything anew for each bed.
func makeSecrets(s *spec) (*secrets, error) {
	dir := s.path("pki")
	if err := os.Mkdir(dir, 0o700); err != nil {
		return nil, err
	}
	file := func(name string) string { return filepath.Join(dir, name) }
	x := &secrets{
		caFile: file("ca.crt"), servingCert: file("serving.crt"), servingKey: file("serving.key"),
		signingKey: file("service-accounts.key"), signingPublic: file("service-accounts.pub"), tokenFile: file("tokens.csv"),
	}
	if err := x.makeCertificates(); err != nil {
		return nil, err
	}
	if err := x.makeSigningKey(); err != nil {
		return nil, err
	}
	random := make([]byte, 16)
	if _, err := rand.Read(random); err != nil {
		return nil, err
	}
	x.adminToken = hex.EncodeToString(random)
	line := fmt.Sprintf("%s,admin,admin,\"system:masters\"\n", x.adminToken)
	return x, os.WriteFile(x.tokenFile, []byte(line), 0o600)
}

func (x *secrets) makeCertificates() error {
	caKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	caTemplate := certificate(1, "captf test bed")
	caTemplate.IsCA = true
	caTemplate.BasicConstraintsValid = true
	caTemplate.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature
	der, err := x509.CreateCertificate(rand.Reader, caTemplate, caTemplate, caKey.Public(), caKey)
	if err != nil {
		return err
	}
	if x.ca, err = x509.ParseCertificate(der); err != nil {
		return err
	}
	x.pool = x509.NewCertPool()
	x.pool.AddCert(x.ca)
	if err := writePEM(x.caFile, "CERTIFICATE", der); err != nil {
		return err
	}
	servingKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	serving := certificate(2, "kube-apiserver")
	serving.KeyUsage = x509.KeyUsageDigitalSignature
	serving.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	serving.DNSNames = []string{"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local"}
	for _, address := range []string{"127.0.0.1", nodeAddress, firstServiceAddress} {
		serving.IPAddresses = append(serving.IPAddresses, net.ParseIP(address))
	}
	der, err = x509.CreateCertificate(rand.Reader, serving, x.ca, servingKey.Public(), caKey)
	if err != nil {
		return err
	}
	if err := writePEM(x.servingCert, "CERTIFICATE", der); err != nil {
		return err
	}
	return writeKey(x.servingKey, servingKey)
}

func (x *secrets) makeSigningKey() error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	if err := writeKey(x.signingKey, key); err != nil {
		return err
	}
	public, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		return err
	}
	return writePEM(x.signingPublic, "PUBLIC KEY", public)
}

func certificate(serial int64, name string) *x509.Certificate {
	return &x509.Certificate{
		SerialNumber: big.NewInt(serial),
		Subject:      pkix.Name{CommonName: name},
		// Tests may shift clocks back and forth by hours.
		NotBefore: time.Now().Add(-24 * time.Hour),
		NotAfter:  time.Now().Add(30 * 24 * time.Hour),
	}
}

func writeKey(path string, key *ecdsa.PrivateKey) error {
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return err
	}
	return writePEM(path, "EC PRIVATE KEY", der)
}

func writePEM(path, kind string, der []byte) error {
	return os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600)
}
