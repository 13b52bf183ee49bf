#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Trains asynchronously: ranks push changes of the parameters and never wait for each other.

    tributary launch -n 3 --job-option asynchronous=on --job-option parameters=650 \\
        examples/asynchronous.py --slow-ms 5

Softmax regression of handwritten digits: 64 x 10 weights and 10 biases. The aggregator keeps the parameters. A rank
computes a step from the parameters that it has, pushes the change, and gets the current parameters (BytePS, section 5).
The last rank can be slowed down.
"""

import argparse
import time

import numpy
import tributary
from sklearn.datasets import load_digits

FEATURES, CLASSES = 64, 10
PARAMETERS = (FEATURES + 1) * CLASSES
SCALE = 2.0**24  # Parameters travel as multiples of 1 / SCALE; the largest is 2^31 / SCALE / ranks.


def probabilities(parameters, inputs):
    weights = parameters[: FEATURES * CLASSES].reshape(FEATURES, CLASSES)
    logits = inputs @ weights + parameters[FEATURES * CLASSES :]
    exponentials = numpy.exp(logits - logits.max(axis=1, keepdims=True))
    return exponentials / exponentials.sum(axis=1, keepdims=True)


def gradient(parameters, inputs, targets):
    error = probabilities(parameters, inputs)
    error[numpy.arange(len(targets)), targets] -= 1
    error /= len(targets)
    return numpy.concatenate([(inputs.T @ error).ravel(), error.sum(axis=0)])


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--steps", type=int, default=600, help="steps of each rank")
    parser.add_argument("--slow-ms", type=float, default=0, help="additional time of the last rank's steps")
    arguments = parser.parse_args()
    digits = load_digits()
    inputs, targets = (digits.data / 16).astype(numpy.float32), digits.target
    held_out = numpy.arange(len(targets)) % 5 == 0
    with tributary.Communicator(asynchronous="on", format="fixed", scale=SCALE) as communicator:
        rank, world = communicator.rank, communicator.world
        random = numpy.random.default_rng(rank)
        own = numpy.flatnonzero(~held_out)[rank::world]
        parameters = numpy.zeros(PARAMETERS, numpy.float32)  # The same initial values on all ranks.
        staleness, began = [], time.monotonic()
        for _ in range(arguments.steps):
            if rank == world - 1:
                time.sleep(arguments.slow_ms / 1000)
            batch = random.choice(own, 64)
            change = (-0.5 / world * gradient(parameters, inputs[batch], targets[batch])).astype(numpy.float32)
            report = communicator.all_reduce(change)  # Pushes the change; gets the parameters.
            parameters = change
            staleness.append(report.staleness_sum / report.blocks)
        accuracy = (probabilities(parameters, inputs[held_out]).argmax(axis=1) == targets[held_out]).mean()
        print(
            f"{arguments.steps} steps in {time.monotonic() - began:.2f} s, accuracy {100 * accuracy:.1f} %, "
            f"staleness {numpy.mean(staleness):.1f} pushes, at most {numpy.max(staleness):.0f}"
        )


if __name__ == "__main__":
    main()
