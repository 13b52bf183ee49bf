# SPDX-License-Identifier: Apache-2.0
# Ranks are threads of this process: ctypes releases the GIL, and each rank has its own socket. Sums
# worked by hand first, then refusals and failures, then a random walk against numpy.
import copy
import json
import pickle
import random
import socket
import time
import unittest
import urllib.request
import warnings

import support

support.need("numpy")

import numpy  # noqa: E402
import tributary  # noqa: E402

DEADLINE_MS = 1500  # Of the tests that wait for it; a busy machine answers sooner.


class Pair(support.ServerTest):
    """Two ranks of a job."""

    def join(self, job="id=1,sources=2", flags=(), **options):
        self.server = self.serve(job, *flags)
        pair = support.each(
            2, lambda rank: tributary.Communicator(self.server.url(), rank=rank, world=2, **options)
        )
        for one in pair:
            self.assertIsInstance(one, tributary.Communicator)
            self.addCleanup(one.close)
        return pair


class Events(Pair):
    def test_a_wait_names_the_rank_once(self):
        events = []
        pair = self.join(on_event=events.append)
        events.clear()  # A slow machine may have waited for the join.
        first = pair[0].all_reduce_async(numpy.ones(10, numpy.float32))
        deadline = time.monotonic() + support.LIMIT_S
        while not events and time.monotonic() < deadline:
            first.wait(0.1)
        pair[1].all_reduce(numpy.ones(10, numpy.float32))
        first.wait()
        self.assertEqual([event.kind for event in events], ["waiting"])
        self.assertEqual(events[0].ranks, [1])
        self.assertGreaterEqual(events[0].waited, 1.0)
        self.assertIn("rank 1 has not contributed to block", events[0].text)

    # Through the C interface, which the package calls.
    def test_the_server_shows_what_each_rank_reports(self):
        port = support.free_port(socket.SOCK_STREAM)
        pair = self.join(flags=("--http", str(port)))
        deadline = time.monotonic() + support.LIMIT_S
        reports = [None]
        while not all(report and report["bytes_per_s"] > 0 for report in reports) and time.monotonic() < deadline:
            support.each(2, lambda rank: pair[rank].all_reduce(numpy.ones(10_000, numpy.float32)))
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/v1/jobs/1", timeout=support.LIMIT_S) as answer:
                reports = [source["report"] for source in json.load(answer)["sources"]]
        for report in reports:
            self.assertGreater(report["bytes_per_s"], 0)
            self.assertGreater(report["blocks"], 0)
            self.assertEqual((report["degraded_share"], report["waits_for"]), (0, []))

    def test_waits_are_logged_by_default(self):
        pair = self.join()
        with self.assertLogs("tributary", "WARNING") as logged:
            first = pair[0].all_reduce_async(numpy.ones(10, numpy.float32))
            deadline = time.monotonic() + support.LIMIT_S
            while not logged.output and time.monotonic() < deadline:
                first.wait(0.1)
            pair[1].all_reduce(numpy.ones(10, numpy.float32))
            first.wait()
        self.assertIn("WARNING:tributary:waiting: rank 1 has not contributed", logged.output[0])


class Sums(Pair):
    def test_each_type_in_place(self):
        pair = self.join()
        for dtype in ("int32", "float32", "float16"):
            arrays = [numpy.array([1, 2, 3 + rank], dtype) for rank in range(2)]
            reports = support.each(2, lambda rank: pair[rank].all_reduce(arrays[rank]))
            for rank in range(2):
                self.assertEqual(arrays[rank].tolist(), [2, 4, 7], dtype)
                self.assertEqual(reports[rank], tributary.Report(1, 0, [], []))

    def test_underflow_is_counted_and_warned_of_once(self):
        pair = self.join(format="fixed", scale=100)

        def reduce():
            arrays = [numpy.array([1, 0.001, 0, -0.001], numpy.float32) for _ in range(2)]
            return support.each(2, lambda rank: pair[rank].all_reduce(arrays[rank]))

        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            for _ in range(2):
                for report in reduce():
                    self.assertEqual(report.underflowed, 2)
                    self.assertTrue(report.warning.startswith("2 of 3 non-zero elements"))
        self.assertEqual([one.category for one in caught], [RuntimeWarning] * 2)  # One a rank.
        self.assertEqual(pair[0].counters()["underflowed"], 4)

    def test_asynchronous_push_returns_the_parameters_and_their_staleness(self):
        pair = self.join(
            "id=1,sources=2,asynchronous=on,parameters=4", asynchronous="on", format="fixed", scale=1000
        )

        def push(rank, values):
            array = numpy.array(values, numpy.float32)
            return array, pair[rank].all_reduce(array)

        initial = [[10, 0, -1, 0.5], [0, 0, 0, 0]]
        for array, _ in support.each(2, lambda rank: push(rank, initial[rank])):
            self.assertEqual(array.tolist(), initial[0])
        push(0, [0, 0, 0, 0])
        self.assertEqual(push(1, [1, 1, 1, 1])[0].tolist(), [11, 1, 0, 1.5])
        push(1, [1, 1, 1, 1])
        array, report = push(0, [-1, 0, 0, 0])
        self.assertEqual(array.tolist(), [11, 2, 1, 2.5])
        self.assertEqual((report.staleness_sum, report.staleness_max), (2, 2))
        with self.assertRaisesRegex(tributary.InvalidArgument, "not allowed with asynchronous=on"):
            pair[0].reduce(array, root=0)

    def test_mean(self):
        pair = self.join()
        arrays = [numpy.full(1000, 1.0 + 2 * rank, numpy.float32) for rank in range(2)]
        support.each(2, lambda rank: pair[rank].all_reduce(arrays[rank], op="mean"))
        self.assertEqual(arrays[0].tolist(), [2.0] * 1000)
        self.assertEqual(arrays[1].tolist(), [2.0] * 1000)

    def test_several_on_their_way_and_waited_for_in_any_order(self):
        pair = self.join()

        def several(rank):
            arrays = [numpy.full(5000, index + rank, numpy.int32) for index in range(8)]
            operations = [pair[rank].all_reduce_async(array) for array in arrays]
            for operation in reversed(operations):
                operation.wait()
                self.assertTrue(operation.done())
            return [array[4999] for array in arrays]

        expected = [2 * index + 1 for index in range(8)]
        self.assertEqual(support.each(2, several), [expected, expected])

    def test_many_small_ones(self):
        pair = self.join()

        def many(rank):
            one, total = numpy.empty(1, numpy.int32), 0
            for index in range(300):
                one[0] = index
                pair[rank].all_reduce(one)
                total += int(one[0])
            return total

        self.assertEqual(support.each(2, many), [300 * 299] * 2)

    def test_a_wait_with_a_timeout_gives_up_and_can_be_repeated(self):
        pair = self.join()
        array = numpy.ones(4, numpy.float32)
        operation = pair[0].all_reduce_async(array)
        self.assertIsNone(operation.wait(timeout=0.01))
        self.assertFalse(operation.done())
        pair[1].all_reduce_async(numpy.ones(4, numpy.float32)).wait()
        self.assertEqual(operation.wait().degraded_blocks, 0)
        self.assertEqual(array.tolist(), [2.0] * 4)

    def test_a_result_for_one_rank(self):
        pair = self.join()
        arrays = [numpy.full(5000, rank + 1, numpy.float32) for rank in range(2)]
        support.each(2, lambda rank: pair[rank].reduce(arrays[rank], root=1))
        self.assertEqual((set(arrays[0]), set(arrays[1])), ({1.0}, {3.0}))
        rows = [numpy.full((2, 3), 10 * rank, numpy.int32) for rank in range(2)]
        reports = support.each(2, lambda rank: pair[rank].reduce_scatter(rows[rank], op="sum"))
        self.assertEqual(rows[0].tolist(), [[10] * 3, [0] * 3])
        self.assertEqual(rows[1].tolist(), [[10] * 3, [10] * 3])
        self.assertEqual([report.blocks for report in reports], [1, 1])

    def test_refuses_a_root_outside_the_job(self):
        pair = self.join()
        for root in (-1, 2):
            with self.assertRaisesRegex(tributary.InvalidArgument, f"root={root} is not allowed; allowed: 0 to 1"):
                pair[0].reduce(numpy.ones(3, numpy.float32), root)
        with self.assertRaisesRegex(tributary.InvalidArgument, "3 rows is not allowed; allowed: 2, one for each rank"):
            pair[0].reduce_scatter(numpy.ones((3, 2), numpy.int32))

    def test_info_and_counters(self):
        pair = self.join(window=16, gradients=100)
        support.each(2, lambda rank: pair[rank].all_reduce(numpy.ones(250, numpy.int32)))
        self.assertEqual(pair[1].info()["rank"], 1)
        self.assertEqual(pair[1].info()["window"], 16)
        self.assertEqual(pair[1].info()["gradients"], 100)
        self.assertEqual(pair[1].counters()["blocks"], 3)


class Refusals(Pair):
    def test_arrays_that_are_not_allowed_change_nothing(self):
        pair = self.join()
        read_only = numpy.zeros(4, numpy.float32)
        read_only.flags.writeable = False
        cases = {
            "not contiguous": numpy.zeros((4, 4), numpy.float32)[:, 1],
            "read-only": read_only,
            "float64": numpy.zeros(4),
            "byte order": numpy.zeros(4, ">f4"),
            "list is not allowed": [1.0],
            r"scalar \(float32\) is not allowed": numpy.float32(1),
            "array is read-only": numpy.broadcast_to(numpy.float32(1), ()),
        }
        for text, array in cases.items():
            with self.assertRaisesRegex(tributary.InvalidArgument, text):
                pair[0].all_reduce(array)
        with self.assertRaisesRegex(tributary.InvalidArgument, "op=max.*sum, mean"):
            pair[0].all_reduce(numpy.zeros(4, numpy.float32), op="max")
        # The session is not affected.
        support.each(2, lambda rank: self.assertEqual(
            pair[rank].all_reduce(numpy.ones(4, numpy.float32)).blocks, 1))

    def test_an_array_without_dimensions_is_summed(self):
        pair = self.join()
        values = [numpy.ones((), numpy.float32) for _ in range(2)]
        support.each(2, lambda rank: pair[rank].all_reduce(values[rank]))
        self.assertEqual([float(value) for value in values], [2, 2])

    def test_copies_are_refused(self):
        pair = self.join()
        operations = [rank.all_reduce_async(numpy.ones(4, numpy.float32)) for rank in pair]
        for original in (pair[0], operations[0]):
            for copied in (copy.copy, copy.deepcopy, pickle.dumps):
                with self.assertRaisesRegex(TypeError, "cannot be copied or pickled"):
                    copied(original)
        for operation in operations:
            operation.wait()
        support.each(2, lambda rank: pair[rank].all_reduce(numpy.ones(4, numpy.float32)))

    def test_a_url_with_a_nul_is_a_wrong_argument(self):
        with self.assertRaisesRegex(tributary.InvalidArgument, "NUL"):
            tributary.Communicator("tributary://127.0.0.1:1/job/1\0x", rank=0, world=1)

    def test_aggregators_whose_jobs_differ_are_refused(self):
        plain, mitigating = self.serve("id=1,sources=1"), self.serve("id=1,sources=1,mitigation=on")
        with self.assertRaisesRegex(tributary.Refused, "straggler mitigation at aggregator"):
            tributary.Communicator(
                f"tributary://{plain.address()},{mitigating.address()}/job/1", rank=0, world=1
            )

    def test_an_aggregator_under_two_names_is_a_wrong_argument(self):
        port = self.serve("id=1,sources=1").port
        with self.assertRaisesRegex(tributary.InvalidArgument, "have the same address"):
            tributary.Communicator(f"tributary://127.0.0.1:{port},localhost:{port}/job/1", rank=0, world=1)

    def test_overlapping_arrays_on_their_way(self):
        pair = self.join()
        array = numpy.zeros(100, numpy.float32)
        first = pair[0].all_reduce_async(array[:60])
        with self.assertRaises(tributary.Overlap):
            pair[0].all_reduce_async(array[59:])
        second = pair[0].all_reduce_async(array[60:])
        other = [pair[1].all_reduce_async(numpy.zeros(size, numpy.float32)) for size in (60, 40)]
        for operation in (first, second, *other):
            operation.wait()

    def test_an_unreachable_server(self):
        url = f"tributary://127.0.0.1:{support.free_port()}/job/1"
        with self.assertRaises(tributary.AggregatorGone):
            tributary.Communicator(url, rank=0, world=1, deadline_ms=DEADLINE_MS)

    def test_an_unknown_job(self):
        server = self.serve("id=1,sources=1")
        with self.assertRaisesRegex(tributary.Refused, "job"):
            tributary.Communicator(server.url(job=9), rank=0, world=1, deadline_ms=DEADLINE_MS)

    def test_a_wrong_world_size(self):
        server = self.serve("id=1,sources=3")
        with self.assertRaises(tributary.TributaryError):
            tributary.Communicator(server.url(), rank=0, world=2, deadline_ms=DEADLINE_MS)

    def test_a_job_that_is_full_and_a_rank_that_is_taken(self):
        self.join()
        with self.assertRaises(tributary.Refused):
            tributary.Communicator(self.server.url(), rank=1, world=2, deadline_ms=DEADLINE_MS)


class Failures(Pair):
    def disagree(self, first, second):
        pair = self.join(deadline_ms=DEADLINE_MS)
        return support.each(2, lambda rank: pair[rank].all_reduce((first, second)[rank]))

    def test_different_types(self):
        for error in self.disagree(numpy.ones(9, numpy.int32), numpy.ones(9, numpy.float32)):
            self.assertIsInstance(error, tributary.Mismatch)

    def test_different_lengths(self):
        errors = self.disagree(numpy.ones(9, numpy.int32), numpy.ones(10, numpy.int32))
        for error in errors:
            self.assertIsInstance(error, tributary.Mismatch)

    def test_a_sum_on_one_rank_and_a_mean_on_the_other(self):
        pair = self.join(deadline_ms=DEADLINE_MS)
        ones = [numpy.ones(9, numpy.float32) for _ in range(2)]
        for error in support.each(2, lambda rank: pair[rank].all_reduce(ones[rank], ("sum", "mean")[rank])):
            self.assertIsInstance(error, tributary.Mismatch)
            self.assertRegex(str(error), "rank 0 gives the sum of 9 float32 .*rank 1 .*mean"
                             "|rank 1 gives the mean of 9 float32 .*rank 0 .*sum")

    def test_a_rank_that_has_left_is_named(self):
        pair = self.join(deadline_ms=20_000)
        pair[1].close()
        with self.assertRaisesRegex(tributary.PeerLeft, "rank 1"):
            pair[0].all_reduce(numpy.ones(1, numpy.float32))

    def test_a_rank_that_is_silent_is_named_within_the_deadline(self):
        # Long enough that a busy machine's aggregator does not seem silent too.
        pair = self.join(deadline_ms=3 * DEADLINE_MS)
        with self.assertRaisesRegex(tributary.PeerMissing, "1"):
            pair[0].all_reduce(numpy.ones(1, numpy.float32))

    def test_the_aggregator_is_killed(self):
        pair = self.join(deadline_ms=DEADLINE_MS)
        self.server.process.kill()
        for error in support.each(2, lambda rank: pair[rank].all_reduce(numpy.ones(9, numpy.float32))):
            self.assertIsInstance(error, tributary.AggregatorGone)

    def test_infinities_are_refused_and_the_next_one_goes_well(self):
        pair = self.join()
        bad = [numpy.array([1, float("inf") if rank else 1], numpy.float32) for rank in range(2)]
        for error in support.each(2, lambda rank: pair[rank].all_reduce(bad[rank])):
            self.assertIsInstance(error, tributary.NotFinite)
        for report in support.each(2, lambda rank: pair[rank].all_reduce(numpy.ones(2, numpy.float32))):
            self.assertIsInstance(report, tributary.Report)

    def test_a_closed_communicator(self):
        pair = self.join()
        pair[0].close()
        with self.assertRaises(tributary.Closed):
            pair[0].all_reduce(numpy.ones(2, numpy.float32))


class Stragglers(Pair):
    def test_who_is_missing_is_reported_and_the_mean_is_over_the_others(self):
        pair = self.join("id=1,sources=2,mitigation=on,timeout_ms=5", gradients=100)
        # Blocks age out only after every rank has been heard.
        support.each(2, lambda rank: pair[rank].all_reduce(numpy.ones(1, numpy.float32)))
        array = numpy.full(150, 3, numpy.float32)
        report = pair[0].all_reduce(array, op="mean")
        self.assertEqual(array.tolist(), [3.0] * 150)
        self.assertEqual((report.blocks, report.degraded_blocks, report.missing), (2, 2, [1]))
        self.assertEqual(report.ranges, [tributary.DegradedRange(0, 150, [1])])
        # The late rank gets the same result.
        late = numpy.full(150, 8, numpy.float32)
        self.assertEqual(pair[1].all_reduce(late, op="mean").missing, [1])
        self.assertEqual(late.tolist(), [3.0] * 150)


class Walk(Pair):
    def test_random_tensors_match_numpy(self):
        seed = support.seed()
        pair = self.join(gradients=64, window=8)
        plan = random.Random(seed)
        steps = []
        for _ in range(60):
            dtype, op = plan.choice(("int32", "float32")), plan.choice(("sum", "mean"))
            count = plan.choice((0, 1, 63, 64, 65, plan.randrange(5000)))
            values = numpy.random.RandomState(plan.randrange(1 << 31))
            # Small whole numbers, so that every format is exact.
            steps.append((op, [values.randint(-99, 99, count).astype(dtype) for _ in range(2)]))

        def walk(rank):
            arrays = [step[1][rank].copy() for step in steps]
            operations = [
                pair[rank].all_reduce_async(array, op=step[0]) for step, array in zip(steps, arrays)
            ]
            for operation in operations:
                operation.wait()
            return arrays

        for rank, arrays in enumerate(support.each(2, walk)):
            for number, (op, inputs) in enumerate(steps):
                total = inputs[0] + inputs[1]
                expected = total if op == "sum" else (total / 2).astype(total.dtype)
                self.assertTrue(
                    numpy.array_equal(arrays[number], expected),
                    f"rank {rank}, step {number}; replay with TRIB_TEST_SEED={seed}",
                )


if __name__ == "__main__":
    unittest.main()
