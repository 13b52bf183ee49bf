#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares the flows of `tributary run telemetry` with those that softflowd finds in the same capture.

    tools/compare-softflowd.py [--flows NUMBER] [--packets NUMBER] [--seed NUMBER] [TRAFFIC_FLAG ...]

Generates a capture of Ethernet frames with `tributary traffic`. softflowd reads it and exports NetFlow 9 over
the loopback interface to nfcapd, whose file nfdump prints. Both sides get timeouts of 3,600 s, so that no
flow ends within the capture. A flow is an address pair, a protocol and a port pair, in one direction.

Expects equal flows with equal packets, TCP flags, and times to the millisecond. Octets differ by a known
amount: softflowd counts the padding of short Ethernet frames, telemetry the length in the IP header. So each
difference must be a possible padding, and all of them together the padding in the capture.

Exits with 0 if all flows are equal, with 1 if not, and with 77 if softflowd or nfdump is missing.
TRIBUTARY_PROGRAM names the program; default: build/release/tributary."""

import argparse
import ipaddress
import json
import os
import pathlib
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time

TOP = pathlib.Path(__file__).resolve().parent.parent
PROGRAM = os.environ.get("TRIBUTARY_PROGRAM", str(TOP / "build/release/tributary"))
SKIPPED = 77
TIME_OUT_S = 3600
PADDING_MAX = 6  # A TCP header without options over IPv4 is 40 bytes; the shortest frame has room for 46.
ETHERNET_BYTES = 14
FLAG_BITS = {"F": 1, "S": 2, "R": 4, "P": 8, "A": 16, "U": 32, "E": 64, "C": 128}
MISMATCHES_SHOWN = 10


def fail(text):
    sys.exit(f"tools/compare-softflowd.py: {text}")


def run(*command):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode != 0:
        fail(f"{' '.join(map(str, command))}: exit code {done.returncode}: {done.stdout.strip()}")
    return done.stdout


class Flow:
    """The totals of one direction of a flow."""

    def __init__(self):
        self.packets = 0
        self.octets = 0
        self.flags = 0
        self.start_ms = None
        self.end_ms = None

    def add(self, packets, octets, flags, start_ms, end_ms):
        self.packets += packets
        self.octets += octets
        self.flags |= flags
        self.start_ms = start_ms if self.start_ms is None else min(self.start_ms, start_ms)
        self.end_ms = end_ms if self.end_ms is None else max(self.end_ms, end_ms)

    def __str__(self):
        return (f"{self.packets} packets, {self.octets} octets, flags {self.flags:#x}, "
                f"{self.start_ms} to {self.end_ms} ms")


def telemetry_flows(capture, records):
    time_out_ms = str(TIME_OUT_S * 1000)
    run(PROGRAM, "run", "telemetry", "--in", capture, "--records", records, "--flows-max", "1000000",
        "--inactive-timeout-ms", time_out_ms, "--active-timeout-ms", time_out_ms)
    flows = {}
    with open(records, encoding="utf-8") as lines:
        for record in map(json.loads, lines):
            key = (record["protocol"], ipaddress.ip_address(record["source"]), record["source_port"],
                   ipaddress.ip_address(record["destination"]), record["destination_port"])
            flows.setdefault(key, Flow()).add(record["packets"], record["octets"], record["tcp_flags"],
                                              record["start_ns"] // 1_000_000, record["end_ns"] // 1_000_000)
    return flows


class Collector:
    """nfcapd on a free port of the loopback interface."""

    def __init__(self, folder):
        self.folder = folder
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.process = subprocess.Popen(
            ["nfcapd", "-4", "-b", "127.0.0.1", "-p", str(self.port), "-w", folder, "-t", "3600", "-B", "8000000"],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def __enter__(self):
        self.wait_for(lambda queued: queued is not None, "nfcapd does not listen")
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
            self.process.wait(timeout=30)

    def queued_bytes(self):
        """Returns the bytes that wait in the socket; None: there is no socket."""
        with open("/proc/net/udp", encoding="utf-8") as table:
            for line in table.readlines()[1:]:
                fields = line.split()
                if fields[1].endswith(f":{self.port:04X}"):
                    return int(fields[4].split(":")[1], 16)
        return None

    def wait_for(self, condition, otherwise):
        for _ in range(300):
            if self.process.poll() is not None:
                fail(f"nfcapd ended with exit code {self.process.returncode}")
            if condition(self.queued_bytes()):
                return
            time.sleep(0.05)
        fail(otherwise)


def time_ms(text):
    """Returns the milliseconds since 1970 of "2026-01-01 00:00:00.500" in UTC."""
    seconds, fraction = text.strip().split(".")
    return int(time.mktime(time.strptime(seconds, "%Y-%m-%d %H:%M:%S"))) * 1000 + int(fraction)


def softflowd_flows(capture, folder):
    with Collector(folder) as collector:
        limits = ("tcp", "tcp.rst", "tcp.fin", "udp", "icmp", "general", "maxlife")
        run("softflowd", "-r", capture, "-d", "-6", "-n", f"127.0.0.1:{collector.port}", "-v", "9", "-A", "milli",
            "-m", "1000000", "-c", "none", "-p", "none", *(f"-t{name}={TIME_OUT_S}" for name in limits))
        collector.wait_for(lambda queued: queued == 0, "nfcapd does not read its socket")
    files = list(pathlib.Path(folder).glob("nfcapd.*"))
    flows = {}
    for line in run("nfdump", "-r", files[0], "-q", "-N", "-6", "-o",
                    "fmt:%pr,%sa,%sp,%da,%dp,%pkt,%byt,%flg,%ts,%te").splitlines():
        protocol, source, source_port, destination, destination_port, packets, octets, flags, start, end = (
            field.strip() for field in line.split(","))
        key = (int(protocol), ipaddress.ip_address(source), int(source_port), ipaddress.ip_address(destination),
               int(destination_port))
        bits = sum(FLAG_BITS.get(letter, 0) for letter in flags)
        flows.setdefault(key, Flow()).add(int(packets), int(octets), bits, time_ms(start), time_ms(end))
    return flows


def padding_of(capture):
    """Returns the bytes behind the IP packets of a pcap file with this machine's byte order."""
    data = pathlib.Path(capture).read_bytes()
    at, padding = 24, 0
    while at < len(data):
        size, wire_bytes = struct.unpack_from("=II", data, at + 8)
        frame = data[at + 16:at + 16 + size]
        at += 16 + size
        is_ipv6 = frame[12:14] == b"\x86\xdd"
        field, header = (18, 40) if is_ipv6 else (16, 0)
        padding += wire_bytes - ETHERNET_BYTES - header - int.from_bytes(frame[field:field + 2], "big")
    return padding


def mismatches(ours, theirs):
    """Returns a line for each flow that differs."""
    lines = []
    for key in sorted(ours.keys() | theirs.keys(), key=str):
        a, b = ours.get(key), theirs.get(key)
        same = (a and b and a.packets == b.packets and a.flags == b.flags
                and 0 <= b.octets - a.octets <= PADDING_MAX * a.packets
                and abs(a.start_ms - b.start_ms) <= 1 and abs(a.end_ms - b.end_ms) <= 1)
        if not same:
            lines.append(f"{' '.join(map(str, key))}: telemetry {a}; softflowd {b}")
    return lines


def main():
    parser = argparse.ArgumentParser(description="Compares flow telemetry with softflowd.")
    parser.add_argument("--flows", default="1000")
    parser.add_argument("--packets", default="50000")
    parser.add_argument("--seed", default="3")
    options, traffic_flags = parser.parse_known_args()
    for tool in ("softflowd", "nfcapd", "nfdump"):
        if shutil.which(tool) is None:
            print(f"skipped: {tool} is not installed; apt-get install softflowd nfdump installs it")
            sys.exit(SKIPPED)
    # nfdump prints local times.
    os.environ["TZ"] = "UTC"
    time.tzset()
    with tempfile.TemporaryDirectory() as folder:
        capture = f"{folder}/traffic.pcap"
        run(PROGRAM, "traffic", "--flows", options.flows, "--packets", options.packets, "--seed", options.seed,
            *traffic_flags, "--out", capture)
        ours = telemetry_flows(capture, f"{folder}/flows.jsonl")
        received = pathlib.Path(folder) / "received"
        received.mkdir()
        theirs = softflowd_flows(capture, str(received))
        padding = padding_of(capture)
    lines = mismatches(ours, theirs)
    octets, their_octets = (sum(flow.octets for flow in flows.values()) for flows in (ours, theirs))
    packets = sum(flow.packets for flow in ours.values())
    print(f"telemetry: {len(ours)} flows, {packets} packets, {octets} octets")
    print(f"softflowd: {len(theirs)} flows, {their_octets} octets, of which {padding} pad short frames")
    if their_octets - octets != padding:
        lines.append(f"octets: softflowd counts {their_octets - octets} more; expected: the padding, {padding}")
    for line in lines[:MISMATCHES_SHOWN]:
        print(line)
    print("the flows are equal" if not lines else f"{len(lines)} differences")
    sys.exit(1 if lines else 0)


if __name__ == "__main__":
    main()
