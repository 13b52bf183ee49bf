# SPDX-License-Identifier: Apache-2.0
"""The machines of a job: which ranks share one, and whether their tensors are added there first.

Each rank describes itself with describe() and learns the descriptions of all ranks. All ranks compute the
same Layout from them.

Errors: InvalidArgument for a wrong TRIBUTARY_LOCAL_REDUCE. Layout.reduces() is False where the machines do not allow it.
Tests:  tests/python/layout_test.py
"""

import os
import pathlib
import socket

from . import errors

# Ports for lower aggregators. A job takes one for each upper aggregator. They are the same on all machines, because
# ranks compare their lists. Linux gives none of them to other sockets by itself. The first is that of
# `tributary launch --local-port`.
FIRST_PORT, PORT_COUNT = 12100, 256
# Keys of a job that has no tree, or one of its own.
_NO_TREE_WITH = ("asynchronous", "upstream", "sources_are_aggregators", "rank_base", "world", "sources", "clients")
# An upper aggregator waits so many timeouts of a lower one: a lower block may take two before its sum goes up. The same
# as kUpperTimeouts of cli/launch/aggregator_plan.cc.
UPPER_TIMEOUTS = 3
_TIMEOUT_MS = 10  # Default of the job's key timeout_ms: trio_ml::JobConfig::timeout.


def machine():
    """Returns a name of this machine. Containers with networks of their own count as machines."""
    boot = pathlib.Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return f"{boot} {os.readlink('/proc/self/ns/net')}"


def describe():
    """Returns the description of this rank, for JSON. Raises InvalidArgument."""
    is_wanted = _is_wanted()
    local_rank = os.environ.get("LOCAL_RANK")
    may_be_first = local_rank in (None, "0")
    return {
        "machine": machine(),
        "first": None if local_rank is None else local_rank == "0",  # None: its launcher does not tell.
        "ports": _free_ports() if may_be_first and is_wanted else [],
        "seed": os.getpid(),
    }


class Layout:
    """The machines of all ranks. descriptions: a list of describe() of each rank."""

    def __init__(self, descriptions):
        self._machines = [each["machine"] for each in descriptions]
        self._ports = [each["ports"] for each in descriptions]
        self._seed = descriptions[0]["seed"]
        self.firsts = [rank for rank, each in enumerate(descriptions) if self._is_first(rank, each["first"])]

    def _is_first(self, rank, told):
        return self._machines[rank] not in self._machines[:rank] if told is None else told

    @property
    def is_one_machine(self):
        return len(set(self._machines)) == 1

    @property
    def machine_count(self):
        return len(set(self._machines))

    def index_of(self, rank):
        """Returns the number of a rank's machine. @pre reduces()"""
        return rank // self.ranks_each

    @property
    def ranks_each(self):
        """Ranks of each machine, if it is the same number on all."""
        return len(self._machines) // len(self.firsts)

    def lower_ports(self, count):
        """Returns `count` ports for lower aggregators, free on all machines; fewer if there are not so many.

        Jobs that start at the same time begin at different ports.
        """
        free = set(self._ports[self.firsts[0]]).intersection(*(self._ports[first] for first in self.firsts))
        return sorted(free, key=lambda port: (port - self._seed) % PORT_COUNT)[:count]

    def reduces(self, upper_count):
        """Returns True if the ranks of each machine send one sum to `upper_count` upper aggregators."""
        world, each = len(self._machines), self.ranks_each
        names = [self._machines[first] for first in self.firsts]
        return (
            len(names) > 1 and each > 1
            and len(set(names)) == len(names)
            and self.firsts == list(range(0, world, each))
            and all(name == names[rank // each] for rank, name in enumerate(self._machines))
            and len(self.lower_ports(upper_count)) == upper_count
        )


def upper_job(keys, machines, world):
    """Returns the keys of an upper aggregator's job, from those of TRIBUTARY_JOB."""
    keys = dict(keys)
    if keys.get("mitigation") == "on":
        keys.setdefault("timeout_ms", str(_TIMEOUT_MS))
    for name in ("timeout_ms", "permanent_ms"):
        if keys.get(name, "").isdecimal():  # The aggregator refuses other texts.
            keys[name] = str(UPPER_TIMEOUTS * int(keys[name]))
    return {"sources": machines, **keys, "sources_are_aggregators": "on", "world": world}


def lower_job(keys, upper, machine_index, ranks_each, world):
    """Returns the keys of a lower aggregator's job. upper: HOST:PORT."""
    return {"sources": ranks_each, **keys, "upstream": upper, "upstream_source": machine_index,
            "rank_base": machine_index * ranks_each, "world": world}


def job_keys():
    """Returns the keys of TRIBUTARY_JOB."""
    pairs = filter(None, os.environ.get("TRIBUTARY_JOB", "").split(","))
    return {name: value for name, _, value in (pair.partition("=") for pair in pairs)}


def _is_wanted():
    value = os.environ.get("TRIBUTARY_LOCAL_REDUCE") or "on"
    if value not in ("on", "off"):
        raise errors.InvalidArgument(
            f"TRIBUTARY_LOCAL_REDUCE={value} is not allowed; allowed: on (the default), off"
        )
    return value == "on" and not any(key in _NO_TREE_WITH for key in job_keys())


def _free_ports():
    """Returns the ports for lower aggregators that are free on this machine."""
    return [port for port in range(FIRST_PORT, FIRST_PORT + PORT_COUNT) if _is_free(port)]


def _is_free(port):
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            probe.bind(("0.0.0.0", port))
            return True
    except OSError:
        return False
