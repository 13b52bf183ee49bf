# SPDX-License-Identifier: Apache-2.0
# When a future may be completed: after a hook has attached its callbacks, also on a busy machine. What works that are
# waited for together share, and their events in the profiler.
import datetime
import threading
import unittest
import weakref
from unittest import mock

import support

support.need("torch")

import torch  # noqa: E402
from tributary import _meetings, _work, errors  # noqa: E402
from tributary._profile import recorded  # noqa: E402
from tributary._work import (  # noqa: E402
    ATTACH_S, LEAST_WAIT, WORKS_KEPT, AfterWork, KeptWorks, ThreadProgress, TributaryWork, wait_for_pass,
    wait_until_attached,
)


class Progress(unittest.TestCase):
    def start(self, function):
        """Runs function(progress) in a thread. Returns the thread's progress and the thread."""
        created, made = threading.Event(), []

        def run():
            made.append(ThreadProgress())
            created.set()
            function(made[0])

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        self.assertTrue(created.wait(support.LIMIT_S))
        return made[0], thread

    def test_a_thread_that_waits_is_blocked(self):
        go_on = threading.Event()
        progress, thread = self.start(lambda _: go_on.wait(support.LIMIT_S))
        pause = threading.Event()
        for _ in range(1000):
            self.assertFalse(progress.has_computed(1))
            pause.wait(ATTACH_S)
            if progress.is_blocked():
                break
        else:
            self.fail("never blocked")
        go_on.set()
        thread.join(support.LIMIT_S)
        with self.assertRaises(OSError):  # The thread ends soon after join().
            for _ in range(1000):
                progress.has_computed(ATTACH_S)
                pause.wait(ATTACH_S)

    def test_a_thread_that_computes_is_not_blocked(self):
        def compute(_):
            while not enough.is_set():
                pass

        enough = threading.Event()
        progress, thread = self.start(compute)
        pause = threading.Event()
        while not progress.has_computed(ATTACH_S):
            pause.wait(ATTACH_S)
            self.assertFalse(progress.is_blocked())
        enough.set()
        thread.join(support.LIMIT_S)


class Group:
    """The calls of a group that a work makes."""

    def take_report(self, work, report):
        work.staged.mul_(2)  # As for a sum that lacks ranks.


class Operation:
    """An operation that is done when the test says so."""

    def __init__(self, tensor):
        self.is_done = False
        self._keep_alive = tensor

    def done(self):
        return self.is_done

    def wait(self, timeout):
        return self.is_done or None


def new_work(tensor=None, finish=None):
    """Returns a work whose tensor is summed in a copy, and its operation."""
    tensor = torch.ones(4)[::2] if tensor is None else tensor
    staged = tensor.contiguous()
    operation = Operation(staged)
    return TributaryWork(Group(), operation, "sum", 0, tensor, staged, finish=finish), operation


class Completed(unittest.TestCase):
    def test_means_that_the_results_are_written(self):
        written = []
        work, operation = new_work(finish=lambda: written.append(True))
        after = AfterWork([work], [], lambda: written.append(True))
        self.assertFalse(after.is_completed())
        operation.is_done = True
        self.assertTrue(work.is_completed())
        self.assertEqual(work.result()[0].tolist(), [2, 2])
        self.assertEqual(len(written), 1)
        self.assertTrue(after.is_completed() and after.is_completed())
        self.assertEqual(len(written), 2)

    def test_a_work_that_another_thread_finishes_is_not_complete(self):
        seen = []
        work, operation = new_work(finish=lambda: seen.append(work.is_completed()))
        operation.is_done = True
        self.assertTrue(work.wait())
        self.assertEqual(seen, [False])


class Failed(unittest.TestCase):
    def test_only_the_caller_that_waits_gets_the_error(self):
        def fail():
            raise ValueError("results cannot be written")

        work, operation = new_work(finish=fail)
        operation.is_done = True
        self.assertTrue(work.settle() and work.is_settled())  # As a later call for the same memory does.
        with self.assertRaisesRegex(ValueError, "cannot be written"):
            work.wait()
        self.assertFalse(work.is_success())


class SlowWork:
    """A work that takes two seconds of the test's clock. Keeps the timeouts of its waits."""

    def __init__(self, clock):
        self._clock = clock
        self.timeouts = []

    def wait(self, *timeout):
        self.timeouts.append([one.total_seconds() for one in timeout])
        self._clock.now += 2


class Clock:
    """Takes the place of the module time."""

    now = 100.0

    def monotonic(self):
        return self.now


class Timeouts(unittest.TestCase):
    def setUp(self):
        self.clock = Clock()
        patched = mock.patch.object(_work, "time", self.clock)
        patched.start()
        self.addCleanup(patched.stop)
        self.works = [SlowWork(self.clock) for _ in range(3)]

    def timeouts(self):
        return [work.timeouts for work in self.works]

    def test_several_works_share_one(self):
        after = AfterWork(self.works, [])
        after.wait(datetime.timedelta(seconds=3))
        self.assertEqual(self.timeouts(), [[[3]], [[1]], [[LEAST_WAIT.total_seconds()]]])

    def test_none_and_zero_are_no_limit(self):
        for arguments in ((), (None,), (datetime.timedelta(0),)):
            AfterWork(self.works, []).wait(*arguments)
        self.assertEqual(self.timeouts(), [[[]] * 3] * 3)

    def test_cards_and_the_collective_behind_them_share_one(self):
        cards, collective = self.works[:2]
        meetings = mock.Mock()
        met = _meetings._MetWork(_meetings._Cards(meetings, cards, [], None), collective)
        met.wait(datetime.timedelta(seconds=3))
        self.assertEqual(self.timeouts(), [[[3]], [[1]], []])
        meetings.judge.assert_called_once()

    def test_the_meeting_at_the_end_has_one_for_all_cards(self):
        meetings = _meetings.Meetings(mock.Mock(error=None, size=lambda: 1))
        meetings.judge = lambda cards: None
        meetings._pending.extend(_meetings._Cards(meetings, work, [], None) for work in self.works)
        with mock.patch.object(meetings, "_send"):
            meetings.meet(timeout_s=3)
        self.assertEqual(self.timeouts(), [[[3]], [[1]], [[LEAST_WAIT.total_seconds()]]])


class Profiled(unittest.TestCase):
    def test_a_wait_is_an_event_of_the_profiler(self):
        work, operation = new_work()
        operation.is_done = True
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
            work.wait()
        self.assertIn("tributary:wait", [event.key for event in profile.key_averages()])

    def test_without_a_profiler_nothing_is_made(self):
        self.assertIs(recorded("tributary:wait"), recorded("tributary:all_reduce"))


class Memory(unittest.TestCase):
    def test_a_finished_work_keeps_only_its_result(self):
        work, operation = new_work()
        copies = [weakref.ref(work.staged), weakref.ref(operation)]
        operation.is_done = True
        del operation
        self.assertTrue(work.wait() and work.wait() and work.is_done() and work.is_success())
        self.assertEqual([copy() for copy in copies], [None, None])
        self.assertEqual(work.result()[0].tolist(), [2, 2])

    def test_a_work_is_dropped_when_a_caller_has_waited_for_it(self):
        kept = KeptWorks()
        work, operation = new_work()
        self.assertEqual(kept.add(work), [])
        operation.is_done = True
        self.assertEqual(kept.add(new_work()[0]), [])
        work.wait()
        self.assertEqual(kept.add(new_work()[0]), [work])

    def test_a_work_that_is_done_is_kept_for_a_while(self):
        kept = KeptWorks()
        works = [new_work() for _ in range(WORKS_KEPT)]
        for work, operation in works:
            operation.is_done = True
            self.assertEqual(kept.add(work), [])
        self.assertEqual(kept.add(new_work()[0]), [works[0][0]])


class Submitter:
    """A thread of a backward pass that gets no CPU, and blocks after so many questions."""

    def __init__(self, ended, ends_after, blocks_after=1000):
        self.asked = 0
        self._ended, self._ends_after, self._blocks_after = ended, ends_after, blocks_after

    def has_computed(self, seconds):
        return False

    def is_blocked(self):
        self.asked += 1
        if self.asked == self._ends_after:
            self._ended.set()
        return self.asked == self._blocks_after


class Attaching(unittest.TestCase):
    def test_a_thread_without_a_cpu_is_waited_for(self):
        ended = threading.Event()
        wait_until_attached(ended, Submitter(ended, ends_after=5))
        self.assertTrue(ended.is_set())

    def test_a_thread_that_waits_for_the_future_gets_it(self):
        ended = threading.Event()
        submitter = Submitter(ended, ends_after=1000, blocks_after=2)
        wait_until_attached(ended, submitter)
        self.assertEqual(submitter.asked, 2)


class WaitingForAPass(unittest.TestCase):
    """A callback waits for the end of a backward pass before it starts an all-reduce."""

    def test_that_computes(self):
        ended = threading.Event()
        wait_for_pass(ended, Submitter(ended, ends_after=5), limit_s=0.001)
        self.assertTrue(ended.is_set())

    def test_that_is_blocked_fails_at_the_limit(self):
        ended = threading.Event()
        submitter = Submitter(ended, ends_after=1000, blocks_after=2)
        with self.assertRaisesRegex(errors.InvalidArgument, "has waited for 0.0 s.*return that future from the hook"):
            wait_for_pass(ended, submitter, limit_s=0.001)
        self.assertEqual(submitter.asked, 2)

    def test_whose_thread_has_ended(self):
        submitter = mock.Mock(has_computed=mock.Mock(side_effect=OSError))
        wait_for_pass(threading.Event(), submitter, limit_s=support.LIMIT_S)


class Cards(unittest.TestCase):
    def judge(self, *cards):
        _meetings.Meetings(mock.Mock()).judge([(count, action, "") for count, action in cards])

    def test_of_a_bucket_of_the_rehearsal_meet_their_like_only(self):
        bucket, collective = _meetings.BUCKET, _meetings.COLLECTIVE
        self.judge((3, bucket), (3, bucket))
        self.judge((3, bucket), (2, _meetings.FAILED))  # Its count says nothing.
        for other in ((4, bucket), (3, collective), (3, _meetings.REHEARSED)):
            with self.assertRaisesRegex(errors.InvalidArgument, "out of the branch"):
                self.judge((3, bucket), other)


if __name__ == "__main__":
    unittest.main()
