# SPDX-License-Identifier: Apache-2.0
# The documented interfaces of torch 2.x, as far as torch 1.13 lets them be called: one rank, a stub of
# register_backend(), and the calls that torch 2.x makes where it differs.
import datetime
import importlib
import os
import unittest
from unittest import mock

import support

support.need("numpy", "torch")

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402


class Opts:
    """AllgatherOptions of torch 2.x, which torch 1.13 lacks."""

    asyncOp = False
    timeout = datetime.timedelta(seconds=1)


class Mpirun(unittest.TestCase):
    def local_rank(self, **variables):
        """Returns LOCAL_RANK after the import under a launcher that sets these variables."""
        from tributary import torch as back_end

        with mock.patch.dict(os.environ, variables, MASTER_ADDR="127.0.0.1"):
            for name in {"RANK", "WORLD_SIZE", "LOCAL_RANK", "MPI_LOCALRANKID", "SLURM_LOCALID"} - set(variables):
                os.environ.pop(name, None)
            back_end._adopt_mpirun()
            self.assertEqual((os.environ["RANK"], os.environ["WORLD_SIZE"]), ("5", "8"))
            return os.environ.get("LOCAL_RANK")

    def test_the_local_rank_is_the_launchers_or_unknown(self):
        pmi = {"PMI_RANK": "5", "PMI_SIZE": "8"}
        self.assertIsNone(self.local_rank(**pmi))
        self.assertEqual(self.local_rank(**pmi, SLURM_LOCALID="2"), "2")
        self.assertEqual(self.local_rank(**pmi, SLURM_LOCALID="0", MPI_LOCALRANKID="1"), "1")
        self.assertEqual(self.local_rank(**pmi, LOCAL_RANK="3", MPI_LOCALRANKID="1"), "3")
        open_mpi = {"OMPI_COMM_WORLD_RANK": "5", "OMPI_COMM_WORLD_SIZE": "8"}
        self.assertEqual(self.local_rank(**open_mpi, OMPI_COMM_WORLD_LOCAL_RANK="1"), "1")

    def test_ranks_that_name_no_master_keep_their_variables(self):
        from tributary import torch as back_end

        with mock.patch.dict(os.environ, {"OMPI_COMM_WORLD_RANK": "5", "OMPI_COMM_WORLD_SIZE": "8"}, clear=True):
            back_end._adopt_mpirun()
            self.assertEqual(set(os.environ), {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"})


class Deadline(unittest.TestCase):
    def test_a_timeout_above_the_longest_deadline_is_the_longest(self):
        from tributary import torch as back_end

        day_ms = 24 * 60 * 60 * 1000
        for url, timeout, expected in (
            ("", datetime.timedelta(days=2), day_ms),
            ("", datetime.timedelta(0), 1),
            ("", datetime.timedelta(seconds=5), 5000),
            ("", back_end.default_pg_timeout, back_end.DEADLINE_MS),
            ("", datetime.timedelta(minutes=30), 1_800_000),  # Equal to torch's default, but given.
            ("tributary://h/job/1?deadline_ms=7", datetime.timedelta(days=2), 7),
        ):
            with mock.patch.dict(os.environ, TRIBUTARY_URL=url):
                self.assertEqual(back_end._deadline_ms(timeout), expected)

    def test_the_library_takes_the_longest(self):
        import tributary
        from tributary import torch as back_end

        url = "tributary://127.0.0.1/job/1?rank=2&world=2&deadline_ms="
        with self.assertRaisesRegex(tributary.InvalidArgument, "rank"):
            tributary.Communicator(f"{url}{back_end.DEADLINE_MS_MAX}")
        with self.assertRaisesRegex(tributary.InvalidArgument, "deadline_ms"):
            tributary.Communicator(f"{url}{back_end.DEADLINE_MS_MAX + 1}")


class StoreOfTorchrun(unittest.TestCase):
    def test_each_group_has_a_part_of_its_own(self):
        from tributary import _gloo, errors

        store, ranks = dist.HashStore(), range(2)
        first = [_gloo.of_new_group(store, rank) for rank in ranks]
        first[0].set("address", "old")
        self.assertEqual(first[1].get("address"), b"old")
        with mock.patch.object(torch, "__version__", "2.1.0"):
            second = [_gloo.of_new_group(store, rank) for rank in ranks]
        second[0].set("address", "new")
        self.assertEqual(second[1].get("address"), b"new")
        with mock.patch.object(torch, "__version__", "1.13.1"):
            with self.assertRaisesRegex(errors.TributaryError, "torch 1.13.1 cannot create a second group"):
                _gloo.of_new_group(store, 0)


class Registration(unittest.TestCase):
    def registered(self, register_backend):
        """Imports the back end afresh with this register_backend()."""
        import tributary.torch

        known = getattr(dist.Backend, "TRIBUTARY")
        delattr(dist.Backend, "TRIBUTARY")
        try:
            with mock.patch.object(dist.Backend, "register_backend", register_backend):
                importlib.reload(tributary.torch)
        finally:
            dist.Backend.TRIBUTARY = known

    def test_torch_2_learns_both_kinds_of_device(self):
        calls = []

        def register_backend(name, func, extended_api=False, devices=None):
            calls.append((name, callable(func), extended_api, devices))

        self.registered(register_backend)
        self.assertEqual(calls, [("tributary", True, False, ["cpu", "cuda"])])

    def test_torch_1_has_no_devices(self):
        calls = []

        def register_backend(name, func):
            calls.append((name, callable(func)))

        self.registered(register_backend)
        self.assertEqual(calls, [("tributary", True)])

    def test_the_entry_point_can_be_called(self):
        import tributary.torch

        self.assertIsNone(tributary.torch.autoload())


class Calls(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        import tributary.torch

        cls.variables = mock.patch.dict(
            os.environ, RANK="0", WORLD_SIZE="1", LOCAL_RANK="0", MASTER_ADDR="127.0.0.1",
            MASTER_PORT=str(support.free_master_port()),
        )
        cls.variables.start()
        cls.addClassCleanup(cls.variables.stop)
        dist.init_process_group("tributary")
        cls.addClassCleanup(dist.destroy_process_group)
        cls.group = tributary.torch.active_group()

    def test_torchs_own_timeout_is_none_of_the_script(self):
        from tributary import torch as back_end

        self.assertEqual(self.group.communicator.info()["deadline_ms"], back_end.DEADLINE_MS)

    def test_single_tensor_calls_take_options(self):
        output = torch.zeros(3)
        self.group._allgather_base(output, torch.ones(3), Opts()).wait()
        self.assertEqual(output.tolist(), [1, 1, 1])
        self.group._reduce_scatter_base(output, torch.full((3,), 2.0), dist.ReduceScatterOptions()).wait()
        self.assertEqual(output.tolist(), [2, 2, 2])

    def test_coalesced_calls(self):
        outputs = [torch.zeros(2), torch.zeros(3)]
        inputs = [torch.ones(2), torch.full((3,), 4.0)]
        work = self.group.allgather_into_tensor_coalesced(outputs, inputs)
        work.wait()
        self.assertEqual([output.tolist() for output in outputs], [[1, 1], [4, 4, 4]])
        outputs = [torch.zeros(2), torch.zeros(3)]
        work = self.group.reduce_scatter_tensor_coalesced(outputs, inputs, dist.ReduceScatterOptions())
        self.assertIs(work.get_future().wait()[0], outputs[0])
        self.assertEqual([output.tolist() for output in outputs], [[1, 1], [4, 4, 4]])

    def test_a_parameter_is_summed_in_place_whatever_its_layout(self):
        for layout in (torch.contiguous_format, torch.channels_last):
            parameter = torch.nn.Parameter(torch.ones(2, 3, 4, 4).contiguous(memory_format=layout))
            work = dist.all_reduce(parameter, async_op=True)
            self.assertTrue(work.wait())
            self.assertIs(work.result()[0], parameter)
            self.assertTrue((parameter == 1).all())

    def test_the_manager_of_coalescing_names_a_device_in_torch_2_and_waits_for_the_work_of_the_end(self):
        device = torch.device("cpu")
        self.group._start_coalescing(device)
        several = [torch.ones(3), torch.ones(2)]
        begun = self.group.allreduce_coalesced(several, dist.AllreduceCoalescedOptions())
        output = torch.zeros(3)
        self.group._allgather_base(output, torch.ones(3), Opts())
        self.assertTrue(self.group._end_coalescing(device).wait())
        self.assertTrue(begun.is_completed())
        self.assertEqual([tensor.tolist() for tensor in (*several, output)], [[1, 1, 1], [1, 1], [1, 1, 1]])
        self.group._start_coalescing(device)
        self.assertIsNone(self.group._end_coalescing(device))

    def test_the_manager_of_coalescing_has_no_device_in_torch_1(self):
        self.group._start_coalescing()
        work = self.group.allreduce([torch.ones(1)], dist.AllreduceOptions())
        self.group._end_coalescing([work])
        self.assertTrue(work.wait())


if __name__ == "__main__":
    unittest.main()
