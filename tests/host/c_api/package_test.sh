#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs the C library into a separate folder and builds a program against it, once with
# pkg-config and once with find_package().
#
#   package_test.sh BUILD_FOLDER SOURCE_FOLDER CMAKE C_COMPILER
set -euo pipefail

build=$1 source=$2 cmake=$3 compiler=$4
command -v pkg-config >/dev/null || { echo "skipped: no pkg-config" && exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

"$cmake" --install "$build" --component library --prefix "$work/prefix" >"$work/install.log"
pc=$(find "$work/prefix" -name tributary.pc)
libraries=$(dirname "$(dirname "$pc")")

# Both builds use the same program: the C11 test, which needs no aggregator.
export PKG_CONFIG_PATH=${pc%/*}
read -ra flags < <(pkg-config --cflags --libs tributary)
"$compiler" -std=c11 "$source/tests/host/c_api/c_api_c11.c" "${flags[@]}" -o "$work/by_pkg_config"
LD_LIBRARY_PATH=$libraries "$work/by_pkg_config"
[[ $(pkg-config --modversion tributary) == 0.* ]]

cat >"$work/CMakeLists.txt" <<EOF
cmake_minimum_required(VERSION 3.16)
project(consumer LANGUAGES C)
find_package(tributary 0.1 REQUIRED)
add_executable(by_cmake $source/tests/host/c_api/c_api_c11.c)
set_target_properties(by_cmake PROPERTIES C_STANDARD 11)
target_link_libraries(by_cmake PRIVATE tributary::tributary)
EOF
"$cmake" -S "$work" -B "$work/consumer" -DCMAKE_C_COMPILER="$compiler" \
  -DCMAKE_PREFIX_PATH="$work/prefix" >"$work/configure.log"
"$cmake" --build "$work/consumer" >"$work/build.log"
"$work/consumer/by_cmake"

# A component that is not installed is refused by name.
sed -i 's/0.1 REQUIRED/& COMPONENTS programs/' "$work/CMakeLists.txt"
if "$cmake" -S "$work" -B "$work/refused" -DCMAKE_C_COMPILER="$compiler" \
  -DCMAKE_PREFIX_PATH="$work/prefix" >"$work/refused.log" 2>&1; then
  echo "package_test.sh: find_package() accepted a component that is not installed" >&2
  exit 1
fi
grep -q "component 'programs' is not installed" "$work/refused.log"

# The library exports the interface and nothing else, every symbol with its version.
shown=$(nm -D --defined-only "$libraries/libtributary.so" | awk '$2 != "A" {print $3}')
if grep -v '^tributary_[a-z_]*@@TRIBUTARY_' <<<"$shown"; then
  echo "package_test.sh: libtributary.so shows the symbols above" >&2
  exit 1
fi
# The library exports every function of the header.
for name in $(grep -oE '\btributary_[a-z_]+\(' "$source/host/include/tributary.h" | sort -u | tr -d '('); do
  grep -q "^$name@@" <<<"$shown" || { echo "package_test.sh: $name is not exported" >&2 && exit 1; }
done
