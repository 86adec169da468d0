#!/usr/bin/env bash
# Installs what the build and the tests need from Debian and from rustup, and only what is missing.
#   hack/dependencies.sh           install; quiet when nothing is missing
#   hack/dependencies.sh --check   install nothing; say what is missing, one line each, and exit with 3
# What cannot be installed (no root, no apt, no rustup) is named and the exit code is 3, too.
set -euo pipefail

target=$(uname -m)-unknown-linux-musl

# Package and the file or program that proves it is there.
packages=(
  "containerd containerd"
  "runc runc"
  "containernetworking-plugins /usr/lib/cni/bridge"
  "conntrack conntrack"
  "iproute2 ip"
  "iptables iptables"
  "nftables nft"
  "docker-registry docker-registry"
  "skopeo skopeo"
  "buildah buildah"
  "busybox-static /bin/busybox"
  "musl-tools musl-gcc"
  "openssl openssl"
)

# Some of these lie in folders that are not on every user's PATH.
PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin

present() {
  case $1 in
    /*) [ -e "$1" ] ;;
    *) command -v "$1" >/dev/null ;;
  esac
}

missing_packages() {
  local line
  for line in "${packages[@]}"; do
    present "${line#* }" || echo "${line%% *}"
  done
}

target_installed() {
  if command -v rustup >/dev/null; then
    rustup target list --installed 2>/dev/null | grep -qx "$target"
  else
    [ -d "$(rustc --print sysroot 2>/dev/null)/lib/rustlib/$target" ]
  fi
}

report() {
  local name
  for name in $(missing_packages); do
    echo "Debian package $name"
  done
  target_installed || echo "Rust target $target"
}

install() {
  local wanted
  mapfile -t wanted < <(missing_packages)
  if [ ${#wanted[@]} -gt 0 ] && command -v apt-get >/dev/null && [ "$(id -u)" = 0 ]; then
    apt-get update -q >/dev/null
    DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "${wanted[@]}" >/dev/null
  fi
  if ! target_installed && command -v rustup >/dev/null; then
    rustup target add "$target" >/dev/null
  fi
}

case ${1:-} in
  --check) ;;
  "") install ;;
  *)
    sed -n 2,5p "$0" >&2
    exit 2
    ;;
esac
missing=$(report)
[ -z "$missing" ] && exit 0
echo "$missing"
if [ -z "${1:-}" ]; then
  command -v apt-get >/dev/null || echo "(not a Debian: install what these packages hold by other means)" >&2
  [ "$(id -u)" = 0 ] || echo "(not root: run this script as root)" >&2
fi
exit 3
