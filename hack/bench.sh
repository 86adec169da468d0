#!/usr/bin/env bash
# Measures kubectl-captf on a control plane of its own and prints one table. Nothing is judged by a time.
#   hack/bench.sh
# CAPTF_BINARY is the static release binary to measure; without it `make image` builds it.
# CAPTF_BENCH_LIMIT is how many seconds anything waited for may take, 180 by default. CAPTF_BENCH_LOGS is a folder to keep
# the manager's log and the API server's audit log in.
# The parts: hack/bench/*.sh; the requests an apply should take: hack/bench/sequence.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
export LC_ALL=C
for part in lib bed memory apply leases; do
  # shellcheck source=/dev/null
  source "hack/bench/$part.sh"
done

# Package and the program that proves it is there.
programs=("hyperfine hyperfine" "jq jq" "time /usr/bin/time")

missing() {
  local line
  for line in "${programs[@]}"; do command -v "${line#* }" >/dev/null || echo "${line%% *}"; done
}

dependencies() {
  local wanted
  mapfile -t wanted < <(missing)
  if [ ${#wanted[@]} -gt 0 ] && command -v apt-get >/dev/null && [ "$(id -u)" = 0 ]; then
    step "Debian packages: ${wanted[*]}"
    apt-get update -q >/dev/null
    DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "${wanted[@]}" >/dev/null
    mapfile -t wanted < <(missing)
  fi
  [ ${#wanted[@]} -eq 0 ] || fail "these Debian packages are missing: ${wanted[*]}; install them (as root: apt-get install ${wanted[*]})"
}

# The test bed's kubectl shares one binary with the whole control plane, which no user's kubectl does.
build_kubectl() {
  local main=$PWD/hack/bench/kubectl/main.go to=$PWD/target/bench/kubectl version
  cd tests/testbed/cluster
  version=$(go list -m -f '{{.Version}}' k8s.io/kubernetes)
  CGO_ENABLED=0 go build -trimpath -ldflags "-s -w -X k8s.io/component-base/version.gitVersion=$version" -o "$to" "$main" >&2 ||
    fail "kubectl did not build"
  echo "$to"
}

clean_up() {
  local code=$?
  trap - EXIT
  if [ $code -eq 1 ] && [ -n "$manager" ]; then
    { echo "the manager's last words:"; tail -n 15 "$work/manager.log"; } >&2
  fi
  manager_down
  [ -z "${CAPTF_BENCH_LOGS:-}" ] || cp "$work/manager.log" "${audit:-}" "$CAPTF_BENCH_LOGS" || true
  if [ -d "$work/bed" ]; then "$bed/testbed" down --dir "$work/bed" >&2 || true; fi
  rm -rf "$work"
  exit $code
}

dependencies
if [ -z "${CAPTF_BINARY:-}" ]; then
  step "kubectl-captf, static (minutes the first time)"
  make --no-print-directory image >&2
  CAPTF_BINARY=target/$(uname -m)-unknown-linux-musl/release/kubectl-captf
fi
binary=$(realpath "$CAPTF_BINARY") && [ -x "$binary" ] || fail "CAPTF_BINARY=$CAPTF_BINARY is no program"
step "the test bed's programs (minutes the first time)"
bed=$(tests/testbed/build.sh)
plain_kubectl=$(build_kubectl) # in a subshell: it changes the folder
work=$(mktemp -d -t captf-bench.XXXXXX)
manager=
trap clean_up EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
mkdir "$work/bin"
ln -s "$binary" "$work/bin/kubectl-captf"
ln -s "$plain_kubectl" "$work/bin/kubectl"
export PATH=$work/bin:$PATH

load=$(cut -d ' ' -f 1 /proc/loadavg)
step "a control plane"
bed_up
manager_up
measure_memory
measure_requests
measure_start
manager_down
measure_leases
measure_binary

echo
echo "$("$binary" --version) on $(nproc) CPUs, load $load before the start; API server and kubectl $(kubectl version -o json | jq -r .serverVersion.gitVersion)"
echo
table
echo
if [ ${#extra[@]} -gt 0 ]; then
  echo "requests that the sequence does not have:"
  printf '  %s\n' "${extra[@]}"
fi
if [ ${#spared[@]} -gt 0 ]; then
  echo "requests of the sequence that were not needed:"
  printf '  %s\n' "${spared[@]}"
fi
