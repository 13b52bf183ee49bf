#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Training from files, where one rank's disk stalls now and then, as disks do while they flush or spin up.

    tributary launch -n 4 --timeout-ms 20 examples/slow_disk_ddp.py
    tributary launch -n 4 --backend gloo examples/slow_disk_ddp.py

Each rank reads its batches of handwritten digits from files of its own. The reads of the last rank stall with
the probability --straggle, for --straggle-ms. The other ranks continue without it. It reads nothing for
the steps that it takes from them, so it catches up. Rank 0 prints a line for each epoch.
"""

import argparse
import pathlib
import random
import tempfile
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import digits_ddp
import training


class Disk:
    """Batches in files. Reading one may stall."""

    def __init__(self, folder, arguments, stalls):
        self._folder = pathlib.Path(folder)
        self._probability = arguments.straggle if stalls else 0.0
        self._stall_s = arguments.straggle_ms / 1000
        self._random = random.Random(arguments.seed)
        self.stalls = 0

    def write(self, number, batch):
        torch.save(batch, self._folder / str(number))

    def read(self, number):
        if self._random.random() < self._probability:
            self.stalls += 1
            time.sleep(self._stall_s)
        return torch.load(self._folder / str(number))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    training.add_flags(parser)
    parser.add_argument("--epochs", type=int, default=5)
    parser.set_defaults(straggle=0.05, straggle_ms=100.0)
    arguments = parser.parse_args()

    rank, world = training.begin(arguments)
    (images, labels), _, test = digits_ddp.load()
    model = digits_ddp.make_model("cnn")
    ddp = DistributedDataParallel(model)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2, weight_decay=1e-4)
    loss_of = nn.CrossEntropyLoss(label_smoothing=0.1)
    generator = torch.Generator().manual_seed(arguments.seed)
    catch_up = training.catch_up(arguments, ddp)
    seconds = 0.0

    with tempfile.TemporaryDirectory() as folder:
        disk = Disk(folder, arguments, stalls=rank == world - 1)
        for epoch in range(1, arguments.epochs + 1):
            batches = digits_ddp.batches(len(images), rank, world, generator)
            for count, indices in enumerate(batches, start=1):
                disk.write(count, (images[indices], labels[indices]))
            dist.barrier()
            began = time.perf_counter()
            left = iter(range(1, count + 1))  # Batches not yet read.
            for _ in range(count):
                optimizer.zero_grad()
                if not catch_up.take_gradients():
                    x, y = disk.read(next(left))
                    loss_of(ddp(x), y).backward()
                optimizer.step()
            seconds += time.perf_counter() - began
            training.end_epoch(arguments, epoch)

    stalls = [0] * world
    dist.all_gather_object(stalls, disk.stalls)
    training.finish(arguments, rank, {
        "example": "slow_disk_ddp",
        "backend": arguments.backend,
        "world": world,
        "accuracy": digits_ddp.accuracy_of(model, *test),
        "parameters_identical": training.parameters_identical(model),
        "seconds": seconds,
        "stalls": stalls[-1],
        "caught_up_steps": training.caught_up_steps(catch_up),
        "degraded": training.degraded(arguments),
    })


if __name__ == "__main__":
    main()
