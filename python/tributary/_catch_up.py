# SPDX-License-Identifier: Apache-2.0
"""CatchUp: a rank that is behind takes the gradients that the others computed without it.

Stream:  The ranks' tensors have positions. A rank that took a wrong number of tensors would pair its
         gradients with another step's, so every use that could do that raises before a step is taken.
Rehearsal: In the first step with final buckets, the last rank acts as if it were late, but adds zeros, and the
         others add their part of a mean over the rest. It adds the zeros of a bucket when the others start to sum
         it: earlier zeros would age out alone. At the next call all ranks meet and compare. So a script that does
         something else in the branch is refused on every rank, although no rank was late.
Layout:  A bucket holds each parameter's gradient in the parameter's own strides, one after another.
Errors:  InvalidArgument, at construction or from take_gradients(), on every rank.
Tests:   tests/python/ranks_late.py, tests/python/ranks_matrix.py
"""

import enum
import sys
import weakref

import torch
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
from torch.nn.parallel import DistributedDataParallel

from . import _guard, _meetings, errors
from ._branch import Branches
from ._group import active_group
from ._hierarchical import VARIABLE, HierarchicalGroup
from ._pace import Pace
from ._uneven import is_joining

# Type in which each communication hook sends gradients; None: the parameters' type.
HOOKS = {
    None: None,
    default_hooks.allreduce_hook: None,
    default_hooks.fp16_compress_hook: torch.float16,
    default_hooks.bf16_compress_hook: torch.bfloat16,
}
GRADIENT_TYPES = (torch.float32, torch.float16, torch.bfloat16)


_Rehearsal = enum.Enum("_Rehearsal", "AHEAD RUNNING ENDED COMPARED")


class CatchUp:
    """Lets a rank that is behind take the gradients that the others computed without it.

    With straggler mitigation the others finish a step without a late rank. The late rank would then
    compute gradients that are too late to be added, and be late in the next step too. So:

        catch_up = tributary.torch.CatchUp(model)    # a DistributedDataParallel
        batches = iter(loader)
        for _ in range(len(loader)):
            optimizer.zero_grad()
            if not catch_up.take_gradients():
                inputs, targets = next(batches)      # A step that is taken needs no data.
                loss_of(model(inputs), targets).backward()
            optimizer.step()

    - Each synchronised backward pass needs one call before it. Batches under no_sync() may have calls
      too, inside no_sync().
    - Collectives of your own belong outside the branch, where a rank that takes the gradients calls them too.
    - `hook` is allreduce_hook, fp16_compress_hook or bf16_compress_hook; CatchUp registers it.
    - One of the first steps is a rehearsal: the last rank takes it, and its gradients are the mean over the others.
    - An optimizer that calls a closure, such as LBFGS, is refused.
    - A model that is wrapped again after rejoin() needs a new CatchUp.

    `pace` counts how often and how long this rank was late.
    """

    def __init__(self, model, hook=None):
        self._group = active_group()
        # DDP keeps its hook's state, this object. Python's collector does not see that part of a cycle.
        self._model_ref = weakref.ref(model)
        self._hook = hook
        self._refuse_model()
        self._refuse_registered_hook()
        self._wire = HOOKS[hook]
        self.pace = Pace()
        self._buckets = []  # Type and parameters of each bucket of the latest step.
        self._communicator = None  # Used in the latest step.
        self._first = 0  # Packets submitted to it before the latest step.
        self._expects_backward = False  # The latest call asked for a synchronised backward pass.
        self._checks_calls = False  # Buckets are final, so DDP makes no other collectives.
        self._verified = False  # A step had exactly the collectives that take_gradients() repeats.
        self._misuse = None  # Found in a backward pass; raised by the next call.
        self._owes = False  # Batches without synchronisation were skipped: the step must be taken.
        self._took = False  # The latest step was taken.
        self._rehearsal = _Rehearsal.AHEAD
        self._branches = Branches(self._refuse_collective) if self._group.mitigated() else None
        self._calls = 0  # Collectives of the group when the latest call or step ended.
        model.register_comm_hook(self, CatchUp._reduce)
        _guard.leave_to_catch_up(model)
        self._group.paces.append(self.pace)

    @property
    def _model(self):
        model = self._model_ref()
        if model is None:
            raise errors.InvalidArgument("the model of this CatchUp is gone; make another one for the new model")
        return model

    @property
    def steps(self):
        """Synchronised steps so far, on every rank the same."""
        return self.pace.steps

    @property
    def steps_taken(self):
        """Steps with gradients taken from the others."""
        return self.pace.steps_taken

    def behind(self):
        """Returns True if the others have finished the next step without this rank."""
        return self._lag() > 0

    def take_gradients(self):
        """If this rank is a step behind, sets its parameters' gradients to that step's.

        Returns True if it did; the caller then has nothing to compute. Inside no_sync(), True means that
        the next call outside takes the gradients of the whole step.
        """
        self._check_use()
        if self._branches is not None:
            self._branches.note(sys._getframe(1))
        if self._rehearsal is _Rehearsal.ENDED:
            self._compare_rehearsal()
        takes = self._owes or self.pace.takes(self._lag())
        if self._rehearsal is _Rehearsal.AHEAD and self._verified:
            rehearses = self._group.mitigated() and self._group.size() > 1
            self._rehearsal = _Rehearsal.RUNNING if rehearses else _Rehearsal.COMPARED
        takes = takes or self._zeros_of() == self._group.rank()
        if not self._model.require_backward_grad_sync:
            self._owes = takes
            return takes
        _guard.before_step(self._model)
        self._expects_backward = not takes
        self._took = takes
        if takes:
            self._take()
        self._checks_calls = self._model._has_rebuilt_buckets
        self._calls = self._group.calls
        return takes

    # --- DDP's communication hook ---

    def _reduce(self, bucket):
        """Computes the mean over the world, like DDP without a hook or with the hook given."""
        buffer = bucket.buffer()
        if bucket.index() == 0:
            self._begin_step()
        self._buckets.append((buffer.dtype, list(bucket.parameters())))
        sent = buffer if self._wire in (None, buffer.dtype) else buffer.to(self._wire)
        contributors = self._group.size() - (self._zeros_of() is not None)
        self._meet_for_bucket()
        work = self._group.reduce_gradients(sent.div_(contributors), self._zeros_of())
        if bucket.is_last():
            self._end_step()
        if sent is buffer:
            return work.get_future().then(lambda done: done.value()[0])
        return work.get_future().then(lambda done: buffer.copy_(done.value()[0]))

    def _begin_step(self):
        if self._took:
            raise errors.InvalidArgument(
                "backward() after take_gradients() returned True; compute only if it returns False"
            )
        if not self._expects_backward:
            self._misuse = (
                "more than one synchronised backward pass for one call of take_gradients(); call it once "
                "before each, and wrap the accumulated ones in no_sync()"
            )
        self._expects_backward = False
        self._buckets = []
        self._communicator = self._group.communicator
        self._first = self._communicator.progress()[0]

    def _end_step(self):
        self.pace.steps += 1
        self._end_rehearsal()
        if self._checks_calls and self._group.calls != self._calls:
            self._misuse = self._misuse or (
                f"{self._group.calls - self._calls} collectives between take_gradients() and the end of "
                "the backward pass; a rank that takes the gradients would not call them. Move them out "
                "of the branch"
            )
        self._verified = self._verified or self._checks_calls
        self._calls = self._group.calls

    # --- Rehearsal ---

    def _zeros_of(self):
        """Returns the rank that adds zeros to the sums of this step, or None."""
        return self._group.size() - 1 if self._rehearsal is _Rehearsal.RUNNING else None

    def _meet_for_bucket(self):
        """Called before each sum. In the rehearsal, the rank that adds zeros waits until the others start this sum."""
        if self._zeros_of() is None:
            return
        if self._zeros_of() != self._group.rank():
            self._group.meetings.announce(_meetings.BUCKET)
            return
        self._meet(_meetings.BUCKET, errors.PeerMissing, "the backward pass of the rehearsal")

    def _meet(self, action, error_class, place):
        """Waits for all ranks. Raises error_class if one of them does not come to this place."""
        try:
            self._group.meetings.meet(action)
        except errors.TributaryError:
            raise
        except RuntimeError as error:  # Gloo's.
            raise error_class(
                f"another rank has not come to {place} ({error}); perhaps {_meetings.IN_BRANCH}"
            ) from error

    def _end_rehearsal(self):
        if self._rehearsal is _Rehearsal.RUNNING:
            self._rehearsal = _Rehearsal.ENDED

    def _compare_rehearsal(self):
        """Waits for all ranks. Raises if the step taken was not like the steps computed."""
        self._rehearsal = _Rehearsal.COMPARED
        self._meet(_meetings.REHEARSED, errors.InvalidArgument, "take_gradients() after the rehearsal")
        reduced = {id(parameter) for _, parameters in self._buckets for parameter in parameters}
        difference = _guard.find_difference(
            [(name, one) for name, one in self._model.module.named_parameters() if id(one) in reduced]
        )
        if difference:
            raise errors.InvalidArgument(
                f"a rank that takes the gradients trains differently: after the rehearsal {difference}. Leave only the "
                "data, the forward and the backward pass in the branch of take_gradients()"
            )

    # --- Checks ---

    def _refuse_model(self):
        reasons = list(_refusals(self._model, self._hook, self._group))
        if reasons:
            raise errors.InvalidArgument(f"CatchUp cannot serve this model: {'; '.join(reasons)}")

    def _refuse_registered_hook(self):
        registered = self._model._get_ddp_logging_data().get("comm_hook")
        if registered:
            raise errors.InvalidArgument(
                f"the model already has the communication hook {registered}; do not register it, but pass "
                "it as CatchUp(model, hook=…)"
            )

    def _refuse_closure(self):
        """Raises InvalidArgument if an optimizer calls take_gradients().

        A closure returns the loss, which differs between ranks, and LBFGS chooses its next point by it.
        """
        frame = sys._getframe()
        while frame is not None:
            if frame.f_code.co_name == "step" and isinstance(frame.f_locals.get("self"), torch.optim.Optimizer):
                raise errors.InvalidArgument(
                    f"take_gradients() is called in a closure of {type(frame.f_locals['self']).__name__}.step(), but a "
                    "rank that takes the gradients has no loss to return; use an optimizer without a closure, or train "
                    "without CatchUp"
                )
            frame = frame.f_back

    def _refuse_collective(self, place):
        """Raises InvalidArgument for a collective in the branch, here and where another rank meets this one."""
        if self._group.closed:
            return
        self._misuse = (
            f"{place}, in the branch of take_gradients(). A rank that takes the gradients does not call it; move it out "
            "of the branch"
        )
        self._group.meetings.refuse(self._misuse)
        raise errors.InvalidArgument(self._misuse)

    def _check_use(self):
        """Raises InvalidArgument if the calls so far do not follow the documented loop."""
        if not self._verified:
            self._refuse_closure()
        if not self._verified and self.steps > 0:
            self._refuse_model()  # For options that were set after construction.
        if self._expects_backward:
            self._misuse = self._misuse or (
                "take_gradients() was called twice for one synchronised backward pass; call it once for "
                "each, or inside no_sync() for the batches that are accumulated"
            )
        if self._misuse:
            if self._group.mitigated():
                self._group.meetings.refuse(self._misuse)
            raise errors.InvalidArgument(self._misuse)

    # --- Taking ---

    def _lag(self):
        """Returns the number of whole steps that the others have finished without this rank."""
        # After rejoin() all ranks count from 0. If all were behind, no rank would contribute.
        if not self._verified or self._communicator is not self._group.communicator:
            return 0
        submitted, heard = self._communicator.progress()
        return max(0, heard - submitted) // max(1, submitted - self._first)

    def _take(self):
        """Receives the gradients of a whole step."""
        self._owes = False
        zeros_of = self._zeros_of()
        self._first = self._communicator.progress()[0]
        received = []
        for dtype, parameters in self._buckets:
            count = sum(parameter.numel() for parameter in parameters)
            flat = torch.zeros(count, dtype=self._wire or dtype, device=parameters[0].device)
            rehearses = zeros_of == self._group.rank()
            start = self._group.reduce_gradients if rehearses else self._group.receive
            self._meet_for_bucket()
            received.append((parameters, dtype, flat, start(flat, zeros_of)))
        for parameters, dtype, flat, work in received:
            work.wait()
            _spread(flat.to(dtype), parameters)
        self.pace.steps += 1
        self.pace.steps_taken += zeros_of != self._group.rank()
        self._end_rehearsal()


def _refusals(model, hook, group):
    """Yields a line for each reason why CatchUp refuses this model, each with its remedy."""
    if not isinstance(model, DistributedDataParallel):
        yield f"{type(model).__name__} is not a DistributedDataParallel; wrap the model in one"
        return
    if isinstance(group, HierarchicalGroup):
        yield f"with {VARIABLE} no rank is ever left behind; unset it, or train without CatchUp"
        return
    if model.process_group is not group:
        yield "its process group is not the one of the aggregator; construct it without process_group"
    if model.broadcast_buffers and model.modules_buffers:
        yield (
            "it broadcasts buffers in each forward pass, for which all ranks wait; set "
            "broadcast_buffers=False"
        )
    if model.find_unused_parameters:
        yield (
            "with find_unused_parameters=True all ranks wait for each other in each step; set it to False, "
            "or train without CatchUp"
        )
    if model.static_graph:
        yield (
            "with static_graph=True a late rank cannot tell gradients of 0 from parameters without a "
            "gradient; set it to False, or train without CatchUp"
        )
    if is_joining(model):
        yield "join() needs all ranks in each step; give every rank the same number of batches"
    for name, module in model.module.named_modules():
        if isinstance(module, torch.nn.SyncBatchNorm):
            yield f'"{name}" is a SyncBatchNorm, for which all ranks wait in each pass; use BatchNorm'
        if getattr(module, "sparse", False) is True:
            yield f'"{name}" has sparse gradients; set sparse=False'
    types = {parameter.dtype for parameter in model.parameters() if parameter.requires_grad}
    for dtype in types - set(GRADIENT_TYPES):
        yield (
            f"gradients of type {dtype} do not go through the aggregator; allowed: "
            f"{', '.join(str(allowed) for allowed in GRADIENT_TYPES)}"
        )
    if hook not in HOOKS:
        yield (
            f"the hook {getattr(hook, '__name__', hook)} is not allowed; allowed: "
            f"{', '.join(known.__name__ for known in HOOKS if known)}"
        )


def _spread(flat, parameters):
    """Sets the gradients of a bucket's parameters to their parts of `flat`."""
    first = 0
    for parameter in parameters:
        part = flat[first : first + parameter.numel()]
        first += parameter.numel()
        # DDP keeps a parameter's strides if its elements fill their memory, as in channels_last.
        # Only then empty_like() keeps them too.
        if torch.empty_like(parameter).stride() == parameter.stride():
            gradient = part.as_strided(parameter.size(), parameter.stride())
        else:
            gradient = part.view(parameter.size())
        if parameter.grad is None:
            parameter.grad = gradient
        else:
            parameter.grad.copy_(gradient)
