# SPDX-License-Identifier: Apache-2.0
# The lines of a script that a rank skips if take_gradients() returns True.
import inspect
import pickle
import sys
import textwrap
import types
import unittest
from unittest import mock

import support

support.need("torch")

import torch.distributed as dist  # noqa: E402
from torch.distributed import distributed_c10d  # noqa: E402
from tributary import _branch  # noqa: E402


def lines_of(text):
    """Returns the numbers of the lines marked with "# branch", and of those found for the call of take_gradients()."""
    source = textwrap.dedent(text).lstrip("\n")
    lines = source.splitlines()
    call, = [number for number, line in enumerate(lines, 1) if "take_gradients()" in line and "# other" not in line]
    marked = [number for number, line in enumerate(lines, 1) if "# branch" in line]
    return marked, sorted(line for found in _branch.branches_of(source, call) for line in found)


class Lines(unittest.TestCase):
    def check(self, text):
        marked, found = lines_of(text)
        self.assertEqual(found, marked)

    def test_the_documented_loop(self):
        self.check("""
            for step in range(3):
                optimizer.zero_grad()
                if not catch_up.take_gradients():
                    loss = model(x)                # branch
                    with torch.no_grad():          # branch
                        dist.all_reduce(loss)      # branch
                optimizer.step()
        """)

    def test_the_other_part_of_a_test_without_not(self):
        self.check("""
            def train():
                if catch_up.take_gradients():
                    taken += 1
                else:
                    backward()  # branch
                dist.barrier()
            if not catch_up.take_gradients():  # other
                pass
        """)

    def test_a_rank_without_catch_up(self):
        self.check("""
            if not (catch_up and catch_up.take_gradients()):
                backward()  # branch
        """)

    def test_an_answer_in_a_variable(self):
        self.check("""
            def train():
                took = catch_up.take_gradients()
                optimizer.zero_grad()
                if not took:
                    backward()  # branch
                if took:
                    count += 1
                else:
                    report()    # branch
        """)

    def test_nothing_is_known_of_other_forms(self):
        for text in (
            "catch_up.take_gradients() or backward()",
            "if warm or not catch_up.take_gradients():\n    backward()",
            "took = catch_up.take_gradients()\ntook = False\nif not took:\n    backward()",
            "if catch_up.take_gradients():\n    pass",
            "catch_up.take_gradients() if",
        ):
            call = next(number for number, line in enumerate(text.splitlines(), 1) if "take_gradients" in line)
            self.assertEqual(_branch.branches_of(text, call), [], text)


class Refused(Exception):
    pass


class Script:
    """Has a branch with a collective, called through another function."""

    def __init__(self):
        self.branches = _branch.Branches(self.refuse)

    def refuse(self, place):
        raise Refused(place)

    def take_gradients(self):
        self.branches.note(sys._getframe(1))
        return False

    def report(self):
        self.branches.check("all_reduce", sys._getframe(0))

    def step(self, inside):
        if not self.take_gradients():
            if inside:
                self.report()
        self.report()
        return "outside"


class Calls(unittest.TestCase):
    def test_a_collective_in_the_branch_is_refused_with_its_line(self):
        script = Script()
        self.assertEqual(script.step(inside=False), "outside")
        with self.assertRaises(Refused) as raised:
            script.step(inside=True)
        line = Script.step.__code__.co_firstlineno + 3
        self.assertEqual(str(raised.exception), f"all_reduce() is called in {__file__}, line {line}")

    def test_the_functions_of_torch_keep_their_names_and_signatures(self):
        import tributary.torch  # noqa: F401

        for name in _branch.CHECKED:
            wrapped = getattr(dist, name, None)
            if wrapped is None:
                continue
            self.assertTrue(wrapped.checks_branches, name)
            self.assertIs(wrapped, getattr(distributed_c10d, name))
            original = inspect.unwrap(wrapped)
            self.assertEqual((wrapped.__name__, wrapped.__doc__), (name, original.__doc__))
            self.assertEqual(inspect.signature(wrapped), inspect.signature(original))
            self.assertIs(pickle.loads(pickle.dumps(wrapped)), wrapped)

    def test_the_compiler_knows_the_function_that_takes_the_place_of_torchs(self):
        functional = types.SimpleNamespace(traceable_collective_remaps={min: max})
        with mock.patch.dict(sys.modules, {"torch.distributed._functional_collectives": functional}):
            _branch._tell_compiler(min, abs)
            _branch._tell_compiler(sum, sorted)  # torch.compile does not know this one.
        self.assertEqual(functional.traceable_collective_remaps, {min: max, abs: max})


if __name__ == "__main__":
    unittest.main()
