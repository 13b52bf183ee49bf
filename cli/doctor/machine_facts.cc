// SPDX-License-Identifier: Apache-2.0
#include "cli/doctor/machine_facts.h"

#include <net/if.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <sstream>
#include <string_view>

#include "base/cpus.h"
#include "base/errno_text.h"
#include "io/packet/packet_socket.h"

namespace tributary::cli {
namespace {

namespace fs = std::filesystem;

/// Returns the first line of a file, or nothing.
std::optional<std::string> first_line(const fs::path& path) {
  std::ifstream file(path);
  std::string line;
  if (!std::getline(file, line)) return std::nullopt;
  return line;
}

std::optional<uint64_t> number_in(const fs::path& path, int base = 10) {
  const auto line = first_line(path);
  if (!line) return std::nullopt;
  char* end = nullptr;
  const uint64_t number = std::strtoull(line->c_str(), &end, base);
  if (end == line->c_str()) return std::nullopt;
  return number;
}

/// Returns the rate in "speed". Reading it fails for a link that is down, and it is -1 without a
/// cable. Source: Linux, Documentation/ABI/testing/sysfs-class-net.
std::optional<uint64_t> link_mbit(const fs::path& interface) {
  const auto line = first_line(interface / "speed");
  if (!line || line->starts_with('-')) return std::nullopt;
  const auto mbit = number_in(interface / "speed");
  return mbit == uint64_t{0} ? std::nullopt : mbit;
}

std::vector<InterfaceFacts> interfaces_below(const fs::path& folder) {
  std::vector<InterfaceFacts> interfaces;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    const auto flags = number_in(entry.path() / "flags", 16);
    const auto mtu_bytes = number_in(entry.path() / "mtu");
    if (!flags || !mtu_bytes) continue;  // Skips files such as bonding_masters.
    interfaces.push_back({.name = entry.path().filename().string(),
                          .mtu_bytes = static_cast<uint32_t>(*mtu_bytes),
                          .up = (*flags & IFF_UP) != 0,
                          .loopback = (*flags & IFF_LOOPBACK) != 0,
                          .mbit = link_mbit(entry.path())});
  }
  std::sort(interfaces.begin(), interfaces.end(),
            [](const auto& a, const auto& b) { return a.name < b.name; });
  return interfaces;
}

/// Reads "200000 100000" as two cores and "max 100000" as no limit. Source: Linux, cgroup-v2.rst,
/// cpu.max.
std::optional<double> quota_in(const fs::path& path) {
  const auto line = first_line(path);
  if (!line) return std::nullopt;
  std::istringstream words(*line);
  double quota_us = 0;
  double period_us = 0;
  if (!(words >> quota_us >> period_us) || period_us <= 0) return std::nullopt;
  return quota_us / period_us;
}

bool option_works(int socket, int level, int option, int value) {
  return ::setsockopt(socket, level, option, &value, sizeof value) == 0;
}

/// Binds all addresses, IPv6 and IPv4 together if there is IPv6, as the appliance does.
std::string port_refusal(uint16_t port) {
  int fd = ::socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  int result = 0;
  if (fd >= 0) {
    option_works(fd, IPPROTO_IPV6, IPV6_V6ONLY, 0);
    sockaddr_in6 any{};
    any.sin6_family = AF_INET6;
    any.sin6_port = htons(port);
    result = ::bind(fd, reinterpret_cast<const sockaddr*>(&any), sizeof any);
  } else {
    fd = ::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    sockaddr_in any{};
    any.sin_family = AF_INET;
    any.sin_port = htons(port);
    result = ::bind(fd, reinterpret_cast<const sockaddr*>(&any), sizeof any);
  }
  const std::string refusal = result == 0 ? "" : errno_text(errno);
  ::close(fd);
  return refusal;
}

void look_at_sockets(uint16_t port, MachineFacts& facts) {
  const int fd = ::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (fd < 0) {
    facts.socket_refusal = errno_text(errno);
    return;
  }
  facts.has_udp_gso = option_works(fd, SOL_UDP, UDP_SEGMENT, 1'400);
  facts.has_udp_gro = option_works(fd, SOL_UDP, UDP_GRO, 1);
  facts.may_pass_buffer_limits = option_works(fd, SOL_SOCKET, SO_RCVBUFFORCE, 1 << 20);
  ::close(fd);
  facts.port_refusal = port_refusal(port);
}

void look_at_processor(MachineFacts& facts) {
  facts.cores_online = static_cast<uint32_t>(std::max(1L, sysconf(_SC_NPROCESSORS_ONLN)));
  facts.cores_allowed = static_cast<uint32_t>(cpus_allowed().size());
#if defined(__x86_64__)
  // The vector kernels choose their loop by the same check.
  facts.has_avx2 = __builtin_cpu_supports("avx2") != 0;
  facts.has_avx512 =
      __builtin_cpu_supports("avx512f") != 0 && __builtin_cpu_supports("avx512bw") != 0;
#endif
}

}  // namespace

MachineFacts gather_facts(uint16_t port, const fs::path& root) {
  MachineFacts facts;
  facts.port = port;
  if (const auto opened = io::open_packet_socket(0); !opened) {
    facts.packet_socket_refusal = opened.error().text;
  }
  facts.interfaces = interfaces_below(root / "sys/class/net");
  facts.receive_buffer_bytes_max = number_in(root / "proc/sys/net/core/rmem_max");
  facts.send_buffer_bytes_max = number_in(root / "proc/sys/net/core/wmem_max");
  facts.cpu_quota_cores = quota_in(root / "sys/fs/cgroup/cpu.max");
  facts.hugepages_free =
      number_in(root / "sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages");
  facts.kernel_release = first_line(root / "proc/sys/kernel/osrelease").value_or("");
  facts.clock_source =
      first_line(root / "sys/devices/system/clocksource/clocksource0/current_clocksource")
          .value_or("");
  rlimit limit{};
  if (getrlimit(RLIMIT_MEMLOCK, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY) {
    facts.memlock_bytes_max = limit.rlim_cur;
  }
  look_at_processor(facts);
  look_at_sockets(port, facts);
  return facts;
}

}  // namespace tributary::cli
