# SPDX-License-Identifier: Apache-2.0
# A late rank: the parameters stay identical, or the script is refused on every rank before they differ.
# ranks_late.py has the scenarios.
import os
import random
import re
import unittest

import support

support.need("numpy", "torch")

from tributary._pace import GAIN, STREAK, Pace  # noqa: E402

RANKS = 3

IDENTICAL = (
    "channels_last", "own_buffers", "accumulation_inside", "accumulation_at_the_end",
    "accumulation_synchronised", "unused", "metric_before", "metric_after", "metric_in_every_second_step",
    "half_precision_hook",
    "loading", "slow_steps",
)
REFUSED = {
    "buffers": "set broadcast_buffers=False",
    "accumulation_literally": "called twice .* inside no_sync",
    "two_backward_passes": "more than one synchronised backward pass",
    "unused_with_catch_up": "find_unused_parameters",
    "static_graph": "static_graph=True",
    "metric_inside": "ranks_late.py, line .* move it out of the branch",
    "hidden_metric_inside": "Move them out of the branch",
    "metric_at_the_end": "all_reduce.* in the branch of",
    "mean_at_the_end": "all_reduce.* in the branch of",
    "metric_in_some_steps": "all_reduce.* in the branch of",
    "metric_of_another_group": "all_reduce.* in the branch of",
    "imported_by_name": "all_reduce.*ranks_late.py, line .* in the branch of",
    "own_hook": "fp16_compress_hook",
    "optimizer_inside": 'trains differently: after the rehearsal parameter "0.weight" .* rank 2 from the other 2',
    "closure": "closure of LBFGS",
    "double_precision": "torch.float64",
}

# Refused, too, but the ranks that have started the collective cannot continue.
ENDED_BY_REFUSAL = ("hidden_metric_at_the_end", "two_models")


def launch(*scenarios, environment=None, flags=()):
    return support.launch(
        RANKS, support.HERE / "ranks_late.py", *scenarios,
        flags=("--timeout-ms", "20", "--deadline-ms", "30000", *flags), environment=environment,
    )


class PaceOfALateRank(unittest.TestCase):
    def test_a_rank_in_time_computes(self):
        pace = Pace()
        self.assertFalse(any(pace.takes(0) for _ in range(100)))
        self.assertEqual((pace.late_spells, pace.rejoined, pace.longest_spell), (0, 0, 0))

    def test_a_rank_that_gains_takes_until_it_has_caught_up(self):
        pace = Pace()
        taken = [pace.takes(lag) for lag in range(100, -1, -1)]
        self.assertEqual(taken, [True] * 100 + [False])
        self.assertEqual((pace.late_spells, pace.rejoined, pace.longest_spell), (1, 1, 100))

    def test_a_rank_that_gains_nothing_computes_until_it_has_caught_up(self):
        pace = Pace()
        taken = [pace.takes(lag) for lag in [20] * 10 + [7, 1, 0, 0]]
        self.assertEqual(taken, [True] * STREAK + [False] * 6)
        # The next spell starts with taking.
        self.assertTrue(pace.takes(20))
        self.assertEqual((pace.late_spells, pace.rejoined, pace.longest_spell), (2, 1, 12))

    def test_steps_taken_are_bounded_by_the_lag(self):
        seed = support.seed()
        print(f"replay with TRIB_TEST_SEED={seed}")
        draw = random.Random(seed)
        for _ in range(200):
            pace, lag, taken = Pace(), draw.randrange(1, 300), 0
            limit = STREAK * (lag // GAIN + 1)
            while pace.takes(lag):
                taken += 1
                lag += draw.choice((-1, -1, 0, 1))
                if lag <= 0:
                    break
            self.assertLessEqual(taken, limit)


class LateRank(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.ended = [launch(*IDENTICAL), launch(*REFUSED)]
        cls.text = "".join(ended.stdout + ended.stderr for ended in cls.ended)

    def outcomes(self, scenario):
        """Returns the line that each rank printed about the scenario."""
        return re.findall(rf"^\[\d\] {scenario}: (.*)$", self.text, re.MULTILINE)

    def test_parameters_stay_identical(self):
        for scenario in IDENTICAL:
            with self.subTest(scenario):
                self.assertEqual(self.outcomes(scenario), ["identical"] * RANKS, self.text)

    def test_others_are_refused_on_every_rank(self):
        for scenario, text in REFUSED.items():
            with self.subTest(scenario):
                found = self.outcomes(scenario)
                self.assertEqual(len(found), RANKS, self.text)
                for line in found:
                    self.assertRegex(line, f"^refused: .*{text}")

    def test_collectives_at_the_end_of_the_branch_are_refused_on_every_rank(self):
        for scenario in ENDED_BY_REFUSAL:
            with self.subTest(scenario):
                ended = launch(scenario, flags=("--keep-going",))
                found = re.findall(rf"^\[\d\] {scenario}: refused: .*out of the branch", ended.stdout, re.M)
                self.assertEqual(len(found), RANKS, ended.stdout + ended.stderr)

    def test_nobody_fails(self):
        self.assertEqual([ended.returncode for ended in self.ended], [0, 0], self.text)

    def test_steps_taken_count_for_the_comparison_of_parameters(self):
        # The last rank is alone in steps 5 to 7, between two comparisons.
        scenarios = ("channels_last", "two_forward_passes")
        ended = launch(*scenarios, environment={"TRIBUTARY_CHECK_PARAMETERS": "4"})
        for scenario in scenarios:
            self.assertEqual(ended.stdout.count(f"{scenario}: identical"), RANKS, ended.stdout + ended.stderr)

    def test_a_rank_that_computes_what_it_took_is_stopped(self):
        ended = launch("ignored_answer")
        self.assertRegex(
            ended.stdout,
            r"\[2\] ignored_answer: (failed|refused): .*backward\(\) after take_gradients\(\) returned True",
        )


class UnequalCalls(unittest.TestCase):
    """A rank that makes fewer all-reduces than the others is found where the ranks meet."""

    def check(self, mistake, meeting, counts):
        ended = support.launch(
            RANKS, support.HERE / "ranks_unequal.py", mistake, meeting,
            flags=("--timeout-ms", "20", "--deadline-ms", "30000", "--keep-going"),
        )
        text = ended.stdout + ended.stderr
        found = f"different numbers of all-reduces: {counts}. .* same number of batches"
        if meeting == "exit":
            self.assertEqual(ended.returncode, 1, text)
            self.assertEqual(len(re.findall(rf"^\[\d\] tributary: rank \d: .*{found}", text, re.M)), RANKS, text)
            return
        self.assertEqual(ended.returncode, 0, text)
        self.assertEqual(len(re.findall(rf"^\[\d\] found: .*{found}", text, re.M)), RANKS, text)
        self.assertEqual(len(re.findall(rf"^\[\d\] refused: .*{found}", text, re.M)), RANKS, text)

    def test_a_rank_with_a_batch_less(self):
        for meeting in ("metric", "async", "exit"):
            with self.subTest(meeting):
                self.check("a batch less", meeting, "rank 0, 1: 8, rank 2: 7")

    def test_a_rank_that_skips_a_backward_pass(self):
        self.check("skips a backward pass", "check_parameters", "rank 0, 2: 8, rank 1: 7")

    def test_a_rank_that_makes_a_step_more(self):
        self.check("a step more", "end_epoch", "rank 0: 9, rank 1, 2: 8")

    def test_equal_calls(self):
        ended = support.launch(
            RANKS, support.HERE / "ranks_unequal.py", "none", "barrier", flags=("--timeout-ms", "20"))
        self.assertEqual(ended.returncode, 0, ended.stdout + ended.stderr)
        self.assertEqual(ended.stdout.count("found nothing"), RANKS)


if __name__ == "__main__":
    os.environ["OMP_NUM_THREADS"] = "1"
    unittest.main()
