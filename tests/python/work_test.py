# SPDX-License-Identifier: Apache-2.0
# When a future may be completed: after a hook has attached its callbacks, also on a busy machine.
import threading
import unittest

import support

support.need("torch")

from tributary._work import ATTACH_S, ThreadProgress, wait_until_attached  # noqa: E402


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


if __name__ == "__main__":
    unittest.main()
