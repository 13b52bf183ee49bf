# SPDX-License-Identifier: Apache-2.0
"""Runs the commands of one page as a reader would: in order, in one shell, from the top of a tree."""

import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

# Runs $1, then keeps folder and environment for the next command in the folder $2.
KEEP_STATE = 'eval "$1"; status=$?; pwd >"$2/pwd"; env -0 >"$2/env"; exit $status'
SHELL_LINE = re.compile(r"^\s*(cd|export)\s")
SERVER = re.compile(r"\btributary serve\b")
# A reader opens the next terminal no sooner. A device that a server creates must be there by then.
NEXT_TERMINAL_S = 1.0
STOP_S = 20.0


@dataclass
class Outcome:
    status: int | None  # None: stopped after the time limit.
    output: str


class Session:
    """One reader's shell. close() ends all that the commands left running."""

    def __init__(self, top: Path, limit_s: float):
        self.folder = str(top)
        self.environment = dict(os.environ)
        self.limit_s = limit_s
        self.scratch = Path(tempfile.mkdtemp(prefix="check-docs-"))
        self.started: list[subprocess.Popen] = []

    def close(self) -> None:
        for process in self.started:
            _signal(process, signal.SIGKILL)
            process.wait()
        shutil.rmtree(self.scratch)

    def run(self, command: str) -> Outcome:
        """Runs a command to its end. What it puts into the background stays there until close()."""
        process, output = self._start(["bash", "-c", KEEP_STATE, "bash", command, str(self.scratch)])
        status = self._wait(process, self.limit_s)
        if status is not None:
            self._take_state()
        return Outcome(status, output.read_text(errors="replace"))

    def run_terminals(self, commands: list[str]) -> list[Outcome]:
        """Runs each command in a terminal of its own, started in this order.

        Waits until all commands but the servers have ended, then stops the servers as Ctrl-C does.
        Lines that begin with cd or export run in the shell instead, for all terminals.
        """
        outcomes: list[Outcome | None] = []
        running = []
        for command in commands:
            if SHELL_LINE.match(command):
                outcomes.append(self.run(command))
                continue
            if running:
                time.sleep(NEXT_TERMINAL_S)
            process, output = self._start(["bash", "-c", command])
            running.append((len(outcomes), process, output, bool(SERVER.search(command))))
            outcomes.append(None)
        deadline = time.monotonic() + self.limit_s
        for at, process, output, is_server in running:
            if not is_server:
                status = self._wait(process, deadline - time.monotonic())
                outcomes[at] = Outcome(status, output.read_text(errors="replace"))
        if all(is_server for *_, is_server in running):
            time.sleep(NEXT_TERMINAL_S)
        for at, process, output, is_server in running:
            if is_server:
                _signal(process, signal.SIGINT)
                outcomes[at] = Outcome(self._wait(process, STOP_S), output.read_text(errors="replace"))
        return outcomes

    def _start(self, words: list[str]) -> tuple[subprocess.Popen, Path]:
        # A file, not a pipe: a background process that keeps a pipe open would hold up the reader.
        output = self.scratch / f"{len(self.started)}.out"
        with output.open("wb") as sink:
            process = subprocess.Popen(words, cwd=self.folder, env=self.environment,
                                       stdin=subprocess.DEVNULL, stdout=sink,
                                       stderr=subprocess.STDOUT, start_new_session=True)
        self.started.append(process)
        return process, output

    def _wait(self, process: subprocess.Popen, limit_s: float) -> int | None:
        try:
            return process.wait(max(limit_s, 0.1))
        except subprocess.TimeoutExpired:
            _signal(process, signal.SIGKILL)
            process.wait()
            return None

    def _take_state(self) -> None:
        pwd, env = self.scratch / "pwd", self.scratch / "env"
        if not pwd.exists() or not env.exists():
            return  # The command has ended the shell.
        self.folder = pwd.read_text().rstrip("\n")
        pairs = env.read_bytes().decode(errors="surrogateescape").split("\0")
        self.environment = dict(pair.split("=", 1) for pair in pairs if "=" in pair)


def _signal(process: subprocess.Popen, number: int) -> None:
    """Signals the whole process group, as a terminal does."""
    try:
        os.killpg(process.pid, number)
    except ProcessLookupError:
        pass
