# The plugin against kubectl on the same leases, and the binary by itself. Sourced by hack/bench.sh.

LEASES=1000
RUNS=10

# The leases of running applies of machines, labelled and annotated as the operator does.
lease_yaml() {
  awk -v n="$LEASES" -v now="$(date -u +%Y-%m-%dT%H:%M:%S)" 'BEGIN {
    for (i = 1; i <= n; i++) {
      object = sprintf("worker-%04d", i)
      printf "apiVersion: coordination.k8s.io/v1\nkind: Lease\nmetadata:\n"
      printf "  name: captf-run-%08x%08x-m\n  namespace: bench-leases\n", (i * 48271) % 2147483647, i
      printf "  labels:\n    captf.io/lease: run\n    captf.io/managed: \"true\"\n    cluster.x-k8s.io/cluster-name: prod\n"
      printf "    captf.infrastructure.cluster.x-k8s.io/owner-kind: TerraformMachine\n"
      printf "    captf.infrastructure.cluster.x-k8s.io/owner-name: %s\n", object
      printf "  annotations:\n    captf.io/lease-op: apply\n    captf.io/lease-acquired-at: \"%s.123456789Z\"\n", now
      printf "spec:\n  holderIdentity: captf-m-%s-apply-a1-%06x\n  acquireTime: \"%s.123456Z\"\n  leaseDurationSeconds: 4500\n---\n", object, i, now
    }
  }'
}

# Their holders. Suspended, so that no pod is made of them: unfinished Jobs, as running ones are.
job_yaml() {
  awk -v n="$LEASES" 'BEGIN {
    for (i = 1; i <= n; i++) {
      object = sprintf("worker-%04d", i)
      printf "apiVersion: batch/v1\nkind: Job\nmetadata:\n  name: captf-m-%s-apply-a1-%06x\n  namespace: bench-leases\n", object, i
      printf "  labels:\n    captf.io/managed: \"true\"\n    cluster.x-k8s.io/cluster-name: prod\n"
      printf "    captf.infrastructure.cluster.x-k8s.io/owner-kind: TerraformMachine\n"
      printf "    captf.infrastructure.cluster.x-k8s.io/owner-name: %s\n", object
      printf "    captf.infrastructure.cluster.x-k8s.io/op: apply\n    captf.infrastructure.cluster.x-k8s.io/attempt: \"1\"\n"
      printf "spec:\n  suspend: true\n  backoffLimit: 0\n  activeDeadlineSeconds: 3600\n  template:\n    spec:\n      restartPolicy: Never\n"
      printf "      containers: [{name: source, image: \"registry.example.com/noop-machine:v1\"}]\n---\n"
    }
  }'
}

measure_leases() {
  step "$LEASES leases"
  lease_yaml | kubectl apply --server-side -f - >/dev/null
  compare_listings "holders absent"
  step "$LEASES Jobs that hold them"
  job_yaml | kubectl apply --server-side -f - >/dev/null
  quiet "the Job controller" 2 suspended_jobs
  compare_listings "holders run"
}

suspended_jobs() { kubectl -n bench-leases get jobs --no-headers | grep -c Suspended || true; }

# compare_listings SITUATION
compare_listings() {
  local get="kubectl get leases -n bench-leases" ours="kubectl captf leases -n bench-leases" direct="kubectl-captf leases -n bench-leases"
  local command seen states
  for command in "$get" "$ours" "$direct"; do
    seen=$($command 2>"$work/stderr" | grep -c '^captf-run-' || true)
    [ "$seen" = "$LEASES" ] || fail "$command showed $seen of $LEASES leases: $(head -n 3 "$work/stderr")"
  done
  # What was judged is part of the price: leases that could not be judged cost nothing.
  states=$($direct -o json 2>"$work/stderr" | jq -r '[.items[].state] | group_by(.) | map("\(length) \(.[0])") | join(", ")')
  if [ -s "$work/stderr" ]; then step "the plugin said: $(head -n 1 "$work/stderr")"; fi
  step "kubectl captf leases against kubectl get leases, $1"
  clock get $RUNS "$get"
  clock ours $RUNS "$ours"
  clock direct $RUNS "$direct"
  # shellcheck disable=SC2086 # command lines
  {
    row "kubectl captf leases, $LEASES leases, $1: median of $RUNS" "$(milliseconds "${medians[ours]}")" \
      "kubectl get leases: $(milliseconds "${medians[get]}")"
    row "  states shown" "$states"
    row "  kubectl-captf leases, without kubectl before it" "$(milliseconds "${medians[direct]}")"
    # Peaks of processes: one that was kubectl before keeps kubectl's.
    row "  peak RSS" "$(mebibytes "$(peak_rss $direct)")" "kubectl get leases: $(mebibytes "$(peak_rss $get)")"
  }
}

measure_binary() {
  step "the binary by itself"
  clock version 50 "$binary --version"
  clock version_of_kubectl 20 "kubectl version --client"
  row "static binary: size" "$(awk "BEGIN { printf \"%.1f MiB\", $(stat -Lc %s "$binary") / 1048576 }")"
  row "  --version: median of 50" "$(awk "BEGIN { printf \"%.1f ms\", ${medians[version]} * 1000 }")" \
    "kubectl version --client: $(milliseconds "${medians[version_of_kubectl]}")"
  row "  peak RSS" "$(mebibytes "$(peak_rss "$binary" --version)")" \
    "kubectl version --client: $(mebibytes "$(peak_rss kubectl version --client)")"
}
