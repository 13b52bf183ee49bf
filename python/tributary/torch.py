# SPDX-License-Identifier: Apache-2.0
"""The torch.distributed back end "tributary".

    import tributary.torch
    torch.distributed.init_process_group("tributary")   # instead of "gloo"

The aggregator handles all_reduce and reduce_scatter with SUM or AVG of dense float32, float16 and bfloat16
tensors, and SUM of int32. DistributedDataParallel reduces gradients this way. An inner Gloo group handles
everything else: other types and operations, broadcast, all_gather, barrier, send, … (_collectives.py). A
process has one group with the aggregator; groups created while it exists use Gloo only.

Stragglers: with mitigation a mean or a sum of gradients may lack ranks; other sums go through Gloo and wait.
A range of a sum of gradients is scaled by the world size over the number of ranks in it. DDP divides by the
world size, so it gets the mean over the ranks in the sum. Every rank scales alike, so parameters stay
identical. on_degraded(), summary() and end_epoch() report what was missing.

Threads: one for each depth of callbacks (_work.py). They sleep until an operation whose future was
         requested ends.
Errors:  wait() raises the exceptions of tributary.errors. DDP raises a RuntimeError with the same
         text, because C++ is in between; last_error() returns the exception itself.
Tests:   tests/python/
"""

import datetime
import os

import torch.distributed as dist
from torch.distributed import distributed_c10d
from torch.distributed.constants import default_pg_timeout

from . import _branch, _guard, _hierarchical, _monitored, _one_line, _signals, _uneven, aggregators, errors
from ._catch_up import CatchUp
from ._ending import end_active, leave_at_end
from ._gloo import create_gloo, of_new_group
from ._group import (
    BACKEND,
    Degraded,
    TributaryGroup,
    active_group,
    active_or_none,
    set_active,
)
from ._guard import check_parameters
from ._report import end_epoch
from .communicator import keys_of, url_with

DEADLINE_MS = 60_000  # As kDeadlineDefault of host/worker_config.h. The library reports it only after a join.
DEADLINE_MS_MAX = 86_400_000  # One day: the largest value of the URL's deadline_ms.


def _create(store, rank, world, timeout):
    """Called by init_process_group() and new_group()."""
    _one_line.hide_tracebacks()
    _signals.postpone()
    leave_at_end()
    store = of_new_group(store, rank)

    def make_inner(deadline_ms):
        # torch's own default, 30 minutes, would keep ranks waiting for a dead one.
        limit = timeout if _is_given(timeout) else datetime.timedelta(milliseconds=deadline_ms)
        return create_gloo("tributary-inner", store, rank, world, limit, deadline_ms / 1000)

    if _hierarchical.wanted():
        return _create_hierarchical(store, rank, world, timeout, make_inner)
    active = active_or_none()
    if active is not None and not active.closed and _is_known(active):  # Called by new_group().
        return make_inner(active.communicator.info()["deadline_ms"])
    if dist.is_initialized() and world != dist.get_world_size():
        # Several groups of a part of the ranks would share the job's session.
        return make_inner(_deadline_ms(timeout))
    _leave_previous()
    _guard.install()
    active = _join(store, rank, world, timeout, make_inner)
    set_active(active)
    if active.mitigated() or active.has_priorities():
        _uneven.install()
    return active


def _is_known(group):
    """Returns True if torch has the group: destroy_process_group() has not dropped it."""
    return any(known is group for known in distributed_c10d._pg_map)


def _is_given(timeout):
    """Returns True if the script gave this timeout, also if it equals torch's default.

    torch passes its own default as this very object, in 1.13 and 2.x.
    """
    return timeout is not default_pg_timeout


def _deadline_ms(timeout):
    """Returns the deadline of TRIBUTARY_URL, else the timeout of init_process_group() up to a day, else 60 s."""
    keys = keys_of(os.environ.get("TRIBUTARY_URL", ""))
    if keys.get("deadline_ms", "").isdecimal():  # The library refuses other texts.
        return int(keys["deadline_ms"])
    if _is_given(timeout):
        return min(max(1, round(1000 * timeout.total_seconds())), DEADLINE_MS_MAX)
    return DEADLINE_MS


def _join(store, rank, world, timeout, make_inner):
    """Returns a group of `world` ranks that the aggregator knows."""
    deadline_ms = _deadline_ms(timeout)
    url = aggregators.url(store, rank, world, deadline_ms / 1000) if aggregators.wanted() else None
    options = {"rank": rank, "world": world}
    if "deadline_ms" not in keys_of(os.environ.get("TRIBUTARY_URL", "")):
        options["deadline_ms"] = deadline_ms
    return TributaryGroup(url_with(url, options), rank, world, make_inner)


def _create_hierarchical(store, rank, world, timeout, make_inner):
    """As _create(), if the ranks of a machine add up their tensors first."""
    deadline_ms = _deadline_ms(timeout)
    if dist.is_initialized():  # Called by new_group().
        return make_inner(deadline_ms)
    machine, local_rank, count = _hierarchical.place_of(rank, world)
    part = dist.PrefixStore(f"tributary-machine-{machine}", store)
    above = dist.PrefixStore("tributary-leaders", store)

    def join():
        def make_inner_of_leaders(limit_ms):
            limit = datetime.timedelta(milliseconds=limit_ms)
            return create_gloo("tributary-inner", above, machine, world // count, limit, limit_ms / 1000)

        return _join(above, machine, world // count, timeout, make_inner_of_leaders)

    _leave_previous()
    _guard.install()
    leaders = _hierarchical.join_leaders(
        part, rank - local_rank, local_rank, join, deadline_ms / 1000
    )
    limit = timeout if _is_given(timeout) else datetime.timedelta(milliseconds=deadline_ms)
    if _hierarchical.wanted() == "nccl":
        local = dist.ProcessGroupNCCL(part, local_rank, count, limit)
    else:
        local = create_gloo("tributary-inner", part, local_rank, count, limit, deadline_ms / 1000)
    inner = make_inner(deadline_ms)
    active = _hierarchical.HierarchicalGroup(rank, world, local, leaders, inner, deadline_ms / 1000)
    set_active(active)
    return active


def on_degraded(hook):
    """Calls active_group().on_degraded(hook)."""
    active_group().on_degraded(hook)


def summary():
    """Returns active_group().summary()."""
    return active_group().summary()


def rejoin():
    """Calls active_group().rejoin()."""
    active_group().rejoin()


def last_error():
    """Returns the exception that ended the active group's communicator.

    If there is none: that of the last all-reduce that raised NotFinite or Overflow, or None.
    """
    group = active_group()
    return group.error or group.refused


def _adopt_mpirun():
    """Copies mpirun's variables for rank and world to RANK and WORLD_SIZE, which torch reads.

    Not without MASTER_ADDR, because torch needs it as well: ranks of a script that trains alone keep their variables.
    """
    if "MASTER_ADDR" not in os.environ:
        return
    # Slurm's is the last resort: under an mpirun that Slurm started, it counts that program's own processes.
    for prefix, locals_ in (
        ("OMPI_COMM_WORLD", ("OMPI_COMM_WORLD_LOCAL_RANK",)), ("PMI", ("MPI_LOCALRANKID", "SLURM_LOCALID")),
    ):
        if f"{prefix}_RANK" in os.environ and "RANK" not in os.environ:
            os.environ["RANK"] = os.environ[f"{prefix}_RANK"]
            os.environ["WORLD_SIZE"] = os.environ[f"{prefix}_SIZE"]
            # If none is set, the ranks of a machine find each other through the store.
            known = [os.environ[local] for local in locals_ if local in os.environ]
            if known:
                os.environ.setdefault("LOCAL_RANK", known[0])


def _leave_previous():
    """Ends the group that destroy_process_group() has dropped, and its aggregators."""
    end_active()
    aggregators.stop()


def _register():
    if hasattr(dist.Backend, BACKEND.upper()):
        return
    try:
        dist.Backend.register_backend(BACKEND, _create, devices=["cpu", "cuda"])
    except TypeError:  # torch 1.x has no `devices`.
        dist.Backend.register_backend(BACKEND, _create)


def autoload():
    """The entry point torch.backends: torch 2.5 and newer calls it. The import has registered the back end."""


_adopt_mpirun()
_monitored.install()
_branch.install()
_register()
