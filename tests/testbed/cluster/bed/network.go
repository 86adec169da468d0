package bed

import (
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"syscall"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// The addresses of a node. Each node has a network namespace of its own, so all beds use the same ones.
const (
	nodeAddress         = "10.199.0.1"
	nodeNetwork         = "10.199.0.0/24"
	firstPodAddress     = "10.199.0.20"
	serviceNetwork      = "10.199.1.0/24"
	firstServiceAddress = "10.199.1.1"
	nodeAPIServer       = nodeAddress + ":6443"
	nodeRegistry        = nodeAddress + ":5000"
	bridge              = "captf0"
)

// prepareNetwork decides the addresses and, for a node, makes the network they belong to.
func (b *server) prepareNetwork(files []*os.File) error {
	if b.spec.Level == 1 {
		return b.reserveAddresses()
	}
	b.addresses = addresses{
		host: nodeAddress, apiServer: nodeAPIServer, etcd: "127.0.0.1:2379",
		capiHealth: "127.0.0.1:9441", capiWebhook: "127.0.0.1:9444",
	}
	if err := makeNodeNetwork(); err != nil {
		return err
	}
	if err := forward(files[serverListener-announcementFile], nodeAPIServer); err != nil {
		return err
	}
	return forward(files[registryListener-announcementFile], nodeRegistry)
}

// reserveAddresses picks free ports of the loopback. The sockets stay bound, and the components bind the same ports
// with SO_REUSEPORT: no other program can take a port in between, nor while a component is stopped.
func (b *server) reserveAddresses() error {
	b.addresses.host = "127.0.0.1"
	for _, address := range []*string{&b.addresses.apiServer, &b.addresses.etcd} {
		port, err := reservePort()
		if err != nil {
			return fmt.Errorf("reserve a port: %w", err)
		}
		*address = fmt.Sprintf("127.0.0.1:%d", port)
	}
	return nil
}

func reservePort() (int, error) {
	socket, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, err
	}
	if err := unix.SetsockoptInt(socket, unix.SOL_SOCKET, unix.SO_REUSEPORT, 1); err != nil {
		return 0, err
	}
	if err := unix.Bind(socket, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		return 0, err
	}
	name, err := unix.Getsockname(socket)
	if err != nil {
		return 0, err
	}
	return name.(*unix.SockaddrInet4).Port, nil
}

// freePort finds a port that is free now, for programs that cannot share a reserved one.
func freePort() (string, error) {
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer listener.Close()
	return listener.Addr().String(), nil
}

// makeNodeNetwork makes the loopback and the bridge that holds the node's address and the pods' interfaces.
func makeNodeNetwork() error {
	loopback, err := netlink.LinkByName("lo")
	if err != nil {
		return fmt.Errorf("find the loopback: %w", err)
	}
	if err := netlink.LinkSetUp(loopback); err != nil {
		return fmt.Errorf("start the loopback: %w", err)
	}
	attributes := netlink.NewLinkAttrs()
	attributes.Name = bridge
	link := &netlink.Bridge{LinkAttrs: attributes}
	if err := netlink.LinkAdd(link); err != nil {
		return fmt.Errorf("make the bridge: %w", err)
	}
	network, err := netlink.ParseAddr(nodeAddress + "/24")
	if err != nil {
		return err
	}
	if err := netlink.AddrAdd(link, network); err != nil {
		return fmt.Errorf("give the bridge its address: %w", err)
	}
	if err := netlink.LinkSetUp(link); err != nil {
		return fmt.Errorf("start the bridge: %w", err)
	}
	// Service addresses need some route before kube-proxy's rules see them.
	route := &netlink.Route{LinkIndex: link.Attrs().Index, Gw: net.ParseIP(nodeAddress)}
	if err := netlink.RouteAdd(route); err != nil {
		return fmt.Errorf("make the default route: %w", err)
	}
	return os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0o644)
}

// forward passes connections from a listener of the host to an address inside the namespace.
func forward(file *os.File, to string) error {
	listener, err := net.FileListener(file)
	if err != nil {
		return err
	}
	file.Close()
	go func() {
		for {
			outer, err := listener.Accept()
			if err != nil {
				fmt.Fprintf(os.Stderr, "testbed: the forward to %s ended: %v\n", to, err)
				return
			}
			go splice(outer.(*net.TCPConn), to)
		}
	}()
	return nil
}

func splice(outer *net.TCPConn, to string) {
	defer outer.Close()
	connection, err := net.Dial("tcp4", to)
	if err != nil {
		// The caller sees a reset, as close to "connection refused" as it gets.
		_ = outer.SetLinger(0)
		return
	}
	inner := connection.(*net.TCPConn)
	defer inner.Close()
	var both sync.WaitGroup
	pass := func(from, to *net.TCPConn) {
		_, err := io.Copy(to, from)
		if opError, ok := err.(*net.OpError); ok && opError.Err != nil {
			if isReset(opError.Err) {
				_ = to.SetLinger(0)
				_ = to.Close()
				return
			}
		}
		_ = to.CloseWrite()
	}
	both.Go(func() { pass(outer, inner) })
	both.Go(func() { pass(inner, outer) })
	both.Wait()
}

// isReset keeps a reset a reset: a server that is killed must not look like one that closed in order.
func isReset(err error) bool {
	call, ok := err.(*os.SyscallError)
	return ok && call.Err == syscall.ECONNRESET
}
