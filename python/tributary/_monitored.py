# SPDX-License-Identifier: Apache-2.0
"""Lets torch.distributed.monitored_barrier() take groups of this back end.

torch refuses every back end but the one named "gloo". The groups here pass the call to Gloo.
"""

import functools

import torch.distributed as dist
from torch.distributed import distributed_c10d

from ._group import BACKEND


def install():
    """Wraps monitored_barrier() once for the process."""
    original = distributed_c10d.monitored_barrier
    if hasattr(original, "__wrapped__"):
        return

    @functools.wraps(original)
    def monitored_barrier(group=None, timeout=None, wait_all_ranks=False):
        # GroupMember.NON_GROUP_MEMBER is an object() without a back end; torch warns of it.
        is_group = group is None or isinstance(group, dist.ProcessGroup)
        if not is_group or dist.get_backend(group) != BACKEND:
            return original(group, timeout, wait_all_ranks)
        if group is None:
            group = distributed_c10d._get_default_group()
        # Without a timeout Gloo takes that of the group. torch would take its own default, 30 minutes.
        given = () if timeout is None else (timeout,)
        return group.monitored_barrier(*given, wait_all_ranks=wait_all_ranks)

    distributed_c10d.monitored_barrier = dist.monitored_barrier = monitored_barrier
