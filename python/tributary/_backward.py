# SPDX-License-Identifier: Apache-2.0
"""Tells gradients from other tensors, because only gradients may be summed without a late rank."""

import threading

import torch


def reduces_gradients():
    """Returns True in a backward pass, where DDP and its hooks reduce, and in futures' callbacks.

    Outside a backward pass the autograd engine refuses callbacks. Neither torch 1.13 nor 2.x has another
    public sign that a pass is running.
    """
    if threading.current_thread().name.startswith("tributary-"):
        return True
    try:
        torch.autograd.Variable._execution_engine.queue_callback(_do_nothing)
    except RuntimeError:
        return False
    return True


def _do_nothing():
    pass
