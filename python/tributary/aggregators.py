# SPDX-License-Identifier: Apache-2.0
"""Starts the aggregators of ranks that torchrun or mpirun has started.

TRIBUTARY_AGGREGATORS is "colocated", for one aggregator on each machine, or the number for each machine.
Without it, and without an aggregator in TRIBUTARY_URL, it is "colocated". The first rank of each machine
(LOCAL_RANK 0) starts that machine's, and all ranks exchange the addresses through the store of
init_process_group(). TRIBUTARY_JOB has more keys of the job, as for `tributary serve --job`.
TRIBUTARY_AGGREGATOR_CPUS and TRIBUTARY_AGGREGATOR_CPU_PERCENT are the --cpus and --cpu-percent of `tributary serve`.
Each aggregator begins with another CPU of the list.

If every machine has several ranks, it also starts a lower aggregator for each aggregator of the job, which adds the
tensors of its ranks (_layout.py). TRIBUTARY_LOCAL_REDUCE=off leaves these out.

An aggregator ends when its group or the process that started it has ended and the workers of all machines
have left, LINGER_S later at the latest.

Threads: any one; the process's first call starts the aggregators.
Errors:  InvalidArgument for a value that is not allowed, LibraryNotFound without the program,
         TributaryError on all ranks if an aggregator does not start; its own message is on standard error.
         PeerMissing for a rank that is silent until the limit.
Tests:   tests/python/aggregators_test.py, tests/python/torch_test.py
"""

import concurrent.futures
import datetime
import ipaddress
import json
import os
import pathlib
import queue
import re
import shutil
import socket
import subprocess
import threading
import time

from . import _layout, _library, errors
from ._addresses import is_loopback, own_address_towards
from ._announce import warn
from .communicator import url_with

COUNT_MAX = 16  # As for `tributary launch --aggregators`.
TOTAL_MAX = 64  # Of all machines: wire::kAggregatorsMax. Workers refuse a longer list.
LINGER_S = 60
LEAST_WAIT_S = 0.1  # torch's store takes 0 as no limit.
_NO_HOST = "tributary:///job/"
_JOB = {"window": 4096, "block_grad_max": 4095, "history": 4}  # Unless TRIBUTARY_JOB has these keys.
_JOB_MITIGATING = {"silence": "end"}  # Likewise, with mitigation: a dead rank ends the others with its number.

_running = []  # Process objects of the current group. Linux ends the processes with this one.
_ending = []  # Process objects of earlier groups.
_starter = None
_list = None
_source = None  # The rank's number among those of its machine, if they reduce locally.


def wanted():
    """Returns how many aggregators to start on each machine; 0: none."""
    text = os.environ.get("TRIBUTARY_AGGREGATORS", "")
    if text == "":
        starts = _given_url().startswith(_NO_HOST)
        if not starts and os.environ.get("TRIBUTARY_JOB") and os.environ.get("RANK", "0") == "0":
            warn(
                "TRIBUTARY_JOB has no effect, because TRIBUTARY_URL names an aggregator; set the job's keys where that "
                "aggregator runs (tributary serve --job)"
            )
        return 1 if starts else 0
    if text == "colocated":
        return 1
    if not text.isascii() or not text.isdigit() or not 1 <= int(text) <= COUNT_MAX:
        raise errors.InvalidArgument(
            f"TRIBUTARY_AGGREGATORS={text} is not allowed; allowed: 1 to {COUNT_MAX}, or colocated"
        )
    return int(text)


def url(store, rank, world, limit_s):
    """Starts this machine's aggregators and returns the URL for all of the job's.

    store: of init_process_group(), shared by all ranks. Keeps the query of TRIBUTARY_URL, whose host
    must be empty.
    limit_s: the longest wait for the other ranks' addresses, in seconds.
    """
    global _list, _source
    given = _given_url()
    if not given.startswith(_NO_HOST):
        raise errors.InvalidArgument(
            f"TRIBUTARY_URL={given} names an aggregator, and TRIBUTARY_AGGREGATORS starts some; allowed "
            "with it: tributary:///job/ID?KEY=VALUE&…, without a host"
        )
    if _list is None:
        _list, _source = _exchange(store, rank, world, time.monotonic() + limit_s)
    found = given.replace("tributary:///", f"tributary://{_list}/", 1)
    return url_with(found, {"source": _source})


def stop():
    """Ends this process's aggregators when the workers of all machines have left. url() starts new ones."""
    global _list
    _list = None
    for process in _running:
        process.terminate()
        process.stdout.close()
    # poll() collects the exit status.
    _ending[:] = [process for process in _ending + _running if process.poll() is None]
    _running.clear()


def _given_url():
    return os.environ.get("TRIBUTARY_URL") or f"{_NO_HOST}1"


def _key(name, rank):
    return f"tributary/{name}/{rank}"


def wait_for(store, key, rank, ends_at):
    """Returns the text that a rank publishes under a key. Raises PeerMissing after `ends_at` (monotonic, s)."""
    left_s = max(LEAST_WAIT_S, ends_at - time.monotonic())
    try:
        store.wait([key], datetime.timedelta(seconds=left_s))
    except RuntimeError as error:
        if ends_at - time.monotonic() > LEAST_WAIT_S:  # The store itself has failed.
            raise
        raise errors.PeerMissing(
            f"rank {rank} has not reached init_process_group() by the deadline, or has ended before it"
        ) from error
    return store.get(key).decode()


def _tell(store, name, rank, world, ends_at, act):
    """Publishes the result of act(), or its failure. Returns the results of all ranks, or raises."""
    own = {"result": None, "failed": ""}
    try:
        own["result"] = act()
    except BaseException as error:
        own["failed"] = str(error) or type(error).__name__
        raise
    finally:  # The other ranks wait for it, also after a failure.
        store.set(_key(name, rank), json.dumps(own))
    answers = [json.loads(wait_for(store, _key(name, other), other, ends_at)) for other in range(world)]
    for other, answer in enumerate(answers):
        if answer["failed"]:
            raise errors.TributaryError(f"rank {other} could not start its aggregator: {answer['failed']}")
    return [answer["result"] for answer in answers]


def _cpus_from(text, place):
    """Returns a list of CPUs such as 0-2,5, begun at another place. `tributary serve` refuses a text that is none."""
    cpus = []
    for part in text.split(","):
        first, dash, last = part.partition("-")
        if not re.fullmatch("[0-9]{1,4}(-[0-9]{1,4})?", part):
            return text
        cpus += range(int(first), int(last if dash else first) + 1)
    start = place % max(len(cpus), 1)
    return ",".join(str(cpu) for cpu in cpus[start:] + cpus[:start]) or text


def _core_flags(place=0):
    """Returns the flags of `tributary serve` for the CPUs of an aggregator. Raises InvalidArgument.

    place: the number of aggregators that this machine started before. A core runs on the first CPU of its list.
    """
    cpus = _cpus_from(os.environ.get("TRIBUTARY_AGGREGATOR_CPUS", ""), place)
    percent = os.environ.get("TRIBUTARY_AGGREGATOR_CPU_PERCENT", "")
    if percent and not (percent.isascii() and percent.isdigit() and 1 <= int(percent) <= 100):
        raise errors.InvalidArgument(
            f"TRIBUTARY_AGGREGATOR_CPU_PERCENT={percent} is not allowed; allowed: 1 to 100"
        )
    return (["--cpus", cpus] if cpus else []) + (["--cpu-percent", percent] if percent else [])


def _refuse_too_many(each, machines):
    """Raises InvalidArgument if all machines together start more aggregators than a worker's list has."""
    if each * machines > TOTAL_MAX:
        raise errors.InvalidArgument(
            f"TRIBUTARY_AGGREGATORS={each} on each of {machines} machines are {each * machines} aggregators; allowed: "
            f"up to {TOTAL_MAX} on all machines; set it to a lower number, or TRIBUTARY_URL to running aggregators"
        )


def _describe():
    # Every rank of a machine without them is refused, and all others learn why.
    _library.library()
    _program()
    _core_flags()
    return _layout.describe()


def _exchange(store, rank, world, ends_at):
    """Starts this machine's aggregators. Returns the list for its ranks, and this rank's source there or None."""
    layout = _layout.Layout(_tell(store, "machines", rank, world, ends_at, _describe))
    is_first = rank in layout.firsts
    each = wanted()
    reduces = layout.reduces(each * len(layout.firsts))
    job = os.environ.get("TRIBUTARY_JOB", "")
    if reduces:
        job = _text_of(_layout.upper_job(_layout.job_keys(), len(layout.firsts), world))

    def start():
        _refuse_too_many(each, len(layout.firsts))
        if not is_first:
            return []
        host = "127.0.0.1" if layout.is_one_machine else _host(rank)
        address = _address_of(host)
        sources = "" if reduces else f"sources={world}"
        return [f"{host}:{_start(address, _free_port(address), sources, job)}" for _ in range(each)]

    started = _tell(store, "aggregators", rank, world, ends_at, start)
    _refuse_loopback(layout, started)
    names = [name for own in started for name in own]
    if not reduces:
        return ",".join(names), None
    ports = layout.lower_ports(len(names))

    def start_lower():
        for name, port in zip(names, ports) if is_first else ():
            upper = _resolved(name)
            keys = _layout.lower_job(_layout.job_keys(), upper, layout.index_of(rank), layout.ranks_each, world)
            # Its socket also sends to the upper aggregator, so it cannot be bound to 127.0.0.1.
            _start("::" if upper.startswith("[") else "0.0.0.0", port, "", _text_of(keys))

    _tell(store, "lower", rank, world, ends_at, start_lower)
    return ",".join(f"127.0.0.1:{port}" for port in ports), rank % layout.ranks_each


def _text_of(keys):
    return ",".join(f"{name}={value}" for name, value in keys.items())


def _resolved(name):
    """Returns the address of an aggregator, HOST:PORT, as numbers."""
    host, _, port = name.rpartition(":")
    addresses = [info[4][0] for info in socket.getaddrinfo(host.strip("[]"), None, type=socket.SOCK_DGRAM)]
    # Debian gives a machine's own name an address of the loopback interface.
    others = [address for address in addresses if not is_loopback(address)]
    address = (others or addresses)[0]
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"


def _refuse_loopback(layout, started):
    """Raises InvalidArgument if ranks on several machines would send to an address of their own machine."""
    machines = layout.machine_count
    for rank, names in enumerate(started):
        host = next(iter(names), "").rpartition(":")[0]
        if machines > 1 and is_loopback(host):
            raise errors.InvalidArgument(
                f"rank {rank} gives {host} as its aggregator's address, which the other {machines - 1} of "
                f"{machines} machines cannot reach; set MASTER_ADDR on all ranks to an address of rank 0's "
                "machine that the others reach, or TRIBUTARY_URL to running aggregators"
            )


def _host(rank):
    """Returns the address by which the other machines reach this one."""
    master = os.environ.get("MASTER_ADDR", "127.0.0.1")
    host = master
    if rank != 0:
        host = own_address_towards(master, int(os.environ.get("MASTER_PORT", "29500")))
    return f"[{host}]" if ":" in host else host


def _address_of(host):
    """Returns the address on which the aggregator of `host` listens, without brackets.

    That is the only address that other machines can find under `host`, if this machine has it. Otherwise they
    may use several, such as IPv4 and IPv6 or those of a translating router, and the aggregator listens on all.
    """
    try:
        infos = socket.getaddrinfo(host.strip("[]"), None, type=socket.SOCK_DGRAM)
    except OSError:  # The other machines may have a name for it.
        infos = []
    # Debian gives a machine's own name an address of the loopback interface. Other machines find another one.
    found = {info[4][0] for info in infos if not is_loopback(info[4][0]) or is_loopback(host)}
    usable = [address for address in found if _free_port(address) is not None]
    if len(usable) == len(found) == 1:
        return usable[0]
    try:
        is_ipv4 = ipaddress.ip_address(host.strip("[]")).version == 4
    except ValueError:  # A name.
        is_ipv4 = _free_port("::") is None
    return "0.0.0.0" if is_ipv4 else "::"  # [::] takes both.


def _free_port(address):
    """Returns a free UDP port of an address, or None if this machine does not have the address."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.bind((address, 0))
            return probe.getsockname()[1]
    except OSError:
        return None


def _start(address, port, sources, job):
    """Starts an aggregator at a port of an address. sources, job: keys of the job. Returns the port."""
    listen = f"[{address}]:{port}" if ":" in address else f"{address}:{port}"
    given = {key.partition("=")[0] for key in job.split(",")}
    job_defaults = _JOB | (_JOB_MITIGATING if "mitigation=on" in job.split(",") else {})
    defaults = _text_of({name: value for name, value in job_defaults.items() if name not in given})
    keys = ",".join(filter(None, (f"id={_job_id()}", sources, defaults, job)))
    # setpriv: the kernel ends the aggregator like SIGTERM when this process has ended, however it ends.
    process = _start_process(
        ["setpriv", "--pdeathsig", "TERM", _program(), "serve", "--listen", listen,
         "--linger-s", str(LINGER_S), "--job", keys, "--log-level", "warn", *_core_flags(len(_running))]
    )
    _running.append(process)
    if process.stdout.readline() != "ready\n":
        raise errors.TributaryError(f"the aggregator at port {port} did not start; see its message above")
    return port


def _start_process(command):
    """Starts a process from a thread that lives as long as this process.

    For the kernel, the parent whose death --pdeathsig announces is the thread that started the process.
    """
    global _starter
    if _starter is None or _starter.pid != os.getpid():  # A fork has no threads of its parent.
        _starter = _Starter()
    return _starter.start(command)


class _Starter:
    """The thread that starts processes."""

    def __init__(self):
        self.pid = os.getpid()
        self._commands = queue.SimpleQueue()  # Of a command and the future of its process.
        # A daemon, which the interpreter does not wait for: it ends with the process.
        threading.Thread(target=self._run, name="tributary-starter", daemon=True).start()

    def start(self, command):
        started = concurrent.futures.Future()
        self._commands.put((command, started))
        return started.result()

    def _run(self):
        while True:
            command, started = self._commands.get()
            try:
                # A session of its own: Ctrl-C ends the ranks, which still send their leaves to it.
                started.set_result(subprocess.Popen(
                    command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, start_new_session=True,
                ))
            except Exception as error:
                started.set_exception(error)


def _job_id():
    return _given_url().removeprefix(_NO_HOST).partition("?")[0]


def _program():
    """Returns the path of the program `tributary`: next to the library, or in PATH."""
    for name in _library.candidates():
        if "/" not in name:  # The system loader finds it, and not in the current directory.
            continue
        folder = pathlib.Path(name).resolve().parent
        for path in (folder / "tributary", folder.parent / "bin" / "tributary"):
            if path.is_file() and os.access(path, os.X_OK):
                return str(path)
    found = shutil.which("tributary")
    if found is None:
        raise errors.LibraryNotFound(
            "the program tributary, which starts the aggregators, is neither next to its library nor in PATH; add "
            "its folder to PATH, or set TRIBUTARY_URL to a running aggregator"
        )
    return found
