# SPDX-License-Identifier: Apache-2.0
# Every pair of DDP's options and a script's habits, with and without straggler mitigation: parameters are
# compared between ranks bit by bit, and without mitigation with Gloo's.
import os
import re
import unittest

import support

support.need("numpy", "torch")

import pairwise  # noqa: E402


class Pairwise(unittest.TestCase):
    def test_each_allowed_pair_occurs(self):
        factors = {"a": (1, 2, 3), "b": (1, 2), "c": (1, 2, 3)}
        found = pairwise.combinations(factors, lambda chosen: chosen["a"] != chosen["b"], seed=1)
        self.assertLess(len(found), 12)  # Of 12 that are allowed.
        for a, b, c in ((1, 2, 3), (2, 1, 3), (3, 1, 1), (3, 2, 2)):
            self.assertTrue(any((one["a"], one["b"]) == (a, b) for one in found))
            self.assertTrue(any((one["a"], one["c"]) == (a, c) for one in found))
            self.assertTrue(any((one["b"], one["c"]) == (b, c) for one in found))
        self.assertFalse(any(one["a"] == one["b"] for one in found))


class Matrix(unittest.TestCase):
    def check(self, *flags):
        seed = support.seed()
        print(f"replay with TRIB_TEST_SEED={seed}")
        ended = support.launch(
            3, support.HERE / "ranks_matrix.py", str(seed),
            flags=("--deadline-ms", "30000", *flags),
        )
        text = ended.stdout + ended.stderr
        self.assertEqual(ended.returncode, 0, text)
        self.assertNotRegex(text, "differs|skips")
        self.assertGreater(int(re.search(r"(\d+) combinations", text)[1]), 12, text)
        return text

    def test_without_mitigation(self):
        self.check()

    def test_with_mitigation(self):
        text = self.check("--timeout-ms", "20")
        self.assertRegex(text, r"blocks degraded; missing: .*rank 2")
        self.assertGreater(int(re.search(r"\[2\] .*'steps_taken': (\d+)", text)[1]), 0, text)

    def test_with_mitigation_16_bits_and_two_aggregators(self):
        self.check("--timeout-ms", "20", "--url-option", "wire=16", "--aggregators", "2")


if __name__ == "__main__":
    os.environ["OMP_NUM_THREADS"] = "1"
    unittest.main()
