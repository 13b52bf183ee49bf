# SPDX-License-Identifier: Apache-2.0
# Signals within and outside backward passes, in one process. The thread that sends them is the one that handles them.
import signal
import unittest

import support

support.need("torch")

import torch  # noqa: E402
from tributary import _signals  # noqa: E402


class Signals(unittest.TestCase):
    def setUp(self):
        for number in _signals.SIGNALS:
            self.addCleanup(signal.signal, number, signal.getsignal(number))
        signal.signal(signal.SIGINT, signal.default_int_handler)  # A shell's background jobs ignore it.
        _signals.postpone()
        self.values = torch.ones(2, requires_grad=True)

    def backward(self, *signals):
        """Sends the signals within a pass. Returns True if the pass continued after the last one."""
        went_on = []

        def send(gradient):
            for number in signals:
                signal.raise_signal(number)
            went_on.append(True)

        with self.values.register_hook(send):
            (2 * self.values).sum().backward()
        return bool(went_on)

    def test_ctrl_c_leaves_the_pass_at_its_end(self):
        with self.assertRaises(KeyboardInterrupt):
            self.backward(signal.SIGINT)
        self.assertEqual(self.values.grad.tolist(), [2, 2])

    def test_outside_a_pass_nothing_changes(self):
        with self.assertRaises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)

    def test_a_second_one_acts_at_once(self):
        with self.assertRaises(KeyboardInterrupt):
            self.backward(signal.SIGINT, signal.SIGINT)
        self.assertIsNone(self.values.grad)

    def test_a_handler_of_the_script_is_called_once(self):
        calls = []
        signal.signal(signal.SIGTERM, lambda number, frame: calls.append(number))
        _signals.postpone()
        _signals.postpone()
        self.assertTrue(self.backward(signal.SIGTERM))
        self.assertEqual(calls, [signal.SIGTERM])
        signal.raise_signal(signal.SIGTERM)
        self.assertEqual(calls, 2 * [signal.SIGTERM])

    def test_a_failed_pass_does_not_hold_back_the_next_signal(self):
        def fail(gradient):
            signal.raise_signal(signal.SIGINT)
            raise ValueError("the pass fails")

        with self.values.register_hook(fail), self.assertRaises(ValueError):
            (2 * self.values).sum().backward()
        with self.assertRaises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)

    def test_ignored_signals_stay_ignored(self):
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        _signals.postpone()
        self.assertTrue(self.backward(signal.SIGINT))


if __name__ == "__main__":
    unittest.main()
