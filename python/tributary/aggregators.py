# SPDX-License-Identifier: Apache-2.0
"""Starts the aggregators of ranks that torchrun or mpirun has started.

TRIBUTARY_AGGREGATORS is "colocated", for one aggregator on each machine, or the number for each machine.
Without it, and without an aggregator in TRIBUTARY_URL, it is "colocated". The first rank of each machine
(LOCAL_RANK 0) starts that machine's, and all ranks exchange the addresses through the store of
init_process_group(). TRIBUTARY_JOB has more keys of the job, as for `tributary serve --job`.

An aggregator ends when its group or the process that started it has ended and the workers of all machines
have left, LINGER_S later at the latest.

Threads: any one; the process's first call starts the aggregators.
Errors:  InvalidArgument for a value that is not allowed, LibraryNotFound without the program,
         TributaryError if an aggregator does not start. Its own message is on standard error.
Tests:   tests/python/aggregators_test.py, tests/python/torch_test.py
"""

import ipaddress
import os
import pathlib
import shutil
import socket
import subprocess

from . import _library, errors

COUNT_MAX = 16  # As for `tributary launch --aggregators`.
LINGER_S = 60
_NO_HOST = "tributary:///job/"
_JOB = "window=4096,block_grad_max=4095,history=4"

_running = []  # Process objects of the current group. Linux ends the processes with this one.
_ending = []  # Process objects of earlier groups.
_list = None
_groups_before = 0  # Numbers the keys, because a store of torchrun's outlives a group.


def wanted():
    """Returns how many aggregators to start on each machine; 0: none."""
    text = os.environ.get("TRIBUTARY_AGGREGATORS", "")
    if text == "":
        return 1 if _given_url().startswith(_NO_HOST) else 0
    if text == "colocated":
        return 1
    if not text.isascii() or not text.isdigit() or not 1 <= int(text) <= COUNT_MAX:
        raise errors.InvalidArgument(
            f"TRIBUTARY_AGGREGATORS={text} is not allowed; allowed: 1 to {COUNT_MAX}, or colocated"
        )
    return int(text)


def url(store, rank, world):
    """Starts this machine's aggregators and returns the URL for all of the job's.

    store: of init_process_group(), shared by all ranks. Keeps the query of TRIBUTARY_URL, whose host
    must be empty.
    """
    global _list
    given = _given_url()
    if not given.startswith(_NO_HOST):
        raise errors.InvalidArgument(
            f"TRIBUTARY_URL={given} names an aggregator, and TRIBUTARY_AGGREGATORS starts some; allowed "
            "with it: tributary:///job/ID?KEY=VALUE&…, without a host"
        )
    if _list is None:
        _list = _exchange(store, rank, world)
    return given.replace("tributary:///", f"tributary://{_list}/", 1)


def stop():
    """Ends this process's aggregators when the workers of all machines have left. url() starts new ones."""
    global _list, _groups_before
    if _list is not None:
        _groups_before += 1
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
    return f"tributary/{_groups_before}/{name}/{rank}"


def _is_first_here(store, rank):
    """Returns True for one rank of each machine."""
    if "LOCAL_RANK" in os.environ:
        return os.environ["LOCAL_RANK"] == "0"
    # Started without torchrun, for example by torch.multiprocessing. Containers have networks of their own.
    boot = pathlib.Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    machine = f"{boot} {os.readlink('/proc/self/ns/net')}"
    store.set(_key("machines", rank), machine)
    return all(store.get(_key("machines", other)).decode() != machine for other in range(rank))


def _exchange(store, rank, world):
    own = ""
    if _is_first_here(store, rank):
        host = _host(rank)
        own = ",".join(f"{host}:{_start(host, world)}" for _ in range(wanted()))
    store.set(_key("aggregators", rank), own)
    lists = [store.get(_key("aggregators", other)).decode() for other in range(world)]
    return ",".join(names for names in lists if names)


def _host(rank):
    """Returns the address by which the other machines reach this one."""
    master = os.environ.get("MASTER_ADDR", "127.0.0.1")
    host = master
    if rank != 0:
        # Connecting a UDP socket sends nothing, and sets the address that the route uses.
        family, kind, protocol, _, address = socket.getaddrinfo(
            master, int(os.environ.get("MASTER_PORT", "29500")), type=socket.SOCK_DGRAM
        )[0]
        with socket.socket(family, kind, protocol) as probe:
            probe.connect(address)
            host = probe.getsockname()[0]
    return f"[{host}]" if ":" in host else host


def _listens(host):
    """Returns the address and the family on which the aggregator of `host` listens.

    Other machines may find an IPv4 or an IPv6 address under a name. [::] takes both.
    """
    try:
        has_ipv6 = ipaddress.ip_address(host.strip("[]")).version == 6
    except ValueError:  # A name.
        try:
            socket.socket(socket.AF_INET6, socket.SOCK_DGRAM).close()
            has_ipv6 = True
        except OSError:
            has_ipv6 = False
    return ("[::]", socket.AF_INET6) if has_ipv6 else ("0.0.0.0", socket.AF_INET)


def _start(host, world):
    """Starts an aggregator on a free port. Returns the port."""
    every, family = _listens(host)
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        probe.bind((every.strip("[]"), 0))
        port = probe.getsockname()[1]
    job = ",".join(filter(None, (f"id={_job_id()},sources={world},{_JOB}", os.environ.get("TRIBUTARY_JOB"))))
    # setpriv: the kernel ends the aggregator like SIGTERM when this process has ended, however it ends.
    # A session of its own: Ctrl-C ends the ranks, which still need the aggregator to say good-bye.
    process = subprocess.Popen(
        ["setpriv", "--pdeathsig", "TERM", _program(), "serve", "--listen", f"{every}:{port}",
         "--linger-s", str(LINGER_S), "--job", job, "--log-level", "warn"],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, start_new_session=True,
    )
    _running.append(process)
    if process.stdout.readline() != "ready\n":
        raise errors.TributaryError(f"the aggregator at port {port} did not start; see its message above")
    return port


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
        raise errors.LibraryNotFound("the program tributary is neither next to its library nor in PATH")
    return found
