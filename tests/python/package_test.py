# SPDX-License-Identifier: Apache-2.0
# Finding and refusing libraries, URLs, rank sets: tests that need no aggregator.
import _thread
import importlib.util
import os
import pathlib
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import unittest
from unittest import mock

import support
import tributary
from tributary import _after_import, _exit_status, _library, aggregators, communicator, errors, run


class Library(unittest.TestCase):
    def load_with(self, path):
        before = os.environ.get("TRIBUTARY_LIBRARY")
        os.environ["TRIBUTARY_LIBRARY"] = path
        try:
            return _library.load()
        finally:
            if before is None:
                del os.environ["TRIBUTARY_LIBRARY"]
            else:
                os.environ["TRIBUTARY_LIBRARY"] = before

    def test_the_one_of_this_build_is_new_enough(self):
        self.assertGreaterEqual(_library.library().tributary_abi(), _library.ABI_NEEDED)
        self.assertEqual(tributary.library_version(), tributary.__version__)

    def test_an_older_one_is_refused_with_both_numbers(self):
        with self.assertRaisesRegex(tributary.LibraryTooOld, r"version 0\.0\.9 with ABI 0.*needs ABI 8"):
            self.load_with(os.environ["TRIBUTARY_OLD_LIBRARY"])

    def test_another_library_is_refused(self):
        with self.assertRaisesRegex(tributary.LibraryTooOld, "is not libtributary"):
            self.load_with("libc.so.6")

    def test_a_missing_file_is_named_and_no_other_is_taken(self):
        with self.assertRaisesRegex(tributary.LibraryNotFound, "/nowhere/lib.so"):
            self.load_with("/nowhere/lib.so")


class Places(unittest.TestCase):
    """Of an installed package: PREFIX/share/tributary/python/tributary."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.prefix = pathlib.Path(folder.name).resolve()

    def file(self, name):
        path = self.prefix / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch(mode=0o755)
        return str(path)

    def test_the_library_is_in_lib_of_the_same_prefix(self):
        names = [self.file(f"{lib}/libtributary.so.0") for lib in ("lib", "lib/x86_64-linux-gnu")]
        self.file("share/lib/libtributary.so.0")
        package = self.file("share/tributary/python/tributary/_library.py")
        with mock.patch.object(_library, "__file__", package), mock.patch.dict(os.environ):
            os.environ.pop("TRIBUTARY_LIBRARY", None)
            self.assertEqual(_library.candidates(), [*names, "libtributary.so.0"])

    def test_a_program_in_the_current_directory_is_not_run(self):
        self.file("tributary")
        self.file("bin/tributary")
        self.file("elsewhere/here")
        in_path = self.file("path/tributary")
        before = os.getcwd()
        self.addCleanup(os.chdir, before)
        with mock.patch.object(_library, "candidates", lambda: ["libtributary.so.0"]), \
                mock.patch.dict(os.environ, PATH=str(self.prefix / "path")):
            for folder in (".", "elsewhere"):
                os.chdir(self.prefix / folder)
                self.assertEqual(aggregators._program(), in_path)


class Urls(unittest.TestCase):
    def test_options_replace_keys(self):
        url = communicator.url_with("tributary://h:1/job/2?rank=7&window=4", {"rank": 0, "world": 2})
        self.assertEqual(url, "tributary://h:1/job/2?rank=0&window=4&world=2")

    def test_keys_are_read_as_the_library_reads_them(self):
        given = "tributary://h/job/2?secret_file=/a+b%20c&auth="
        self.assertEqual(communicator.url_with(given, {}), given)
        self.assertEqual(communicator.url_with(given + "&", {"rank": 1}), given + "&rank=1")

    def test_a_key_given_twice_is_refused_by_name(self):
        with self.assertRaisesRegex(tributary.InvalidArgument, "'scale' is given twice"):
            communicator.url_with("tributary://h/job/2?scale=1&window=4&scale=2", {"rank": 0})
        with self.assertRaisesRegex(tributary.InvalidArgument, "'window' is not KEY=VALUE"):
            communicator.url_with("tributary://h/job/2?window", {"rank": 0})

    def test_aggregators_have_the_names_that_the_library_gives_them(self):
        url = "tributary://a,b:7=2,[::1],[::2]:9=3/job/2?rank=1"
        self.assertEqual(
            communicator.aggregators_of(url),
            [("a:12000", "a"), ("b:7", "b:7=2"), ("[::1]:12000", "[::1]"), ("[::2]:9", "[::2]:9=3")],
        )
        self.assertEqual(
            communicator.url_without(url, ["a:12000", "[::2]:9"]), "tributary://b:7=2,[::1]/job/2?rank=1"
        )
        self.assertEqual(communicator.url_without("tributary://a,b?rank=1", ["b:12000"]), "tributary://a?rank=1")
        self.assertEqual(communicator.url_without("tributary://a,b", ["a:12000"]), "tributary://b")

    def test_a_lost_aggregator_is_the_one_that_the_error_names(self):
        for text in (
            "nothing listens at 10.0.0.1:1200 (ICMP port unreachable): check the address, and that tributary serve "
            "runs there (aggregator 2 of 3, 10.0.0.1:1200)",
            "rank 1 has lost aggregator 10.0.0.1:1200 (2 of 3) and left job 1",
        ):
            for error in (tributary.AggregatorGone(text), tributary.SessionLost(text)):
                self.assertTrue(errors.is_lost("10.0.0.1:1200", error))
                for other in ("10.0.0.1:120", "0.0.0.1:1200", "10.0.0.1:12000", "10.0.0.2:1200"):
                    self.assertFalse(errors.is_lost(other, error))
            self.assertFalse(errors.is_lost("10.0.0.1:1200", tributary.PeerLeft(text)))
        self.assertFalse(errors.is_lost("10.0.0.1:1200", None))
        evicted = "rank 2 was removed from job 1 by the operator of aggregator 10.0.0.1:1200 (aggregator 1 of 2)"
        self.assertFalse(errors.is_lost("10.0.0.1:1200", tributary.SessionLost(evicted)))

    def test_no_url_is_refused_with_advice(self):
        with self.assertRaisesRegex(tributary.InvalidArgument, "TRIBUTARY_URL"):
            communicator.url_with("", {})

    def test_the_library_refuses_an_unknown_key(self):
        with self.assertRaisesRegex(tributary.InvalidArgument, "colour"):
            tributary.Communicator("tributary://127.0.0.1/job/1?rank=0&world=1", colour="red")

    def test_a_rank_beyond_the_world_is_refused(self):
        with self.assertRaises(tributary.InvalidArgument):
            tributary.Communicator("tributary://127.0.0.1/job/1", rank=2, world=2)


class Interrupted:
    """A library whose join is interrupted by Ctrl-C, and succeeds afterwards."""

    def __init__(self):
        self.go_on = threading.Event()
        self.freed = threading.Event()

    def tributary_join_watched(self, url, callback, context, handle):
        _thread.interrupt_main()
        self.go_on.wait(support.LIMIT_S)
        return errors.OK

    def tributary_free(self, handle):
        self.freed.set()


class Join(unittest.TestCase):
    URL = "tributary://127.0.0.1:{}/job/1?rank=0&world=2&deadline_ms=80000"

    def test_an_interrupted_one_leaves_the_job_when_it_has_succeeded(self):
        library = Interrupted()
        with mock.patch.object(_library, "library", lambda: library):
            with self.assertRaises(KeyboardInterrupt):
                tributary.Communicator(self.URL.format(1))
        self.assertFalse(library.freed.is_set())
        library.go_on.set()
        self.assertTrue(library.freed.wait(support.LIMIT_S))

    def test_ctrl_c_ends_a_rank_that_waits_for_the_aggregator(self):
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as aggregator:
            aggregator.bind(("127.0.0.1", 0))
            aggregator.settimeout(support.LIMIT_S)
            url = self.URL.format(aggregator.getsockname()[1])
            rank = subprocess.Popen(
                [support.PYTHON, "-c", f"import tributary; tributary.Communicator({url!r})"],
                stderr=subprocess.PIPE, text=True,
            )
            aggregator.recv(2048)  # The rank asks to join.
            rank.send_signal(signal.SIGINT)
            text = rank.communicate(timeout=support.LIMIT_S / 2)[1]
        self.assertEqual(rank.returncode, -signal.SIGINT, text)
        self.assertIn("KeyboardInterrupt", text)


class Sets(unittest.TestCase):
    def test_ranks_of_a_mask(self):
        self.assertEqual(communicator.ranks_of([0b101, 1, 0, 1 << 63]), [0, 2, 64, 255])


class Errors(unittest.TestCase):
    def test_every_status_has_its_class(self):
        names = {"peer_missing": tributary.PeerMissing, "desynchronised": tributary.Desynchronised}
        for status in list(range(1, 11)) + [33, 34, 35]:
            error = errors.error_of(status, "why")
            self.assertIsInstance(error, tributary.TributaryError)
            self.assertEqual(str(error), "why")
            self.assertIsNot(type(error), tributary.TributaryError)
        self.assertIs(type(errors.error_of(3, "")), names["peer_missing"])
        self.assertIs(type(errors.error_of(7, "")), names["desynchronised"])
        self.assertIs(type(errors.error_of(36, "a bug")), tributary.TributaryError)

    def test_another_world_under_launch_on_several_machines_has_advice(self):
        text = "job 1 at 10.0.0.1:12000 has 6 ranks, not 2 (aggregator 2 of 2, 10.0.0.1:12000)"
        advice = "; with launch --workers, -n must be the same on all machines"
        several = {"TRIBUTARY_BACKEND": "tributary", "LOCAL_WORLD_SIZE": "1", "WORLD_SIZE": "2"}
        for variables, given, expected in (
            (several, text, text + advice),
            (several, "aggregator 10.0.0.1:12000 has no job 1", "aggregator 10.0.0.1:12000 has no job 1"),
            ({**several, "LOCAL_WORLD_SIZE": "2"}, text, text),
            ({**several, "TORCHELASTIC_RUN_ID": "none"}, text, text),
            ({}, text, text),
        ):
            with mock.patch.dict(os.environ, variables, clear=True):
                self.assertEqual(str(errors.error_of(9, given)), expected)


SEARCHES = """
import importlib.util, sys
from tributary import _after_import
_after_import.install()
assert importlib.util.find_spec("torch").origin == importlib.util.find_spec("torch").loader.path
import torch
assert torch.loaded and "tributary.torch" in sys.modules, sys.meta_path
assert type(torch.__spec__.loader).__name__ == "SourceFileLoader", torch.__spec__
assert not any(type(finder).__name__ == "AfterImport" for finder in sys.meta_path)
"""


class AfterImport(unittest.TestCase):
    def test_a_search_for_torch_keeps_the_finder(self):
        with tempfile.TemporaryDirectory() as folder:
            packages = pathlib.Path(folder)
            for name in ("torch", "tributary"):
                (packages / name).mkdir()
            (packages / "torch" / "__init__.py").write_text("import torch.distributed\nloaded = True\n")
            (packages / "torch" / "distributed.py").write_text("def is_available(): return True\n")
            (packages / "tributary" / "__init__.py").touch()
            (packages / "tributary" / "torch.py").touch()
            source = pathlib.Path(_after_import.__file__).read_text()
            (packages / "tributary" / "_after_import.py").write_text(source)
            ended = subprocess.run([support.PYTHON, "-c", SEARCHES], capture_output=True, text=True,
                                   env={**os.environ, "PYTHONPATH": folder}, timeout=support.LIMIT_S)
        self.assertEqual(ended.returncode, 0, ended.stderr)


class ExitStatus(unittest.TestCase):
    def setUp(self):
        self.addCleanup(_exit_status.note, None)

    def test_none_and_zero_are_no_failure(self):
        for code, expected in ((None, False), (0, False), (1, True), ("no data", True), (75, True), ((), True)):
            _exit_status.note(code)
            self.assertEqual(_exit_status.is_failure(), expected, code)

    def test_calls_of_exit_are_noted(self):
        with mock.patch.object(sys, "exit", sys.exit):
            _exit_status.install()
            wrapped = sys.exit
            _exit_status.install()
            self.assertIs(sys.exit, wrapped)
            for arguments, expected in (((), False), ((7,), True), ((0,), False)):
                with self.assertRaises(SystemExit) as raised:
                    sys.exit(*arguments)
                self.assertEqual(raised.exception.code, arguments[0] if arguments else None)
                self.assertEqual(_exit_status.is_failure(), expected)


class Run(unittest.TestCase):
    def test_an_interpreter_without_torch_is_named(self):
        with tempfile.TemporaryDirectory() as folder:
            script = pathlib.Path(folder) / "train.py"
            script.write_text("raise ModuleNotFoundError('none', name='torch')\n")
            ended = subprocess.run(
                [support.PYTHON, "-m", "tributary.run", str(script)], capture_output=True, text=True
            )
        self.assertEqual(ended.returncode, 1)
        self.assertIn(f"{support.PYTHON} has no torch", ended.stderr)
        self.assertIn("--python FILE", ended.stderr)

    def test_a_missing_torch_is_found_before_the_script_runs(self):
        with mock.patch.object(importlib.util, "find_spec", return_value=None):
            self.assertIn("--python FILE", run.missing_for(support.HERE / "ranks_collectives.py"))
            self.assertEqual(run.missing_for(support.HERE / "ranks_plain.py"), "")

    def test_an_old_library_is_found_before_the_script_runs(self):
        with mock.patch.dict(os.environ, TRIBUTARY_LIBRARY=os.environ["TRIBUTARY_OLD_LIBRARY"]):
            self.assertIn("version 0.0.9", run.missing_for(support.HERE / "ranks_plain.py"))
            os.environ["TRIBUTARY_BACKEND"] = "gloo"
            self.assertEqual(run.missing_for(support.HERE / "ranks_plain.py"), "")

    def test_failures_because_of_others_have_a_status_of_their_own(self):
        for raised, status in (
            ("__import__('tributary').PeerLeft('rank 2 left')", 75),
            ("RuntimeError('[gloo] Connection closed by peer')", 75),
            ("RuntimeError('mine')", 1),
            ("OSError('Connection reset by peer')", 1),
        ):
            with tempfile.TemporaryDirectory() as folder:
                script = pathlib.Path(folder) / "train.py"
                script.write_text(f"raise {raised}\n")
                ended = subprocess.run([support.PYTHON, "-m", "tributary.run", str(script)],
                                       capture_output=True, text=True, timeout=support.LIMIT_S)
            self.assertEqual(ended.returncode, status, ended.stderr)
            self.assertIn("Traceback", ended.stderr)

    def test_a_script_is_run_as_by_the_interpreter(self):
        script = support.HERE / "ranks_plain.py"
        ended = subprocess.run(
            [support.PYTHON, "-m", "tributary.run", str(script), "a", "--b"],
            capture_output=True, text=True, timeout=support.LIMIT_S,
        )
        self.assertEqual(ended.stdout, f"__main__ {script} ['a', '--b'] {support.HERE}\n", ended.stderr)
        self.assertEqual(ended.returncode, 3)

    def test_a_linked_script_finds_the_modules_beside_its_file(self):
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name).resolve()
            for part in ("bin", "src"):
                (folder / part).mkdir()
            (folder / "src" / "parts.py").write_text("NAME = 'parts'\n")
            (folder / "src" / "train.py").write_text("import sys\nfrom parts import NAME\nprint(NAME, sys.path[0])\n")
            (folder / "bin" / "train.py").symlink_to("../src/train.py")
            for command in ((), ("-m", "tributary.run")):
                ended = subprocess.run([support.PYTHON, *command, str(folder / "bin" / "train.py")],
                                       capture_output=True, text=True, timeout=support.LIMIT_S)
                self.assertEqual(ended.stdout, f"parts {folder}/src\n", ended.stderr)

    @unittest.skipIf(sys.version_info < (3, 11), "the flag -P is new in Python 3.11")
    def test_a_safe_path_stays_as_it_is(self):
        with tempfile.TemporaryDirectory() as folder:
            script = pathlib.Path(folder, "train.py")
            script.write_text("import sys\nprint(sys.path)\n")
            paths = [subprocess.run([support.PYTHON, "-P", *command, str(script)],
                                    capture_output=True, text=True, timeout=support.LIMIT_S).stdout
                     for command in ((), ("-m", "tributary.run"))]
            self.assertNotEqual(paths[0], "")
            self.assertEqual(paths[0], paths[1])

    def test_a_module_is_run_as_by_the_interpreter(self):
        with tempfile.TemporaryDirectory() as folder:
            package = pathlib.Path(folder, "project")
            package.mkdir()
            (package / "__init__.py").write_text("")
            (package / "parts.py").write_text("NAME = 'parts'\n")
            (package / "train.py").write_text(
                "import sys\nfrom .parts import NAME\nprint(NAME, __name__, sys.argv, sys.path[0])\nsys.exit(3)\n"
            )
            for command in (("-m",), ("-m", "tributary.run", "-m")):
                ended = subprocess.run(
                    [support.PYTHON, *command, "project.train", "a", "--b"], cwd=folder,
                    capture_output=True, text=True, timeout=support.LIMIT_S,
                )
                path = package / "train.py"
                self.assertEqual(ended.stdout, f"parts __main__ ['{path}', 'a', '--b'] {folder}\n", ended.stderr)
                self.assertEqual(ended.returncode, 3)

    def test_the_modules_requirements_are_checked_before_it_runs(self):
        with tempfile.TemporaryDirectory() as folder:
            package = pathlib.Path(folder, "project")
            package.mkdir()
            # Importing the package would take the time of its imports twice.
            (package / "__init__.py").write_text("raise ValueError('imported')\n")
            (package / "train.py").write_text("import torch\n")
            sys.path.insert(0, folder)
            self.addCleanup(sys.path.remove, folder)
            self.assertEqual(run._file_of("project.train"), str(package / "train.py"))
            self.assertEqual(run._file_of("project"), "")
            ended = subprocess.run([support.PYTHON, "-m", "tributary.run", "--check", "-m", "projct.train"],
                                   cwd=folder, capture_output=True, text=True, timeout=support.LIMIT_S)
        self.assertEqual(ended.returncode, 2)
        self.assertIn("no module named 'projct.train' in the current folder", ended.stderr)


if __name__ == "__main__":
    unittest.main()
