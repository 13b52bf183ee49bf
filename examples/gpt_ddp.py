#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""A GPT-like model of 3.3 million parameters on the Python standard library's sources.

    tributary launch -n 4 examples/gpt_ddp.py --backend tributary --json out.json
    tributary launch -n 4 examples/gpt_ddp.py --compare --json out.json

--compare trains copies of one model on the same batches in the same processes, ROUND steps each in turn, so other
load on the machine affects all. The copy "gloo-rotated" gives each batch's shares to other ranks. The mean
gradient is the same, but Gloo adds it up in another order, so this copy shows the effect of rounding alone.
"""

import argparse
import statistics

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import text_ddp
import training

BATCH = 8  # Sequences per step, over all ranks.
ROUND = 5  # Steps of one copy before the next one's turn.
HEADS = 4


class Copy:
    """A copy of the model that one group trains."""

    def __init__(self, name, group, rotation, arguments, text):
        rank, self._world = dist.get_rank(), dist.get_world_size()
        torch.manual_seed(arguments.seed)
        self.name = name
        self.model = text_ddp.ByteModel(arguments.width, HEADS, arguments.layers)
        self._group = group
        self._share = (rank + rotation) % self._world
        self._text = text
        self._ddp = DistributedDataParallel(
            self.model, process_group=group, broadcast_buffers=False
        )
        self._optimizer = torch.optim.Adam(self.model.parameters(), lr=arguments.lr)
        self._catch_up = training.NoCatchUp()
        if name == "tributary":
            self._catch_up = training.catch_up(arguments, self._ddp)
        self._generator = torch.Generator().manual_seed(arguments.seed)
        self._losses = []  # Of this rank's share; None for a step taken from the others.
        self.steps = training.Steps(arguments, rank, self._world)

    def round(self, count):
        """Trains `count` steps."""
        dist.barrier(group=self._group)
        for _ in range(count):
            batch = text_ddp.sample(self._text, BATCH, self._generator)
            seen, wanted = (part[self._share :: self._world] for part in batch)
            with self.steps:
                self._losses.append(self._step(seen, wanted))

    def _step(self, seen, wanted):
        self._optimizer.zero_grad()
        loss = None
        if not self._catch_up.take_gradients():
            loss = nn.functional.cross_entropy(self._ddp(seen).transpose(1, 2), wanted)
            loss.backward()
        self._optimizer.step()
        return None if loss is None else loss.item()

    def losses(self):
        """Returns the mean loss of each step in nats per byte. Every rank calls it."""
        every = [None] * self._world
        dist.all_gather_object(every, self._losses)
        steps = ([loss for loss in step if loss is not None] for step in zip(*every))
        return [round(statistics.mean(step), 7) for step in steps]

    def result(self, held_back):
        loss, accuracy = text_ddp.evaluate(self.model, held_back)
        return {
            "losses": self.losses(),
            "validation_nats": loss,
            "validation_accuracy": accuracy,
            "parameters_identical": training.parameters_identical(self.model),
            "step_ms": self.steps.median_ms(),
            "mean_step_ms": self.steps.mean_ms(),
            "caught_up_steps": training.caught_up_steps(self._catch_up),
        }


def quartiles(ours, theirs):
    """Returns the quartiles of the ratios of ROUND steps' times, without the first round."""
    def rounds(seconds):
        sums = [sum(seconds[first : first + ROUND]) for first in range(0, len(seconds), ROUND)]
        return sums[min(1, len(sums) - 1) :]

    ratios = [one / other for one, other in zip(rounds(ours), rounds(theirs))]
    return statistics.quantiles(ratios * 2 if len(ratios) == 1 else ratios, method="inclusive")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    training.add_flags(parser)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--width", type=int, default=256)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--lr", type=float, default=1e-3, help="learning rate of Adam")
    parser.add_argument("--compare", action="store_true",
                        help="train with Tributary and with Gloo in turn")
    arguments = parser.parse_args()
    if arguments.compare:
        arguments.backend = "tributary"

    rank, world = training.begin(arguments)
    text = text_ddp.load()
    cut = len(text) * 19 // 20
    kinds = [(arguments.backend, None, 0)]
    if arguments.compare:
        gloo = dist.new_group(backend="gloo")
        kinds = [("gloo", gloo, 0), ("tributary", None, 0), ("gloo-rotated", gloo, 1)]
    copies = [Copy(*kind, arguments, text[:cut]) for kind in kinds]

    for first in range(0, arguments.steps, ROUND):
        count = min(ROUND, arguments.steps - first)
        for copy in copies:
            copy.round(count)
        losses = "  ".join(f"{copy.name} {copy.losses()[-1]:.4f}" for copy in copies)
        if rank == 0:
            print(f"step {first + count:4}  nats/byte: {losses}", flush=True)

    result = {
        "example": "gpt_ddp",
        "parameters": sum(parameter.numel() for parameter in copies[0].model.parameters()),
        "world": world,
        "seed": arguments.seed,
        **{copy.name: copy.result(text[cut:]) for copy in copies},
        "degraded": training.degraded(arguments),
    }
    if arguments.compare:
        seconds = {copy.name: copy.steps.seconds for copy in copies}
        for other in ("tributary", "gloo-rotated"):
            result[f"{other}_to_gloo_quartiles"] = quartiles(seconds[other], seconds["gloo"])
    training.finish(arguments, rank, result)


if __name__ == "__main__":
    main()
