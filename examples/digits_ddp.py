#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Handwritten digits (scikit-learn's bundled 1797 images) with DistributedDataParallel.

    tributary launch -n 4 examples/digits_ddp.py --backend tributary --json out.json
    tributary launch -n 4 examples/digits_ddp.py --backend gloo

Models: cnn (38 k parameters), mlp (9.6 k), mlp-large (4.3 M, 17 MB of gradients per step).
"""

import argparse

import torch
import torch.distributed as dist
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import training

BATCH = 64  # Images per step, over all ranks.
TEST_IMAGES = 360  # Evaluated once, after the last epoch.
VALIDATION_IMAGES = 180  # For choosing the recipe and for watching the training.


def make_model(name):
    if name == "cnn":
        return nn.Sequential(
            nn.Unflatten(1, (1, 8)),
            nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(),
            nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
            nn.Flatten(), nn.Linear(512, 64), nn.ReLU(), nn.Dropout(0.2), nn.Linear(64, 10),
        )
    width = {"mlp": 128, "mlp-large": 2048}[name]
    hidden = [nn.Linear(width, width), nn.ReLU()] if name == "mlp-large" else []
    return nn.Sequential(
        nn.Flatten(), nn.Linear(64, width), nn.ReLU(), *hidden, nn.Linear(width, 10)
    )


def load():
    """Returns images and labels for training, validation and the test."""
    images, labels = load_digits(return_X_y=True)
    images = images.astype("float32").reshape(-1, 8, 8) / 16

    def split(x, y, count):
        return train_test_split(x, y, test_size=count, random_state=0, stratify=y)

    x, test_x, y, test_y = split(images, labels, TEST_IMAGES)
    train_x, validation_x, train_y, validation_y = split(x, y, VALIDATION_IMAGES)
    parts = ((train_x, train_y), (validation_x, validation_y), (test_x, test_y))
    return [tuple(torch.from_numpy(array) for array in part) for part in parts]


def accuracy_of(model, images, labels):
    model.eval()
    with torch.no_grad():
        share = (model(images).argmax(1) == labels).float().mean().item()
    model.train()
    return share


def batches(count, rank, world, generator):
    """Yields the indices of this rank's share of each step; all ranks shuffle alike."""
    order = torch.randperm(count, generator=generator)
    for first in range(0, count - BATCH + 1, BATCH):
        yield order[first : first + BATCH][rank::world]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    training.add_flags(parser)
    parser.add_argument("--model", default="cnn", choices=("cnn", "mlp", "mlp-large"))
    parser.add_argument("--epochs", type=int, default=15)
    parser.add_argument("--lr", type=float, help="learning rate of Adam")
    parser.add_argument("--target", type=float, default=0.97,
                        help="also report the time to this validation accuracy")
    arguments = parser.parse_args()
    if arguments.epochs < 1:
        parser.error(f"--epochs {arguments.epochs} is not allowed; allowed: 1 and more")

    rank, world = training.begin(arguments)
    (images, labels), validation, test = load()
    model = make_model(arguments.model)
    ddp = DistributedDataParallel(model)
    torch.manual_seed(1000 * arguments.seed + rank)  # Ranks drop different units.
    lr = arguments.lr or (5e-4 if arguments.model == "mlp-large" else 1e-2)
    optimizer = torch.optim.Adam(model.parameters(), lr=lr, weight_decay=1e-4)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, arguments.epochs)
    loss_of = nn.CrossEntropyLoss(label_smoothing=0.1)
    generator = torch.Generator().manual_seed(arguments.seed)

    catch_up = training.catch_up(arguments, ddp)
    steps = training.Steps(arguments, rank, world)
    target_seconds = None
    accuracy = 0.0
    for epoch in range(arguments.epochs):
        dist.barrier()  # Do not count evaluation as straggling.
        for indices in batches(len(images), rank, world, generator):
            with steps:
                optimizer.zero_grad()
                if not catch_up.take_gradients():
                    loss_of(ddp(images[indices]), labels[indices]).backward()
                optimizer.step()
        schedule.step()
        accuracy = accuracy_of(model, *validation)
        if target_seconds is None and accuracy >= arguments.target:
            target_seconds = steps.total()
        if rank == 0:
            print(f"epoch {epoch + 1:3}  validation {100 * accuracy:.1f} %  {steps.total():.2f} s")

    training.finish(arguments, rank, {
        "example": "digits_ddp",
        "model": arguments.model,
        "backend": arguments.backend,
        "world": world,
        "seed": arguments.seed,
        "accuracy": accuracy_of(model, *test),
        "validation_accuracy": accuracy,
        "parameters_identical": training.parameters_identical(model),
        "seconds": steps.total(),
        "seconds_to_target": target_seconds,
        "step_ms": steps.median_ms(),
        "mean_step_ms": steps.mean_ms(),
        "caught_up_steps": training.caught_up_steps(catch_up),
        "degraded": training.degraded(arguments),
    })


if __name__ == "__main__":
    main()
