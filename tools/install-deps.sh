#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs the packages that Tributary needs, all of them Debian's own.
#
#   tools/install-deps.sh               core: build and run the appliance
#   tools/install-deps.sh --with-dev    also: tests, second compiler, formatter, sanitizers
#   tools/install-deps.sh --with-torch  also: PyTorch and what its examples need, about 700 MB
#   tools/install-deps.sh --with-dpdk   also: DPDK, for --port dpdk:..., about 100 MB
#   tools/install-deps.sh --with-grpc   also: gRPC, for `serve --protocol switchml`'s sessions
#   tools/install-deps.sh --with-race   also: the rivals of `tributary bench race`, about 60 MB
#   tools/install-deps.sh --with-ops    also: promtool, Chromium, shells and lintian, which tests of
#                                       metrics, dashboard, completions and packages use, about 700 MB
#   tools/install-deps.sh --with-all    all of these
#   tools/install-deps.sh --list        print the packages of each group and do nothing
#
# If all packages are installed, it does not call apt and needs no privilege. A build folder notices
# new packages by itself: the next `cmake --build` configures again (cmake/Reconfigure.cmake).
set -euo pipefail

names=(core dev torch dpdk grpc race ops)
declare -A groups=(
  [core]="g++ cmake ninja-build pkgconf libsodium-dev libfmt-dev libexpected-dev libcli11-dev libtomlplusplus-dev
          nlohmann-json3-dev libtbb-dev libpcap-dev zlib1g-dev
          libcpp-httplib-dev prometheus-cpp-dev"
  [dev]="python3 help2man libgtest-dev libgmock-dev libbenchmark-dev libcuckoo-dev ccache clang-format clang-19 clang-tidy-19
         libclang-rt-19-dev lld-19"
  # OpenBLAS is only a Recommends of python3-torch, but training is ten times slower without it.
  [torch]="python3-torch python3-numpy python3-sklearn libopenblas0-pthread python3-wheel python3-venv python3-pip"
  [dpdk]="libdpdk-dev dpdk pkgconf iproute2"
  [grpc]="libgrpc++-dev libprotobuf-dev protobuf-compiler protobuf-compiler-grpc pkgconf"
  # The race builds its rivals' workers against these, and makes networks with the last two.
  [race]="libgloo-dev libopenmpi-dev libpmix-dev openmpi-bin pkgconf iproute2 ethtool"
  # promtool is part of Debian's server, whose service this script does not leave running.
  [ops]="prometheus chromium chromium-driver zsh fish lintian debhelper dh-python dpkg-dev man-db"
)

# AES-GMAC for auth=full. Debian has the library for amd64 only; elsewhere auth=full is refused.
[[ $(uname -m) != x86_64 ]] || groups[core]+=" libipsec-mb-dev"

fail() {
  echo "tools/install-deps.sh: $*" >&2
  exit 1
}

wanted=(core)
for argument in "$@"; do
  name=${argument#--with-}
  if [[ $argument == --list ]]; then
    for name in "${names[@]}"; do echo "$name:" ${groups[$name]}; done
    exit 0
  elif [[ $argument == --with-all ]]; then
    wanted=("${names[@]}")
  elif [[ $argument == --with-* && -n ${groups[$name]:-} ]]; then
    wanted+=("$name")
  else
    fail "unknown argument '$argument'; allowed: ${names[*]/#/--with-}, --with-all, --list"
  fi
done
packages=()
for name in "${wanted[@]}"; do packages+=(${groups[$name]}); done

if ! command -v apt-get >/dev/null || ! command -v dpkg-query >/dev/null; then
  fail "no apt-get here. Tributary is built on Debian 12 or newer; elsewhere install the" \
    "equivalents of: ${packages[*]}"
fi

missing=()
for package in "${packages[@]}"; do
  # db:Status-Status is "installed" only when the package is whole.
  state=$(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null || true)
  [[ $state == installed* ]] || missing+=("$package")
done
[[ ${#missing[@]} -gt 0 ]] || exit 0

as_root=()
if [[ $(id -u) -ne 0 ]]; then
  command -v sudo >/dev/null ||
    fail "not root and no sudo. As root run: apt-get install ${missing[*]}"
  as_root=(sudo)
fi

echo "Installing with apt: ${missing[*]}"
log=$(mktemp)
trap 'rm -f "$log"' EXIT
export DEBIAN_FRONTEND=noninteractive
apt() { "${as_root[@]}" apt-get -qq -o Dpkg::Use-Pty=0 "$@" >"$log" 2>&1; }
if ! { apt update && apt install -y --no-install-recommends "${missing[@]}"; }; then
  tail -n 20 "$log" >&2
  fail "apt-get failed (see above). The packages come from Debian 12 (bookworm), section main;" \
    "is the network there, and is this Debian 12 or newer?"
fi
# A machine whose policy lets packages start services would keep a Prometheus that nobody asked for.
if [[ " ${missing[*]} " == *" prometheus "* && -d /run/systemd/system ]]; then
  "${as_root[@]}" systemctl disable --quiet --now prometheus
fi
