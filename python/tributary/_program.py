# SPDX-License-Identifier: Apache-2.0
"""The command `tributary` of the wheel: starts the program that lies beside the package's modules."""

import os
import pathlib
import sys


def main():
    program = pathlib.Path(__file__).resolve().parent / "tributary"
    os.execv(program, ["tributary", *sys.argv[1:]])
