# SPDX-License-Identifier: Apache-2.0
# Small runs of examples/compare_training.py: accuracy and loss beside Gloo, and the plots.
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree

import support

support.need("numpy", "torch", "sklearn")

EXAMPLES = support.HERE.parent.parent / "examples"
sys.path.insert(0, str(EXAMPLES))

import curves  # noqa: E402

MARGIN = 0.05  # Of the accuracy on 360 images after a few epochs.
WIRE_TOLERANCES = {32: 1e-4, 16: 0.01}  # In nats per byte, over the first steps.


class Curves(unittest.TestCase):
    def test_ticks(self):
        self.assertEqual(curves.ticks(0, 200), [0, 50, 100, 150, 200])
        self.assertEqual(curves.ticks(2.25, 6.28), [2, 3, 4, 5, 6, 7])
        self.assertEqual(curves.powers(0.02, 5), [0.01, 0.1, 1, 10])
        self.assertGreater(len(curves.ticks(3, 3)), 1)
        self.assertGreater(len(curves.powers(1, 1)), 1)

    def test_a_point_that_a_logarithm_lacks_is_left_out(self):
        plot = curves.Plot("a < b", "step", "y", {"one": [0, 0.1, 1]}, log=True)
        root = xml.etree.ElementTree.fromstring(curves.svg(plot))
        (line,) = root.iter("{http://www.w3.org/2000/svg}polyline")
        self.assertEqual(len(line.get("points").split()), 2)


class Comparison(unittest.TestCase):
    def compare(self, *arguments):
        """Returns the JSON and the SVG, or "" if there is none."""
        with tempfile.TemporaryDirectory() as folder:
            out, plots = pathlib.Path(folder) / "out.json", pathlib.Path(folder) / "out.svg"
            command = [support.PYTHON, EXAMPLES / "compare_training.py", *arguments, "--ranks", "2",
                       "--program", support.PROGRAM, "--json", out, "--svg", plots]
            ended = subprocess.run(command, capture_output=True, text=True, timeout=2 * support.LIMIT_S)
            self.assertEqual(ended.returncode, 0, ended.stdout + ended.stderr)
            return json.loads(out.read_text()), plots.read_text() if plots.exists() else ""

    def test_digits_reach_the_accuracy_of_gloo(self):
        result, _ = self.compare("digits", "--seeds", "1", "--epochs", "4",
                                 "--runs", "gloo", "wire16-sleeper")
        accuracies = {row["run"]: row["accuracy"] for row in result["rows"]}
        self.assertGreater(accuracies["gloo"], 0.9)
        self.assertGreater(accuracies["wire16-sleeper"], accuracies["gloo"] - MARGIN)
        self.assertTrue(all(row["parameters_identical"] for row in result["rows"]))

    def test_gpt_follows_the_loss_of_gloo(self):
        result, svg = self.compare("gpt", "--steps", "10", "--width", "32")
        for run in result["runs"]:
            for ours, gloos in zip(run["tributary"]["losses"], run["gloo"]["losses"], strict=True):
                self.assertLess(abs(ours - gloos), WIRE_TOLERANCES[run["wire"]])
            self.assertLess(run["gloo"]["losses"][-1], run["gloo"]["losses"][0] - 0.5)
            self.assertGreater(run["tributary_to_gloo_quartiles"][1], 0)
        root = xml.etree.ElementTree.fromstring(svg)
        self.assertEqual(len(list(root.iter("{http://www.w3.org/2000/svg}polyline"))), 7)


if __name__ == "__main__":
    unittest.main()
