# SPDX-License-Identifier: Apache-2.0
"""Parts that the training examples share: their flags, a rank that sleeps on purpose, their result.

The back end needs none of this, and neither do your own scripts.
"""

import ctypes
import hashlib
import argparse
import json
import os
import random
import statistics
import sys
import time

import torch
import torch.distributed as dist

GLOO_RELEASE_S = 0.2  # Assumed.


def add_flags(parser):
    parser.add_argument(
        "--backend",
        default=os.environ.get("TRIBUTARY_BACKEND", "tributary"),
        choices=("tributary", "gloo"),
    )
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--straggle", type=float, default=0.0, metavar="P",
                        help="probability that a rank sleeps before a step")
    parser.add_argument("--straggle-ms", type=float, default=50.0)
    parser.add_argument("--straggle-rank", type=int, default=-1,
                        help="the rank that sleeps; -1 is the last one, -2 is every rank")
    parser.add_argument("--no-catch-up", action="store_true",
                        help="a rank that is behind still computes every step")
    parser.add_argument("--loss", type=float, default=0.0, metavar="P",
                        help="probability that a packet is lost, each way; tributary only")
    parser.add_argument("--json", metavar="FILE", type=_result_file, help="rank 0 writes the result here")


def _result_file(name):
    """Refuses a file that cannot be written before the training rather than after it."""
    folder = os.path.dirname(os.path.abspath(name))
    if os.path.isdir(name) or not os.access(name if os.path.exists(name) else folder, os.W_OK):
        raise argparse.ArgumentTypeError(f"{name} cannot be written; allowed: a file in a folder that exists")
    return name


def begin(arguments):
    """Joins the other ranks. Returns rank and world."""
    if arguments.loss and arguments.backend != "tributary":
        sys.exit(f"--loss {arguments.loss}: Gloo runs over TCP; allowed only with --backend tributary")
    if arguments.loss:
        # Without a host, the ranks start an aggregator on each machine.
        url = os.environ.get("TRIBUTARY_URL") or "tributary:///job/1"
        os.environ["TRIBUTARY_URL"] = f"{url}{'&' if '?' in url else '?'}loss={arguments.loss}"
    torch.set_num_threads(1)  # The ranks share the machine's cores.
    torch.manual_seed(arguments.seed)
    # The only line that differs: "tributary" instead of "gloo".
    dist.init_process_group(arguments.backend)
    return dist.get_rank(), dist.get_world_size()


class NoCatchUp:
    """For Gloo, and without straggler mitigation, where no rank is ever behind."""

    steps_taken = 0

    def take_gradients(self):
        return False


def catch_up(arguments, ddp):
    """Returns the object from which a rank that is behind takes the others' gradients."""
    if arguments.backend != "tributary" or arguments.no_catch_up:
        return NoCatchUp()
    import tributary.torch

    if not tributary.torch.active_group().mitigated():
        return NoCatchUp()
    return tributary.torch.CatchUp(ddp)


def end_epoch(arguments, epoch):
    """Prints what stragglers did in the epoch. Every rank calls it."""
    if arguments.backend == "tributary":
        import tributary.torch

        tributary.torch.end_epoch(epoch)


def caught_up_steps(catches):
    """Returns, by rank, the steps taken from the others. All ranks must call it."""
    steps = [0] * dist.get_world_size()
    dist.all_gather_object(steps, catches.steps_taken)
    return steps


class Steps:
    """Times the steps of a training. Sleeps before some of them if this rank is the straggler."""

    def __init__(self, arguments, rank, world):
        sleeper = world - 1 if arguments.straggle_rank == -1 else arguments.straggle_rank
        self._probability = arguments.straggle if sleeper in (rank, -2) else 0.0
        self._sleep_s = arguments.straggle_ms / 1000
        self._random = random.Random(arguments.seed * 1000 + rank)
        self._began = None
        self.seconds = []  # Of each step.

    def __enter__(self):
        self._began = time.perf_counter()
        if self._random.random() < self._probability:
            time.sleep(self._sleep_s)
        return self

    def __exit__(self, *_):
        self.seconds.append(time.perf_counter() - self._began)

    def total(self):
        return sum(self.seconds)

    def median_ms(self):
        return 1000 * statistics.median(self._settled())

    def mean_ms(self):
        return 1000 * statistics.mean(self._settled())

    def _settled(self):
        # Skip the first steps, which build buckets and caches.
        return self.seconds[min(5, len(self.seconds) - 1) :]


def digest(model):
    """Returns a checksum of all parameters' bits."""
    sha = hashlib.sha256()
    for parameter in model.parameters():
        sha.update(parameter.detach().numpy().tobytes())
    return sha.hexdigest()


def parameters_identical(model):
    """Returns True if all ranks have bit-identical parameters."""
    digests = [None] * dist.get_world_size()
    dist.all_gather_object(digests, digest(model))
    return len(set(digests)) == 1


def degraded(arguments):
    """Returns the back end's summary of blocks that lack ranks; empty with Gloo."""
    if arguments.backend != "tributary":
        return {}
    import tributary.torch

    return tributary.torch.summary()


def keep_until_exit(group):
    """Prevents the destructor of a Gloo group, which can hang the end of a script.

    It holds the interpreter's lock while it joins Gloo's threads, which need that lock to free tensors.
    The back end tributary does the same for its own Gloo groups.
    """
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(group))


def finish(arguments, rank, result):
    """Prints the result on rank 0 and writes it to --json. Every rank calls it last."""
    dist.barrier()
    keep_until_exit(dist.group.WORLD)
    dist.destroy_process_group()
    # Gloo's threads still free tensors. One that does so while the interpreter ends aborts the process.
    time.sleep(GLOO_RELEASE_S)
    if rank != 0:
        return
    for name, value in result.items():
        print(f"{name:22} {value}")
    if arguments.json:
        with open(arguments.json, "w") as file:
            json.dump(result, file, indent=2)
            file.write("\n")
