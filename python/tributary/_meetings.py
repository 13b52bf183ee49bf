# SPDX-License-Identifier: Apache-2.0
"""Compares the ranks wherever all of them meet in Gloo, with straggler mitigation.

The aggregator takes a rank that makes fewer all-reduces than the others for a late one, and continues without it.
So each collective that Gloo handles starts with an all_gather of cards. A card has the rank's action and the
number of all-reduces that it has started. If these differ, every rank raises.

Counts:  All-reduces of callbacks do not count, because their number at a meeting depends on timing.
Order:   Cards travel in the order of the calls, also those that no rank waits for.
Errors:  Mismatch for different counts, InvalidArgument for a rank's refusal. Both on every rank.
Tests:   tests/python/ranks_unequal.py, tests/python/ranks_late.py
"""

import collections
import ctypes
import datetime
import struct
import threading

import torch

from . import errors
from ._announce import warn
from ._work import WORKS_KEPT, AfterWork, Rest, callback_depth

# Actions of a rank at a meeting.
COLLECTIVE = 0  # A collective of the script or of DDP, or a report.
REHEARSED = 1  # The call of take_gradients() after the rehearsal.
REFUSED = 2  # It raises InvalidArgument with the card's text.
FAILED = 3  # Its communicator has failed, so its count says nothing until rejoin().
BUCKET = 4  # It starts the sum of a bucket in the rehearsal.

_HEAD = struct.Struct("<qq")  # Count and action. The text follows, ended by 0.
CARD_BYTES = 512
NO_LIMIT = Rest()

REMEDY = (
    "With straggler mitigation nobody waits for a rank that makes fewer, so its parameters differ. Give every rank "
    "the same number of batches, as DistributedSampler does (join() is refused), and let no rank skip or repeat a "
    "backward pass or an all-reduce"
)
IN_BRANCH = (
    "a rank that takes the gradients skips a collective that follows backward() in the branch of "
    "take_gradients(); move the collective out of the branch. A second DistributedDataParallel needs a branch and a "
    "CatchUp of its own"
)


class Meetings:
    """Belongs to a TributaryGroup, and counts the all-reduces that it has started since it joined."""

    def __init__(self, group):
        self._group = group
        self._lock = threading.Lock()
        self._started = 0
        self._pending = collections.deque()  # Cards, oldest first. They also keep works alive for C++.
        self.difference = None  # The exception after which the group is finished.

    def count(self):
        """Counts an all-reduce. Raises the Mismatch that a meeting has found."""
        if self.difference is not None:
            raise self.difference
        self._started += callback_depth() == 0

    def restart(self):
        """Counts from 0. Called when all ranks have joined again."""
        self._started = 0
        self._pending.clear()
        self.difference = None

    def collective(self, start):
        """Returns the work of start(), a collective of all ranks, which also compares them."""
        cards = self._send(COLLECTIVE)
        work = start()
        if work is None:  # Has waited.
            cards.check()
            return None
        cards.met = _MetWork(cards, work)
        return cards.met

    def meet(self, action=COLLECTIVE, timeout_s=None):
        """Waits for all ranks. Raises if they differ."""
        self._send(action)
        rest = Rest(None if timeout_s is None else datetime.timedelta(seconds=timeout_s))
        for cards in list(self._pending):
            if not cards.checked:
                cards.check(rest)

    def announce(self, action):
        """Sends a card. Does not wait for the other ranks: the next meet() compares them."""
        self._send(action)

    def refuse(self, text):
        """Makes the other ranks raise InvalidArgument at their next meeting. Does not wait for them."""
        self._send(REFUSED, text).checked = True  # The caller raises it.

    def end(self, timeout_s):
        """Compares the ranks before this one leaves the job.

        Gloo's thread may hold the last cards for a moment longer. If it then freed their Python objects while the
        interpreter ends, it would abort the process. So these cards live until the process ends.
        """
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(self._pending))
        try:
            self.meet(timeout_s=timeout_s)
        except errors.TributaryError:
            raise
        except RuntimeError as error:  # Gloo's, or its timeout.
            submitted, heard = self._group.communicator.progress()
            if heard > submitted:
                raise self._differ(
                    f"this rank leaves, but the others have summed {heard - submitted} packets more. {REMEDY}"
                ) from error
            warn(
                "the ranks' numbers of all-reduces could not be compared at the end of this rank, because another one "
                f"has ended or is busy: {error}"
            )

    def _send(self, action, text=""):
        group = self._group
        if group.error is not None and group.error is not self.difference:
            action = FAILED
        content = text.encode()[: CARD_BYTES - _HEAD.size - 1].decode(errors="ignore").encode()
        # Gloo's thread writes the cards outside the mode.
        with torch.inference_mode(False), self._lock:
            own = torch.zeros(CARD_BYTES, dtype=torch.uint8, device="cpu")
            packed = _HEAD.pack(self._started, action) + content
            own[: len(packed)] = torch.frombuffer(bytearray(packed), dtype=torch.uint8)
            every = [torch.empty_like(own) for _ in range(group.size())]
            cards = _Cards(self, group.inner.allgather([every], [own]), every, own)
            self._pending.append(cards)
            while self._pending[0].is_over() or (
                len(self._pending) > WORKS_KEPT and self._pending[0].is_done()
            ):
                self._pending.popleft().note()
        return cards

    def judge(self, cards):
        """Raises if the cards, pairs of a count and an action with a text, differ."""
        for rank, (_, action, text) in enumerate(cards):
            if action == REFUSED:
                raise errors.InvalidArgument(f"rank {rank} has refused: {text}")
        if any(action == FAILED for _, action, _ in cards):
            return
        counts = [count for count, _, _ in cards]
        actions = {action for _, action, _ in cards}
        if actions & {REHEARSED, BUCKET} and (len(actions) > 1 or len(set(counts)) > 1):
            raise errors.InvalidArgument(IN_BRANCH)
        if len(set(counts)) > 1:
            raise self._differ(f"the ranks have made different numbers of all-reduces: {_by_count(counts)}. {REMEDY}")

    def _differ(self, text):
        self.difference = self._group.error = errors.Mismatch(text)
        return self.difference


def _by_count(counts):
    """Returns a text like "rank 0, 1: 60, rank 2: 57"."""
    ranks = {}
    for rank, count in enumerate(counts):
        ranks.setdefault(count, []).append(str(rank))
    return ", ".join(f"rank {', '.join(some)}: {count}" for count, some in ranks.items())


class _Cards:
    """The cards of one meeting, which may still be on their way."""

    def __init__(self, meetings, work, every, own):
        self.work = work
        self.checked = False
        self.met = None  # The _MetWork, kept for C++, which keeps only its own half alive.
        self._meetings = meetings
        self._every = every
        self._own = own  # Kept, so that Gloo's thread does not free a Python object. See Meetings.end().

    def is_over(self):
        """Returns True if nobody will ask for them again."""
        return self.checked and self.met is None

    def is_done(self):
        """Returns True if neither the cards nor the collective need a wait."""
        return self.work.is_completed() and (self.met is None or self.met.is_completed())

    def check(self, rest=NO_LIMIT):
        """Waits for the cards, for the rest of a timeout at most. Raises if they differ."""
        if not self.checked:
            self.work.wait(*rest.arguments())
        self.judge()

    def judge(self):
        """Compares cards that have come. Raises if they differ."""
        self.checked = True
        self._meetings.judge([_unpacked(card.numpy().tobytes()) for card in self._every])

    def note(self):
        """Compares cards that have come, for a collective that nobody has waited for. Never raises."""
        self.met = None
        try:
            self.checked or self.check()
        except RuntimeError:  # Kept as `difference`, or the collective itself has failed.
            pass


def _unpacked(card):
    count, action = _HEAD.unpack_from(card)
    return count, action, card[_HEAD.size :].rstrip(b"\0").decode()


class _MetWork(AfterWork):
    """A work of Gloo, and the cards that were sent before it."""

    def __init__(self, cards, work):
        super().__init__([cards.work, work], None, cards.judge)
        self._cards = cards

    def wait(self, timeout=None):
        rest = Rest(timeout)
        self._cards.check(rest)
        outcome = self._works[1].wait(*rest.arguments())
        self._cards.met = None
        return outcome

    def is_completed(self):
        return all(work.is_completed() for work in self._works)

    def is_success(self):
        return self.is_completed() and all(work.is_success() for work in self._works)

    def result(self):
        return self._works[1].result()

    def _result_or_raise(self, done):
        super()._result_or_raise(done)
        return done.value()[1].value()
