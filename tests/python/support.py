# SPDX-License-Identifier: Apache-2.0
"""Shared parts of the Python package's tests: real servers, ranks as threads, ranks as processes."""

import os
import pathlib
import random
import socket
import subprocess
import sys
import threading
import unittest

HERE = pathlib.Path(__file__).resolve().parent
PROGRAM = os.environ["TRIBUTARY_PROGRAM"]
PYTHON = sys.executable
# The tests of tensors in host memory also run where there is a GPU; some of torch's hooks then expect tensors on it.
if "cuda" not in pathlib.Path(sys.argv[0]).name:
    os.environ["CUDA_VISIBLE_DEVICES"] = ""
# Longer than anything takes on a loaded machine; reached only if something hangs.
LIMIT_S = 100
SKIPPED = 77  # SKIP_RETURN_CODE of these tests in CMakeLists.txt.


def need(*modules):
    """Skips the test program with a message if any module is missing."""
    for module in modules:
        try:
            __import__(module)
        except ImportError:
            print(f"skipped: {PYTHON} has no {module}; tools/install-deps.sh --with-torch installs it")
            sys.exit(SKIPPED)


def seed():
    """Returns TRIB_TEST_SEED, or a new seed."""
    return int(os.environ.get("TRIB_TEST_SEED", random.randrange(1, 1 << 31)))


def free_port(kind=socket.SOCK_DGRAM):
    with socket.socket(socket.AF_INET, kind) as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def free_master_port():
    """Returns a TCP port outside the range from which Linux takes the ports of outgoing connections."""
    for _ in range(100):
        port = random.randrange(10_000, 30_000)
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
            try:
                probe.bind(("0.0.0.0", port))
                return port
            except OSError:
                pass
    raise RuntimeError("no free TCP port from 10000 to 29999")


class Server:
    """A running `tributary serve`."""

    def __init__(self, job, *flags):
        self.port = free_port()
        self.process = subprocess.Popen(
            [PROGRAM, "serve", "--listen", self.address(), "--job", job, *flags],
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
        )
        if self.process.stdout.readline() != "ready\n":
            raise RuntimeError("tributary serve did not become ready")

    def address(self):
        return f"127.0.0.1:{self.port}"

    def url(self, job=1):
        return f"tributary://{self.address()}/job/{job}"

    def close(self):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()


class ServerTest(unittest.TestCase):
    """A test with its own servers."""

    def serve(self, job, *flags):
        server = Server(job, *flags)
        self.addCleanup(server.close)
        return server


def each(count, function):
    """Calls function(rank) in `count` threads at once. Returns results or exceptions, by rank."""
    results = [None] * count

    def call(rank):
        try:
            results[rank] = function(rank)
        except Exception as error:
            results[rank] = error

    threads = [threading.Thread(target=call, args=(rank,)) for rank in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LIMIT_S)
        if thread.is_alive():
            raise TimeoutError("a rank hangs")
    return results


def launch(processes, script, *arguments, flags=(), environment=None):
    """Runs `tributary launch`; returns the completed process with its output as text."""
    return subprocess.run(
        [PROGRAM, "launch", "--python", PYTHON, "-n", str(processes), *flags, str(script), *arguments],
        capture_output=True, text=True, timeout=LIMIT_S, env={**os.environ, **(environment or {})},
    )


def torchrun(processes, script, environment, by_run=True):
    """Runs a script under torchrun; returns the completed process with its output as text.

    by_run: start it through tributary.run. Otherwise it must import tributary.torch itself.
    """
    return subprocess.run(
        [PYTHON, "-m", "torch.distributed.run", "--nproc_per_node", str(processes), "-r", "1", "-t", "1",
         "--master_port", str(free_master_port()), *(("-m", "tributary.run") if by_run else ()), str(script)],
        capture_output=True, text=True, timeout=LIMIT_S, env={**os.environ, **environment},
    )
