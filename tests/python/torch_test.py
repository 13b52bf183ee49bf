# SPDX-License-Identifier: Apache-2.0
# Real processes under `tributary launch`: the group, DDP, failures, the examples.
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import tempfile
import unittest
from unittest import mock

import support

support.need("numpy", "torch", "sklearn")
import torch  # noqa: E402
from tributary import _guard  # noqa: E402

EXAMPLES = support.HERE.parent.parent / "examples"


class Torch(support.ServerTest):
    def ranks(self, processes, script, *arguments, **named):
        return support.launch(processes, support.HERE / script, *arguments, **named)

    def assert_all_well(self, ended, processes):
        self.assertEqual(ended.returncode, 0, ended.stdout + ended.stderr)
        self.assertEqual(ended.stdout.count("all well"), processes, ended.stdout + ended.stderr)

    def test_a_script_that_keeps_gloo_is_told_so_once(self):
        ended = self.ranks(2, "ranks_of_gloo.py")
        self.assert_all_well(ended, 2)
        self.assertEqual(ended.stderr.count("the script created no group of the back end 'tributary'"), 1, ended.stderr)
        ended = self.ranks(2, "ranks_of_gloo.py", flags=("--backend", "gloo"))
        self.assert_all_well(ended, 2)
        self.assertNotIn("no group", ended.stderr)

    def test_collectives(self):
        self.assert_all_well(self.ranks(2, "ranks_collectives.py"), 2)

    def test_collectives_other_than_all_reduce(self):
        self.assert_all_well(self.ranks(3, "ranks_gathering.py"), 3)
        by_aggregator = {"TRIBUTARY_COLLECTIVES": "aggregator"}
        self.assert_all_well(self.ranks(3, "ranks_gathering.py", environment=by_aggregator), 3)
        self.assert_all_well(self.ranks(3, "ranks_gathering.py", flags=("--timeout-ms", "2000")), 3)

    def test_own_tensors_are_in_host_memory_whatever_the_default_device(self):
        self.assert_all_well(self.ranks(2, "ranks_default_device.py"), 2)
        self.assert_all_well(self.ranks(2, "ranks_default_device.py", flags=("--timeout-ms", "2000")), 2)

    def test_hooks_whose_callbacks_start_all_reduces(self):
        self.assert_all_well(self.ranks(2, "ranks_hooks.py"), 2)

    def test_the_last_bucket_of_a_backward_pass_has_the_first_priority(self):
        self.assert_all_well(self.ranks(2, "ranks_priorities.py", flags=("--url-option", "priorities=2")), 2)

    def test_operations_of_gloo_and_hooks_end_by_the_deadline_and_gloos_groups_at_exit(self):
        ended = self.ranks(2, "ranks_waiting.py", flags=("--deadline-ms", "3000"))
        self.assert_all_well(ended, 2)

    def test_ranks_of_torchrun_start_aggregators(self):
        sealed = {"TRIBUTARY_JOB": "auth=header", "TRIBUTARY_URL": "tributary:///job/1?auth=header",
                  "TRIBUTARY_SECRET": "a secret for this test"}
        for environment in ({}, {"TRIBUTARY_AGGREGATORS": "2"}, sealed):
            ended = support.torchrun(2, support.HERE / "ranks_collectives.py", environment)
            self.assert_all_well(ended, 2)
            self.assertNotIn("control socket", ended.stderr)

    def test_a_process_may_create_another_group(self):
        self.assert_all_well(self.ranks(1, "ranks_again.py"), 1)
        alone = {"RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1",
                 "MASTER_PORT": str(support.free_master_port())}
        self.assert_all_well(subprocess.run(
            [support.PYTHON, "-m", "tributary.run", str(support.HERE / "ranks_again.py")],
            capture_output=True, text=True, timeout=support.LIMIT_S, env={**os.environ, **alone},
        ), 1)

    def test_a_second_group_under_torchrun_needs_torch_2(self):
        ended = support.torchrun(2, support.HERE / "ranks_again.py", {})
        if int(torch.__version__.split(".")[0]) >= 2:
            self.assert_all_well(ended, 2)
        else:
            self.assertNotEqual(ended.returncode, 0)
            self.assertIn("cannot create a second group with a store that outlives the first one", ended.stderr)

    def test_a_signal_within_a_backward_pass_reaches_the_script_at_its_end(self):
        self.assert_all_well(self.ranks(2, "ranks_interrupted.py", flags=("--deadline-ms", "9000")), 2)

    def test_asynchronous_training_is_refused_before_the_first_step(self):
        flags = ("--job-option", "asynchronous=on,parameters=650", "--url-option", "asynchronous=on")
        ended = self.ranks(2, "ranks_parts.py", flags=flags)
        self.assertEqual(ended.returncode, 1, ended.stdout + ended.stderr)
        self.assertIn("asynchronous=on is not allowed with torch.distributed", ended.stderr)

    def test_a_group_of_a_part_of_the_ranks_uses_gloo(self):
        self.assert_all_well(self.ranks(2, "ranks_parts.py", flags=("--deadline-ms", "5000")), 2)

    def test_stragglers_are_scaled_and_reported(self):
        ended = self.ranks(2, "ranks_straggling.py", flags=("--timeout-ms", "5"))
        self.assert_all_well(ended, 2)
        self.assertRegex(ended.stderr, r"\[0\] tributary: \d+ of \d+ blocks degraded; missing: rank 1")
        self.assertRegex(
            ended.stderr, r"\[0\] tributary: epoch 1: \S+ % of \d+ blocks degraded; rank 1 missing from"
        )
        self.assertIn("[0] tributary: epoch 2: 0.0 % of 0 blocks degraded; no rank late", ended.stderr)

    def test_permanent_stragglers_and_their_return_are_announced(self):
        flags = ("--timeout-ms", "5", "--permanent-ms", "20")
        self.assert_all_well(self.ranks(2, "ranks_permanent.py", flags=flags), 2)

    def test_a_rank_that_is_behind_takes_the_others_gradients(self):
        ended = self.ranks(2, "ranks_catching_up.py", flags=("--timeout-ms", "10"))
        self.assert_all_well(ended, 2)

    def test_parameters_are_compared(self):
        every_third = {"TRIBUTARY_CHECK_PARAMETERS": "3"}
        ended = self.ranks(3, "ranks_guard.py", "1", environment=every_third)
        self.assertEqual(ended.returncode, 0, ended.stdout + ended.stderr)
        expected = (
            'step 6: after step 6 parameter "2.weight" is the first that differs: rank 1 from the other 2 '
            "of 3 ranks"
        )
        self.assertEqual(ended.stdout.count(expected), 3, ended.stdout + ended.stderr)
        ended = self.ranks(3, "ranks_guard.py", "-1", environment=every_third)
        self.assertEqual(ended.stdout.count("no difference"), 3, ended.stdout + ended.stderr)
        ended = self.ranks(1, "ranks_guard.py", "-1", environment={"TRIBUTARY_CHECK_PARAMETERS": "often"})
        self.assertIn("TRIBUTARY_CHECK_PARAMETERS=often is not allowed; allowed: a number", ended.stderr)

    def test_a_killed_rank_is_named_by_the_others(self):
        ended = self.ranks(
            3, "ranks_failing.py", "rank", flags=("--keep-going", "--deadline-ms", "4000")
        )
        self.assertEqual(ended.returncode, 128 + 9, ended.stdout + ended.stderr)
        self.assertIn("rank 2 ended with signal 9", ended.stderr)
        seen = re.findall(r"\[[01]\] saw (\w+): (.*) \| same text in DDP's: True", ended.stdout)
        self.assertEqual(len(seen), 2, ended.stdout + ended.stderr)
        for name, text in seen:
            self.assertIn(name, ("PeerMissing", "PeerLeft"))
            self.assertRegex(text, r"\b2\b")

    def test_the_rank_that_raised_is_named_and_not_its_victims(self):
        ended = self.ranks(3, "ranks_raising.py")
        self.assertEqual(ended.returncode, 1, ended.stdout + ended.stderr)
        self.assertRegex(ended.stderr, "tributary launch: rank 1 ended with exit status 1")
        self.assertRegex(ended.stderr, r"\[1\] (\[rank1\]: )?ValueError: this rank is at fault")

    def test_with_mitigation_the_others_name_a_killed_rank(self):
        # More steps than fit into the time of silence, 3.5 s.
        ended = self.ranks(
            3, "ranks_failing.py", "rank", "1000000",
            flags=("--timeout-ms", "20", "--keep-going", "--deadline-ms", "15000"),
        )
        self.assertEqual(ended.returncode, 128 + 9, ended.stdout + ended.stderr)
        seen = re.findall(r"\[[01]\] saw (?:PeerMissing|PeerLeft): (.*)", ended.stdout)
        self.assertEqual(len(seen), 2, ended.stdout + ended.stderr)
        self.assertTrue(any("rank 2 has sent nothing" in text for text in seen), seen)

    def test_with_mitigation_the_others_name_the_rank_that_raised(self):
        ended = self.ranks(
            3, "ranks_raising.py", "1000000",
            flags=("--timeout-ms", "20", "--keep-going", "--deadline-ms", "15000"),
        )
        self.assertEqual(ended.returncode, 1, ended.stdout + ended.stderr)
        seen = dict(re.findall(r"\[([02])\] .*(rank \d has left job 1) while", ended.stderr))
        self.assertEqual(set(seen), {"0", "2"}, ended.stderr)
        self.assertIn("rank 1 has left job 1", seen.values(), ended.stderr)

    def test_a_rank_that_exits_with_a_status_is_named_with_it(self):
        for way in ("sys.exit", "raise"):
            ended = self.ranks(3, "ranks_exiting.py", way, flags=("--timeout-ms", "20", "--deadline-ms", "30000"))
            self.assertEqual(ended.returncode, 7, ended.stdout + ended.stderr)
            self.assertRegex(ended.stderr, "tributary launch: rank 1 ended with exit status 7")
            self.assertNotIn("different numbers of all-reduces", ended.stderr)

    def test_the_rank_that_raised_ends_first(self):
        for method in ("spawn", "fork"):
            with tempfile.TemporaryDirectory() as folder:
                ended = subprocess.run(
                    [support.PYTHON, str(support.HERE / "ranks_spawned.py"), method, f"file://{folder}/meeting"],
                    capture_output=True, text=True, timeout=support.LIMIT_S,
                )
            self.assertIn("ValueError: this rank is at fault", ended.stderr, method)

    def test_ranks_whose_calls_differ_can_try_again(self):
        ended = self.ranks(3, "ranks_mismatch.py")
        self.assertEqual(ended.returncode, 0, ended.stdout + ended.stderr)
        self.assertEqual(ended.stdout.count("all well"), 3, ended.stdout + ended.stderr)

    def test_a_missing_library_is_one_line_of_one_rank(self):
        nowhere = {"TRIBUTARY_LIBRARY": "/nowhere/lib.so"}
        checked = self.ranks(3, "ranks_collectives.py", environment=nowhere)
        self.assertEqual(checked.returncode, 2, checked.stdout + checked.stderr)
        self.assertRegex(checked.stderr, r"\Atributary launch: TRIBUTARY_LIBRARY=/nowhere/lib.so cannot .*\n\Z")
        for script, options in (("ranks_collectives.py", {}), ("ranks_importing.py", {"by_run": False})):
            unchecked = support.torchrun(2, support.HERE / script, nowhere, **options)
            self.assertEqual(unchecked.stderr.count("cannot be loaded; set it to"), 1, unchecked.stderr)
            self.assertNotIn("init_process_group", unchecked.stderr)

    def test_a_missing_program_is_one_line_of_one_rank(self):
        with tempfile.TemporaryDirectory() as folder:
            library = pathlib.Path(folder) / "libtributary.so.0"
            shutil.copy(os.environ["TRIBUTARY_LIBRARY"], library)
            ended = support.torchrun(
                2, support.HERE / "ranks_importing.py", {"TRIBUTARY_LIBRARY": str(library), "PATH": "/usr/bin:/bin"},
                by_run=False)
        self.assertEqual(ended.stderr.count("the program tributary, which starts"), 1, ended.stderr)
        self.assertNotIn("init_process_group", ended.stderr)

    def test_a_killed_aggregator_is_named_by_all(self):
        server = self.serve("id=1,sources=2,block_grad_max=4095")
        ended = self.ranks(
            2, "ranks_failing.py", "aggregator",
            flags=("--server", server.address(), "--deadline-ms", "1500"),
            environment={"TEST_VICTIM": str(server.process.pid)},
        )
        seen = re.findall(r"saw AggregatorGone: (.*) \| same text in DDP's: True", ended.stdout)
        self.assertEqual(len(seen), 2, ended.stdout + ended.stderr)
        for text in seen:
            self.assertIn(server.address(), text)


class Guard(unittest.TestCase):
    def test_a_switch_that_goes_off_and_on_hooks_once(self):
        with mock.patch.object(torch.nn.modules.module, "register_module_forward_pre_hook") as register:
            for text in ("3", "0", "3"):
                with mock.patch.dict(os.environ, {_guard.VARIABLE: text}):
                    _guard.install()
        register.assert_called_once()


class Examples(support.ServerTest):
    def run_example(self, processes, name, *arguments, flags=()):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "out.json"
            ended = support.launch(
                processes, EXAMPLES / name, *arguments, "--json", str(path), flags=flags
            )
            self.assertEqual(ended.returncode, 0, ended.stdout + ended.stderr)
            return json.loads(path.read_text())

    def test_digits_with_loss_and_a_straggler(self):
        result = self.run_example(
            2, "digits_ddp.py", "--backend", "tributary", "--epochs", "3", "--loss", "0.01",
            "--straggle", "0.02", "--straggle-ms", "40", flags=("--timeout-ms", "20"),
        )
        self.assertGreater(result["accuracy"], 0.8)
        self.assertTrue(result["parameters_identical"])
        self.assertGreater(result["seconds"], 0)
        self.assertGreater(result["step_ms"], 0)
        self.assertEqual(result["degraded"]["all_reduces"], 3 * 19)

    def test_gloo_ends(self):
        # Gloo's destructor may wait for a thread that needs the interpreter's lock, so several runs.
        for _ in range(3):
            result = self.run_example(2, "digits_ddp.py", "--backend", "gloo", "--epochs", "1")
            self.assertTrue(result["parameters_identical"])

    def test_loss_without_a_url(self):
        variables = {"RANK": "0", "WORLD_SIZE": "1", "LOCAL_RANK": "0", "MASTER_ADDR": "127.0.0.1",
                     "MASTER_PORT": str(support.free_master_port())}
        ended = subprocess.run(
            [support.PYTHON, "-m", "tributary.run", str(EXAMPLES / "text_ddp.py"), "--epochs", "1", "--steps", "2",
             "--loss", "0.01"],
            capture_output=True, text=True, timeout=support.LIMIT_S, env={**os.environ, **variables},
        )
        self.assertEqual(ended.returncode, 0, ended.stdout + ended.stderr)

    def test_a_slow_disk(self):
        result = self.run_example(
            2, "slow_disk_ddp.py", "--epochs", "2", "--straggle", "0.1", flags=("--timeout-ms", "20")
        )
        self.assertTrue(result["parameters_identical"])

    def test_text(self):
        result = self.run_example(2, "text_ddp.py", "--epochs", "1", "--steps", "3")
        self.assertTrue(result["parameters_identical"])
        self.assertLess(result["loss_nats"], 6)  # log(256) = 5.5 is guessing.

    def test_rejoin_after_being_desynchronised(self):
        ended = support.launch(
            3, EXAMPLES / "rejoin.py",
            flags=("--timeout-ms", "20", "--permanent-ms", "100", "--window", "64", "--history", "1"),
        )
        self.assertEqual(ended.returncode, 0, ended.stdout + ended.stderr)
        self.assertIn("[2] rank 2, epoch 2: rank 2 is too far behind", ended.stdout)
        self.assertIn("epoch 2: rejoined: [2], parameters identical: True", ended.stdout)
        self.assertIn("epoch 3: rejoined: [], parameters identical: True", ended.stdout)

    def test_rejoin_without_an_aggregator_that_died(self):
        servers = [self.serve("id=1,sources=3") for _ in range(3)]
        addresses = ",".join(server.address() for server in servers)
        command = [support.PROGRAM, "launch", "--python", support.PYTHON, "-n", "3",
                   "--server", addresses, str(EXAMPLES / "rejoin.py")]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as ranks:
            lines = []
            for line in ranks.stdout:
                lines.append(line)
                if "epoch 1: rejoined: []" in line:
                    servers[1].process.kill()
            text = "".join(lines) + ranks.stderr.read()
        self.assertEqual(ranks.returncode, 0, text)
        self.assertIn(f"without the lost aggregator {servers[1].address()}", text)
        self.assertIn("rejoined: [0, 1, 2], parameters identical: True", text)
        self.assertIn("epoch 3: rejoined: [", text)

    def test_rejoin_without_an_aggregator_that_launch_started(self):
        command = [support.PROGRAM, "launch", "--python", support.PYTHON, "-n", "3", "--aggregators", "2",
                   str(EXAMPLES / "rejoin.py")]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as launcher:
            lines = []
            for line in launcher.stdout:
                lines.append(line)
                if "epoch 1: rejoined: []" in line:
                    os.kill(aggregators_below(launcher.pid)[1], signal.SIGKILL)
            text = "".join(lines) + launcher.stderr.read()
        self.assertEqual(launcher.returncode, 0, text)
        self.assertRegex(text, r"aggregator 1 ended with signal 9 .*; 1 of 2 shares are left")
        self.assertIn("rejoined: [0, 1, 2], parameters identical: True", text)
        self.assertIn("epoch 3: rejoined: [", text)


def aggregators_below(launcher):
    """Returns the process ids of the aggregators that a launcher has started, in their order."""
    children = pathlib.Path(f"/proc/{launcher}/task/{launcher}/children").read_text().split()
    return [int(one) for one in children if b"\0serve\0" in pathlib.Path(f"/proc/{one}/cmdline").read_bytes()]


if __name__ == "__main__":
    os.environ["OMP_NUM_THREADS"] = "1"
    unittest.main()
