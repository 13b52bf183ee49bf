# SPDX-License-Identifier: Apache-2.0
# A wheel of this build, installed into a virtual environment of its own: torchrun and launch need no
# import and no variable.
import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

import support

support.need("numpy", "torch", "sklearn", "wheel", "ensurepip")

TOP = support.HERE.parent.parent
# Python finds the package in the environment only.
VARIABLES = {name: value for name, value in os.environ.items()
             if not name.startswith("TRIBUTARY_") and name != "PYTHONPATH"}


class Wheel(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp())
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        build = pathlib.Path(support.PROGRAM).parent
        wheel = cls.run_there(TOP / "tools" / "build-wheel.sh", cls.folder, "--from", build).stdout.strip()
        cls.run_there(support.PYTHON, "-m", "venv", "--system-site-packages", cls.folder / "venv")
        cls.python = cls.folder / "venv" / "bin" / "python3"
        cls.run_there(cls.python, "-m", "pip", "install", "--no-index", "--no-deps", wheel)

    @classmethod
    def run_there(cls, *command):
        ended = subprocess.run([str(word) for word in command], capture_output=True, text=True,
                               timeout=support.LIMIT_S, env=VARIABLES, cwd=cls.folder)
        if ended.returncode != 0:
            raise AssertionError(ended.stdout + ended.stderr)
        return ended

    def test_torch_knows_the_back_end_without_an_import(self):
        ended = self.run_there(self.python, "-c", "import torch.distributed as d; print(d.Backend.TRIBUTARY.lower())")
        self.assertEqual(ended.stdout, "tributary\n")

    def test_python_starts_without_the_package(self):
        ended = self.run_there(self.python, "-c", "import sys; print('tributary' in sys.modules)")
        self.assertEqual(ended.stdout, "False\n")

    def test_torchrun_needs_nothing_else(self):
        ended = self.run_there(
            self.python, "-m", "torch.distributed.run", "--nproc_per_node=2", "-r", "1", "-t", "1",
            f"--master_port={support.free_master_port()}", TOP / "examples" / "digits_ddp.py",
            "--backend", "tributary", "--epochs", "1",
        )
        self.assertRegex(ended.stdout, r"parameters_identical +True")

    def test_the_program_launches_with_the_environments_package(self):
        ended = self.run_there(
            self.folder / "venv" / "bin" / "tributary", "launch", "-n", "2", "--python", self.python,
            support.HERE / "ranks_collectives.py",
        )
        self.assertEqual(ended.stdout.count("all well"), 2, ended.stdout + ended.stderr)


if __name__ == "__main__":
    os.environ["OMP_NUM_THREADS"] = "1"
    unittest.main()
