# SPDX-License-Identifier: Apache-2.0
"""Finds collectives in the branch of CatchUp.take_gradients(), at their first call.

A rank that takes the gradients does not enter the branch, so it would miss them. The branch is known from the
script's source: `if not …take_gradients():` and its `else` without `not`, also with the answer in a variable that is
assigned once. Of other forms, and of scripts without a source file, nothing is known.

Calls:  Python's functions of torch.distributed, of all groups. Not those that torch makes in C++, such as DDP's, and
        not functions that a script has imported by name before install(), which tributary.torch calls.
Tests:  tests/python/branch_test.py, tests/python/ranks_late.py
"""

import ast
import functools
import linecache
import sys
import weakref

import torch.distributed as dist
from torch.distributed import distributed_c10d

# Operations of several ranks. Names differ by torch version; missing ones are skipped. Not isend and irecv: torch
# compares the functions in a P2POp with its own, and a script may have imported them before install().
CHECKED = (
    "_all_gather_base", "_reduce_scatter_base", "all_gather", "all_gather_coalesced", "all_gather_into_tensor",
    "all_gather_object", "all_reduce", "all_reduce_coalesced", "all_to_all", "all_to_all_single", "barrier",
    "batch_isend_irecv", "broadcast", "broadcast_object_list", "gather", "gather_object", "monitored_barrier", "recv",
    "reduce", "reduce_scatter", "reduce_scatter_tensor", "scatter", "scatter_object_list", "send",
)

_watched = weakref.WeakSet()  # Branches.


class Branches:
    """The branches of one CatchUp. refuse(text) is called for a collective in them, and raises."""

    def __init__(self, refuse):
        self._refuse = weakref.WeakMethod(refuse)
        self._sites = {}  # Line ranges of the branches, by code and line of the call.
        _watched.add(self)

    def note(self, frame):
        """Notes the branches that depend on the call of take_gradients() in this frame."""
        site = frame.f_code, frame.f_lineno
        if site not in self._sites:
            source = "".join(linecache.getlines(frame.f_code.co_filename, frame.f_globals))
            self._sites[site] = branches_of(source, frame.f_lineno)

    def check(self, name, frame):
        """Refuses the collective `name` if a branch has called it, directly or through functions."""
        codes = {code for code, _ in self._sites}
        while frame is not None:
            if frame.f_code in codes and self._contains(frame.f_code, frame.f_lineno):
                refuse = self._refuse()
                if refuse is not None:
                    refuse(f"{name}() is called in {frame.f_code.co_filename}, line {frame.f_lineno}")
                return
            frame = frame.f_back

    def _contains(self, code, line):
        return any(
            line in lines for (noted, _), ranges in self._sites.items() if noted is code for lines in ranges
        )


def branches_of(source, line):
    """Returns the ranges of lines that run only if the call of take_gradients() in `line` returns False."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):
        return []
    nodes = list(ast.walk(_innermost(tree, line)))
    stored = [node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)]
    answers = {
        target.id for node in nodes if isinstance(node, ast.Assign) and _is_call(node.value) and _spans(node, line)
        for target in node.targets if isinstance(target, ast.Name) and stored.count(target.id) == 1
    }

    def is_answer(test):
        if isinstance(test, ast.Name):
            return test.id in answers
        return _is_call(test) and _spans(test, line)

    return [lines for node in nodes if isinstance(node, ast.If) for lines in _part(node, is_answer)]


def _innermost(tree, line):
    """Returns the smallest function around the line, or the module."""
    functions = [node for node in ast.walk(tree)
                 if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and _spans(node, line)]
    return max(functions, key=lambda node: node.lineno, default=tree)


def _spans(node, line):
    return node.lineno <= line <= node.end_lineno


def _is_call(node):
    """Returns True for …take_gradients(), and for `… and …take_gradients()`."""
    if isinstance(node, ast.BoolOp) and isinstance(node.op, ast.And):
        node = node.values[-1]
    return isinstance(node, ast.Call) and getattr(node.func, "attr", None) == "take_gradients"


def _part(node, is_answer):
    """Yields the lines of an `if` that run only if the answer is False."""
    negated = isinstance(node.test, ast.UnaryOp) and isinstance(node.test.op, ast.Not)
    if not is_answer(node.test.operand if negated else node.test):
        return
    part = node.body if negated else node.orelse
    if part:
        yield range(part[0].lineno, part[-1].end_lineno + 1)


def install():
    """Wraps the functions of torch.distributed once for the process. Outside a branch they behave as before."""
    for name in CHECKED:
        original = getattr(distributed_c10d, name, None)
        if original is None or hasattr(original, "checks_branches"):
            continue
        wrapped = _wrap(original, name)
        _tell_compiler(original, wrapped)
        setattr(distributed_c10d, name, wrapped)
        if hasattr(dist, name):
            setattr(dist, name, wrapped)


def _tell_compiler(original, wrapped):
    """Adds the function to the table in which torch.compile looks up collectives, if torch 2 has already made it."""
    functional = sys.modules.get("torch.distributed._functional_collectives")
    table = getattr(functional, "traceable_collective_remaps", {})
    if original in table:
        table[wrapped] = table[original]


def _wrap(original, name):
    @functools.wraps(original)
    def collective(*arguments, **named):
        for branches in list(_watched):
            branches.check(name, sys._getframe(1))
        return original(*arguments, **named)

    collective.checks_branches = True
    return collective
