// Command kubectl is kubectl and nothing else, of the test bed's versions: what kubectl-captf is measured against.
// The test bed's own kubectl shares one binary with the whole control plane, and starts as slowly as that.
package main

import (
	"os"

	"k8s.io/component-base/cli"
	kubectl "k8s.io/kubectl/pkg/cmd"
)

func main() {
	os.Exit(cli.Run(kubectl.NewDefaultKubectlCommand()))
}
