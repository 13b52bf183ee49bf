# SPDX-License-Identifier: Apache-2.0
"""Combinations of factors in which each allowed pair of values occurs."""

import itertools
import random

TRIES = 30  # Combinations drawn for each one chosen.


def combinations(factors, allowed, seed):
    """Returns dictionaries {factor: value} that cover every pair of values of two factors.

    Each is allowed(combination). A pair that no random combination contains is left out.
    """
    draw = random.Random(seed)
    names = list(factors)
    left = {
        frozenset(((one, x), (other, y)))
        for one, other in itertools.combinations(names, 2)
        for x in factors[one]
        for y in factors[other]
    }

    def pairs(chosen):
        return {frozenset(pair) for pair in itertools.combinations(chosen.items(), 2)}

    def candidates():
        for wanted in draw.sample(sorted(left, key=sorted), min(len(left), TRIES)):
            for _ in range(TRIES):
                chosen = {name: draw.choice(factors[name]) for name in names} | dict(wanted)
                if allowed(chosen):
                    yield chosen
                    break
            else:
                left.discard(wanted)

    found = []
    while left:
        best = max(candidates(), key=lambda chosen: len(pairs(chosen) & left), default=None)
        if best is not None:
            found.append(best)
            left -= pairs(best)
    return found
