#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Checks that packet programs build outside this tree: installs the component `programs` of a build
# into a temporary folder, builds and tests a copy of examples/programs/ against it, runs the program
# over generated traffic on both machines, which must write the same bytes and counts, and serves the
# same packets live through a tunnel on the loopback interface.
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
for machine in live model; do
  "$work/build/hops" --in "$work/in.pcap" --out "$work/hops-$machine.pcap" --on "$machine" \
    >"$work/hops.log"
done
cmp "$work/hops-live.pcap" "$work/hops-model.pcap"
if cmp --quiet "$work/in.pcap" "$work/hops-live.pcap"; then
  echo "tools/check-out-of-tree.sh: hops has changed no packet" >&2
  exit 1
fi
for machine in live model; do
  "$work/build/tags" --in "$work/in.pcap" --out "$work/tagged-$machine.pcap" --vlan-id 7 \
    --on "$machine" >"$work/tags.log"
done
cmp "$work/tagged-live.pcap" "$work/tagged-model.pcap"
if cmp --quiet "$work/in.pcap" "$work/tagged-live.pcap"; then
  echo "tools/check-out-of-tree.sh: tags has changed no packet" >&2
  exit 1
fi
"$work/build/tags" --in "$work/tagged-live.pcap" --out "$work/untagged.pcap" --vlan-id 0 \
  >"$work/tags.log"
cmp "$work/in.pcap" "$work/untagged.pcap"
# The generator's payloads are zeros already, so others take their place.
python3 - "$work"/{in,filled}.pcap <<'EOF'
import random
import sys

source, target = sys.argv[1:]
data = bytearray(open(source, "rb").read())
at = 24  # Behind the header of the file.
while at < len(data):
    size = int.from_bytes(data[at + 8 : at + 12], "little")
    payload = slice(at + 16 + 54, at + 16 + size)  # Behind Ethernet, IPv4 and TCP.
    data[payload] = random.Random(at).randbytes(len(data[payload]))
    at += 16 + size
open(target, "wb").write(data)
EOF
for machine in live model; do
  "$work/build/scrub" --in "$work/filled.pcap" --out "$work/scrubbed-$machine.pcap" --on "$machine" \
    >"$work/scrub.log"
done
cmp "$work/scrubbed-live.pcap" "$work/scrubbed-model.pcap"
if cmp --quiet "$work/filled.pcap" "$work/scrubbed-live.pcap"; then
  echo "tools/check-out-of-tree.sh: scrub has changed no packet" >&2
  exit 1
fi
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

# Sends the packets of the capture through the tunnel, each behind the answer to the one before it. The
# program must return the same bytes, count the same packets, and end in order.
python3 - "$work/build/talkers" "$work" <<'EOF'
import json
import signal
import socket
import struct
import subprocess
import sys

program, work = sys.argv[1:]
network = 7
header = struct.pack(">II", 0x08000000, network << 8)  # RFC 7348: the flag I, the network.


def frames_of(path):
    data = open(path, "rb").read()
    at = 24  # Behind the header of the file.
    while at < len(data):
        size = struct.unpack_from("<I", data, at + 8)[0]
        yield data[at + 16 : at + 16 + size]
        at += 16 + size


def free_port():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


peer = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
peer.bind(("127.0.0.1", 0))
peer.settimeout(20)
port = free_port()
tunnel = f"vxlan:127.0.0.1:{port},peer=127.0.0.1:{peer.getsockname()[1]},vni={network}"
flags = ["--port", tunnel, "--sources-max", "1000", "--json", f"{work}/served.json"]
server = subprocess.Popen([program, "serve", *flags], stdout=subprocess.PIPE, text=True)
try:
    assert server.stdout.readline() == "ready\n", "talkers serve is not ready"
    packets = 0
    for frame in frames_of(f"{work}/in.pcap"):
        peer.sendto(header + frame, ("127.0.0.1", port))
        assert peer.recv(65536) == header + frame, f"packet {packets} came back changed"
        packets += 1
    server.send_signal(signal.SIGTERM)
    assert server.wait(20) == 0, server.returncode
finally:
    server.kill()
served, live = (json.load(open(f"{work}/{name}.json")) for name in ("served", "live"))
assert served["program"] == "talkers" and served["forwarded"] == packets == 20000, served
assert served["details"][0]["sources"] == live["sources"], "live traffic and capture count differently"
refused = subprocess.run([program, "serve"], capture_output=True, text=True)
assert refused.returncode == 2 and "needs one --port" in refused.stderr, refused
print(f"{packets} packets through a tunnel: served as over the capture")
EOF
