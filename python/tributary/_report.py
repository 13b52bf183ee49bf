# SPDX-License-Identifier: Apache-2.0
"""The effect of stragglers on an epoch: a line on rank 0, and scalars for TensorBoard if it is installed."""

import os
import sys

import torch

from ._announce import warn
from ._group import active_group

LOG_DIR = "TRIBUTARY_TENSORBOARD"
SUMS = ("all_reduces", "blocks", "degraded_blocks")  # The same on every rank.
OF_RANKS = ("steps_taken", "late_spells", "rejoined")  # Each rank counts its own.

_writer = None


def end_epoch(epoch, writer=None):
    """Reports the steps since the previous call. Every rank must call it; it waits for all of them.
    With mitigation it raises Mismatch if the ranks have made different numbers of all-reduces.

    Rank 0 prints a line. It also writes scalars to `writer`, anything with add_scalar(name, value, epoch),
    or to a SummaryWriter in the folder that TRIBUTARY_TENSORBOARD names.
    Returns a dictionary: all_reduces, blocks, degraded_blocks, degraded_share, and by rank the lists
    missing_share, steps_taken, late_spells, rejoined.
    """
    group = active_group()
    counts = _count(group)
    before, group.counts_reported = group.counts_reported, counts
    epoch_counts = _shares({name: _minus(counts[name], before.get(name)) for name in counts})
    if group.rank() == 0:
        print(line(epoch, epoch_counts), file=sys.stderr)
        writer = writer or _default_writer()
        for name, value in scalars(epoch_counts) if writer else ():
            writer.add_scalar(name, value, epoch)
    return epoch_counts


def _count(group):
    """Returns the counts since the beginning, those of ranks as lists."""
    summary = group.summary()
    group.compare_calls()
    mine = torch.tensor([summary.get(name, 0) for name in OF_RANKS], device="cpu")
    every = [torch.empty_like(mine) for _ in range(group.size())]
    group.inner.allgather([every], [mine]).wait()
    counts = {name: summary[name] for name in SUMS}
    counts["missing"] = [summary["missing"].get(str(rank), 0) for rank in range(group.size())]
    counts.update(zip(OF_RANKS, torch.stack(every).t().tolist()))
    return counts


def _minus(after, before):
    if before is None:
        return after
    if isinstance(after, list):
        return [one - other for one, other in zip(after, before)]
    return after - before


def _shares(counts):
    """Adds the shares of all blocks."""
    blocks = max(1, counts["blocks"])
    counts["degraded_share"] = counts["degraded_blocks"] / blocks
    counts["missing_share"] = [missing / blocks for missing in counts.pop("missing")]
    return counts


def line(epoch, counts):
    """Returns the line of an epoch."""
    parts = [f"{100 * counts['degraded_share']:.1f} % of {counts['blocks']} blocks degraded"]
    for rank, share in enumerate(counts["missing_share"]):
        spells, taken = counts["late_spells"][rank], counts["steps_taken"][rank]
        if spells or taken:
            parts.append(
                f"rank {rank} missing from {100 * share:.1f} %, late {spells} times, took {taken} steps, "
                f"contributed again {counts['rejoined'][rank]} times"
            )
        elif share:
            parts.append(f"rank {rank} missing from {100 * share:.1f} %")
    if len(parts) == 1:
        parts.append("no rank late")
    return f"tributary: epoch {epoch}: {'; '.join(parts)}"


def scalars(counts):
    """Yields names and values for TensorBoard."""
    yield "tributary/degraded_share", counts["degraded_share"]
    for name in ("missing_share", *OF_RANKS):
        for rank, value in enumerate(counts[name]):
            yield f"tributary/{name}/rank{rank}", value


def _default_writer():
    """Returns the SummaryWriter of TRIBUTARY_TENSORBOARD, or None."""
    global _writer
    folder = os.environ.get(LOG_DIR)
    if _writer is None and folder:
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError:
            del os.environ[LOG_DIR]  # Warn once.
            warn(f"{LOG_DIR}={folder}, but TensorBoard is not installed; no scalars are written")
            return None
        _writer = SummaryWriter(folder)
    return _writer
