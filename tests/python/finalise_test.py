# SPDX-License-Identifier: Apache-2.0
# Code that Python runs between two instructions of the package: signal handlers and finalisers. First with
# a library of the test's own, then with a server.
import _thread
import subprocess
import threading
import unittest
import weakref
from unittest import mock

import support

support.need("numpy")

import numpy  # noqa: E402
import tributary  # noqa: E402
from tributary import _finalise  # noqa: E402


class FakeLibrary:
    """The calls of the library that a communicator of one rank makes until it is freed. All succeed at once."""

    tributary_receive_async = None

    def __init__(self):
        self.on_close = lambda: None
        self.on_free = lambda: None
        self.closed = 0

    def tributary_join_watched(self, url, on_event, context, out):
        out._obj.value = 1
        return 0

    def tributary_get_info(self, handle, info, info_bytes):
        return 0

    def tributary_all_reduce_priority_async(self, *arguments):
        arguments[-1]._obj.value = 2
        return 0

    def tributary_close(self, handle):
        self.closed += 1
        self.on_close()
        return 0

    def tributary_operation_free(self, handle):
        self.on_free()

    def tributary_free(self, handle):
        self.on_free()


def start_unknown_thread(function):
    """Runs function() in a thread that the module threading does not know, like those of the library."""
    _thread.start_new_thread(function, ())


class Reentrant(unittest.TestCase):
    """Code that Python runs in a thread between two instructions of the package: signal handlers and finalisers."""

    def setUp(self):
        self.library = FakeLibrary()
        with mock.patch("tributary.communicator._library.library", lambda: self.library):
            self.communicator = tributary.Communicator("tributary://127.0.0.1:1/job/1")

    def test_a_signal_handler_may_close_within_close(self):
        def handle_signal():
            if self.library.closed == 1:
                self.communicator.close()

        self.library.on_close = handle_signal
        thread = threading.Thread(target=self.communicator.close, daemon=True)
        thread.start()
        thread.join(support.LIMIT_S / 2)
        self.assertFalse(thread.is_alive(), "close() waits for the close() that it interrupts")
        self.assertEqual(self.library.closed, 2)

    def free_in(self, start, drop):
        """Calls drop() in a thread that start() starts. Returns the ids of that thread and of the one that freed."""
        freed, ended, threads = threading.Event(), threading.Event(), [None, None]

        def free():
            threads[1] = threading.get_ident()
            if threads[0] != threads[1]:
                self.assertTrue(ended.wait(support.LIMIT_S / 2))
            freed.set()

        def run():
            threads[0] = threading.get_ident()
            drop()
            ended.set()

        self.library.on_free = free
        start(run)
        self.assertTrue(freed.wait(support.LIMIT_S / 2))
        return threads

    def test_a_thread_of_the_library_frees_nothing_itself(self):
        held = [self.communicator.all_reduce_async(numpy.ones(4, numpy.float32)), self.communicator]
        self.communicator = None
        for _ in range(2):  # The operation, then the communicator.
            own, freeing = self.free_in(start_unknown_thread, lambda: held.__delitem__(0))
            self.assertNotEqual(freeing, own)

    def test_a_thread_of_python_frees_at_once(self):
        held = [self.communicator.all_reduce_async(numpy.ones(4, numpy.float32))]
        own, freeing = self.free_in(lambda run: threading.Thread(target=run).start(), held.clear)
        self.assertEqual(freeing, own)

    def test_without_a_new_thread_the_end_of_the_interpreter_frees(self):
        def refuse(*_):
            raise RuntimeError("can't start new thread")

        def run():
            _finalise.release(freed.append, 7, None, _start=refuse)
            returned.set()

        freed, returned = [], threading.Event()
        start_unknown_thread(run)
        self.assertTrue(returned.wait(support.LIMIT_S / 2))
        self.assertEqual(freed, [])
        _finalise.finish()
        self.assertEqual(freed, [7])

    def test_the_array_lives_until_another_thread_has_freed_the_operation(self):
        array = numpy.ones(4, numpy.float32)
        alive, seen = weakref.ref(array), []
        held = [self.communicator.all_reduce_async(array)]
        del array

        def drop():
            held.clear()
            seen.append(alive() is not None)

        self.free_in(start_unknown_thread, drop)
        self.assertEqual(seen, [True])


class Finalised(support.ServerTest):
    """Objects that the garbage collector finalises in a thread of the library."""

    def finalise(self, kind):
        ended = subprocess.run(
            [support.PYTHON, str(support.HERE / "drops_in_events.py"), kind, self.serve("id=1,sources=2").url()],
            capture_output=True, text=True, timeout=support.LIMIT_S,
        )
        self.assertEqual(ended.returncode, 0, ended.stdout + ended.stderr)
        return ended.stdout

    def test_an_operation_in_flight_goes_on(self):
        self.assertEqual(self.finalise("operation"), "summed\n")

    def test_a_communicator_leaves_its_job(self):
        self.assertEqual(self.finalise("communicator"), "rank 0 has left\n")


if __name__ == "__main__":
    unittest.main()
