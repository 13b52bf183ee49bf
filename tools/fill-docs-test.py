#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests tools/fill-docs.py: a small tree is filled, stays filled, and each fault in it is named."""

import json
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

TOOLS = Path(__file__).resolve().parent
sys.path.insert(0, str(TOOLS))

from docs import bench_tables, lab_tables, markdown  # noqa: E402  (needs the path above)

PAGE = """# Page

<!-- table: trio-15 from docs/results/trio-15.json -->
<!-- end -->

Text below.
"""


def row(series, x, paper, here):
    return {"figure": "trio-15", "series": series, "x": x, "paper": paper, "here": here}


FIGURE = [row("latency", 64.0, 30.0, 32.27774), row("rate", 64.0, 2.1333333, 1.9827906),
          row("latency", 128.0, None, 43.61235), row("rate", 128.0, None, 2.9349484)]


def case(net, size_bytes, ratio, workers=4):
    return {"net": net, "workers": workers, "bytes": size_bytes, "loss": 0.0, "ratio": ratio,
            "ratio_min": ratio - 0.01, "ratio_max": ratio + 0.01, "worker_cpu_ratio": 0.5}


def race_row(system, median_s):
    return {"system": system, "net": "netns", "workers": 4, "bytes": 1_000_000, "loss": 0.0,
            "median_s": median_s}


class Tree(unittest.TestCase):
    """A tree with one page and one result."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name)
        (self.root / "docs/results").mkdir(parents=True)
        (self.root / "README.md").write_text("# Readme\n")
        self.result = self.root / "docs/results/trio-15.json"
        self.result.write_text(json.dumps(FIGURE))
        self.page = self.root / "docs/page.md"
        self.page.write_text(PAGE)

    def run_tool(self, *arguments):
        return subprocess.run([sys.executable, TOOLS / "fill-docs.py", "--root", self.root, *arguments],
                              capture_output=True, text=True)

    def expect_refusal(self, text, *arguments):
        done = self.run_tool(*arguments)
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertIn(text, done.stderr)

    def test_outdated_names_results_of_other_models(self):
        program = self.root / "tributary"
        program.write_text("#!/bin/sh\necho Digest of the models, as in results: 0123456789abcdef\n")
        program.chmod(0o755)
        index = self.root / "docs/results/index.toml"
        index.write_text("".join(
            f'[{name}]\ngroup = "lab"\ncommand = "tributary {command} --json docs/results/{name}.json"\n'
            for name, command in (("trio-15", "lab figure trio-15"), ("other", "lab figure other"),
                                  ("same", "lab compare --seeds 2"), ("none", "bench engine"))))
        for name, rows in (("other", [{"model_digest": "fedcba9876543210"}]),
                           ("same", [{"model_digest": "0123456789abcdef"}]), ("none", [{}])):
            (self.root / f"docs/results/{name}.json").write_text(json.dumps(rows))
        done = self.run_tool("--outdated", "--program", program)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stdout.splitlines(), [
            "by another version of the models: other",
            "without the digest of the models that made them: trio-15",
            "to run them again: tools/fill-docs.py --run NAME..."])

    def write_index(self, command, group="lab"):
        (self.root / "docs/results/index.toml").write_text(
            f'[trio-15]\ngroup = "{group}"\ncommand = "{command}"\n')


class Filling(Tree):
    def test_fills_and_then_changes_nothing(self):
        self.assertEqual(self.run_tool().returncode, 0)
        filled = self.page.read_text()
        self.assertIn("| 64 | 30 | 32.28 | 1.076 | 2.133 | 1.983 | 0.929 |", filled)
        self.assertIn("| 128 | – | 43.61 | – | – | 2.935 | – |", filled)
        self.assertTrue(filled.endswith("<!-- end -->\n\nText below.\n"))
        self.assertEqual(self.run_tool("--check").returncode, 0)
        self.run_tool()
        self.assertEqual(self.page.read_text(), filled)

    def test_check_prints_the_difference_and_changes_nothing(self):
        self.run_tool()
        altered = self.page.read_text().replace("32.28", "30.00")
        self.page.write_text(altered)
        done = self.run_tool("--check")
        self.assertEqual(done.returncode, 1)
        self.assertIn("-| 64 | 30 | 30.00", done.stdout)
        self.assertIn("+| 64 | 30 | 32.28", done.stdout)
        self.assertEqual(self.page.read_text(), altered)

    def test_check_wants_an_explanation_of_a_value_far_from_the_papers(self):
        self.run_tool()
        # 27 / 30 is a tenth away.
        far = row("skip", 16.0, 1.8, 1.59)
        self.result.write_text(json.dumps(FIGURE + [row("far", 1.0, 30.0, 27.0), far]))
        done = self.run_tool("--check")
        self.assertEqual(done.returncode, 1)
        self.assertEqual(done.stderr, "tools/fill-docs.py: docs/results/trio-15.json: 'skip' at 16.0 is "
                                      "0.883 of the paper's value and has no 'explained'\n")
        far["explained"] = "The queue is longer."
        failed = row("failed", 16.0, 1.8, None)
        quick = self.root / "docs/results/quick"
        quick.mkdir()
        (quick / "trio-15.json").write_text(json.dumps([row("skip", 16.0, 1.8, 1.59)]))
        self.result.write_text(json.dumps(FIGURE + [far, failed, row("own", 1.0, None, 2.0)]))
        done = self.run_tool("--check")
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_code_is_that_of_the_file(self):
        (self.root / "a.h").write_text("// Licence\n#pragma once\n\n#include <span>\n\nint a;\n")
        self.page.write_text("<!-- table: code from a.h -->\n<!-- end -->\n")
        self.assertEqual(self.run_tool().returncode, 0)
        self.assertIn("-->\n```cpp\n#include <span>\n\nint a;\n```\n<!-- end", self.page.read_text())
        (self.root / "a.h").write_text("#include <span>\nint b;\n")
        self.assertEqual(self.run_tool("--check").returncode, 1)

    def test_pending_table_keeps_its_text_until_the_result_exists(self):
        content = self.result.read_text()
        self.result.unlink()
        self.page.write_text(PAGE.replace(".json -->", ".json pending -->\nby hand"))
        done = self.run_tool("--check")
        self.assertEqual(done.returncode, 0)
        self.assertIn("not measured yet: docs/results/trio-15.json (docs/page.md)", done.stdout)
        self.result.write_text(content)
        self.assertEqual(self.run_tool("--check").returncode, 1)
        self.run_tool()
        self.assertNotIn("pending", self.page.read_text())
        self.assertNotIn("by hand", self.page.read_text())


class Faults(Tree):
    def test_missing_result(self):
        self.result.unlink()
        self.expect_refusal("docs/page.md:3: no file docs/results/trio-15.json")

    def test_broken_result(self):
        self.result.write_text("[{")
        self.expect_refusal("docs/results/trio-15.json: not JSON")

    def test_result_without_a_row(self):
        self.result.write_text(json.dumps(FIGURE[:1]))
        self.expect_refusal("docs/page.md:3: docs/results/trio-15.json does not have what table "
                            "'trio-15' shows: no row 'rate' at 64.0")

    def test_unknown_table(self):
        self.page.write_text(PAGE.replace("table: trio-15", "table: trio-99"))
        self.expect_refusal("docs/page.md:3: unknown table 'trio-99'; allowed: code, overview, trio-12")

    def test_code_without_its_file(self):
        self.page.write_text("<!-- table: code from no.h -->\n<!-- end -->\n")
        self.expect_refusal("no.h: No such file or directory")
        (self.root / "no.h").write_text("int a;\n")
        self.expect_refusal("no.h has no #include")

    def test_misspelt_marker(self):
        self.page.write_text(PAGE.replace(" from ", " of "))
        self.expect_refusal("docs/page.md:3: cannot read the marker")

    def test_table_without_end(self):
        self.page.write_text(PAGE.replace("<!-- end -->\n", ""))
        self.expect_refusal("docs/page.md:3: the table has no '<!-- end -->'")

    def test_end_without_table(self):
        self.page.write_text("<!-- end -->\n")
        self.expect_refusal("docs/page.md:1: '<!-- end -->' closes no table")


class Running(Tree):
    """`true` and `false` stand for the program."""

    def test_unknown_result(self):
        self.write_index("tributary --json docs/results/trio-15.json")
        self.expect_refusal("unknown result 'trio-51'; allowed: all, lab, engine, race, training, trio-15",
                            "--run", "trio-51")

    def test_command_that_writes_another_file(self):
        self.write_index("tributary --json docs/results/trio-14.json")
        self.expect_refusal("the command of [trio-15] does not write --json docs/results/trio-15.json",
                            "--run", "all")

    def test_unknown_group(self):
        self.write_index("tributary --json docs/results/trio-15.json", group="quick")
        self.expect_refusal("[trio-15] has the group 'quick'; allowed: lab, engine, race, training", "--run", "all")

    def test_command_that_fails(self):
        self.write_index("tributary --json docs/results/trio-15.json")
        self.expect_refusal("trio-15: exit status 1 of: tributary --json", "--run", "lab",
                            "--program", "/bin/false")
        self.assertEqual(self.page.read_text(), PAGE)

    def test_measured_results_name_their_machine(self):
        self.write_index("tributary --json docs/results/trio-15.json", group="engine")
        self.assertEqual(self.run_tool("--run", "trio-15", "--program", "/bin/true").returncode, 0)
        machine = json.loads((self.root / "docs/results/trio-15.machine.json").read_text())
        self.assertGreater(machine["cores"], 0)
        self.assertIn("| 64 | 30 | 32.28", self.page.read_text())


class Tables(unittest.TestCase):
    def test_numbers(self):
        for value, digits, text in ((32.27774, 4, "32.28"), (1.0, 4, "1"), (0.01786, 4, "0.01786"),
                                    (2764.12, 4, "2764"), (0, 4, "0"), (None, 4, "–"),
                                    (16.39, 3, "16.4"), (0.1, 2, "0.10"), (97657, 3, "97657")):
            self.assertEqual(markdown.number(value, digits), text)

    def test_switchml_3_has_the_papers_measurement_alone(self):
        name = "100G switchml-256 RDMA"

        def rows_of(of_the_line, of_the_most):
            """Returns the rows with these values of the paper."""
            rows = [row(f"{rate} {system}{of}", x, None, here)
                    for rate in ("10G", "100G")
                    for system in ("switchml-256", "switchml-64", "switchml-256 RDMA",
                                   "switchml-64 RDMA", "ps-dedicated", "ps-colocated", "ring")
                    for of, here in (("", 2899.0), (" of the line", 0.9278), (" of the most", 0.9966))
                    if of == "" or system.startswith("switchml")
                    for x in (4.0, 8.0, 16.0)]
            for found in rows:
                if found["series"] == f"{name} of the line":
                    found["paper"] = of_the_line
                if found["series"] == f"{name} of the most":
                    found["paper"] = of_the_most
            return rows

        # The second pair of values stands in results that were recorded with the paper's arithmetic.
        for of_the_line, of_the_most, paper in ((None, 0.98, "at least 98 %"), (0.93, None, "–")):
            rows = rows_of(of_the_line, of_the_most)
            lines = lab_tables.switchml_3({"switchml-3": rows}).splitlines()
            self.assertEqual(lines[11], f"| {name} | 2899 | 2899 | 2899 | 92.78 % | 99.7 % | {paper} |")
            self.assertEqual(lines[13], "| 100G ps-dedicated | 2899 | 2899 | 2899 | – | – | – |")
            self.assertEqual(lab_tables.overview_switchml_3(lab_tables.Rows(rows))[2:], [
                '"within 2% of the maximum achievable goodput" (§6.1)', "99.7 %", "–",
                "within the paper's 2 %"])
        rows = rows_of(None, 0.98)
        next(found for found in rows if found["series"] == f"{name} of the most")["here"] = 0.97
        self.assertEqual(lab_tables.overview_switchml_3(lab_tables.Rows(rows))[5],
                         "below the paper's bound")

    def test_race(self):
        content = {"rows": [race_row("tributary", 0.0024), race_row("gloo-ring", 0.0065),
                            race_row("ompi-tcp-ring", 0.0016)],
                   "comparisons": [case("netns", 1_000_000, 1.5)]}
        self.assertEqual(bench_tables.race({"race": content}).splitlines()[2],
                         "| `netns` | 4 | 1 | 2.40 | 6.50 | 1.60 | 1.50 (1.49 - 1.51) | 0.50 |")

    def test_race_on_equal_links(self):
        own = dict(race_row("tributary", 0.9), net="netns-1gbit-equal", servers=4, optimum_s=0.8365,
                   colocated_cpu_s_per_GB=None, cores_busy=0.85)
        peer = dict(race_row("gloo-ring", 1.26), net="netns-1gbit-equal", servers=0)
        server = dict(race_row("ps", 3.37), net="netns-1gbit-equal", servers=1)
        one = dict(case("netns-1gbit-equal", 1_000_000, 0.71), servers=4, fastest_peer="gloo-ring",
                   ratio_to_optimum=1.076)
        content = {"rows": [own, peer, server], "comparisons": [one]}
        self.assertEqual(bench_tables.race_equal({"race-equal": content}).splitlines()[2],
                         "| `netns-1gbit-equal` | 4 | 1 | 4 | 836.5 | 900 | 1.08 | 1260 | 0.71 (0.70 - 0.72)"
                         " | 3370 | 0.50 | – | 0.85 |")

    def test_verdict_follows_the_ratios(self):
        large, small = 100_000_000, 1_000_000
        equal = [dict(case("netns-1gbit-equal", large, ratio, workers=workers), servers=servers)
                 for workers, servers, ratio in ((4, 0, 1.01), (4, 1, 0.9), (4, 4, 0.69),
                                                 (6, 0, 1.04), (6, 1, 1.09), (6, 4, 0.96))]
        results = {
            "race-equal": {"rows": [], "comparisons": equal},
            "race": {"rows": [], "comparisons": [
                case("netns-1gbit", large, 0.67), case("netns-1gbit", large, 0.6, workers=6),
                case("netns", large, 0.94), case("netns", large, 1.04, workers=6),
                case("netns", small, 1.06), case("netns", small, 1.05, workers=6)]},
            "race-pkt1500": {"rows": [], "comparisons": [
                case("netns-pkt1500", large, 1.57), case("netns-1gbit-pkt1500", large, 1.01)]},
            "race-shm": {"rows": [dict(race_row("tributary", 0.003), net="shm"),
                                  dict(race_row("ompi-shm", 0.001), net="shm")],
                         "comparisons": [case("shm", small, 2.0), case("lo", small, 0.1)]},
            "race-straggler": {"rows": [], "comparisons": [case("lo+straggler", 10_000_000, 0.38)]},
        }
        lines = bench_tables.verdict(results).splitlines()[2:]
        self.assertEqual([line.split(" | ")[1] for line in lines],
                         ["alike", "4 workers: **faster**; 6 workers: alike", "**faster**", "**faster**",
                          "4 workers: **faster**; 6 workers: alike",
                          "4 workers: **slower**; 6 workers: alike", "**slower**", "**slower**", "alike"])
        self.assertEqual(lines[0].split(" | ")[2], "1.01, 1.04")
        self.assertEqual(lines[1].split(" | ")[2],
                         "4 workers: 0.90 with 1 spare, 0.69 with 4 spare; "
                         "6 workers: 1.09 with 1 spare, 0.96 with 4 spare")
        self.assertEqual(lines[6].split(" | ")[2],
                         "2.00 to 2.00; over Open MPI's shared memory 3.00 to 3.00")


if __name__ == "__main__":
    unittest.main()
