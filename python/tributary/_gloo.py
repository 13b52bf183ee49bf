# SPDX-License-Identifier: Apache-2.0
"""The inner Gloo group of a process group, and its calls with tensors of any layout."""

import ctypes
import os

import torch
import torch.distributed as dist

from . import errors
from ._work import AfterWork


class _LentStore(dist.Store):
    """Passes the calls of a Gloo group's constructor on to a store, until give_back().

    A Gloo group holds its store, and lives until the process ends. Without this class rank 0's server would
    outlive destroy_process_group(), and the next init_process_group() would find its port taken.
    """

    def __init__(self, store):
        super().__init__()
        self._store = store

    def give_back(self):
        self._store = None

    def _lent(self):
        if self._store is None:
            raise RuntimeError("Gloo used its store after it had connected all ranks")
        return self._store

    def set(self, key, value):
        self._lent().set(key, value)

    def get(self, key):
        return self._lent().get(key)

    def add(self, key, amount):
        return self._lent().add(key, amount)

    def wait(self, *arguments):
        self._lent().wait(*arguments)

    def check(self, keys):
        return self._lent().check(keys)


def of_new_group(store, rank):
    """Returns a part of the store that earlier groups have not used. torchrun's store outlives them."""
    number = store.add(f"tributary/groups/{rank}", 1)
    if number > 1 and not dist.is_initialized() and int(torch.__version__.split(".")[0]) < 2:
        raise errors.TributaryError(
            f"torch {torch.__version__} cannot create a second group with a store that outlives the first one, as under "
            "torchrun or where a rank still has the first one: its own barrier would wait for ever; to fix: use torch 2, or "
            "one group for the whole script, or, under tributary launch, dist.barrier() and time.sleep(1) around "
            "destroy_process_group()"
        )
    return dist.PrefixStore(f"tributary-group-{number}", store)


def create_gloo(name, store, rank, world, limit):
    """Returns a Gloo group that lives until the process ends, and does not keep `store`.

    Its destructor can hang the end of a script: it holds the interpreter's lock while it joins Gloo's threads,
    which need that lock to free tensors.
    """
    # Newer versions of torch connect ranks at their first message if this is set, and need the store then.
    connects_later = os.environ.get("TORCH_GLOO_LAZY_INIT", "0") not in ("", "0")
    lent = store if connects_later else _LentStore(store)
    group = dist.ProcessGroupGloo(dist.PrefixStore(name, lent), rank, world, limit)
    for kept in (group, lent):
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(kept))
    if not connects_later:
        lent.give_back()
    return group


def register(group, inner):
    """Makes the inner group the one that torch 2 finds for each device.

    Its C++ code takes the group's name and timeout from there, and sends functional collectives that a Python class
    cannot override.
    """
    if hasattr(group, "_register_backend"):
        for device in ("cpu", "cuda"):
            group._register_backend(torch.device(device), dist.ProcessGroup.BackendType.GLOO, inner)


def of_contiguous(start, tensors, *options):
    """Returns the work of Gloo's start(), with the results in tensors of any layout.

    Gloo takes the memory behind a tensor's first element for its elements. DDP, in C++, would lose the methods of
    an AfterWork, but its tensors are contiguous.
    """
    if all(tensor.layout != torch.strided or tensor.is_contiguous() for tensor in tensors):
        return start(tensors, *options)
    parts = [tensor.detach().contiguous() for tensor in tensors]

    def spread():
        for tensor, part in zip(tensors, parts):
            tensor.detach().copy_(part)

    return AfterWork([start(parts, *options)], tensors, spread)
