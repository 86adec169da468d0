# What the manager costs when it has nothing to do but to know its objects. Sourced by hack/bench.sh.

measure_memory() {
  local idle idle_cpu rss cpu from requests
  step "the manager, idle"
  quiet "the manager's CPU time" 3 manager_cpu_roughly
  idle=$(manager_rss) idle_cpu=$(manager_cpu)
  row "manager, caches synced, no objects: RSS" "$(mebibytes "$idle")"
  row "  CPU used since its start" "$idle_cpu s"

  step "the manager with $MANY TerraformClusters of paused Clusters"
  from=$(here)
  # shellcheck disable=SC2046 # one word per name
  clusters bench-many true $(seq -f 'many-%03g' "$MANY") | kubectl create -f - >/dev/null
  uids bench-many | terraform_clusters bench-many >"$work/many.yaml"
  kubectl create -f "$work/many.yaml" >/dev/null
  wait_for "the manager's visit to $MANY TerraformClusters" all_paused
  quiet "the manager's CPU time" 3 manager_cpu_roughly
  rss=$(manager_rss) cpu=$(manager_cpu)
  row "manager, $MANY TerraformClusters (their Clusters paused): RSS" "$(mebibytes "$rss")" \
    "$(awk "BEGIN { printf \"%.1f KiB per object with its Cluster\", ($rss - $idle) / $MANY }")"
  row "  peak RSS" "$(mebibytes "$(manager_peak)")"
  row "  CPU used to take them in (finalizer, Paused, conditions)" "$(awk "BEGIN { printf \"%.1f s\", $cpu - $idle_cpu }")" \
    "$(awk "BEGIN { printf \"%.1f ms per object\", ($cpu - $idle_cpu) * 1000 / $MANY }")"
  requests=$(requests_since "$from" bench-many)
  row "  API requests for it" "$requests" "$(awk "BEGIN { printf \"%.1f per object\", $requests / $MANY }"), $(requests_since "$from" bench-many '"code":409') of all answered 409 Conflict"
}

all_paused() {
  local seen
  seen=$(kubectl -n bench-many get terraformclusters -o json |
    jq '[.items[] | select(any(.status.conditions[]?; .type == "Paused" and .status == "True"))] | length')
  [ "$seen" = "$MANY" ] || { echo "$seen are known to be paused; $(tail -n 1 "$work/manager.log")"; return 1; }
}
