# SPDX-License-Identifier: Apache-2.0
"""Addresses by which the machines of a job reach each other."""

import ipaddress
import os
import socket

_ANY_PORT = 9  # Routes do not depend on it.


def is_loopback(host):
    """Returns True if a host, a name or an address, is the loopback interface by its text alone."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:  # A name.
        return False


def own_address_towards(host, port=_ANY_PORT):
    """Returns this machine's address on the route to a host. Raises OSError if there is no route."""
    # Connecting a UDP socket sends nothing, and sets the address that the route uses.
    family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_DGRAM)[0]
    with socket.socket(family, kind, protocol) as probe:
        probe.connect(address)
        return probe.getsockname()[0]


def own_address_towards_master():
    """Returns this machine's address on the route to MASTER_ADDR, or "" if that is a loopback address or unknown."""
    try:
        found = own_address_towards(os.environ["MASTER_ADDR"])
    except (KeyError, OSError):  # The script may give an init_method or a store instead.
        return ""
    return "" if is_loopback(found) else found
