#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs examples with Gloo and with Tributary several times, and writes one result.

    examples/compare_training.py digits --json digits.json
    examples/compare_training.py gpt --json gpt.json --svg gpt.svg

digits: the test accuracy of digits_ddp.py for several seeds: with Gloo, and with Tributary also with wire=16,
        with a rank that sleeps 50 ms before one step in ten, and with both.
gpt:    the loss and the step time of gpt_ddp.py, with wire=32 and wire=16.

The program `tributary` is --program, by default TRIBUTARY_PROGRAM, else build/release/tributary. A run whose ranks
have different parameters at its end is an error.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile

import curves

HERE = pathlib.Path(__file__).resolve().parent
SLEEPER = ("--straggle", "0.1", "--straggle-ms", "50")
# Flags of `launch` and of digits_ddp.py.
DIGITS = {
    "gloo": (("--backend", "gloo"), ()),
    "tributary": ((), ()),
    "wire16": (("--url-option", "wire=16"), ()),
    "sleeper": (("--timeout-ms", "20"), SLEEPER),
    "wire16-sleeper": (("--timeout-ms", "20", "--url-option", "wire=16"), SLEEPER),
}


def launch(arguments, script, launch_flags, script_flags):
    """Runs an example. Returns its result."""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "result.json"
        command = [arguments.program, "launch", "--python", sys.executable, "-n", str(arguments.ranks), *launch_flags,
                   HERE / script, *script_flags, "--json", path]
        ended = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if ended.returncode != 0:
            sys.exit(f"{ended.stdout}exit status {ended.returncode} of: {' '.join(map(str, command))}")
        return json.loads(path.read_text())


def check_identical(result, what):
    if not result["parameters_identical"]:
        sys.exit(f"{what}: the ranks' parameters differ")


def digits(arguments):
    rows = []
    for seed in arguments.seeds:
        for name in arguments.runs:
            launch_flags, script_flags = DIGITS[name]
            flags = (*script_flags, "--seed", str(seed), "--epochs", str(arguments.epochs))
            result = launch(arguments, "digits_ddp.py", launch_flags, flags)
            check_identical(result, f"{name}, seed {seed}")
            keys = ("seed", "accuracy", "validation_accuracy", "parameters_identical", "caught_up_steps")
            row = {"run": name, **{key: result[key] for key in keys}}
            row["degraded_blocks"] = result["degraded"].get("degraded_blocks", 0)
            row["blocks"] = result["degraded"].get("blocks", 0)
            rows.append(row)
            print(f"{name}, seed {seed}: {100 * row['accuracy']:.1f} %", flush=True)
    return {"ranks": arguments.ranks, "epochs": arguments.epochs, "rows": rows}


def gpt(arguments):
    runs = []
    flags = ("--compare", "--steps", str(arguments.steps), "--width", str(arguments.width))
    for wire in (32, 16):
        result = launch(arguments, "gpt_ddp.py", ("--url-option", f"wire={wire}"), flags)
        for name in ("gloo", "tributary", "gloo-rotated"):
            check_identical(result[name], f"{name}, wire={wire}")
        runs.append({"wire": wire, **result})
        median = result["tributary_to_gloo_quartiles"][1]
        print(f"wire={wire}: step time over Gloo's: {median:.2f}", flush=True)
    if arguments.svg:
        pathlib.Path(arguments.svg).write_text(gpt_plots(runs))
    return {"steps": arguments.steps, "runs": runs}


def gpt_plots(runs):
    exact, half = runs
    kinds = {
        "Gloo": (exact, "gloo"),
        "Gloo, another order of ranks": (exact, "gloo-rotated"),
        "Tributary, wire=32": (exact, "tributary"),
        "Tributary, wire=16": (half, "tributary"),
    }
    losses = {label: run[name]["losses"] for label, (run, name) in kinds.items()}
    differences = {
        label: [abs(one - other) for one, other in zip(run[name]["losses"], run["gloo"]["losses"])]
        for label, (run, name) in kinds.items() if name != "gloo"
    }
    return curves.svg(
        curves.Plot("GPT-like model: training loss", "step", "nats per byte", losses),
        curves.Plot("Difference from Gloo's loss", "step", "nats per byte", differences, log=True),
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=("digits", "gpt"))
    parser.add_argument("--json", required=True, metavar="FILE")
    parser.add_argument("--svg", metavar="FILE", help="plots of gpt")
    parser.add_argument("--program", default=os.environ.get(
        "TRIBUTARY_PROGRAM", HERE.parent / "build/release/tributary"))
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--seeds", type=int, nargs="+", default=(1, 2, 3), help="of digits")
    parser.add_argument("--runs", nargs="+", default=list(DIGITS), choices=DIGITS, help="of digits")
    parser.add_argument("--epochs", type=int, default=15, help="of digits")
    parser.add_argument("--steps", type=int, default=200, help="of gpt")
    parser.add_argument("--width", type=int, default=256, help="of gpt")
    arguments = parser.parse_args()
    result = {"digits": digits, "gpt": gpt}[arguments.what](arguments)
    pathlib.Path(arguments.json).write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
