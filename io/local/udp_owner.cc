// SPDX-License-Identifier: Apache-2.0
#include "io/local/udp_owner.h"

#include <fmt/format.h>

#include <cstdint>
#include <cstring>
#include <fstream>
#include <sstream>

namespace tributary::io {
namespace {

/// The kernel gives a long list in pieces. It may leave a socket out if another is closed between two
/// of them, so one look is not enough. Assumed.
constexpr int kReads = 3;

/// The kernel's number for every user that has none in this user namespace, so it names nobody.
/// Source: /proc/sys/kernel/overflowuid, by default.
constexpr uid_t kUnknownUser = 65'534;

/// Returns an address as the kernel writes it: words of 32 bits in the machine's byte order, then
/// the port. IPv4 addresses are one word, others four.
std::string as_listed(const Endpoint& address) {
  std::string text;
  for (size_t at = address.is_ipv4() ? 12 : 0; at < address.address.size(); at += 4) {
    uint32_t word = 0;
    std::memcpy(&word, address.address.data() + at, sizeof word);
    text += fmt::format("{:08X}", word);
  }
  return text + fmt::format(":{:04X}", address.port);
}

}  // namespace

bool is_line_of(const std::string& line, uid_t user, const Endpoint& address) {
  // number, local address, remote address, state, queues, timer, retransmissions, user …
  std::istringstream fields(line);
  std::string skipped;
  std::string local;
  uint64_t owner = 0;
  fields >> skipped >> local;
  for (int i = 0; i < 5; i++) fields >> skipped;
  return (fields >> owner) && owner == user && local == as_listed(address);
}

bool holds_udp_address(uid_t user, const Endpoint& address) {
  if (user == kUnknownUser) return false;
  for (int i = 0; i < kReads; i++) {
    std::ifstream sockets(address.is_ipv4() ? "/proc/net/udp" : "/proc/net/udp6");
    for (std::string line; std::getline(sockets, line);) {
      if (is_line_of(line, user, address)) return true;
    }
  }
  return false;
}

}  // namespace tributary::io
