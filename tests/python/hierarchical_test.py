# SPDX-License-Identifier: Apache-2.0
# Ranks that add up on their machine before one of them goes to the aggregator; Gloo inside the machines.
import os
import unittest

import support

support.need("numpy", "torch")

import torch.distributed as dist  # noqa: E402
import tributary.torch  # noqa: E402
from tributary import _hierarchical  # noqa: E402

GLOO = {"TRIBUTARY_LOCAL_GROUP": "gloo"}


class Hierarchical(support.ServerTest):
    def launch(self, job, environment=GLOO):
        server = self.serve(job)
        return support.launch(
            4, support.HERE / "ranks_hierarchical.py",
            flags=("--server", server.address(), "--deadline-ms", "20000"), environment=environment,
        )

    def test_two_machines_of_two_ranks(self):
        ended = self.launch("id=1,sources=2,block_grad_max=4095")
        self.assertEqual(ended.returncode, 0, ended.stdout + ended.stderr)
        self.assertEqual(ended.stdout.count("all well"), 4, ended.stdout + ended.stderr)

    def test_ranks_of_torchrun_start_an_aggregator_on_each_machine(self):
        ended = support.torchrun(4, support.HERE / "ranks_hierarchical.py", GLOO)
        self.assertEqual(ended.returncode, 0, ended.stdout + ended.stderr)
        self.assertEqual(ended.stdout.count("all well"), 4, ended.stdout + ended.stderr)

    def test_mitigation_is_refused_on_all_ranks(self):
        ended = self.launch("id=1,sources=2,block_grad_max=4095,mitigation=on,timeout_ms=20")
        self.assertNotEqual(ended.returncode, 0)
        self.assertIn("TRIBUTARY_LOCAL_GROUP cannot be used with straggler mitigation", ended.stderr)

    def test_a_job_of_all_ranks_is_refused(self):
        ended = self.launch("id=1,sources=4,block_grad_max=4095")
        self.assertNotEqual(ended.returncode, 0)
        self.assertRegex(ended.stderr, "Refused: .*4")


class Leaders(unittest.TestCase):
    def test_a_silent_one_is_named_by_the_deadline(self):
        store = dist.HashStore()
        with self.assertRaisesRegex(tributary.PeerMissing, "rank 4 has not reached"):
            _hierarchical.join_leaders(store, 4, 1, None, limit_s=0.001)

    def test_its_failure_is_told(self):
        def fail():
            raise ValueError("no such job")

        store = dist.HashStore()
        with self.assertRaises(ValueError):
            _hierarchical.join_leaders(store, 4, 0, fail, limit_s=0.001)
        with self.assertRaisesRegex(tributary.TributaryError, "first rank of this machine failed: no such job"):
            _hierarchical.join_leaders(store, 4, 1, None, limit_s=0.001)


class Places(unittest.TestCase):
    def place(self, local_rank, count, rank, world):
        os.environ.update(LOCAL_RANK=local_rank, LOCAL_WORLD_SIZE=count)
        return _hierarchical.place_of(rank, world)

    def test_places(self):
        self.assertEqual(self.place("1", "2", rank=5, world=6), (2, 1, 2))
        self.assertEqual(self.place("0", "1", rank=3, world=4), (3, 0, 1))

    def test_wrong_places_are_refused(self):
        wrong = (("0", "3", 0, 4), ("1", "2", 2, 4), ("x", "2", 0, 4), ("0", "0", 0, 4))
        for local_rank, count, rank, world in wrong:
            with self.assertRaises(tributary.InvalidArgument):
                self.place(local_rank, count, rank, world)

    def test_an_unknown_back_end_is_refused(self):
        os.environ["TRIBUTARY_LOCAL_GROUP"] = "mpi"
        self.addCleanup(os.environ.pop, "TRIBUTARY_LOCAL_GROUP")
        with self.assertRaisesRegex(tributary.InvalidArgument, "mpi is not allowed; allowed: nccl, gloo"):
            _hierarchical.wanted()


if __name__ == "__main__":
    unittest.main()
