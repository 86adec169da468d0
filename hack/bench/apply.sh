# One apply, request by request, and how soon a Job is there. Sourced by hack/bench.sh.
# No pod runs on a bed of level 1: what kubelet and Terraform would write is written here, and the Job controller, which is
# real, does the rest.

# audited FROM: since that byte of the audit log, every request in namespace bench, oldest first:
# time, user, verb, resource, name, code. Watches are left out.
audited() {
  tail -c "+$1" "$audit" | jq -Rr 'fromjson? | select(.stage == "ResponseComplete" and .verb != "watch")
    | select(.objectRef.namespace == "bench")
    | [.requestReceivedTimestamp, .user.username, .verb,
       ([.objectRef.resource, .objectRef.subresource] | map(values) | join("/")), (.objectRef.name // "-"),
       .responseStatus.code, .stageTimestamp] | @tsv' | sort
}

here() { echo $(($(stat -c %s "$audit") + 1)); }
# requests_since FROM NAMESPACE [PATTERN]: how many requests of the manager, of those with the pattern.
requests_since() {
  tail -c "+$1" "$audit" | grep -F "\"username\":\"$MANAGER_USER\"" | grep -F "\"namespace\":\"$2\"" | grep -cF -e "${3:-}" || true
}
manager_rests() { quiet "the manager" 1.5 requests_since "$1" bench; }

measure_requests() {
  local from
  # Credentials and rights of a namespace are made for its first object: not for every apply.
  step "a first apply, which prepares the namespace"
  whole_apply first
  from=$(here)
  step "one apply, request by request"
  whole_apply prod
  compare "$from"
}

# whole_apply NAME: from kubectl apply to the released leases, and until the manager has nothing more to do.
whole_apply() {
  local from
  from=$(here)
  start_apply "$1"
  # A real run takes longer than the manager's passes, so each step waits until those have ended.
  manager_rests "$from"
  play_running "$started_job"
  manager_rests "$from"
  play_state "$started_job"
  manager_rests "$from"
  play_end "$started_job"
  wait_for "the release of the leases" no_lease_left
  wait_for "the end of the apply" provisioned "$1"
  manager_rests "$from"
}

# start_apply NAME: makes both objects; leaves the Job's name in started_job, and how long it took from kubectl apply, and
# from the API server's receipt of the TerraformCluster, in took_command and took_server.
start_apply() {
  local name=$1 from before line
  clusters bench false "$name" | kubectl create -f - >/dev/null
  uids bench "$name" | terraform_clusters bench >"$work/object.yaml"
  from=$(here) before=$EPOCHREALTIME
  kubectl apply -f "$work/object.yaml" >/dev/null
  wait_for "the Job of TerraformCluster $name" job_created "$from" "$name"
  line=$(job_created "$from" "$name")
  started_job=$(cut -f 1 <<<"$line")
  took_command=$(awk "BEGIN { print $(date -d "$(cut -f 2 <<<"$line")" +%s.%N) - $before }")
  took_server=$(awk "BEGIN { print $(date -d "$(cut -f 2 <<<"$line")" +%s.%N) - $(date -d "$(cut -f 3 <<<"$line")" +%s.%N) }")
}

# The Job's name, when the API server had answered its creation, and when it received the object's.
job_created() {
  audited "$1" | awk -F '\t' -v object="$2" -v job="captf-c-$2-apply-" '
    $3 == "create" && $4 == "terraformclusters" && $5 == object { received = $1 }
    $3 == "create" && $4 == "jobs" && index($5, job) == 1 && $6 == 201 { name = $5; answered = $7 }
    { last = $3 " " $4 " " $5 " " $6 }
    END { if (name == "") { print "last request: " last; exit 1 }; print name "\t" answered "\t" received }'
}

# pod JOB: the name of its pod, once the Job controller has made it.
pod() {
  local name
  name=$(kubectl -n bench get pods -l "batch.kubernetes.io/job-name=$1" -o 'jsonpath={.items[*].metadata.name}')
  [ -n "$name" ] || { echo "no pod"; return 1; }
  echo "$name"
}

# set_pod JOB PHASE STATE: a status as the kubelet writes it; STATE is that of container source.
set_pod() {
  local name status
  wait_for "the pod of Job $1" pod "$1"
  name=$(pod "$1")
  status=$(kubectl -n bench get pod "$name" -o json | jq -c --arg phase "$2" --argjson state "$3" '
    def container($state): {name, image, imageID: ((.image | sub(":[^:/]*$"; "")) + "@sha256:" + ("1" * 64)),
      ready: ($state | has("running")), started: ($state | has("running")), restartCount: 0, state: $state};
    {status: {phase: $phase, startTime: .metadata.creationTimestamp,
      containerStatuses: [.spec.containers[] | container($state)],
      initContainerStatuses: [.spec.initContainers[]? | container({terminated: {exitCode: 0, reason: "Completed"}})]}}')
  kubectl -n bench patch pod "$name" --subresource=status --type=merge -p "$status" >/dev/null
}

now() { date -u +%Y-%m-%dT%H:%M:%SZ; }

play_running() { set_pod "$1" Running "{\"running\": {\"startedAt\": \"$(now)\"}}"; }

play_end() {
  local result
  result=$(jq -nc --arg image "$IMAGE" '{version: 1, op: "apply", image: {ref: $image}, runtime: {version: "1.11.4"},
    steps: [{name: "init", exit: 0, seconds: 1.5}, {name: "validate", exit: 0, seconds: 0.5},
      {name: "plan", exit: 0, seconds: 1.5}, {name: "apply", exit: 0, seconds: 2}],
    changes: {add: 1, change: 0, destroy: 0, import: 0}}')
  set_pod "$1" Succeeded "$(jq -nc --arg now "$(now)" --arg result "$result" \
    '{terminated: {exitCode: 0, reason: "Completed", startedAt: $now, finishedAt: $now, message: $result}}')"
}

# play_state JOB: the state as Terraform's kubernetes backend writes it, by what the Job's own arguments say.
play_state() {
  local arguments state
  arguments=$(kubectl -n bench get job "$1" -o json | jq -c '[.spec.template.spec.containers[] | select(.name == "source") | .args[]]')
  state=$(jq -nc '{version: 4, terraform_version: "1.11.4", serial: 1, lineage: "6f1c2f4e-3c55-4a6c-9a0e-1f2d3c4b5a69",
    outputs: {
      control_plane_endpoint: {value: {host: "noop-prod.invalid", port: 6443}, type: ["object", {host: "string", port: "number"}]},
      failure_domains: {value: [{name: "fd1"}], type: ["tuple", [["object", {name: "string"}]]]},
      exports: {value: {backend_id: "b-1"}, type: ["object", {backend_id: "string"}]},
      health: {value: {state: "running", healthy: true, message: null, reasons: []},
        type: ["object", {state: "string", healthy: "bool", message: "dynamic", reasons: ["tuple", []]}]}},
    resources: [{mode: "managed", type: "terraform_data", name: "lb", provider: "provider[\"terraform.io/builtin/terraform\"]",
      instances: [{schema_version: 0, attributes: {id: "1"}, sensitive_attributes: []}]}], check_results: null}' |
    gzip -n | base64 -w 0)
  jq -nc --argjson arguments "$arguments" --arg state "$state" '
    def backend($key): "--backend-config=\($key)=" as $prefix | $arguments[] | select(startswith($prefix)) | ltrimstr($prefix);
    backend("secret_suffix") as $suffix
    | {apiVersion: "v1", kind: "Secret", type: "Opaque", data: {tfstate: $state},
       metadata: {name: "tfstate-default-\($suffix)", namespace: backend("namespace"), annotations: {encoding: "gzip"},
         labels: ((backend("labels") | gsub("\"=\""; "\":\"") | fromjson) + {tfstate: "true", tfstateSecretSuffix: $suffix,
           tfstateWorkspace: "default", "app.kubernetes.io/managed-by": "terraform"})}}' | kubectl create -f - >/dev/null
}

no_lease_left() {
  local left
  left=$(kubectl -n bench get leases -l captf.io/lease -o name)
  [ -z "$left" ] || { echo "$left; $(kubectl -n bench get jobs -o 'jsonpath={.items[*].status}')"; return 1; }
}

# provisioned NAME: the apply was one, and its state was read.
provisioned() {
  local status
  status=$(kubectl -n bench get terraformcluster "$1" -o json)
  [ "$(jq .status.initialization.provisioned <<<"$status")" = true ] ||
    { jq -c '[.status.conditions[] | select(.status != "True") | {type, status, reason, message}]' <<<"$status"; return 1; }
}

# compare FROM: the manager's requests from the first lease create to the last lease delete, against hack/bench/sequence.
compare() {
  local found=() wanted=() line time verb resource name code wanted_verb wanted_resource pattern i
  local -A reasons=()
  # The audit log has no bodies; what Events were about is asked for afterwards.
  while IFS=$'\t' read -r name line; do reasons[$name]=$line; done < <(
    kubectl -n bench get events.events.k8s.io -o json | jq -r '.items[] | "\(.metadata.name)\t\(.reason)"')
  mapfile -t found < <(audited "$1" | awk -F '\t' -v user="$MANAGER_USER" '
    $2 != user { next }
    $3 == "create" && $4 == "leases" { on = 1 }
    on { line[++n] = $1 "\t" $3 "\t" $4 "\t" $5 "\t" $6 }
    on && $3 == "delete" && $4 == "leases" { last = n }
    END { for (i = 1; i <= last; i++) print line[i] }')
  [ ${#found[@]} -gt 0 ] || fail "the audit log $audit shows no lease taken and released"
  mapfile -t wanted < <(grep -v -e '^#' -e '^$' hack/bench/sequence)
  local total=${#found[@]} sequence=${#wanted[@]}
  local -A count=() planned=()
  for line in "${wanted[@]}"; do
    read -r verb resource _ <<<"$line"
    planned["$verb $resource"]=$((${planned["$verb $resource"]:-0} + 1))
  done
  extra=()
  for line in "${found[@]}"; do
    IFS=$'\t' read -r time verb resource name code <<<"$line"
    if [ "$resource" = events ]; then name=${reasons[$name]:-$name}; fi
    count["$verb $resource"]=$((${count["$verb $resource"]:-0} + 1))
    for i in "${!wanted[@]}"; do
      read -r wanted_verb wanted_resource pattern _ <<<"${wanted[$i]}"
      # shellcheck disable=SC2053 # the pattern is one
      if [ "$verb $resource" = "$wanted_verb $wanted_resource" ] && [[ $name == $pattern ]]; then
        unset "wanted[$i]"
        continue 2
      fi
    done
    extra+=("${time:11:12}  $verb $resource $name ($code)")
  done
  spared=("${wanted[@]}")
  row "API requests of one apply, first lease taken to last lease released" "$total" \
    "$sequence by the sequence (hack/bench/sequence), target $((sequence + 2)) at most"
  local key
  while read -r key; do row "  $key" "${count[$key]:-0}" "${planned[$key]:-0}"; done < <(printf '%s\n' "${!count[@]}" "${!planned[@]}" | sort -u)
}

measure_start() {
  local i from command=() server=()
  from=$(here)
  step "kubectl apply to Job created, ten times"
  for i in $(seq 10); do
    start_apply "run-$i"
    command+=("$took_command") server+=("$took_server")
    manager_rests "$from"
  done
  row "kubectl apply to Job created, 10 runs, beside $MANY paused: median" \
    "$(milliseconds "$(printf '%s\n' "${command[@]}" | median)")" "max $(milliseconds "$(printf '%s\n' "${command[@]}" | maximum)")"
  row "  of it since the API server received the object: median" \
    "$(milliseconds "$(printf '%s\n' "${server[@]}" | median)")" "max $(milliseconds "$(printf '%s\n' "${server[@]}" | maximum)")"
}
