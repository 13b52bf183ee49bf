# SPDX-License-Identifier: Apache-2.0
# The address at which the inner Gloo group listens, and the end of its waits: by hand, then on two network namespaces.
import os
import time
import unittest
from unittest import mock

import support
import two_machines

support.need("torch")
from tributary import _addresses, _gloo, errors  # noqa: E402


class Store:
    """The calls of a store for addresses. A key that is missing stays so."""

    def __init__(self, **addresses):
        self.values = {f"address/{rank[1:]}": address for rank, address in addresses.items()}

    def set(self, key, value):
        self.values[key] = value

    def wait(self, keys, limit):
        if any(key not in self.values for key in keys):
            time.sleep(limit.total_seconds())
            raise RuntimeError("Socket Timeout")

    def get(self, key):
        return self.values[key].encode()


class Address(unittest.TestCase):
    def address(self, rank, own, routes, within_s=0, **others):
        """Returns the address of a rank of three. own: that towards MASTER_ADDR. routes: from hosts to own addresses."""
        def towards(host):
            if host not in routes:
                raise OSError("no route")
            return routes[host]

        with mock.patch.object(_gloo, "own_address_towards_master", lambda: own), \
                mock.patch.object(_gloo, "own_address_towards", towards):
            self.store = Store(**others)
            return _gloo._address_for(self.store, rank, 3, time.monotonic() + within_s)

    def test_is_that_of_the_route_to_the_master(self):
        self.assertEqual(self.address(1, "10.0.0.2", {}, r0="10.0.0.1"), "10.0.0.2")
        self.assertEqual(self.store.values["address/1"], "10.0.0.2")

    def test_a_master_whose_own_name_is_local_takes_the_route_to_another_rank(self):
        self.assertEqual(self.address(0, "", {"10.0.0.2": "10.0.0.1"}, r1="", r2="10.0.0.2"), "10.0.0.1")

    def test_all_ranks_take_the_family_of_the_first(self):
        self.assertEqual(self.address(2, "fd00::3", {"10.0.0.2": "10.0.0.3"}, r0="", r1="10.0.0.2"), "10.0.0.3")

    def test_gloo_chooses_it_on_one_machine_and_without_a_route(self):
        self.assertEqual(self.address(0, "", {}, r1="", r2=""), "")
        self.assertEqual(self.address(0, "", {}, r1="10.0.0.2", r2=""), "")

    def test_a_rank_that_publishes_none_is_missing(self):
        with self.assertRaisesRegex(errors.PeerMissing, "rank 1 has not reached init_process_group"):
            self.address(0, "", {}, r2="")

    def test_a_master_on_this_machine_gives_none(self):
        for master in ("127.0.0.1", "localhost", "::1"):
            with mock.patch.dict(os.environ, MASTER_ADDR=master):
                self.assertEqual(_addresses.own_address_towards_master(), "", master)
        without = {name: value for name, value in os.environ.items() if name != "MASTER_ADDR"}
        with mock.patch.dict(os.environ, without, clear=True):
            self.assertEqual(_addresses.own_address_towards_master(), "")


class Machines(unittest.TestCase):
    def assert_all_well(self, ended):
        statuses, printed = ended
        self.assertEqual(statuses, [0, 0], printed)
        for text in printed:
            self.assertIn("all well", text)

    def test_gloo_needs_no_variable_whatever_the_name_of_the_machine_resolves_to(self):
        machines = two_machines.TwoMachines(self)
        self.assert_all_well(machines.launch("ranks_gloo.py"))
        machines.name_hosts()
        self.assert_all_well(machines.launch("ranks_gloo.py", hosts=two_machines.HOST_NAMES))
        self.assert_all_well(machines.launch("ranks_gloo.py", counts=(2, 2), GLOO_SOCKET_IFNAME=two_machines.CABLE))

    def test_a_wrong_interface_ends_all_ranks_by_the_deadline_with_advice(self):
        machines = two_machines.TwoMachines(self)
        began = time.monotonic()
        statuses, printed = machines.launch("ranks_gloo.py", deadline_ms=4_000, GLOO_SOCKET_IFNAME="lo")
        # Gloo itself waits five deadlines.
        self.assertLess(time.monotonic() - began, 4 * 4)
        self.assertEqual(statuses, [75, 75], printed)  # Each because of the other.
        for text in printed:
            self.assertRegex(text, r"Gloo could not connect the 2 ranks: .*; this rank listens by interface lo "
                                   r"\(GLOO_SOCKET_IFNAME\); to fix: set GLOO_SOCKET_IFNAME on each machine")
        self.assertEqual(sum("not within 4.0 s" in text for text in printed), 1, printed)

    def test_a_missing_interface_is_this_ranks_own_fault(self):
        statuses, printed = two_machines.TwoMachines(self).launch(
            "ranks_gloo.py", deadline_ms=4_000, GLOO_SOCKET_IFNAME="none"
        )
        self.assertEqual(statuses, [1, 1], printed)
        self.assertIn("this rank listens by interface none (GLOO_SOCKET_IFNAME)", "".join(printed))

    def test_different_counts_of_ranks_are_named(self):
        machines = two_machines.TwoMachines(self)
        for counts in ((1, 2), (3, 1)):
            statuses, printed = machines.launch("ranks_gloo.py", counts=counts, deadline_ms=4_000)
            self.assertNotIn(0, statuses, printed)
            self.assertIn("; with launch --workers, -n must be the same on all machines", "".join(printed))


if __name__ == "__main__":
    unittest.main()
