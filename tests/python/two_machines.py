# SPDX-License-Identifier: Apache-2.0
"""Two machines for tests: network namespaces with a cable between them. Needs root."""

import os
import pathlib
import shutil
import subprocess

import support

CABLE = "cable"
ADDRESSES = ("10.99.0.1", "10.99.0.2")
HOST_NAMES = ("one", "two")  # With name_hosts().


class TwoMachines:
    """Skips the test if the system refuses the namespaces."""

    def __init__(self, test):
        self.names = [f"trib-{os.getpid()}-{number}" for number in range(2)]
        self._test = test
        try:
            self._create()
        except (OSError, subprocess.CalledProcessError) as error:
            test.skipTest(f"no network namespaces: {error}")

    def _create(self):
        for name in self.names:
            _ip("netns", "add", name)
            self._test.addCleanup(_ip, "netns", "delete", name)
        one, two = self.names
        _ip("link", "add", CABLE, "netns", one, "type", "veth", "peer", CABLE, "netns", two)
        for name, address in zip(self.names, ADDRESSES):
            _ip("-n", name, "address", "add", f"{address}/24", "dev", CABLE)
            _ip("-n", name, "link", "set", CABLE, "up")
            _ip("-n", name, "link", "set", "lo", "up")

    def name_hosts(self):
        """Gives the machines HOST_NAMES. As on Debian, a machine's own name has an address of the loopback interface."""
        for number, name in enumerate(self.names):
            folder = pathlib.Path("/etc/netns", name)  # ip mounts its files over those of /etc.
            folder.mkdir(parents=True)
            self._test.addCleanup(shutil.rmtree, folder)
            lines = [f"{'127.0.1.1' if other == number else ADDRESSES[other]} {HOST_NAMES[other]}" for other in range(2)]
            (folder / "hosts").write_text("\n".join(["127.0.0.1 localhost", *lines, ""]))

    def run(self, commands, **variables):
        """Runs a command on each machine. Returns exit statuses and what the machines have printed."""
        kept = {name: value for name, value in os.environ.items() if name != "GLOO_SOCKET_IFNAME"}
        processes = [subprocess.Popen(
            ["ip", "netns", "exec", name, *map(str, command)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            text=True, env={**kept, **variables},
        ) for name, command in zip(self.names, commands)]
        printed = [process.communicate(timeout=support.LIMIT_S)[0] for process in processes]
        return [process.returncode for process in processes], printed

    def torchrun(self, script, *arguments, **variables):
        """Runs two ranks of a script on each machine. Returns what the machines have printed."""
        return self.run([
            [support.PYTHON, "-m", "torch.distributed.run", "--nnodes", 2, "--node_rank", number, "--nproc_per_node", 2,
             "--master_addr", ADDRESSES[0], "--master_port", 29500, "-r", "1", "-t", "1", support.HERE / script,
             *arguments]
            for number in range(2)
        ], **variables)[1]

    def launch(self, script, counts=(1, 1), hosts=ADDRESSES, deadline_ms=20_000, **variables):
        """Runs `tributary launch` on each machine, with so many ranks. Returns exit statuses and texts."""
        return self.run([
            [support.PROGRAM, "launch", "--python", support.PYTHON, "-n", count, "--aggregators", "colocated",
             "--workers", ",".join(hosts), "--node-rank", number, "--deadline-ms", deadline_ms, support.HERE / script]
            for number, count in enumerate(counts)
        ], **variables)


def _ip(*arguments):
    subprocess.run(["ip", *arguments], check=True, capture_output=True)
