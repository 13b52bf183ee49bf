# SPDX-License-Identifier: Apache-2.0
"""The inner Gloo group of a process group, and its calls with tensors of any layout."""

import concurrent.futures
import ctypes
import os
import threading
import time

import torch
import torch.distributed as dist

from . import aggregators, errors
from ._addresses import own_address_towards, own_address_towards_master
from ._work import AfterWork, tensors_in


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
            "torchrun or where a rank still has the first one: its own barrier would wait for ever; to fix: use torch 2, "
            "or one group for the whole script, or, under tributary launch, dist.barrier() and time.sleep(1) around "
            f"destroy_process_group(){errors.advice_on_counts()}"
        )
    return dist.PrefixStore(f"tributary-group-{number}", store)


def _address_for(store, rank, world, ends_at):
    """Returns the address at which Gloo is to listen, or "" if all ranks are on one machine or no address is known.

    All ranks call it. By itself Gloo takes the address of the machine's name, which Debian maps to the loopback
    interface. The first rank that reaches MASTER_ADDR by another interface sets the family of addresses for all.
    """
    own = own_address_towards_master()
    store.set(f"address/{rank}", own)
    for other in range(world):
        first = own if other == rank else aggregators.wait_for(store, f"address/{other}", other, ends_at)
        if first == "":
            continue
        if own and (":" in own) == (":" in first):
            return own
        try:  # This machine's own name is MASTER_ADDR, or the name has addresses of both families.
            return own_address_towards(first)
        except OSError:
            return ""
    return ""


def _start_gloo(store, rank, world, limit, address):
    """Returns a Gloo group that listens at the address; "": at one that Gloo chooses."""
    if address == "":
        return dist.ProcessGroupGloo(store, rank, world, limit)
    options = dist.ProcessGroupGloo._Options()
    options._devices = [dist.ProcessGroupGloo.create_device(hostname=address)]
    options._timeout = limit
    return dist.ProcessGroupGloo(store, rank, world, options)


def _call_within(limit_s, function):
    """Returns function(). Raises concurrent.futures.TimeoutError after limit_s; the call continues in its thread."""
    called = concurrent.futures.Future()

    def call():
        try:
            called.set_result(function())
        except BaseException as error:
            called.set_exception(error)

    # A daemon, which the interpreter does not wait for.
    threading.Thread(target=call, name="tributary-gloo", daemon=True).start()
    return called.result(limit_s)


def create_gloo(name, store, rank, world, limit, deadline_s):
    """Returns a Gloo group that lives until the process ends, and does not keep `store`.

    Its destructor can hang the end of a script: it holds the interpreter's lock while it joins Gloo's threads,
    which need that lock to free tensors.

    limit: of the group's operations, a timedelta.
    deadline_s: the longest wait for the other ranks. Gloo itself waits five times `limit` for a connection.
    Raises PeerMissing or TributaryError if the ranks have not connected by then.
    """
    ends_at = time.monotonic() + deadline_s
    store = dist.PrefixStore(name, store)
    address = _address_for(store, rank, world, ends_at)
    given = os.environ.get("GLOO_SOCKET_IFNAME", "")
    # Newer versions of torch connect ranks at their first message if this is set, and need the store then.
    connects_later = os.environ.get("TORCH_GLOO_LAZY_INIT", "0") not in ("", "0")
    lent = store if connects_later else _LentStore(store)

    def start():
        group = _start_gloo(dist.PrefixStore("gloo", lent), rank, world, limit, "" if given else address)
        for kept in (group, lent):
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(kept))
        return group

    try:
        return _call_within(max(aggregators.LEAST_WAIT_S, ends_at - time.monotonic()), start)
    except concurrent.futures.TimeoutError as error:
        text = _not_connected(f"not within {deadline_s:.1f} s", world, given, address)
        raise errors.PeerMissing(text) from error
    except RuntimeError as error:
        kind = errors.PeerMissing if errors.is_about_peer(str(error)) else errors.TributaryError
        raise kind(_not_connected(error, world, given, address)) from error
    finally:
        if not connects_later:
            lent.give_back()


def _not_connected(reason, world, given, address):
    """Returns the text about ranks that Gloo could not connect.

    given: the value of GLOO_SOCKET_IFNAME, or "".
    """
    used = f"by interface {given} (GLOO_SOCKET_IFNAME)" if given else f"at {address or 'an address of its own choice'}"
    return (
        f"Gloo could not connect the {world} ranks: {reason}; this rank listens {used}; to fix: set "
        "GLOO_SOCKET_IFNAME on each machine to the interface by which the others reach it, and let firewalls "
        "pass TCP between the machines"
    )


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


def of_contiguous_lists(start, outputs, inputs, *arguments, **named):
    """Returns the work of Gloo's start(), with outputs and inputs, nested lists of tensors of any layout."""
    packed = _packed(outputs)
    pairs = [(tensor, part) for tensor, part in zip(tensors_in(outputs), tensors_in(packed)) if part is not tensor]
    work = start(packed, _packed(inputs), *arguments, **named)
    if not pairs:
        return work

    def spread():
        for tensor, part in pairs:
            tensor.detach().copy_(part)

    return AfterWork([work], list(tensors_in(outputs)), spread)


def _packed(tensors):
    """Returns nested lists of tensors, with a contiguous copy of each tensor that is not contiguous."""
    if not isinstance(tensors, torch.Tensor):
        return [_packed(part) for part in tensors]
    if tensors.layout != torch.strided or tensors.is_contiguous():
        return tensors
    return tensors.detach().contiguous()
