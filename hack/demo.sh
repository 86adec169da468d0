#!/usr/bin/env bash
# The main job, end to end and for real: a cluster with a node, Cluster API's own controllers, our operator from our image
# and manifests, a Cluster and a TerraformCluster, one Terraform apply, and Cluster API calling the infrastructure ready.
#   hack/demo.sh up      from nothing; leaves the cluster up
#   hack/demo.sh down    removes every trace of it
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
demo=$PWD/.demo
limit=300 # seconds that any one step of the cluster may take
started=$SECONDS

step() { printf '%4ds  %s\n' $((SECONDS - started)) "$*"; }
fail() { printf 'demo: %s\n' "$*" >&2; exit 1; }

# value JSON KEY: a string out of a flat JSON object.
value() { sed -n "s/.*\"$2\":\"\\([^\"]*\\)\".*/\\1/p" <<<"$1"; }

down() {
  [ -d "$demo" ] || { echo "there is no demo to remove"; return; }
  if [ -d "$demo/bed" ]; then "$(tests/testbed/build.sh)/testbed" down --dir "$demo/bed"; fi
  rm -rf "$demo"
  echo "the demo is gone"
}

# wait_for WHAT COMMAND...: until the command succeeds; says what it saw last.
wait_for() {
  local what=$1 until=$((SECONDS + limit)) seen
  shift
  until seen=$("$@" 2>&1); do
    [ $SECONDS -lt $until ] || fail "$what did not happen within ${limit}s; last seen: $seen"
    sleep 0.5
  done
}

deploy() {
  local image=$1
  kubectl kustomize operator/manifests | sed "s#captf.test/kubectl-captf:dev#$image#g" | kubectl apply --server-side -f - >/dev/null
  kubectl -n captf-system rollout status deployment/captf-controller-manager --timeout="${limit}s" >/dev/null ||
    { kubectl -n captf-system logs deployment/captf-controller-manager --tail=20 >&2 || true; fail "the operator did not become available"; }
}

conditions() {
  kubectl -n demo get terraformcluster prod -o jsonpath='{range .status.conditions[*]}{.type}={.status}/{.reason}{"\n"}{end}' 2>/dev/null | sort
}

infrastructure_ready() {
  [ "$(kubectl -n demo get cluster prod -o jsonpath='{.status.conditions[?(@.type=="InfrastructureReady")].status}')" = True ]
}

# follow: a line for every condition that changes, and a look at the lease while the Job runs, until Cluster API is content.
follow() {
  local seen= now shown= until=$((SECONDS + limit))
  until infrastructure_ready; do
    [ $SECONDS -lt $until ] || { kubectl captf why -n demo terraformcluster/prod || true; fail "the infrastructure was not ready within ${limit}s"; }
    now=$(conditions)
    comm -13 <(printf '%s\n' "$seen") <(printf '%s\n' "$now") | while read -r line; do
      [ -z "$line" ] || step "  TerraformCluster  $line"
    done
    seen=$now
    if [ -z "$shown" ] && [ -n "$(kubectl -n demo get pods -o jsonpath='{.items[?(@.status.phase=="Running")].metadata.name}')" ]; then
      shown=yes
      step "while the Job runs: kubectl captf leases"
      kubectl captf leases -n demo
      step "and: kubectl captf why terraformcluster/prod"
      kubectl captf why -n demo terraformcluster/prod || true
    fi
    sleep 0.3
  done
}

up() {
  [ ! -e "$demo" ] || fail "a demo is there already; make demo-down removes it"
  step "packages from Debian, and the Rust target for static binaries"
  hack/dependencies.sh || fail "hack/dependencies.sh --check says what is missing; the demo needs root on a Debian"
  step "kubectl-captf, static (minutes the first time)"
  make --no-print-directory image >/dev/null
  local binary=$PWD/target/$(uname -m)-unknown-linux-musl/release/kubectl-captf
  step "the cluster's programs: Kubernetes and Cluster API (minutes the first time)"
  local bed ready images
  bed=$(tests/testbed/build.sh)
  mkdir -p "$demo/bin"
  ln -s "$binary" "$demo/bin/kubectl-captf"
  ln -s "$bed/testbed" "$demo/bin/kubectl"
  export PATH=$demo/bin:$PATH KUBECONFIG=$demo/bed/kubeconfig
  step "a node, an API server, Cluster API's controllers"
  ready=$("$bed/testbed" up --level 2 --cluster-api controllers --detach --dir "$demo/bed")
  step "images: the module with Terraform, and ours"
  images=$(tests/testbed/images.sh "$(value "$ready" registry)" "$binary")
  local inside; inside=$(value "$ready" insideRegistry)
  step "the operator, from operator/manifests"
  deploy "$inside/$(value "$images" manager)"
  step "a Cluster and a TerraformCluster"
  kubectl apply -f examples/demo/identity.yaml >/dev/null
  sed "s#CLUSTER_IMAGE#$inside/$(value "$images" cluster)#" examples/demo/cluster.yaml | kubectl apply -f - >/dev/null
  follow
  step "Cluster API says: InfrastructureReady is True"
  wait_for "giving the lease back" no_lease_left
  show_result
}

no_lease_left() {
  local left
  left=$(kubectl -n demo get leases -l captf.io/lease -o name)
  [ -z "$left" ] || { echo "$left is held"; return 1; }
}

show_result() {
  echo
  kubectl -n demo get cluster,terraformcluster,jobs,leases
  echo
  echo "control plane endpoint of the Cluster: $(kubectl -n demo get cluster prod -o jsonpath='{.spec.controlPlaneEndpoint.host}:{.spec.controlPlaneEndpoint.port}')"
  echo "serial of the Terraform state:         $(kubectl -n demo get terraformcluster prod -o jsonpath='{.status.observedStateSerial}')"
  echo "our leases left:                       $(kubectl -n demo get leases -l captf.io/lease -o name | wc -l)"
  echo
  cat <<TEXT
The whole took $((SECONDS - started)) s. Look around:
  export KUBECONFIG=$demo/bed/kubeconfig PATH=$demo/bin:\$PATH
  kubectl get cluster-api -A
  kubectl captf why -n demo terraformcluster/prod
  kubectl captf leases -A
  kubectl -n demo get events --sort-by=.metadata.creationTimestamp
  kubectl -n demo logs job/\$(kubectl -n demo get jobs -o jsonpath='{.items[0].metadata.name}')
make demo-down removes it all.
TEXT
}

case ${1:-} in
  up) up ;;
  down) down ;;
  *) echo "usage: hack/demo.sh up|down" >&2; exit 2 ;;
esac
