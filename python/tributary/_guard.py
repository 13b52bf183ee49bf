# SPDX-License-Identifier: Apache-2.0
"""A debug switch that compares the ranks' parameters: TRIBUTARY_CHECK_PARAMETERS=N, every N steps.

A step is a forward pass of a DistributedDataParallel that ends in synchronised gradients. With CatchUp it is a call of
take_gradients(), because a rank that takes a step makes no forward pass, and another may make several for one step.
The comparison goes through Gloo, so the ranks wait for each other.
"""

import collections
import hashlib
import os
import weakref

import torch
from torch.nn.parallel import DistributedDataParallel

from . import errors
from ._group import active_group, active_or_none
from ._uneven import is_joining

VARIABLE = "TRIBUTARY_CHECK_PARAMETERS"

_every = 0
_is_hooked = False  # The hook is registered once, and stays.
_steps = weakref.WeakKeyDictionary()  # Steps of each model.
_caught_up = weakref.WeakSet()  # Models whose CatchUp counts their steps.


def install():
    """Reads the switch. Raises InvalidArgument if it is not a number of steps."""
    global _every, _is_hooked
    text = os.environ.get(VARIABLE) or "0"
    if not text.isdecimal():
        raise errors.InvalidArgument(
            f"{VARIABLE}={text} is not allowed; allowed: a number of steps, or 0 for no check"
        )
    if int(text) and not _is_hooked:
        _is_hooked = True
        torch.nn.modules.module.register_module_forward_pre_hook(_before_forward)
    _every = int(text)


def leave_to_catch_up(model):
    """Lets CatchUp call before_step() for this model. Its forward passes are not counted."""
    _caught_up.add(model)


def _before_forward(module, _):
    if isinstance(module, DistributedDataParallel) and torch.is_grad_enabled() and module not in _caught_up:
        # A rank without inputs makes no forward pass, so it would miss a comparison.
        if module.require_backward_grad_sync and module.process_group is active_or_none() and not is_joining(module):
            before_step(module)


def before_step(model):
    """Counts a step. Compares the parameters if it is one of every N."""
    if not _every:
        return
    steps = _steps.get(model, 0)
    if steps and steps % _every == 0:
        check_parameters(model, f"after step {steps}")
    _steps[model] = steps + 1


def check_parameters(model, when="at check_parameters()"):
    """Raises ParametersDiffer on every rank if parameters differ. Every rank must call it."""
    active_group().compare_calls()
    difference = find_difference(list(getattr(model, "module", model).named_parameters()))
    if difference:
        raise errors.ParametersDiffer(f"{when} {difference}")


def find_difference(named):
    """Returns a text about the first of the named parameters that differs between ranks, or "". Every rank must call it."""
    group = active_group()
    digests = torch.tensor([_digest(parameter) for _, parameter in named], dtype=torch.int64, device="cpu")
    every = [torch.empty_like(digests) for _ in range(group.size())]
    group.inner.allgather([every], [digests]).wait()
    for (name, _), column in zip(named, torch.stack(every).t().tolist()):
        if len(set(column)) > 1:
            return _difference(name, column)
    return ""


def _difference(name, digests):
    """Describes a parameter whose digests differ, with the most frequent one as the reference."""
    reference = collections.Counter(digests).most_common(1)[0][0]
    ranks = [str(rank) for rank, digest in enumerate(digests) if digest != reference]
    return (
        f'parameter "{name}" is the first that differs: rank {", ".join(ranks)} from the other '
        f"{len(digests) - len(ranks)} of {len(digests)} ranks"
    )


def _digest(parameter):
    """Returns 64 bits that depend on every bit of the parameter, in logical order."""
    flat = parameter.detach().cpu().reshape(-1).contiguous()
    octets = hashlib.blake2b(flat.view(torch.uint8).numpy(), digest_size=8).digest()
    return int.from_bytes(octets, "little", signed=True)
