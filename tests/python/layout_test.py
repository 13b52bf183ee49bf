# SPDX-License-Identifier: Apache-2.0
# Machines by hand: which rank is the first of each, and where ranks reduce locally. Then two machines with
# two ranks each, in network namespaces, which need root.
import importlib.util
import os
import re
import unittest
from unittest import mock

import support
import two_machines
from tributary import _layout, errors

PORTS = list(range(12100, 12110))


def layout_of(*machines, firsts=None, ports=None, seed=0):
    """Returns the layout of ranks on these machines. firsts: of each rank; None: the launcher does not tell."""
    return _layout.Layout([
        {"machine": name, "first": None if firsts is None else firsts[rank],
         "ports": PORTS if ports is None else ports[rank], "seed": seed}
        for rank, name in enumerate(machines)
    ])


class Firsts(unittest.TestCase):
    def test_are_the_local_ranks_0_of_torchrun(self):
        self.assertEqual(layout_of("a", "a", "a", firsts=[True, False, True]).firsts, [0, 2])

    def test_are_the_lowest_ranks_of_the_machines_otherwise(self):
        self.assertEqual(layout_of("a", "b", "a", "b").firsts, [0, 1])

    def test_one_machine(self):
        self.assertTrue(layout_of("a", "a").is_one_machine)
        self.assertFalse(layout_of("a", "b").is_one_machine)


class Reduces(unittest.TestCase):
    def test_several_machines_with_as_many_ranks_each(self):
        layout = layout_of("a", "a", "b", "b")
        self.assertTrue(layout.reduces(2))
        self.assertEqual([layout.index_of(rank) for rank in range(4)], [0, 0, 1, 1])
        self.assertEqual(layout.ranks_each, 2)

    def test_not_otherwise(self):
        for machines in ("a", "aa", "ab", "aab", "aabbb", "abab", "aabbaa"):
            self.assertFalse(layout_of(*machines).reduces(1), machines)

    def test_not_if_two_agents_share_a_machine(self):
        self.assertFalse(layout_of(*"aaaa", firsts=[True, False, True, False]).reduces(1))

    def test_needs_a_port_for_each_upper_aggregator_on_all_machines(self):
        ports = [[12100, 12101, 12103], [], [12101, 12102, 12103], []]
        layout = layout_of(*"aabb", ports=ports)
        self.assertEqual(layout.lower_ports(2), [12101, 12103])
        self.assertTrue(layout.reduces(2))
        self.assertFalse(layout.reduces(3))

    def test_jobs_that_start_together_begin_at_other_ports(self):
        self.assertEqual(layout_of(*"aabb", seed=0).lower_ports(1), [12100])
        first_ports = {tuple(layout_of(*"aabb", seed=seed).lower_ports(2)) for seed in range(12100, 12110)}
        self.assertEqual(len(first_ports), 10)


class Jobs(unittest.TestCase):
    def test_upper_aggregators_wait_three_timeouts(self):
        keys = {"mitigation": "on", "timeout_ms": "20", "permanent_ms": "50", "window": "512"}
        self.assertEqual(_layout.upper_job(keys, machines=2, world=6), {
            "sources": 2, "mitigation": "on", "timeout_ms": "60", "permanent_ms": "150", "window": "512",
            "sources_are_aggregators": "on", "world": 6})
        self.assertEqual(_layout.upper_job({"mitigation": "on"}, 2, 6)["timeout_ms"], "30")

    def test_lower_aggregators_know_their_place(self):
        self.assertEqual(_layout.lower_job({"timeout_ms": "20"}, "10.0.0.1:7000", 1, 3, 6), {
            "sources": 3, "timeout_ms": "20", "upstream": "10.0.0.1:7000", "upstream_source": 1,
            "rank_base": 3, "world": 6})

    def described(self, **variables):
        with mock.patch.dict(os.environ, variables):
            return _layout.describe()

    def test_jobs_without_a_tree_offer_no_ports(self):
        self.assertNotEqual(self.described(TRIBUTARY_JOB="mitigation=on", LOCAL_RANK="0")["ports"], [])
        for variables in ({"TRIBUTARY_LOCAL_REDUCE": "off"}, {"TRIBUTARY_JOB": "asynchronous=on,parameters=5"},
                          {"TRIBUTARY_JOB": "upstream=10.0.0.1:1,upstream_source=0"}, {"LOCAL_RANK": "1"}):
            self.assertEqual(self.described(**variables)["ports"], [], variables)


    def test_refuses_other_words_than_on_and_off_on_every_rank(self):
        for local_rank in ("0", "1"):
            with self.assertRaisesRegex(
                errors.InvalidArgument, r"TRIBUTARY_LOCAL_REDUCE=maybe is not allowed; allowed: on \(the default\), off"
            ):
                self.described(TRIBUTARY_LOCAL_REDUCE="maybe", LOCAL_RANK=local_rank)


class Torchrun(unittest.TestCase):
    def sent(self, machines, **variables):
        """Returns the bytes that a machine sends for each byte of a tensor."""
        printed = machines.torchrun("ranks_machines.py", two_machines.CABLE, **variables)
        for text in printed:
            self.assertEqual(text.count("all well"), 2, printed)
        return min(float(found) for found in re.findall(r"sent ([0-9.]+), all well", printed[0]))

    def test_a_machine_sends_one_sum_of_its_ranks(self):
        if importlib.util.find_spec("torch") is None:
            self.skipTest("no torch")
        machines = two_machines.TwoMachines(self)
        # An aggregator on each machine: half of each contribution and half of each result cross the cable.
        self.assertGreater(self.sent(machines, TRIBUTARY_LOCAL_REDUCE="off"), 1.9)
        self.assertLess(self.sent(machines, TRIBUTARY_AGGREGATORS="2"), 1.2)
        # With mitigation Gloo sums these tensors, which are no gradients.
        self.sent(machines, TRIBUTARY_JOB="mitigation=on,timeout_ms=2000")


if __name__ == "__main__":
    unittest.main()
