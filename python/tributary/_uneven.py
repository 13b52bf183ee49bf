# SPDX-License-Identifier: Apache-2.0
"""Refuses DistributedDataParallel.join(), for uneven inputs, with straggler mitigation or priorities.

A rank without inputs adds zeros outside a backward pass. There a sum must have all ranks, so with mitigation it goes
through Gloo. The other ranks' gradients go to the aggregator, so both would wait in vain. Priorities follow the
place of a sum in its backward pass, so the ranks would give a bucket different ones.
"""

import torch
from torch.nn.parallel import DistributedDataParallel

from . import errors
from ._group import active_or_none

_installed = False


def install():
    """Checks each forward pass from here on."""
    global _installed
    if not _installed:
        torch.nn.modules.module.register_module_forward_pre_hook(_before_forward)
    _installed = True


def is_joining(model):
    """Returns True if a forward pass of this DistributedDataParallel belongs to join()."""
    config = getattr(model, "_join_config", None)
    return config is not None and config.enable


def _before_forward(module, _):
    if isinstance(module, DistributedDataParallel) and is_joining(module):
        group = active_or_none()
        if module.process_group is not group or group.closed:
            return
        for is_used, feature, remedy in (
            (group.mitigated(), "straggler mitigation", "set the job's timeout to 0"),
            (group.has_priorities(), "priorities", "leave priorities out of the URL"),
        ):
            if is_used:
                raise errors.InvalidArgument(
                    f"join() of DistributedDataParallel cannot be used with {feature}; give every rank the "
                    f"same number of batches, as DistributedSampler does, or {remedy}"
                )
