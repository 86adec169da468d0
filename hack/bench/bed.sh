# The cluster that is measured on, the manager in it, and the objects. Sourced by hack/bench.sh.

MANAGER_USER=system:serviceaccount:captf-system:captf-controller-manager
IMAGE=registry.example.com/noop-cluster:v1
MANY=500

bed_up() {
  local ready
  ready=$("$bed/testbed" up --level 1 --cluster-api crds --crds operator/manifests/crds --audit --detach --dir "$work/bed") ||
    fail "the test bed did not start"
  audit=$(jq -r .auditLog <<<"$ready")
  export KUBECONFIG=$work/bed/kubeconfig KUBECACHEDIR=$work/cache
  kubectl apply -f operator/manifests/namespace.yaml -f operator/manifests/rbac >/dev/null
  kubectl apply -f - >/dev/null <<YAML
apiVersion: v1
kind: Secret
metadata: {name: bench, namespace: captf-system}
stringData: {EXAMPLE_TOKEN: not-a-real-token}
---
apiVersion: infrastructure.cluster.x-k8s.io/v1alpha1
kind: TerraformClusterIdentity
metadata: {name: bench}
spec: {secretRef: {name: bench, namespace: captf-system}, allowedNamespaces: {list: [bench, bench-many]}}
YAML
  local namespace
  for namespace in bench bench-many bench-leases; do kubectl create namespace "$namespace" >/dev/null; done
}

# The manager as it is deployed: its own ServiceAccount's rights, leader election, every server on.
manager_up() {
  local token health diagnostics
  token=$(kubectl -n captf-system create token captf-controller-manager)
  kubectl config view --raw -o json |
    jq --arg token "$token" '.users[].user = {token: $token}' >"$work/manager.kubeconfig"
  health=$(free_port) diagnostics=$(free_port)
  POD_NAMESPACE=captf-system SERVICE_ACCOUNT_NAME=captf-controller-manager "$binary" manager --kubeconfig "$work/manager.kubeconfig" --leader-elect \
    --health-addr "127.0.0.1:$health" --diagnostics-address "127.0.0.1:$diagnostics" \
    --runner-image registry.example.com/captf:v1 >"$work/manager.log" 2>&1 &
  manager=$!
  wait_for "the manager's caches to be synced" manager_works
}

manager_works() {
  kill -0 "$manager" 2>/dev/null || { echo "the manager ended: $(tail -n 3 "$work/manager.log")"; return 1; }
  grep -q 'starting workers' "$work/manager.log" || { tail -n 1 "$work/manager.log"; return 1; }
}

manager_down() {
  [ -n "${manager:-}" ] || return 0
  kill "$manager" 2>/dev/null || true
  wait "$manager" 2>/dev/null || true
  manager=
}

free_port() {
  local port
  while port=$((20000 + RANDOM % 20000)); (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null; do :; done
  echo "$port"
}

manager_rss() { awk '/^VmRSS/ { print $2 }' "/proc/$manager/status"; }       # KiB
manager_peak() { awk '/^VmHWM/ { print $2 }' "/proc/$manager/status"; }      # KiB
manager_cpu() { awk -v hz="$(getconf CLK_TCK)" '{ printf "%.2f", ($14 + $15) / hz }' "/proc/$manager/stat"; }     # seconds
# To a tenth of a second: renewing the leader's Lease alone does not show.
manager_cpu_roughly() { printf '%.1f' "$(manager_cpu)"; }

# clusters NAMESPACE PAUSED NAME...: Clusters as a user makes them.
clusters() {
  local namespace=$1 paused=$2 name
  shift 2
  for name; do
    cat <<YAML
apiVersion: cluster.x-k8s.io/v1beta2
kind: Cluster
metadata: {name: $name, namespace: $namespace}
spec:
  paused: $paused
  clusterNetwork: {pods: {cidrBlocks: [192.168.0.0/16]}}
  infrastructureRef: {apiGroup: infrastructure.cluster.x-k8s.io, kind: TerraformCluster, name: $name}
---
YAML
  done
}

# terraform_clusters NAMESPACE, from lines "NAME UID" of their Clusters: with what Cluster API's controllers would have put
# on them, since only its kinds are served here.
terraform_clusters() {
  local name uid
  while read -r name uid; do
    cat <<YAML
apiVersion: infrastructure.cluster.x-k8s.io/v1alpha1
kind: TerraformCluster
metadata:
  name: $name
  namespace: $1
  labels: {cluster.x-k8s.io/cluster-name: $name}
  ownerReferences: [{apiVersion: cluster.x-k8s.io/v1beta2, kind: Cluster, name: $name, uid: $uid}]
spec:
  source: {image: $IMAGE}
  identityRef: {kind: TerraformClusterIdentity, name: bench}
  variables: {region: eu-1, network: {cidr: 10.0.0.0/16, zones: [a, b, c]}}
---
YAML
  done
}

# uids NAMESPACE [NAME]: lines "NAME UID" of Clusters.
uids() {
  kubectl -n "$1" get clusters.cluster.x-k8s.io -o json |
    jq -r --arg name "${2:-}" '.items[] | select($name == "" or .metadata.name == $name) | "\(.metadata.name) \(.metadata.uid)"'
}
