# SPDX-License-Identifier: Apache-2.0
# Aggregators that ranks start for themselves: a store in memory, and real aggregators.
import json
import os
import pathlib
import select
import socket
import subprocess
import threading
import unittest
from unittest import mock

import support
import tributary
from tributary import _layout, aggregators, errors


class Store:
    """The calls of torch.distributed's store that the module uses. Waits take no time."""

    def __init__(self, others):
        self._values = {key: value.encode() for key, value in others.items()}
        self.limit_s = None  # Of the latest wait.

    def set(self, key, value):
        self._values[key] = value.encode()

    def get(self, key):
        return self._values[key]

    def wait(self, keys, limit):
        self.limit_s = limit.total_seconds()
        if any(key not in self._values for key in keys):
            raise RuntimeError("Socket Timeout")


def machine(name="another machine", first=None):
    """Returns a rank's description of its machine, as it publishes it."""
    return json.dumps({"result": {"machine": name, "first": first, "ports": [], "seed": 0}, "failed": ""})


def answer(*names, failed=""):
    """Returns what a rank publishes about its aggregators."""
    return json.dumps({"result": names, "failed": failed})


def with_variables(**variables):
    """Sets these variables, and none of the module's others."""
    kept = {name: value for name, value in os.environ.items()
            if name not in ("TRIBUTARY_URL", "TRIBUTARY_AGGREGATORS", "TRIBUTARY_JOB", "LOCAL_RANK",
                            "TRIBUTARY_AGGREGATOR_CPUS", "TRIBUTARY_AGGREGATOR_CPU_PERCENT", "MASTER_ADDR", "MASTER_PORT", "LOCAL_WORLD_SIZE", "WORLD_SIZE")}
    return mock.patch.dict(os.environ, {**kept, **variables}, clear=True)


class Wanted(unittest.TestCase):
    def test_values(self):
        for text, count in (("", 1), ("colocated", 1), ("1", 1), ("16", 16)):
            with with_variables(TRIBUTARY_AGGREGATORS=text):
                self.assertEqual(aggregators.wanted(), count)

    def test_none_if_the_url_names_one(self):
        for url, count in (("", 1), ("tributary:///job/2?format=fixed", 1), ("tributary://box/job/2", 0)):
            with with_variables(TRIBUTARY_URL=url):
                self.assertEqual(aggregators.wanted(), count)

    def test_warns_of_job_keys_that_the_url_makes_useless(self):
        with with_variables(TRIBUTARY_URL="tributary://box/job/2", TRIBUTARY_JOB="mitigation=on", RANK="0"):
            with self.assertWarnsRegex(UserWarning, "TRIBUTARY_JOB has no effect"):
                self.assertEqual(aggregators.wanted(), 0)

    def test_refusals_name_the_values_allowed(self):
        for text in ("0", "17", "-1", "two", "1.5", "²"):
            with with_variables(TRIBUTARY_AGGREGATORS=text):
                with self.assertRaisesRegex(errors.InvalidArgument, "allowed: 1 to 16, or colocated"):
                    aggregators.wanted()


class Address(unittest.TestCase):
    """A machine with the addresses 10.0.0.1 and fd00::1."""

    NAMES = {"one": ["10.0.0.1"], "debian": ["127.0.1.1", "10.0.0.1"], "two": ["10.0.0.1", "fd00::1"], "own": ["127.0.1.1"]}

    def address_of(self, host, here=("10.0.0.1", "fd00::1", "::")):
        def getaddrinfo(name, port, **_):
            if name == "unknown":
                raise OSError
            return [(None, None, None, "", (address, 0)) for address in self.NAMES.get(name, [name])]

        with mock.patch.object(aggregators, "_free_port", lambda address: 5 if address in here else None), \
                mock.patch.object(aggregators.socket, "getaddrinfo", getaddrinfo):
            return aggregators._address_of(host)

    def test_is_the_one_that_other_machines_find(self):
        for host, address in (("10.0.0.1", "10.0.0.1"), ("[fd00::1]", "fd00::1"), ("one", "10.0.0.1"), ("debian", "10.0.0.1")):
            self.assertEqual(self.address_of(host), address)

    def test_is_any_if_they_may_find_several(self):
        for host in ("two", "own", "unknown"):
            self.assertEqual(self.address_of(host), "::")
            self.assertEqual(self.address_of(host, here=("10.0.0.1",)), "0.0.0.0")  # Without IPv6.

    def test_is_any_if_a_router_translates_it(self):
        self.assertEqual(self.address_of("10.0.0.9"), "0.0.0.0")
        self.assertEqual(self.address_of("[fd00::9]"), "::")


LIMIT_S = 0.001


class Url(unittest.TestCase):
    # Rank 1 shares rank 0's machine, rank 2 has one of its own.
    OTHERS = {"tributary/machines/0": machine(_layout.machine(), first=True),
              "tributary/machines/2": machine("another machine", first=True),
              "tributary/aggregators/0": answer("one:7000"),
              "tributary/aggregators/2": answer("two:7001")}

    def setUp(self):
        first = mock.patch.object(aggregators, "_list", None)
        first.start()
        self.addCleanup(first.stop)
        self.addCleanup(aggregators.stop)

    def test_has_the_aggregators_of_all_machines_in_the_order_of_ranks(self):
        with with_variables(TRIBUTARY_AGGREGATORS="colocated", LOCAL_RANK="1"):
            url = aggregators.url(Store(self.OTHERS), 1, 3, LIMIT_S)
        self.assertEqual(url, "tributary://one:7000,two:7001/job/1")

    def test_keeps_the_job_and_the_keys_of_the_variable(self):
        with with_variables(TRIBUTARY_AGGREGATORS="colocated", LOCAL_RANK="1",
                            TRIBUTARY_URL="tributary:///job/7?format=fixed"):
            url = aggregators.url(Store(self.OTHERS), 1, 3, LIMIT_S)
        self.assertEqual(url, "tributary://one:7000,two:7001/job/7?format=fixed")

    def test_a_host_in_the_variable_is_refused(self):
        with with_variables(TRIBUTARY_AGGREGATORS="colocated", LOCAL_RANK="1",
                            TRIBUTARY_URL="tributary://box/job/1"):
            with self.assertRaisesRegex(errors.InvalidArgument, "TRIBUTARY_URL=tributary://box/job/1"):
                aggregators.url(Store(self.OTHERS), 1, 3, LIMIT_S)

    def test_an_aggregator_that_does_not_start_is_an_error(self):
        with with_variables(TRIBUTARY_JOB="colour=red", LOCAL_RANK="0"):
            store = Store({})
            with self.assertRaisesRegex(errors.TributaryError, "did not start"):
                aggregators.url(store, 0, 1, LIMIT_S)
        self.assertIn("did not start", json.loads(store.get("tributary/aggregators/0"))["failed"])

    def test_more_aggregators_than_a_list_has_are_refused_before_any_starts(self):
        others = {f"tributary/machines/{rank}": machine(f"machine {rank}", first=True) for rank in range(1, 33)}
        for rank, ranks, each in ((0, 33, "2"), (1, 33, "2"), (0, 5, "13")):
            store = Store({**others, "tributary/machines/0": machine("machine 0", first=True)})
            with with_variables(TRIBUTARY_AGGREGATORS=each, LOCAL_RANK="0"), \
                    mock.patch.object(aggregators, "_start_process") as start:
                with self.assertRaisesRegex(errors.InvalidArgument, f"TRIBUTARY_AGGREGATORS={each} on each of {ranks} "
                                            f"machines are {int(each) * ranks} aggregators; allowed: up to 64"):
                    aggregators.url(store, rank, ranks, LIMIT_S)
                start.assert_not_called()
            self.assertIn("up to 64", json.loads(store.get(f"tributary/aggregators/{rank}"))["failed"])

    def command(self, **variables):
        """Returns the command of the only aggregator, which is not run."""
        process = mock.Mock(**{"stdout.readline.return_value": "ready\n", "poll.return_value": 0})
        with with_variables(LOCAL_RANK="0", **variables), \
                mock.patch.object(aggregators, "_start_process", return_value=process) as start:
            aggregators.url(Store({}), 0, 1, LIMIT_S)
        aggregators.stop()
        return start.call_args.args[0]

    def test_aggregators_run_on_the_cpus_of_the_variables(self):
        self.assertFalse({"--cpus", "--cpu-percent"} & set(self.command()))
        command = self.command(TRIBUTARY_AGGREGATOR_CPUS="0,2-3", TRIBUTARY_AGGREGATOR_CPU_PERCENT="50")
        self.assertEqual(command[-4:], ["--cpus", "0,2,3", "--cpu-percent", "50"])

    def test_keys_of_the_job_replace_the_defaults(self):
        def job(**variables):
            command = self.command(**variables)
            return command[command.index("--job") + 1]

        self.assertEqual(job(), "id=1,sources=1,window=4096,block_grad_max=4095,history=4")
        self.assertEqual(job(TRIBUTARY_JOB="window=64,history=1"), "id=1,sources=1,block_grad_max=4095,window=64,history=1")
        self.assertEqual(job(TRIBUTARY_JOB="mitigation=on,history=1"),
                         "id=1,sources=1,window=4096,block_grad_max=4095,silence=end,mitigation=on,history=1")
        self.assertNotIn("silence=end", job(TRIBUTARY_JOB="mitigation=on,silence=exclude"))

    def test_aggregators_share_their_cpus(self):
        process = mock.Mock(**{"stdout.readline.return_value": "ready\n", "poll.return_value": 0})
        with with_variables(TRIBUTARY_AGGREGATORS="4", LOCAL_RANK="0", TRIBUTARY_AGGREGATOR_CPUS="0,2-3"), \
                mock.patch.object(aggregators, "_start_process", return_value=process) as start:
            aggregators.url(Store({}), 0, 1, LIMIT_S)
        aggregators.stop()
        commands = [call.args[0] for call in start.call_args_list]
        self.assertEqual([command[-1] for command in commands], ["0,2,3", "2,3,0", "3,0,2", "0,2,3"])

    def test_a_list_that_names_no_cpus_is_left_to_the_aggregator(self):
        for text in ("", "one", "0,", "3-", "5-3", "²"):
            self.assertEqual(aggregators._cpus_from(text, 1), text)

    def test_a_share_of_a_cpu_that_is_not_allowed_is_refused(self):
        for text in ("0", "101", "-1", "half", "²"):
            with self.assertRaisesRegex(errors.InvalidArgument, f"CPU_PERCENT={text} is not allowed; allowed: 1 to 100"):
                self.command(TRIBUTARY_AGGREGATOR_CPU_PERCENT=text)

    def refusal(self, others, **variables):
        """Returns the error of rank 1, which shares rank 0's machine if that one has its name."""
        with with_variables(TRIBUTARY_AGGREGATORS="colocated", LOCAL_RANK="1", **variables):
            with self.assertRaises(errors.TributaryError) as raised:
                aggregators.url(Store(others), 1, 3, LIMIT_S)
        return raised.exception

    def test_a_failure_of_another_rank_is_told(self):
        failed = {**self.OTHERS, "tributary/aggregators/2": answer(failed="no such program")}
        self.assertIn("rank 2 could not start its aggregator: no such program", str(self.refusal(failed)))

    def test_a_silent_rank_is_named(self):
        silent = {key: value for key, value in self.OTHERS.items() if not key.endswith("/2")}
        error = self.refusal(silent)
        self.assertIsInstance(error, errors.PeerMissing)
        self.assertIn("rank 2 has not reached init_process_group()", str(error))

    def test_an_address_that_other_machines_cannot_reach_is_refused_with_the_remedy(self):
        for address in ("127.0.0.1", "localhost", "[::1]"):
            others = {**self.OTHERS, "tributary/aggregators/0": answer(f"{address}:7000")}
            text = str(self.refusal(others))
            self.assertIn(f"rank 0 gives {address} as", text)
            self.assertRegex(text, "set MASTER_ADDR .* or TRIBUTARY_URL")

    def test_an_address_of_the_only_machine_is_allowed(self):
        here = {f"tributary/machines/{rank}": machine(_layout.machine()) for rank in (0, 2)}
        here |= {"tributary/aggregators/0": answer("127.0.0.1:7000"), "tributary/aggregators/2": answer()}
        with with_variables(LOCAL_RANK="1"):
            self.assertEqual(aggregators.url(Store(here), 1, 3, LIMIT_S), "tributary://127.0.0.1:7000/job/1")

    def test_waits_end_by_the_limit(self):
        store = Store(self.OTHERS)
        with with_variables(LOCAL_RANK="1"):
            aggregators.url(store, 1, 3, 7)
        self.assertTrue(0 < store.limit_s <= 7)


ONE_RANK = """
import numpy
import tributary
from tributary import aggregators
from aggregators_test import Store
url = aggregators.url(Store({}), 0, 1, 60)
with tributary.Communicator(url, rank=0, world=1) as communicator:
    values = numpy.arange(100_000, dtype=numpy.int32)
    communicator.all_reduce(values)
    assert values[-1] == 99_999
print(url.count(","), *[process.pid for process in aggregators._running], flush=True)
input()
"""


class Processes(unittest.TestCase):
    def test_an_aggregator_for_one_machine_cannot_be_reached_from_another(self):
        with with_variables(LOCAL_RANK="0", LOCAL_WORLD_SIZE="1", WORLD_SIZE="1", MASTER_ADDR="10.0.0.1"):
            url = aggregators.url(Store({}), 0, 1, 60)
        self.addCleanup(aggregators.stop)
        self.assertRegex(url, r"^tributary://127\.0\.0\.1:\d+/job/1$")
        # A server at 0.0.0.0 would have this address, too.
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as other:
            other.bind(("127.0.0.2", int(url.split(":")[2].partition("/")[0])))

    def test_an_aggregator_outlives_the_thread_that_asked_for_it(self):
        with with_variables(LOCAL_RANK="0"):
            urls = []
            thread = threading.Thread(target=lambda: urls.append(aggregators.url(Store({}), 0, 1, 60)))
            thread.start()
            # Not join(), which returns before the kernel has ended the thread.
            task = pathlib.Path(f"/proc/self/task/{thread.native_id}")
            while task.exists():
                thread.join(0.01)
        process, = aggregators._running
        self.assertIsNone(process.poll())
        end = os.pidfd_open(process.pid)
        self.addCleanup(os.close, end)
        with tributary.Communicator(urls[0], rank=0, world=1, deadline_ms=5000):
            self.assertFalse(select.select([end], [], [], 0)[0])
        aggregators.stop()
        self.assertTrue(select.select([end], [], [], support.LIMIT_S)[0])

    def test_aggregators_end_with_the_process_that_started_them(self):
        support.need("numpy")
        with with_variables(TRIBUTARY_AGGREGATORS="2", PYTHONPATH=os.environ["PYTHONPATH"]
                            + os.pathsep + str(support.HERE)):
            rank = subprocess.Popen([support.PYTHON, "-c", ONE_RANK], stdin=subprocess.PIPE,
                                    stdout=subprocess.PIPE, text=True)
        commas, *processes = map(int, rank.stdout.readline().split())
        self.assertEqual(commas, 1)
        self.assertEqual(len(processes), 2)
        ends = [os.pidfd_open(process) for process in processes]
        rank.kill()
        rank.communicate()
        for end in ends:
            self.assertTrue(select.select([end], [], [], support.LIMIT_S)[0])
            os.close(end)


if __name__ == "__main__":
    unittest.main()
