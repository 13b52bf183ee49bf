# SPDX-License-Identifier: Apache-2.0
"""The collectives of a group other than all-reduce.

A reduce is a sum that only its root receives, and a reduce_scatter is such a sum for each rank. With straggler
mitigation a sum may lack a rank: then a reduce goes to Gloo, and in a reduce_scatter a rank keeps a part of an
all-reduce, as it does in coalesced all-reduces. Gloo handles broadcast and all_gather faster on one machine. With
TRIBUTARY_COLLECTIVES=aggregator they go through the aggregator: they add up bytes as int32, and ranks without
data add zeros. int32 sums are exact, so any type arrives bit for bit. With straggler mitigation they always go to
Gloo, which moves the types that it lacks as bytes.
"""

import os

import torch
import torch.distributed as dist

from . import errors
from ._gloo import of_contiguous
from ._work import AfterWork, memory_of, writing

BYTES_IN_LANE = 4
# Types of Gloo in torch 1.13. Others go through the aggregator, or through Gloo as bytes.
GLOO_TYPES = (
    torch.float32, torch.float64, torch.float16, torch.int8, torch.uint8, torch.int32, torch.int64,
)


def _is_empty(tensors):
    """Returns True if there is nothing to send. Gloo divides by the length."""
    return all(tensor.layout == torch.strided and tensor.numel() == 0 for tensor in tensors)


def refuse_shared_elements(tensors):
    """Raises InvalidArgument if elements share memory, where each element's sum would overwrite another's."""
    for tensor in tensors:
        if tensor.layout == torch.strided and any(
            stride == 0 and size > 1 for size, stride in zip(tensor.shape, tensor.stride())
        ):
            raise errors.InvalidArgument(
                f"elements of the tensor share memory (shape {tuple(tensor.shape)}, strides {tensor.stride()}), as "
                "expand() makes them; give a tensor that owns its elements, as clone() makes it"
            )


def _as_lanes(tensor):
    """Returns the memory of a contiguous tensor as int32, or None if it has parts of lanes."""
    if not tensor.is_contiguous() or tensor.device.type != "cpu" or tensor.is_conj():
        return None
    size = tensor.numel() * tensor.element_size()
    if size % BYTES_IN_LANE or tensor.data_ptr() % BYTES_IN_LANE:
        return None
    return tensor.view(-1).view(torch.int32)


def _bytes_of(tensor):
    """Returns the tensor's elements as bytes, in C order. A view if it is contiguous."""
    return tensor.detach().to("cpu").contiguous().view(-1).view(torch.uint8)


def _needs_bytes(tensor):
    """Returns True if Gloo lacks the type of a dense tensor. Gloo then moves its bytes."""
    return tensor.layout == torch.strided and tensor.dtype not in GLOO_TYPES


def _write_all(tensors, parts):
    """Copies bytes, one tensor of them for each, to tensors of any layout and device."""
    for tensor, part in zip(tensors, parts):
        # A copy, because a part of a larger tensor may not be aligned for the type.
        tensor.detach().copy_(part.clone().view(tensor.dtype).view(tensor.shape))


def _lanes_for(size_bytes):
    return torch.zeros(-(-size_bytes // BYTES_IN_LANE), dtype=torch.int32, device="cpu")


def _read(tensor, lanes):
    """Copies the bytes of lanes to a tensor of any layout and device."""
    size = tensor.numel() * tensor.element_size()
    _write_all([tensor], [lanes.view(torch.uint8)[:size]])


def _place_for_sum(output, parts, rank):
    """Returns the output for the sum of this rank's part, or new memory if the other parts lie in the output."""
    own = parts[rank]
    begin, end = memory_of(output)
    others = [memory_of(part) for other, part in enumerate(parts) if other != rank]
    alike = (output.dtype, output.device, output.numel()) == (own.dtype, own.device, own.numel())
    if alike and all(last <= begin or end <= first for first, last in others):
        return output.detach()
    return torch.empty_like(own.detach(), memory_format=torch.contiguous_format)


def _chunks(tensor, world):
    """Returns equal parts of a contiguous tensor, one for each rank. Its length must be a multiple of `world`."""
    return list(tensor.view(world, tensor.numel() // world))


def _check_length(name, found, allowed, reason):
    """Raises InvalidArgument if a tensor's length is not allowed. Gloo raises RuntimeError, which is its base class."""
    if found != allowed:
        raise errors.InvalidArgument(f"{name} of {found} elements is not allowed; allowed: {allowed}, {reason}")


def _check_type(output, given):
    """Raises InvalidArgument if the types of an output and an input differ. For lists torch itself compares them."""
    if output.dtype != given.dtype:
        raise errors.InvalidArgument(
            f"an output of type {output.dtype} is not allowed; allowed: {given.dtype}, as the input has"
        )


def check_variable():
    """Raises InvalidArgument if TRIBUTARY_COLLECTIVES is not allowed."""
    value = os.environ.get("TRIBUTARY_COLLECTIVES", "gloo")
    if value not in ("gloo", "aggregator"):
        raise errors.InvalidArgument(
            f"TRIBUTARY_COLLECTIVES={value} is not allowed; allowed: gloo (the default), aggregator"
        )


class Collectives:
    """Mixed into TributaryGroup, which has the methods that self calls here."""

    _coalesced = None  # Works since _start_coalescing().

    def by_gloo(self, tensor):
        """Returns True if Gloo moves the bytes of this tensor."""
        if self.mitigated() or tensor.layout != torch.strided:
            return True
        wanted = os.environ.get("TRIBUTARY_COLLECTIVES", "gloo") == "aggregator"
        return not wanted and tensor.dtype in GLOO_TYPES

    def _check_root(self, root):
        if not 0 <= root < self.size():
            raise errors.InvalidArgument(f"rank {root} is not in the group; allowed: 0 to {self.size() - 1}")

    # --- Bytes ---

    def broadcast(self, tensors, opts=None):
        if isinstance(tensors, torch.Tensor):
            tensors = [tensors]
        root = opts.rootRank if opts is not None else 0
        self._check_root(root)
        refuse_shared_elements(tensors)
        if _is_empty(tensors):
            return AfterWork([], tensors)
        if len(tensors) != 1 or self.by_gloo(tensors[0]):
            return self._broadcast_by_gloo(tensors, opts)
        tensor = tensors[0].detach()
        lanes = _as_lanes(tensor)
        if lanes is not None:  # In place.
            if self.rank() != root:
                with writing(lanes):
                    lanes.zero_()
            return self.submit_lanes(lanes, tensors)
        own = _bytes_of(tensor)
        lanes = _lanes_for(own.numel())
        if self.rank() == root:
            lanes.view(torch.uint8)[: own.numel()] = own
        return self.submit_lanes(lanes, tensors, lambda: _read(tensor, lanes))

    def _broadcast_by_gloo(self, tensors, opts):
        options = () if opts is None else (opts,)
        if len(tensors) != 1 or not _needs_bytes(tensors[0]):
            return of_contiguous(self.inner.broadcast, tensors, *options)
        part = _bytes_of(tensors[0])
        work = self.inner.broadcast([part], *options)
        # DDP, in C++, would lose the methods of an AfterWork. Its tensors are contiguous.
        in_place = part.data_ptr() == tensors[0].data_ptr()
        return work if in_place else AfterWork([work], tensors, lambda: _write_all(tensors, [part]))

    def _check_count(self, name, tensors):
        if len(tensors) != self.size():
            raise errors.InvalidArgument(
                f"{name} of {len(tensors)} tensors is not allowed; allowed: {self.size()}, one for each rank"
            )

    def allgather(self, outputs, inputs, opts=None):
        if len(inputs) == 1 and inputs[0].layout == torch.strided:
            self._check_count("an output", outputs[0])
            for rank, output in enumerate(outputs[0]):
                _check_length(f"output {rank}", output.numel(), inputs[0].numel(), "as the input has")
        if _is_empty(inputs) and _is_empty(outputs[0]):
            return AfterWork([], [outputs[0]])
        if len(inputs) == 1 and self.by_gloo(inputs[0]) and _needs_bytes(inputs[0]):
            parts = [_bytes_of(output) for output in outputs[0]]
            work = self.inner.allgather([parts], [_bytes_of(inputs[0])])
            return AfterWork([work], [outputs[0]], lambda: _write_all(outputs[0], parts))
        if len(inputs) != 1 or self.by_gloo(inputs[0]):
            return self.inner.allgather(outputs, inputs, *(() if opts is None else (opts,)))
        return self._gather_bytes(outputs[0], inputs[0], [outputs[0]])

    def _allgather_base(self, output, given, opts=None):
        world = self.size()
        _check_length("an output", output.numel(), world * given.numel(), f"{world} times the input's {given.numel()}")
        _check_type(output, given)
        if _is_empty([output]):
            return AfterWork([], [output])
        if self.by_gloo(given):
            return self._gather_by_gloo([output], [given])
        part = _as_lanes(given)
        lanes = _as_lanes(output.detach())
        if part is None or lanes is None:
            return self._gather_bytes(_chunks(output.detach(), world), given, [output])
        first = self.rank() * part.numel()
        own = part.clone() if given.data_ptr() == output.data_ptr() + first * BYTES_IN_LANE else part
        with writing(lanes):
            lanes.zero_()  # In place: `given` may be a part of `output`.
            lanes[first : first + part.numel()] = own
        return self.submit_lanes(lanes, [output])

    def allgather_into_tensor_coalesced(self, outputs, inputs, opts=None):
        return self._in_turn(self._allgather_base, outputs, inputs)

    def _gather_bytes(self, outputs, given, result):
        own = _bytes_of(given)
        size = -(-own.numel() // BYTES_IN_LANE)
        lanes = torch.zeros(size * self.size(), dtype=torch.int32, device="cpu")
        first = BYTES_IN_LANE * size * self.rank()
        lanes.view(torch.uint8)[first : first + own.numel()] = own

        def spread():
            for rank, output in enumerate(outputs):
                _read(output.detach(), lanes[rank * size : (rank + 1) * size])

        return self.submit_lanes(lanes, result, spread)

    def _gather_by_gloo(self, outputs, inputs):
        parts = [_chunks(torch.empty_like(output).contiguous(), self.size()) for output in outputs]
        works = [self.allgather([part], [given.contiguous().view(-1)])
                 for part, given in zip(parts, inputs)]

        def join():
            for output, part in zip(outputs, parts):
                output.detach().copy_(torch.cat(part).view(output.shape))

        return AfterWork(works, outputs, join)

    def alltoall(self, outputs, inputs, opts=None):
        """Exchanges lists of tensors of any type and size, as bytes.

        Gloo exchanges parts of a single tensor only.
        """
        parts = [_bytes_of(tensor) for tensor in inputs]
        sizes = [output.numel() * output.element_size() for output in outputs]
        received = torch.empty(sum(sizes), dtype=torch.uint8, device="cpu")

        work = self.inner.alltoall_base(
            received, torch.cat(parts), sizes, [part.numel() for part in parts],
            *(() if opts is None else (opts,)),
        )
        return AfterWork([work], [outputs], lambda: _write_all(outputs, received.split(sizes)))

    # --- Sums ---

    def reduce(self, tensors, opts=None):
        root = opts.rootRank if opts is not None else 0
        self._check_root(root)
        refuse_shared_elements(tensors)
        op_name = self.op_name(opts)
        if len(tensors) != 1 or self.mitigated() or not self.goes_through(tensors[0], op_name):
            return of_contiguous(self.inner.reduce, tensors, *(() if opts is None else (opts,)))
        return self.submit_for(root, tensors[0], op_name, result=tensors)

    def reduce_scatter(self, outputs, inputs, opts=None):
        return self._scatter_sum(outputs[0], inputs[0], opts)

    def _reduce_scatter_base(self, output, given, opts=None):
        world = self.size()
        _check_length("an input", given.numel(), world * output.numel(), f"{world} times the output's {output.numel()}")
        _check_type(output, given)
        return self._scatter_sum(output, _chunks(given.contiguous(), world), opts)

    def reduce_scatter_tensor_coalesced(self, outputs, inputs, opts=None):
        return self._in_turn(self._reduce_scatter_base, outputs, inputs, opts)

    def _scatter_sum(self, output, parts, opts):
        self._check_count("an input", parts)
        own_length = parts[self.rank()].numel()
        _check_length("an output", output.numel(), own_length, f"as part {self.rank()} of the input has")
        op_name = self.op_name(opts)
        one_type = all(part.dtype == parts[0].dtype for part in parts)
        if self.mitigated() or not one_type or not all(self.goes_through(part, op_name) for part in parts):
            return self._scatter_all_reduced(output, parts, opts)
        self.calls += 1
        self.settle_works_of([output, *parts])
        rank = self.rank()
        own = _place_for_sum(output, parts, rank)
        with writing(own):
            own.copy_(parts[rank].detach().reshape(own.shape))
        works = [
            self.submit_for(owner, own if owner == rank else part, op_name, counted=owner == rank)
            for owner, part in enumerate(parts)
        ]

        def keep_own():
            if own.data_ptr() != output.data_ptr():
                output.detach().copy_(own.view(output.shape))

        return AfterWork(works, [output], keep_own)

    def _scatter_all_reduced(self, output, parts, opts):
        self.settle_works_of(parts)
        flat = torch.cat([part.reshape(-1) for part in parts])
        first = sum(part.numel() for part in parts[: self.rank()])

        def keep_own():
            output.detach().copy_(flat[first : first + output.numel()].view(output.shape))

        all_reduce_opts = dist.AllreduceOptions()
        if opts is not None:
            all_reduce_opts.reduceOp = opts.reduceOp
        return AfterWork([self.allreduce([flat], all_reduce_opts)], [output], keep_own)

    def allreduce_coalesced(self, tensors, opts=None):
        self.settle_works_of(tensors)
        if any(tensor.layout != torch.strided or tensor.dtype != tensors[0].dtype for tensor in tensors):
            options = () if opts is None else (opts,)
            return self.meet_in(lambda: self.inner.allreduce_coalesced(tensors, *options))
        flat = torch.cat([tensor.reshape(-1) for tensor in tensors])

        def spread():
            for tensor, part in zip(tensors, flat.split([tensor.numel() for tensor in tensors])):
                tensor.detach().copy_(part.view(tensor.shape))

        all_reduce_opts = dist.AllreduceOptions()
        if opts is not None:
            all_reduce_opts.reduceOp = opts.reduceOp
        return AfterWork([self.allreduce([flat], all_reduce_opts)], tensors, spread)

    # --- Coalescing of torch's manager: each operation is submitted at once ---

    def _start_coalescing(self, device=None):
        self._coalesced = []

    def _end_coalescing(self, device_or_works=None):
        """Returns a work for the operations since _start_coalescing(), or None without any. torch 2 waits for it alone."""
        works, self._coalesced = self._coalesced, None
        return AfterWork(works, []) if works else None

    def remember_coalesced(self, work):
        """Keeps a work that _end_coalescing() is to wait for. Returns it."""
        if self._coalesced is not None and work is not None:
            self._coalesced.append(work)
        return work

    def _in_turn(self, collective, outputs, inputs, *opts):
        works = [collective(output, given, *opts) for output, given in zip(outputs, inputs)]
        return AfterWork(works, outputs)
