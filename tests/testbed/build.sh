#!/usr/bin/env bash
# Builds the programs of the test bed and prints the folder that holds them: testbed, pause, capi-manager, clusterctl,
# crds/cluster-api/ and, where terraform is not installed, tofu.
#
# The folder is found by the content of the sources and the Go version, so it is built once per change:
#   ${CAPTF_TESTBED_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/captf-testbed}/<hash>
# A quarter of an hour from nothing on two cores; a second when the folder is there.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cache=${CAPTF_TESTBED_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/captf-testbed}
# Folders that nothing used for this many days are removed.
keep_days=14

fail() {
  echo "build.sh: $*" >&2
  exit 1
}

command -v go >/dev/null || fail "go is not installed; the test bed is built from Go sources"
mkdir -p "$cache"
go_version=$(cd "$here/cluster" && go env GOVERSION GOARCH | tr '\n' ' ')

# hash FILE-OR-FOLDER...: of names and contents.
hash() {
  (cd "$here" && { echo "$go_version"; find "$@" -type f | LC_ALL=C sort | xargs sha256sum; } | sha256sum | cut -c1-16)
}

# module NAME FUNCTION: the folder with what FUNCTION builds from the Go module NAME.
module() {
  local name=$1 build=$2 folder
  folder=$cache/$name-$(hash "$name" build.sh)
  if [ ! -d "$folder" ]; then
    rm -rf "$folder.new"
    mkdir -p "$folder.new"
    echo "build.sh: building the test bed's $name" >&2
    (cd "$here/$name" && "$build" "$folder.new") >&2 || fail "$name did not build"
    mv "$folder.new" "$folder"
  fi
  touch "$folder"
  echo "$folder"
}

go_build() {
  CGO_ENABLED=0 go build -trimpath -ldflags "-s -w ${ldflags:-}" "$@"
}

build_cluster() {
  local version ldflags package=k8s.io/component-base/version
  version=$(go list -m -f '{{.Version}}' k8s.io/kubernetes)
  ldflags="-X $package.gitVersion=$version -X $package.gitMajor=$(cut -d. -f1 <<<"${version#v}") -X $package.gitMinor=$(cut -d. -f2 <<<"$version")"
  go_build -o "$1/testbed" .
  go_build -o "$1/pause" ./pause
}

build_capi() {
  go_build -o "$1/capi-manager" sigs.k8s.io/cluster-api/core
  go_build -o "$1/clusterctl" sigs.k8s.io/cluster-api/cmd/clusterctl
  mkdir -p "$1/crds/cluster-api"
  cp "$(go list -m -f '{{.Dir}}' sigs.k8s.io/cluster-api)"/core/config/crd/bases/*.yaml "$1/crds/cluster-api/"
  chmod -R u+w "$1/crds"
}

build_tofu() {
  go_build -o "$1/tofu" github.com/opentofu/opentofu/cmd/tofu
}

# One builder at a time; the others find the result.
exec 9>"$cache/lock"
flock 9
modules=(cluster capi)
command -v terraform >/dev/null || modules+=(tofu)
whole=$cache/$(hash "${modules[@]}" build.sh)
if [ ! -d "$whole" ]; then
  rm -rf "$whole.new"
  mkdir -p "$whole.new"
  for name in "${modules[@]}"; do
    folder=$(module "$name" "build_$name")
    cp -al "$folder/." "$whole.new/"
  done
  mv "$whole.new" "$whole"
fi
touch "$whole"
find "$cache" -mindepth 1 -maxdepth 1 -type d -mtime +"$keep_days" -exec rm -rf {} +
echo "$whole"
