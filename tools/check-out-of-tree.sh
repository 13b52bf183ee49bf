#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Checks that packet programs build outside this tree: installs the component `programs` of a build
# into a temporary folder, builds and tests a copy of examples/programs/ against it, and runs the
# program over generated traffic on both machines, which must write the same bytes and counts.
#
#   tools/check-out-of-tree.sh BUILD_FOLDER   a complete build, such as build/release
set -euo pipefail
top=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$top"
source tools/common.sh

build=${1:-}
if [[ $# -ne 1 || ! -x $build/tributary ]]; then
  echo "tools/check-out-of-tree.sh: '$build' is no folder of a build; allowed: a folder with the" \
    "program tributary, such as build/release" >&2
  exit 2
fi
build=$(cd "$build" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# The example must not see the tree, so it is copied out of it.
cp -r examples/programs "$work/source"
compiler=$(sed -n 's/^CMAKE_CXX_COMPILER:[^=]*=//p' "$build/CMakeCache.txt")
quietly "Installing the component programs" \
  cmake --install "$build" --component programs --prefix "$work/prefix"
quietly "Configuring examples/programs" \
  cmake -S "$work/source" -B "$work/build" -DCMAKE_BUILD_TYPE=Release \
  -DCMAKE_CXX_COMPILER="$compiler" -DCMAKE_PREFIX_PATH="$work/prefix"
quietly "Building examples/programs" cmake --build "$work/build" -j "$(build_jobs)"
quietly "Testing examples/programs" ctest --test-dir "$work/build" --output-on-failure --no-tests=error

"$build/tributary" traffic --flows 500 --packets 20000 --out "$work/in.pcap" >"$work/traffic.log"
for machine in live model; do
  "$work/build/talkers" --in "$work/in.pcap" --out "$work/$machine.pcap" --on "$machine" \
    --json "$work/$machine.json" >"$work/$machine.log"
done
cmp "$work/in.pcap" "$work/live.pcap"  # The program forwards every packet.
cmp "$work/live.pcap" "$work/model.pcap"
for machine in live model; do
  "$work/build/limiter" --in "$work/in.pcap" --out "$work/limited-$machine.pcap" --rate-kbps 50 \
    --period-ms 10 --on "$machine" --json "$work/limited-$machine.json" >"$work/limited.log"
done
cmp "$work/limited-live.pcap" "$work/limited-model.pcap"
python3 - "$work"/{live,model,limited-live,limited-model}.json <<'EOF'
import json
import sys

live, model, limited_live, limited_model = (json.load(open(path)) for path in sys.argv[1:])
assert live["on"] == "live" and model["on"] == "model", (live["on"], model["on"])
assert live["sources"] == model["sources"], "the machines count differently"
assert sum(live["sources"].values()) + live["refused"] == live["packets"] == 20000, live
for limited in limited_live, limited_model:
    dropped = sum(source["dropped"] for source in limited["limited"].values())
    assert 0 < dropped == limited["dropped"], limited
    assert any(source["periods"] for source in limited["limited"].values()), limited
print(f'{live["packets"]} packets of {len(live["sources"])} sources: both machines agree')
EOF
