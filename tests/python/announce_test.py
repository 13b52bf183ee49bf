# SPDX-License-Identifier: Apache-2.0
# Warnings that name the user's line, and the log of stragglers, with a clock of the test's own.
import logging
import threading
import unittest
import warnings

import tributary
from tributary import _announce


def module(name, function):
    """Returns a function of a module of this name, which calls `function`."""
    variables = {"__name__": name, "function": function}
    exec(compile("def call():\n    function()", f"/{name}.py", "exec"), variables)
    return variables["call"]


def in_package():
    """Returns a function of this package that warns."""
    variables = {"__name__": "tributary._work", "warn": _announce.warn}
    exec("def call():\n    warn('late', RuntimeWarning)", variables)
    return variables["call"]


class Warn(unittest.TestCase):
    def caught(self, function):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            function()
        self.assertEqual([(str(one.message), one.category) for one in caught], [("late", RuntimeWarning)])
        return caught[0]

    def test_names_the_line_that_called_the_package_through_torch(self):
        warned = self.caught(module("script", module("torch.nn.parallel", in_package())))
        self.assertEqual((warned.filename, warned.lineno), ("/script.py", 2))

    def test_names_the_package_in_a_thread_of_its_own(self):
        def run():
            thread = threading.Thread(target=in_package())
            thread.start()
            thread.join()

        self.assertEqual(self.caught(run).filename, "tributary")


class Log(unittest.TestCase):
    def setUp(self):
        self.now = 0.0
        self.log = _announce.EventLog(clock=lambda: self.now)

    def lines(self, *events):
        """Logs events, given as kind and ranks. Returns the lines."""
        with self.assertLogs("tributary", logging.DEBUG) as logged:
            logging.getLogger("tributary").debug("begin")
            for kind, *ranks in events:
                self.log(tributary.Event(kind, ranks, f"about {ranks}"))
        return [f"{record.levelname} {record.getMessage()}" for record in logged.records[1:]]

    def test_a_straggler_has_a_line_every_ten_seconds(self):
        self.assertEqual(self.lines(("straggler", 2)), ["WARNING straggler: about [2]"])
        self.now = 9.9
        self.assertEqual(self.lines(*[("straggler", 2)] * 3), [])
        self.now = 10.0
        self.assertEqual(
            self.lines(("straggler", 2)), ["WARNING straggler: about [2] (3 more such lines left out before)"]
        )
        self.now = 20.0
        self.assertEqual(self.lines(("straggler", 2)), ["WARNING straggler: about [2]"])

    def test_another_straggler_has_lines_of_its_own(self):
        self.lines(("straggler", 2))
        self.assertEqual(self.lines(("straggler", 2, 0)), ["WARNING straggler: about [2, 0]"])
        self.now = 10.0  # Rank 2's line of the event of both ranks was left out.
        self.assertEqual(
            self.lines(("straggler", 2)), ["WARNING straggler: about [2] (1 more such lines left out before)"]
        )

    def test_waits_are_warnings_and_the_rest_is_for_debugging(self):
        self.assertEqual(
            self.lines(("waiting", 1), ("waiting", 1), ("returned", 1), ("degraded", 1)),
            ["WARNING waiting: about [1]"] * 2 + ["DEBUG returned: about [1]", "DEBUG degraded: about [1]"],
        )


if __name__ == "__main__":
    unittest.main()
