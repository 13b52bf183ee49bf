#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""A byte-level transformer on the Python standard library's sources, with DistributedDataParallel.

    tributary launch -n 2 examples/text_ddp.py --backend tributary --steps 200 --json out.json
"""

import argparse
import pathlib
import sysconfig

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import training

CONTEXT = 64  # Bytes that a prediction can see.
BATCH = 32  # Sequences per step, over all ranks.
WIDTH, HEADS, LAYERS = 96, 4, 2
VALIDATION_BATCHES = 8


class ByteModel(nn.Module):
    """A decoder-only transformer: bytes in, logits of the next byte out."""

    def __init__(self, width=WIDTH, heads=HEADS, layers=LAYERS):
        super().__init__()
        self.bytes = nn.Embedding(256, width)
        self.places = nn.Parameter(0.02 * torch.randn(CONTEXT, width))
        layer = nn.TransformerEncoderLayer(
            width, heads, 4 * width, dropout=0.0, batch_first=True, norm_first=True
        )
        self.layers = nn.TransformerEncoder(layer, layers)
        self.head = nn.Linear(width, 256)
        self.register_buffer("mask", nn.Transformer.generate_square_subsequent_mask(CONTEXT))

    def forward(self, text):
        return self.head(self.layers(self.bytes(text) + self.places, self.mask))


def load():
    """Returns the standard library's top-level modules as one tensor of bytes."""
    folder = pathlib.Path(sysconfig.get_paths()["stdlib"])
    text = b"".join(path.read_bytes() for path in sorted(folder.glob("*.py")))
    return torch.frombuffer(bytearray(text), dtype=torch.uint8)


def sample(text, count, generator):
    """Returns `count` sequences of CONTEXT bytes, and the same sequences one byte later."""
    starts = torch.randint(len(text) - CONTEXT - 1, (count,), generator=generator)
    rows = torch.stack([text[start : start + CONTEXT + 1] for start in starts]).long()
    return rows[:, :-1], rows[:, 1:]


def evaluate(model, text):
    """Returns the mean loss in nats per byte and the share of bytes guessed, on fixed samples."""
    generator = torch.Generator().manual_seed(0)
    losses, hits = [], []
    with torch.no_grad():
        for _ in range(VALIDATION_BATCHES):
            seen, wanted = sample(text, BATCH, generator)
            logits = model(seen)
            losses.append(nn.functional.cross_entropy(logits.transpose(1, 2), wanted).item())
            hits.append((logits.argmax(-1) == wanted).float().mean().item())
    return sum(losses) / len(losses), sum(hits) / len(hits)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    training.add_flags(parser)
    parser.add_argument("--steps", type=int, default=100, help="steps in an epoch")
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--lr", type=float, default=2e-3, help="learning rate of Adam")
    arguments = parser.parse_args()

    rank, world = training.begin(arguments)
    text = load()
    cut = len(text) * 19 // 20
    model = ByteModel()
    ddp = DistributedDataParallel(model, broadcast_buffers=False)
    optimizer = torch.optim.Adam(model.parameters(), lr=arguments.lr)
    generator = torch.Generator().manual_seed(arguments.seed)

    catch_up = training.catch_up(arguments, ddp)
    steps = training.Steps(arguments, rank, world)
    loss = accuracy = 0.0
    for epoch in range(arguments.epochs):
        dist.barrier()  # Do not count evaluation as straggling.
        for _ in range(arguments.steps):
            seen, wanted = (part[rank::world] for part in sample(text[:cut], BATCH, generator))
            with steps:
                optimizer.zero_grad()
                if not catch_up.take_gradients():
                    nn.functional.cross_entropy(ddp(seen).transpose(1, 2), wanted).backward()
                optimizer.step()
        loss, accuracy = evaluate(model, text[cut:])
        if rank == 0:
            print(f"epoch {epoch + 1:3}  {loss:.3f} nats/byte  {steps.total():.1f} s", flush=True)

    training.finish(arguments, rank, {
        "example": "text_ddp",
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
        "backend": arguments.backend,
        "world": world,
        "seed": arguments.seed,
        "loss_nats": loss,
        "accuracy": accuracy,
        "parameters_identical": training.parameters_identical(model),
        "seconds": steps.total(),
        "step_ms": steps.median_ms(),
        "mean_step_ms": steps.mean_ms(),
        "caught_up_steps": training.caught_up_steps(catch_up),
        "degraded": training.degraded(arguments),
    })


if __name__ == "__main__":
    main()
