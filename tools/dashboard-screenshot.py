#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes the picture of the dashboard in docs/figures: four workers, one of which is paused twice.

    tools/dashboard-screenshot.py [--output FILE] [--path PATH] [--width PIXELS] [--height PIXELS] [--dark]

Needs Chromium and a build: TRIBUTARY_PROGRAM names the program; default: build/release/tributary."""

import argparse
import os
import pathlib
import sys
import time

TOP = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(TOP / "tests/system"))
os.environ.setdefault("TRIBUTARY_PROGRAM", str(TOP / "build/release/tributary"))
sys.dont_write_bytecode = True
import browser  # noqa: E402
import dashboard_bed  # noqa: E402

PAUSED = 2
KIB_MAX = 150


def main():
    parser = argparse.ArgumentParser(description="Makes a picture of the dashboard.")
    parser.add_argument("--output", default=str(TOP / "docs/figures/dashboard.png"))
    parser.add_argument("--path", default="/", help="page, for example /jobs/1")
    parser.add_argument("--width", type=int, default=1280)
    parser.add_argument("--height", type=int, default=1180)
    parser.add_argument("--dark", action="store_true")
    options = parser.parse_args()
    if browser.program() is None:
        sys.exit("tools/dashboard-screenshot.py: there is no Chromium; tools/install-deps.sh --with-ops installs it")
    with dashboard_bed.Bed() as bed:
        bed.wait_until("/v1/history", lambda history: len(history["samples"]) > 20)
        for pause_s in (6, 20):
            bed.pause(PAUSED)
            time.sleep(pause_s)
            if pause_s == 6:
                bed.resume(PAUSED)
                time.sleep(25)
        dark = ["--blink-settings=preferredColorScheme=0"] if options.dark else ["--blink-settings=preferredColorScheme=1"]
        bed.look(options.path, f"--screenshot={options.output}", f"--window-size={options.width},{options.height}", *dark)
    size_kib = pathlib.Path(options.output).stat().st_size / 1024
    print(f"{options.output}: {size_kib:.0f} KiB")
    if size_kib > KIB_MAX:
        sys.exit(f"tools/dashboard-screenshot.py: allowed: {KIB_MAX} KiB")


if __name__ == "__main__":
    main()
