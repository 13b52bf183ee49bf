#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Compares the median time of a DDP step with Gloo and with Tributary in one run.

    tributary launch -n 4 examples/compare_backends.py --json compare.json
    tributary launch -n 4 --timeout-ms 20 examples/compare_backends.py --straggle 0.1

Both groups live in the same processes and train copies of one model in turn, ROUND steps each, so
other load on the machine affects both. Single all-reduces (`all_reduce_ms_by_elements`) are left out with mitigation,
because Gloo handles those that must have all ranks.
"""

import argparse
import statistics
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import training
import tributary.torch

ROUND = 5  # Steps of one back end before the other's turn.
WARM_UP = 3  # The first steps build buckets; they are not counted.
BATCH = 16  # Samples per rank and step.
WIDTHS = {"small": 256, "large": 2048}  # 84 thousand and 4.3 million parameters.


def make_model(width):
    return nn.Sequential(
        nn.Linear(64, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 10)
    )


class Contender:
    """One back end with its copy of the model."""

    def __init__(self, name, group, arguments, rank, world):
        torch.manual_seed(arguments.seed)
        self.group = group
        self.model = make_model(WIDTHS[arguments.model])
        self.ddp = DistributedDataParallel(self.model, process_group=group)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.01)
        self.catch_up = training.NoCatchUp()
        if name == "tributary":
            self.catch_up = training.catch_up(arguments, self.ddp)
        self.steps = training.Steps(arguments, rank, world)
        generator = torch.Generator().manual_seed(rank)
        self.x = torch.randn(BATCH, 64, generator=generator)
        self.y = torch.randint(10, (BATCH,), generator=generator)

    def step(self):
        self.optimizer.zero_grad()
        if not self.catch_up.take_gradients():
            nn.functional.cross_entropy(self.ddp(self.x), self.y).backward()
        self.optimizer.step()

    def round(self):
        dist.barrier(group=self.group)
        for _ in range(ROUND):
            with self.steps:
                self.step()

    def result(self):
        return {
            "median_ms": 1000 * statistics.median(self.steps.seconds),
            "mean_ms": 1000 * statistics.mean(self.steps.seconds),
            "steps": len(self.steps.seconds),
            "caught_up_steps": training.caught_up_steps(self.catch_up),
            "digest": training.digest(self.model)[:16],
            "parameters_identical": training.parameters_identical(self.model),
        }


def all_reduce_ms(group, elements, count):
    """Returns the median time of one float32 all-reduce."""
    values = torch.randn(elements)
    tensor = torch.empty(elements)
    seconds = []
    for _ in range(count):
        tensor.copy_(values)
        began = time.perf_counter()
        dist.all_reduce(tensor, group=group)
        seconds.append(time.perf_counter() - began)
    return 1000 * statistics.median(seconds)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    training.add_flags(parser)
    parser.add_argument("--model", default="large", choices=WIDTHS)
    parser.add_argument("--rounds", type=int, default=8, help=f"rounds of {ROUND} steps each")
    arguments = parser.parse_args()
    arguments.backend = "tributary"
    rank, world = training.begin(arguments)
    groups = {"gloo": dist.new_group(backend="gloo"), "tributary": dist.group.WORLD}

    contenders = {
        name: Contender(name, group, arguments, rank, world) for name, group in groups.items()
    }
    for contender in contenders.values():
        for _ in range(WARM_UP):
            contender.step()
    for _ in range(arguments.rounds):
        for contender in contenders.values():
            contender.round()

    # With mitigation, a sum outside a backward pass goes through Gloo.
    mitigated = tributary.torch.active_group().mitigated()
    sizes = {} if mitigated else {"1": 200, "10000": 100, "1000000": 10, "4000000": 6}
    collectives = {
        elements: {
            name: all_reduce_ms(group, int(elements), count) for name, group in groups.items()
        }
        for elements, count in sizes.items()
    }
    result = {
        "example": "compare_backends",
        "world": world,
        "parameters": sum(p.numel() for p in contenders["gloo"].model.parameters()),
        "straggle": arguments.straggle,
        **{name: contender.result() for name, contender in contenders.items()},
        "all_reduce_ms_by_elements": collectives,
        "degraded": training.degraded(arguments),
    }
    for statistic in ("median_ms", "mean_ms"):
        result[f"tributary_to_gloo_{statistic}"] = (
            result["tributary"][statistic] / result["gloo"][statistic]
        )
    training.finish(arguments, rank, result)


if __name__ == "__main__":
    main()
