# SPDX-License-Identifier: Apache-2.0
# The order of submissions that wait for copies. Events play the copies of a GPU.
import threading
import unittest

import support

support.need("torch")

from tributary import _staging, errors  # noqa: E402


class Done:
    """An operation that is done."""

    def __init__(self, report):
        self._report = report

    def done(self):
        return True

    def wait(self, timeout=None):
        return self._report


class Submitting(unittest.TestCase):
    def setUp(self):
        self.submitter = _staging.Submitter()
        self.addCleanup(self.submitter.close)
        self.started = []

    def start(self, name):
        def submit():
            self.started.append(name)
            return Done(name)

        return submit

    def test_without_copies_it_submits_at_once(self):
        operation = self.submitter.submit(self.start("a"))
        self.assertIsInstance(operation, Done)
        self.assertEqual(self.started, ["a"])

    def test_everything_after_a_copy_waits_for_it(self):
        copied = threading.Event()
        first = self.submitter.submit(self.start("a"), copied.wait)
        second = self.submitter.submit(self.start("b"))
        self.assertFalse(first.done())
        self.assertIsNone(second.wait(0))
        self.assertEqual(self.started, [])
        copied.set()
        self.assertEqual(second.wait(support.LIMIT_S), "b")
        self.assertEqual(first.wait(), "a")
        self.assertTrue(first.done())
        self.assertEqual(self.started, ["a", "b"])

    def test_a_refusal_is_raised_by_wait(self):
        def refuse():
            raise errors.Overlap("they overlap")

        refused = self.submitter.submit(refuse, lambda: None)
        with self.assertRaisesRegex(errors.Overlap, "they overlap"):
            refused.wait()
        self.assertTrue(refused.done())


if __name__ == "__main__":
    unittest.main()
