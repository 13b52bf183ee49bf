# SPDX-License-Identifier: Apache-2.0
# Method: priorities by hand, pass by pass. Needs no torch.
import unittest

from tributary import _urgency


def priorities_of(urgency, count):
    """Returns the priorities of a backward pass with `count` all-reduces."""
    backward_ended = object()
    return [urgency.next(backward_ended) for _ in range(count)]


class Urgency(unittest.TestCase):
    def test_the_last_bucket_is_the_most_urgent(self):
        urgency = _urgency.Urgency(4)
        self.assertEqual(priorities_of(urgency, 5), [0, 0, 0, 0, 0])  # Their number is not known.
        self.assertEqual(priorities_of(urgency, 5), [3, 3, 2, 1, 0])
        self.assertEqual(priorities_of(urgency, 5), [3, 3, 2, 1, 0])

    def test_a_pass_with_another_number(self):
        urgency = _urgency.Urgency(2)
        priorities_of(urgency, 3)
        self.assertEqual(priorities_of(urgency, 5), [1, 1, 0, 0, 0])
        self.assertEqual(priorities_of(urgency, 2), [1, 1])  # Late, not wrong.
        self.assertEqual(priorities_of(urgency, 2), [1, 0])

    def test_outside_a_pass(self):
        urgency = _urgency.Urgency(4)
        priorities_of(urgency, 2)
        backward_ended = object()
        self.assertEqual([urgency.next(one) for one in (None, backward_ended, None, backward_ended)], [0, 1, 0, 0])

    def test_without_priorities(self):
        urgency = _urgency.Urgency(1)
        priorities_of(urgency, 3)
        self.assertEqual(priorities_of(urgency, 3), [0, 0, 0])


if __name__ == "__main__":
    unittest.main()
