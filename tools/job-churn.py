#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures what adding and removing jobs costs the other jobs of a running server, and how soon it answers.

    tools/job-churn.py SOCKET [JOBS_PER_S]

SOCKET is the server's control socket; workers must be reducing. Compares the blocks per second while
job 200 is added and removed JOBS_PER_S times a second (default 20) with the windows before and after.
"""

import http.client
import json
import socket
import statistics
import sys
import time

JOB = {"id": 200, "sources": 2}
WINDOW_S = 3.0
ROUNDS = 8
QUESTIONS = 500


class Connection(http.client.HTTPConnection):
    """A connection to a Unix socket."""

    def __init__(self, path: str) -> None:
        super().__init__("localhost")
        self.path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(self.path)


def ask(path: str, method: str, url: str, body: dict | None = None) -> dict:
    connection = Connection(path)
    connection.request(method, url, json.dumps(body) if body else None)
    reply = connection.getresponse()
    text = reply.read()
    connection.close()
    if reply.status != 200:
        sys.exit(f"{method} {url}: {text.decode()}")
    return json.loads(text)


def blocks_per_s(path: str, jobs_per_s: float) -> float:
    """Returns the rate of one window, during which jobs come and go."""
    begin = time.monotonic()
    before = ask(path, "GET", "/v1/status")["blocks_completed"]
    for i in range(int(jobs_per_s * WINDOW_S)):
        ask(path, "POST", "/v1/jobs", JOB)
        ask(path, "DELETE", f"/v1/jobs/{JOB['id']}")
        time.sleep(max(0.0, begin + (i + 1) / jobs_per_s - time.monotonic()))
    time.sleep(max(0.0, begin + WINDOW_S - time.monotonic()))
    blocks = ask(path, "GET", "/v1/status")["blocks_completed"] - before
    return blocks / (time.monotonic() - begin)


def print_answer_times(path: str) -> None:
    """Prints how long the server takes to answer at its present load."""
    times_ms = []
    for _ in range(QUESTIONS):
        begin = time.monotonic()
        ask(path, "GET", "/v1/status")
        times_ms.append((time.monotonic() - begin) * 1000)
    times_ms.sort()
    print(f"GET /v1/status, {QUESTIONS} times: median {times_ms[QUESTIONS // 2]:.2f} ms, 99 % within "
          f"{times_ms[QUESTIONS * 99 // 100]:.2f} ms, longest {times_ms[-1]:.2f} ms")


def main() -> None:
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    path = sys.argv[1]
    jobs_per_s = float(sys.argv[2]) if len(sys.argv) == 3 else 20.0
    shares = []
    for _ in range(ROUNDS):
        before, during, after = (blocks_per_s(path, rate) for rate in (0, jobs_per_s, 0))
        if before + after == 0:
            sys.exit("no job completes any block; start workers first")
        shares.append(2 * during / (before + after))
        print(f"{before:.0f} blocks/s before, {during:.0f} during, {after:.0f} after", flush=True)
    print(f"share of the undisturbed rate: median {statistics.median(shares):.2f}, "
          f"from {min(shares):.2f} to {max(shares):.2f}")
    print_answer_times(path)


if __name__ == "__main__":
    main()
