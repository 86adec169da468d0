#!/usr/bin/env bash
# Builds the images that a node of the test bed runs and pushes them to its registry.
#   images.sh REGISTRY [BINARY]
#       REGISTRY  host:port that takes pushes without TLS (the "registry" of `testbed up --level 2`)
#       BINARY    the static kubectl-captf; with it the manager's image (also the runner's) is made, too
# Prints one line of JSON: the repository and tag of each image, without the registry.
#
# An image is built once per content and kept in the bed's cache as an OCI layout; pushing those is a matter of
# a tenth of a second. Needs root, buildah, skopeo and busybox-static; no network, no container engine.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
examples=$here/../../examples
cache=${CAPTF_TESTBED_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/captf-testbed}/images
keep_days=14
registry=${1:?usage: images.sh REGISTRY [BINARY]}
binary=${2:-}
work=

fail() {
  echo "images.sh: $*" >&2
  exit 1
}

cleanup() {
  if [ -n "$work" ]; then rm -rf "$work"; fi
}
trap cleanup EXIT

runtime=$(command -v terraform || true)
[ -n "$runtime" ] || runtime=$("$here/build.sh")/tofu
busybox=$(command -v busybox || true)
# "Terraform v1.11.4" or "OpenTofu v1.12.6"
read -r runtime_name runtime_version < <("$runtime" version)
case $runtime_name in
  Terraform) runtime_name=terraform ;;
  OpenTofu) runtime_name=tofu ;;
  *) fail "$runtime is neither Terraform nor OpenTofu" ;;
esac
[ -n "$busybox" ] || fail "busybox is not installed: run hack/dependencies.sh"

# hash PATH...: of names below the paths, and contents.
hash() {
  local path
  for path in "$@"; do
    (cd "$path" 2>/dev/null || cd "$(dirname "$path")" && find . -type f | LC_ALL=C sort | xargs sha256sum)
  done | sha256sum | cut -c1-12
}

hash_of_file() {
  sha256sum "$1" | cut -c1-12
}

build() {
  # Storage of its own, thrown away afterwards: nothing of this is left among the user's images.
  buildah --root "$work/storage" --runroot "$work/run" --storage-driver vfs build --isolation chroot --quiet "$@" >/dev/null
}

# keep NAME TAG: moves the built image NAME into the cache.
keep() {
  local layout=$cache/$1-$2
  buildah --root "$work/storage" --runroot "$work/run" --storage-driver vfs push --quiet "localhost/$1" "oci:$work/$1:$2" >/dev/null
  mv "$work/$1" "$layout"
}

begin_work() {
  if [ -z "$work" ]; then work=$(mktemp -d "$cache/work.XXXXXX"); fi
}

base_built=
build_base() {
  [ -z "$base_built" ] || return 0
  base_built=yes
  mkdir -p "$work/shell/bin" "$work/runtime/bin"
  cp "$busybox" "$work/shell/bin/busybox"
  local applet
  for applet in $("$busybox" --list); do
    [ -e "$work/shell/bin/$applet" ] || ln -s busybox "$work/shell/bin/$applet"
  done
  cp "$runtime" "$work/runtime/bin/terraform"
  printf 'FROM scratch\nCOPY bin /bin\n' >"$work/Containerfile"
  build --tag localhost/shell --file "$work/Containerfile" "$work/shell"
  build --tag localhost/runtime --file "$work/Containerfile" "$work/runtime"
  build --tag localhost/base --build-arg RUNTIME=localhost/runtime --build-arg SHELL=localhost/shell \
    --build-arg RUNTIME_NAME="$runtime_name" --build-arg RUNTIME_VERSION="${runtime_version#v}" "$examples/base"
}

build_module() {
  build_base
  build --tag "localhost/$1" --build-arg BASE=localhost/base "$examples/${1#noop-}"
}

# The one binary under the names that the Deployment and the Jobs call.
build_manager() {
  mkdir -p "$work/manager"
  cp "$binary" "$work/manager/kubectl-captf"
  chmod 0755 "$work/manager/kubectl-captf"
  ln -s kubectl-captf "$work/manager/manager"
  ln -s kubectl-captf "$work/manager/runner"
  printf 'FROM scratch\nCOPY . /\nUSER 65532:65532\nENTRYPOINT ["/manager"]\n' >"$work/Containerfile"
  build --tag "localhost/$1" --file "$work/Containerfile" "$work/manager"
}

# image NAME TAG BUILD: makes sure that the image is in the cache and pushes it.
image() {
  local name=$1 tag=$2 make=$3
  if [ ! -d "$cache/$name-$tag" ]; then
    echo "images.sh: building $name" >&2
    begin_work
    "$make" "$name"
    keep "$name" "$tag"
  fi
  touch "$cache/$name-$tag"
  skopeo copy --quiet --dest-tls-verify=false "oci:$cache/$name-$tag:$tag" "docker://$registry/captf/$name:$tag"
}

mkdir -p "$cache"
exec 9>"$cache/lock"
flock 9
rm -rf "$cache"/work.*
base=$(printf '%s\n' "$(hash "$examples/base")" "$(hash_of_file "$runtime")" "$(hash_of_file "$busybox")" "$(hash_of_file "${BASH_SOURCE[0]}")" | sha256sum | cut -c1-12)
line=
for role in cluster machine machinepool; do
  tag=$(printf '%s\n' "$base" "$(hash "$examples/$role")" | sha256sum | cut -c1-12)
  image "noop-$role" "$tag" build_module
  line+="\"$role\":\"captf/noop-$role:$tag\","
done
if [ -n "$binary" ]; then
  tag=v$(sed -n 's/^version = "\(.*\)"/\1/p' "$here/../../Cargo.toml" | head -n 1)-$(hash_of_file "$binary")
  image manager "$tag" build_manager
  line+="\"manager\":\"captf/manager:$tag\","
fi
find "$cache" -mindepth 1 -maxdepth 1 -type d -mtime +"$keep_days" -exec rm -rf {} +
echo "{${line%,}}"
