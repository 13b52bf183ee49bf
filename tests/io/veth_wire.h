// SPDX-License-Identifier: Apache-2.0
/// @file
/// A wire for tests of frame sockets: a veth pair in a network namespace of the test's own. Needs
/// root and the ip command; elsewhere the tests skip themselves with the reason.
#pragma once

#include <gtest/gtest.h>
#include <sched.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <functional>
#include <string>
#include <thread>

namespace tributary::io {

/// Runs a shell command. @return whether it succeeded.
inline bool run(const std::string& command) {
  return std::system((command + " >/dev/null 2>&1").c_str()) == 0;
}

/// Waits until the kernel has put the interface into operation, which follows its start a little
/// later. Until then it drops all packets.
inline bool comes_up(const std::string& interface) {
  const std::string command = "ip link show " + interface + " | grep -q 'state UP'";
  for (uint32_t i = 0; i < 1000; i++) {
    if (run(command)) return true;
  }
  return false;
}

/// Calls `body` in a network namespace with a veth pair, wire_a and wire_b, that carries 4,200
/// bytes. Skips the test if that is not allowed here.
inline void on_a_wire(const std::function<void()>& body) {
  bool made = false;
  std::thread([&] {
    made = geteuid() == 0 && unshare(CLONE_NEWNET) == 0 &&
           run("ip link add wire_a mtu 4200 type veth peer name wire_b mtu 4200") &&
           run("ip link set wire_a up") && run("ip link set wire_b up") && comes_up("wire_a") &&
           comes_up("wire_b");
    if (made) body();
  }).join();
  if (!made) GTEST_SKIP() << "needs root, network namespaces and the ip command";
}

}  // namespace tributary::io
