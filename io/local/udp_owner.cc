// SPDX-License-Identifier: Apache-2.0
#include "io/local/udp_owner.h"

#include <fmt/format.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <istream>
#include <sstream>
#include <string>

#include "io/file_descriptor.h"
#include "io/udp/socket_address.h"

namespace tributary::io {
namespace {

/// The kernel gives a long list in pieces. It may leave a socket out if another is closed between
/// two of them, so one look is not enough. Assumed.
constexpr int kReads = 3;

/// The kernel's number for every user that has none in this user namespace, so it names nobody.
/// Source: /proc/sys/kernel/overflowuid, by default.
constexpr uid_t kUnknownUser = 65'534;

constexpr size_t kIpv4Bytes = 4;
/// Offset of the IPv4 address in an Endpoint.
constexpr size_t kIpv4At = 12;

// --- The kernel's own lookup ---

struct Question {
  nlmsghdr header{};
  inet_diag_req_v2 socket{};
};
static_assert(sizeof(Question) == sizeof(nlmsghdr) + sizeof(inet_diag_req_v2));

Question question_for(const Endpoint& address) {
  Question question;
  question.header.nlmsg_len = sizeof question;
  question.header.nlmsg_type = SOCK_DIAG_BY_FAMILY;
  question.header.nlmsg_flags = NLM_F_REQUEST;
  question.socket.sdiag_family = address.is_ipv4() ? AF_INET : AF_INET6;
  question.socket.sdiag_protocol = IPPROTO_UDP;
  question.socket.idiag_states = UINT32_MAX;
  // For UDP the kernel takes the receiver's address as the destination.
  inet_diag_sockid& id = question.socket.id;
  id.idiag_dport = htons(address.port);
  const size_t begin = address.is_ipv4() ? kIpv4At : 0;
  std::memcpy(id.idiag_dst, address.address.data() + begin, address.address.size() - begin);
  id.idiag_if = address.scope_id;
  std::ranges::fill(id.idiag_cookie, uint32_t{INET_DIAG_NOCOOKIE});
  return question;
}

UdpOwner owner_in(const inet_diag_msg& found) {
  UdpOwner owner{.listen = {}, .user = found.idiag_uid};
  const auto* const source = reinterpret_cast<const std::byte*>(found.id.idiag_src);
  if (found.idiag_family == AF_INET) {
    owner.listen = Endpoint::ipv4(0, 0);
    std::memcpy(owner.listen.address.data() + kIpv4At, source, kIpv4Bytes);
  } else {
    std::memcpy(owner.listen.address.data(), source, owner.listen.address.size());
    owner.listen.scope_id = found.id.idiag_if;
  }
  owner.listen.port = ntohs(found.id.idiag_sport);
  return owner;
}

/// Asks the kernel which socket receives packets to `address`. Returns nothing if none does, or if
/// the kernel has no such service.
std::optional<UdpOwner> looked_up_udp_owner(const Endpoint& address) {
  const FileDescriptor socket(
      ::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_SOCK_DIAG));
  if (!socket.is_open()) return {};
  const Question question = question_for(address);
  sockaddr_nl kernel{};
  kernel.nl_family = AF_NETLINK;
  if (::sendto(socket.get(), &question, sizeof question, MSG_NOSIGNAL,
               reinterpret_cast<const sockaddr*>(&kernel), sizeof kernel) < 0) {
    return {};
  }
  // The kernel has answered within sendto().
  alignas(nlmsghdr) std::array<std::byte, 8192> answer{};
  sockaddr_nl from{};
  socklen_t from_size = sizeof from;
  const ssize_t size = ::recvfrom(socket.get(), answer.data(), answer.size(), 0,
                                  reinterpret_cast<sockaddr*>(&from), &from_size);
  nlmsghdr header{};
  inet_diag_msg found{};
  if (size < static_cast<ssize_t>(NLMSG_LENGTH(sizeof found)) || from.nl_pid != 0) return {};
  std::memcpy(&header, answer.data(), sizeof header);
  if (header.nlmsg_type != SOCK_DIAG_BY_FAMILY) return {};  // An error.
  std::memcpy(&found, answer.data() + NLMSG_HDRLEN, sizeof found);
  return owner_in(found);
}

// --- The kernel's lists ---

/// Returns an address as the kernel writes it: words of 32 bits in the machine's byte order, then
/// the port. IPv4 addresses are one word, others four.
std::string as_listed(const Endpoint& address) {
  std::string text;
  for (size_t at = address.is_ipv4() ? kIpv4At : 0; at < address.address.size(); at += 4) {
    uint32_t word = 0;
    std::memcpy(&word, address.address.data() + at, sizeof word);
    text += fmt::format("{:08X}", word);
  }
  return text + fmt::format(":{:04X}", address.port);
}

/// The users of one address in a list.
struct Users {
  std::optional<uid_t> first;
  bool differ = false;

  void add(uid_t user) {
    if (!first) first = user;
    differ = differ || *first != user;
  }
};

}  // namespace

std::optional<UdpOwner> listed_udp_owner(std::istream& list, const Endpoint& address) {
  Endpoint wildcard = address.is_ipv4() ? Endpoint::ipv4(0, address.port) : Endpoint{};
  wildcard.port = address.port;
  const std::string exact_text = as_listed(address);
  const std::string wildcard_text = as_listed(wildcard);
  Users exact;
  Users of_wildcard;
  for (std::string line; std::getline(list, line);) {
    // number, local address, remote address, state, queues, timer, retransmissions, user …
    std::istringstream fields(line);
    std::string skipped;
    std::string local;
    uid_t user = 0;
    fields >> skipped >> local;
    for (int i = 0; i < 5; i++) fields >> skipped;
    if (!(fields >> user)) continue;
    if (local == exact_text) exact.add(user);
    if (local == wildcard_text) of_wildcard.add(user);
  }
  const Users& users = exact.first ? exact : of_wildcard;
  if (!users.first || users.differ) return {};
  return UdpOwner{.listen = exact.first ? address : wildcard, .user = *users.first};
}

std::optional<UdpOwner> udp_owner(const Endpoint& address) {
  std::optional<UdpOwner> owner = looked_up_udp_owner(address);
  for (int i = 0; i < kReads && !owner; i++) {
    std::ifstream list(address.is_ipv4() ? "/proc/net/udp" : "/proc/net/udp6");
    owner = listed_udp_owner(list, address);
  }
  if (owner && owner->user == kUnknownUser) return {};
  return owner;
}

}  // namespace tributary::io
