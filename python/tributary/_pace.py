# SPDX-License-Identifier: Apache-2.0
"""Decides for a late rank whether it takes the next step from the others or computes it.

A step that is taken needs no forward and no backward pass, so a rank normally catches up by taking. But a rank that
loads data for each step may need as long for a step as the others. It would then take every step and never catch up.
The others do not wait for a rank that contributes nothing. They do wait for one that contributes late. So such a rank
computes its steps instead, and catches up while the others wait for it.
"""

# Of STREAK steps taken in a row, a rank must gain GAIN on the others, or it computes until it has caught up.
STREAK = 8
GAIN = 2


class Pace:
    """Counts a rank's steps, and the times that it was late.

    steps:          synchronised steps.
    steps_taken:    those with gradients taken from the others.
    late_spells:    times that it fell behind.
    rejoined:       times that it contributed again afterwards.
    longest_spell:  the largest number of steps between the two.
    """

    def __init__(self):
        self.steps = 0
        self.steps_taken = 0
        self.late_spells = 0
        self.rejoined = 0
        self.longest_spell = 0
        self._spell = 0  # Steps since it fell behind; 0: it is not behind.
        self._streak = 0  # Steps taken in a row.
        self._lag_at_streak = 0
        self._computes = False

    def takes(self, lag):
        """Returns True if the rank takes its next step. Called once for each step.

        `lag` is the number of whole steps that the others have finished without this rank.
        """
        if lag == 0:
            self.rejoined += self._spell > 0
            self._spell, self._streak, self._computes = 0, 0, False
            return False
        self.late_spells += self._spell == 0
        self._spell += 1
        self.longest_spell = max(self.longest_spell, self._spell)
        if self._streak % STREAK == 0:
            gained = self._lag_at_streak - lag
            self._computes = self._computes or self._streak > 0 and gained < GAIN
            self._lag_at_streak = lag
        self._streak += not self._computes
        return not self._computes
