# SPDX-License-Identifier: Apache-2.0
"""A server with a dashboard, its workers, and a headless browser that looks at it."""

import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import urllib.error
import urllib.request

import browser

PROGRAM = os.environ.get("TRIBUTARY_PROGRAM", "build/release/tributary")
TOKEN = "a-token-of-the-dashboard's-test"
# Longer than anything takes on a loaded machine; reached only if something hangs.
LIMIT_S = 120


def free_port(kind):
    with socket.socket(socket.AF_INET, kind) as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Bed:
    """`tributary serve --http` and workers that reduce without end. Use it as a context manager."""

    def __init__(self, world=4):
        self.world = world
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="tributary-dashboard-"))
        self.processes = []
        self.http_port = free_port(socket.SOCK_STREAM)
        self.server = f"127.0.0.1:{free_port(socket.SOCK_DGRAM)}"
        try:
            self._start_all()
        except BaseException:
            self.__exit__()
            raise

    def _start_all(self):
        token_file = self.folder / "token"
        token_file.write_text(TOKEN)
        token_file.chmod(0o600)
        serve = self._start(["serve", "--listen", self.server, "--name", "rack1", "--http", str(self.http_port),
                             "--http-token-file", str(token_file), "--job", f"id=1,sources={self.world},silent_ms=600000"])
        if serve.stdout.readline() != "ready\n":
            raise RuntimeError("tributary serve did not become ready")
        self.workers = [
            self._start(["worker", "--server", self.server, "--job", "1", "--rank", str(rank), "--world", str(self.world),
                         "--elements", "60000", "--iterations", "100000000", "--deadline-s", "600", "--local", "off"])
            for rank in range(self.world)
        ]

    def _start(self, words):
        environment = {**os.environ, "RUNTIME_DIRECTORY": str(self.folder)}
        process = subprocess.Popen([PROGRAM, *words], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                                   text=True, env=environment)
        self.processes.append(process)
        return process

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process in reversed(self.processes):
            process.kill()
            process.wait()
        shutil.rmtree(self.folder)

    def url(self, path="/"):
        return f"http://127.0.0.1:{self.http_port}{path}"

    def login_url(self, path="/"):
        """Returns a URL that logs a browser in."""
        return f"{self.url(path)}?token={TOKEN}"

    def get(self, path, token=TOKEN):
        """Returns the status and the text of the answer."""
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        try:
            with urllib.request.urlopen(urllib.request.Request(self.url(path), headers=headers), timeout=60) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    def json(self, path):
        return json.loads(self.get(path)[1])

    def wait_until(self, path, condition):
        """Asks until the answer meets the condition, and returns it."""
        deadline = time.monotonic() + LIMIT_S
        while time.monotonic() < deadline:
            answer = self.json(path)
            if condition(answer):
                return answer
            time.sleep(0.1)
        raise RuntimeError(f"{path}: {answer}")

    def command(self, words):
        """Runs a command to its end, which may be a refusal."""
        environment = {**os.environ, "RUNTIME_DIRECTORY": str(self.folder)}
        subprocess.run([PROGRAM, *words], capture_output=True, timeout=LIMIT_S, check=False, env=environment)

    def pause(self, rank):
        self.workers[rank].send_signal(signal.SIGSTOP)

    def resume(self, rank):
        self.workers[rank].send_signal(signal.SIGCONT)

    def pause_server(self):
        self.processes[0].send_signal(signal.SIGSTOP)

    def resume_server(self):
        self.processes[0].send_signal(signal.SIGCONT)

    def look(self, path, *options):
        """Opens a page in the browser, logged in, and returns the output of the browser."""
        words = [browser.program(), *browser.FLAGS, f"--user-data-dir={self.folder}/browser", "--virtual-time-budget=3500",
                 *options, self.login_url(path)]
        done = subprocess.run(words, capture_output=True, text=True, timeout=LIMIT_S, check=True)
        return done.stdout
