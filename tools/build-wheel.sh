#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds a Python wheel with the package, libtributary.so, the program and the libraries that both need.
#
#   tools/build-wheel.sh [OUTPUT]                 builds in build/wheel, for other machines
#   tools/build-wheel.sh OUTPUT --from BUILD      packs what the folder BUILD has, for this machine
#
# OUTPUT is the folder of the wheel, by default build. The wheel runs where glibc and libstdc++ are not
# older than here. It needs python3-wheel.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

fail() {
  echo "tools/build-wheel.sh: $*" >&2
  exit 1
}

output=${1:-build}
build=build/wheel
if [[ ${2:-} == --from ]]; then
  build=${3:?"--from needs a build folder"}
elif [[ $# -gt 1 ]]; then
  fail "unknown argument '$2'; allowed: --from BUILD"
fi
# Debian's interpreter has Debian's python3-wheel; another one may come first in PATH.
python=/usr/bin/python3
"$python" -c 'import wheel' 2>/dev/null ||
  fail "$python has no module wheel; tools/install-deps.sh --with-torch installs python3-wheel"

if [[ $# -le 1 ]]; then
  # Without the optional parts, whose libraries would be many times as large as the rest.
  cmake -S . -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DTRIBUTARY_TESTS=OFF -DTRIBUTARY_DPDK=OFF \
    -DCMAKE_DISABLE_FIND_PACKAGE_gRPC=ON -DCMAKE_DISABLE_FIND_PACKAGE_Protobuf=ON \
    -DCMAKE_DISABLE_FIND_PACKAGE_MPI=ON -DCMAKE_BUILD_WITH_INSTALL_RPATH=ON \
    "-DCMAKE_INSTALL_RPATH=\$ORIGIN/libs" >/dev/null
  cmake --build "$build" --target tributary tributary_c
fi

version=$(sed -n 's/^__version__ = "\(.*\)"$/\1/p' python/tributary/__init__.py)
tag="py3-none-linux_$(uname -m)"
stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT

package=$stage/tributary
mkdir "$package"
cp python/tributary/*.py "$package"
cp "$build/tributary" "$package/tributary"
cp -L "$build/libtributary.so.0" "$package/libtributary.so.0"
strip --strip-unneeded "$package/tributary" "$package/libtributary.so.0"
if [[ $# -le 1 ]]; then
  mkdir "$package/libs"
  # Every Linux machine has these.
  system='^(linux-vdso|ld-linux|libc\.|libm\.|libstdc|libgcc_s|libpthread|libdl|librt)'
  ldd "$package/tributary" "$package/libtributary.so.0" |
    awk -v system_libraries="$system" '$2 == "=>" && $1 !~ system_libraries { print $3 }' |
    sort -u | xargs -I '{}' cp -L '{}' "$package/libs/"
fi

# torch 2.5 and newer calls the entry point; older ones need the .pth file (tributary/_after_import.py).
cp python/tributary/_after_import.py "$stage/_tributary_after_import.py"
echo 'import _tributary_after_import; _tributary_after_import.install()' >"$stage/tributary.pth"

info=$stage/tributary-$version.dist-info
mkdir "$info"
cat >"$info/METADATA" <<EOF
Metadata-Version: 2.1
Name: tributary
Version: $version
Summary: All-reduce through an aggregator, for torch.distributed and numpy
License: Apache-2.0
Requires-Python: >=3.9
EOF
cat >"$info/WHEEL" <<EOF
Wheel-Version: 1.0
Generator: tools/build-wheel.sh
Root-Is-Purelib: false
Tag: $tag
EOF
cat >"$info/entry_points.txt" <<EOF
[torch.backends]
tributary = tributary.torch:autoload

[console_scripts]
tributary = tributary._program:main
EOF
mkdir -p "$output"
"$python" -m wheel pack "$stage" --dest-dir "$output" >/dev/null
echo "$output/tributary-$version-$tag.whl"
