# SPDX-License-Identifier: Apache-2.0
# Ranks with their tensors on a GPU. Skipped without one.
import sys
import unittest

import support

support.need("numpy", "torch")

import torch  # noqa: E402

if not torch.cuda.is_available():
    print("skipped: torch finds no GPU")
    sys.exit(support.SKIPPED)


class Cuda(support.ServerTest):
    def assert_all_well(self, *arguments, flags=(), environment=None):
        ended = support.launch(
            2, support.HERE / "ranks_cuda.py", *arguments, flags=("--deadline-ms", "30000", *flags), environment=environment
        )
        self.assertEqual(ended.returncode, 0, ended.stdout + ended.stderr)
        self.assertEqual(ended.stdout.count("all well"), 2, ended.stdout + ended.stderr)

    def test_two_ranks(self):
        self.assert_all_well()

    def test_collectives_through_the_aggregator(self):
        self.assert_all_well("other_collectives", environment={"TRIBUTARY_COLLECTIVES": "aggregator"})

    def test_half_the_bytes(self):
        self.assert_all_well("many_in_flight_beside_tensors_of_the_host", flags=("--url-option", "wire=16"))

    def test_a_rank_that_sleeps_takes_the_gradients(self):
        self.assert_all_well("catching_up", flags=("--timeout-ms", "20"))

    def test_machines_of_one_rank_with_nccl_inside(self):
        server = self.serve("id=1,sources=2,block_grad_max=4095")
        self.assert_all_well(
            "sums", "a_sum_follows_the_kernels_before_it_without_blocking", "training_gives_the_parameters_of_gloo",
            flags=("--server", server.address()), environment={"TRIBUTARY_LOCAL_GROUP": "nccl"},
        )


if __name__ == "__main__":
    unittest.main()
