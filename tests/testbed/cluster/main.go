// Command testbed is a Kubernetes cluster in one binary: the programs of the cluster, chosen by the first
// argument or by the name the binary was started under, and a supervisor that starts and ends them as one bed.
package main

import (
	"fmt"
	"os"
	"path/filepath"

	"testbed/cluster/bed"
)

func main() {
	name, args := filepath.Base(os.Args[0]), os.Args[1:]
	if _, isProgram := programs[name]; !isProgram {
		if len(args) == 0 {
			usage()
		}
		name, args = args[0], args[1:]
	}
	if program, ok := programs[name]; ok {
		// The programs read os.Args themselves.
		os.Args = append([]string{name}, args...)
		os.Exit(program())
	}
	if command, ok := bed.Commands[name]; ok {
		if err := command(args); err != nil {
			fmt.Fprintf(os.Stderr, "testbed %s: %v\n", name, err)
			os.Exit(1)
		}
		return
	}
	usage()
}

func usage() {
	fmt.Fprint(os.Stderr, `testbed: a Kubernetes cluster to test against, in one binary

  testbed up --level 1|2 [--dir DIR] [--cluster-api crds|controllers] [--crds PATH]... [--audit] [--logs DIR] [--detach]
      Starts a bed and prints one line of JSON when it is ready. It ends when standard input reaches its end, or on
      SIGTERM or SIGINT. With --detach it lives on until 'testbed down'.
      Level 1: etcd, kube-apiserver and kube-controller-manager on 127.0.0.1; needs no root.
      Level 2: all of that and a real node in namespaces of its own; needs root and hack/dependencies.sh.
  testbed down --dir DIR
      Ends a bed and removes what it left.
  testbed control --dir DIR status
  testbed control --dir DIR stop|kill|start|pause|resume COMPONENT
  testbed sweep
      Removes what beds left whose owner was killed. 'up' and 'down' do this as well.
  testbed etcd|kube-apiserver|kube-controller-manager|kube-scheduler|kubelet|kube-proxy|kubectl ARGUMENTS...
`)
	os.Exit(2)
}
