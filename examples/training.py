# SPDX-License-Identifier: Apache-2.0
"""What the training examples share: their flags, a rank that sleeps on purpose, their result.

Nothing here belongs to the back end; a script of one's own needs none of it.
"""

import hashlib
import json
import os
import random
import statistics
import sys
import time

import torch
import torch.distributed as dist


def add_flags(parser):
    parser.add_argument(
        "--backend",
        default=os.environ.get("TRIBUTARY_BACKEND", "tributary"),
        choices=("tributary", "gloo"),
    )
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--straggle", type=float, default=0.0, metavar="P",
                        help="a rank sleeps with this probability before a step")
    parser.add_argument("--straggle-ms", type=float, default=50.0)
    parser.add_argument("--straggle-rank", type=int, default=-1,
                        help="the rank that sleeps; -1 is the last one, -2 is every rank")
    parser.add_argument("--no-catch-up", action="store_true",
                        help="a rank that is behind computes every step in full")
    parser.add_argument("--loss", type=float, default=0.0, metavar="P",
                        help="lose packets with this probability, both ways; tributary only")
    parser.add_argument("--json", metavar="FILE", help="rank 0 writes the result here")


def begin(arguments):
    """Joins the others. Returns rank and world."""
    if arguments.loss and arguments.backend != "tributary":
        sys.exit(f"--loss {arguments.loss}: Gloo runs over TCP; allowed with --backend tributary")
    if arguments.loss:
        url = os.environ.get("TRIBUTARY_URL", "")
        os.environ["TRIBUTARY_URL"] = f"{url}{'&' if '?' in url else '?'}loss={arguments.loss}"
    torch.set_num_threads(1)  # The ranks share the machine's cores.
    torch.manual_seed(arguments.seed)
    # The one line that differs: "tributary" where it said "gloo".
    dist.init_process_group(arguments.backend)
    return dist.get_rank(), dist.get_world_size()


class NoCatchUp:
    """For Gloo, and without straggler mitigation: nobody is ever behind."""

    steps_taken = 0

    def take_gradients(self):
        return False


def catch_up(arguments, ddp):
    """What a rank that is behind asks for the others' gradients."""
    if arguments.backend != "tributary" or arguments.no_catch_up:
        return NoCatchUp()
    import tributary.torch

    if tributary.torch.active_group().communicator.info()["straggler_timeout_us"] == 0:
        return NoCatchUp()
    return tributary.torch.CatchUp(ddp)


def caught_up_steps(catches):
    """By rank: the steps that it took from the others. For all ranks at once."""
    steps = [0] * dist.get_world_size()
    dist.all_gather_object(steps, catches.steps_taken)
    return steps


class Steps:
    """Times the steps of a training, and sleeps before some of them if this rank straggles."""

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
        # The first steps build buckets and caches.
        return self.seconds[min(5, len(self.seconds) - 1) :]


def digest(model):
    """A checksum of all parameters, bit by bit."""
    sha = hashlib.sha256()
    for parameter in model.parameters():
        sha.update(parameter.detach().numpy().tobytes())
    return sha.hexdigest()


def parameters_identical(model):
    """Whether all ranks have the same parameters, bit by bit."""
    digests = [None] * dist.get_world_size()
    dist.all_gather_object(digests, digest(model))
    return len(set(digests)) == 1


def degraded(arguments):
    """What the back end says of blocks that lack ranks; nothing with Gloo."""
    if arguments.backend != "tributary":
        return {}
    import tributary.torch

    return tributary.torch.summary()


def finish(arguments, rank, result):
    """Prints the result on rank 0 and writes it to --json; the last collective of a rank."""
    # Gloo of torch 1.13 can hang when a group ends while its thread still frees tensors; a barrier
    # gives it the time.
    dist.barrier()
    dist.destroy_process_group()
    if rank != 0:
        return
    for name, value in result.items():
        print(f"{name:22} {value}")
    if arguments.json:
        with open(arguments.json, "w") as file:
            json.dump(result, file, indent=2)
            file.write("\n")
