# SPDX-License-Identifier: Apache-2.0
"""Copies CUDA tensors to host memory and submits them when the copies are complete.

The thread of the backward pass only starts the copy, on a stream of its own. Another thread waits for it and
submits. From the first CUDA tensor on, that thread submits all tensors of the group, so their order stays
the order of the calls.

Tests: tests/python/staging_test.py, and cuda_test.py where there is a GPU
"""

import concurrent.futures
import time

import torch

_to_host = {}  # A stream for copies from each device.
_from_host = {}  # Another, because the copies of later tensors wait for kernels that compute them.


def _stream_of(streams, device):
    if device not in streams:
        streams[device] = torch.cuda.Stream(device)
    return streams[device]


def copy_to_host(tensor):
    """Starts a copy to host memory. Returns the copy, and a function that waits for it."""
    if not tensor.is_cuda:
        return tensor.to("cpu"), lambda: None
    stream = _stream_of(_to_host, tensor.device)
    stream.wait_stream(torch.cuda.current_stream(tensor.device))
    host = torch.empty(tensor.shape, dtype=tensor.dtype, device="cpu", pin_memory=True)
    with torch.cuda.stream(stream):
        host.copy_(tensor, non_blocking=True)
        tensor.record_stream(stream)  # Its memory must not be reused before the copy has ended.
        copied = torch.cuda.Event()
        copied.record(stream)
    return host, copied.synchronize


def copy_back(tensor, host):
    """Copies a result to the tensor that copy_to_host() copied, and waits for it, but not for kernels of the script."""
    if not tensor.is_cuda:
        tensor.copy_(host)
        return
    stream = _stream_of(_from_host, tensor.device)
    with torch.cuda.stream(stream):
        tensor.copy_(host, non_blocking=True)
    stream.synchronize()


def wait_for_kernels_of(tensors):
    """Waits for the kernels that this thread has started on the devices of the tensors.

    A future completes in a thread whose stream the script's streams do not wait for.
    """
    for device in {tensor.device for tensor in tensors if tensor.is_cuda}:
        torch.cuda.current_stream(device).synchronize()


class LaterOperation:
    """An Operation that another thread will submit. Raises that submission's exception in wait()."""

    def __init__(self, submission):
        self._submission = submission  # A future of the Operation.

    def done(self):
        if not self._submission.done():
            return False
        return self._submission.exception() is not None or self._submission.result().done()

    def wait(self, timeout=None):
        began = time.monotonic()
        try:
            operation = self._submission.result(timeout)
        except concurrent.futures.TimeoutError:
            return None
        left_s = None if timeout is None else max(0, timeout - (time.monotonic() - began))
        return operation.wait(left_s)


class Submitter:
    """Submits in the order of the calls. Callers hold the group's lock."""

    def __init__(self):
        self._thread = None

    def submit(self, start, wait_for_copy=None):
        """Returns start(), which submits, or an operation that starts after wait_for_copy()."""
        if wait_for_copy is None and self._thread is None:
            return start()
        if self._thread is None:
            self._thread = concurrent.futures.ThreadPoolExecutor(1, "tributary-stager")
        return LaterOperation(self._thread.submit(_submit_after, wait_for_copy, start))

    def close(self):
        """Ends the thread after the submissions that were already requested."""
        if self._thread is not None:
            self._thread.shutdown(wait=False)


def _submit_after(wait_for_copy, start):
    if wait_for_copy is not None:
        wait_for_copy()
    return start()
