// SPDX-License-Identifier: Apache-2.0
#include "apps/guard/config.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/endpoint.h"
#include "base/number_text.h"

namespace tributary::guard {
namespace {

/// The first error of a list of checks.
class Checks {
 public:
  Checks& range(const char* name, uint64_t value, uint64_t min, uint64_t max) {
    if ((value < min || value > max) && result_) {
      result_ = failure(
          fmt::format("{}={} is out of range; allowed: from {} to {}", name, value, min, max));
    }
    return *this;
  }
  Checks& range(const char* name, Duration value, Duration min, Duration max) {
    if ((value < min || value > max) && result_) {
      result_ = failure(fmt::format("{}={} s is out of range; allowed: from {} s to {} s", name,
                                    in_seconds(value), in_seconds(min), in_seconds(max)));
    }
    return *this;
  }
  [[nodiscard]] const Result<void>& result() const { return result_; }

 private:
  Result<void> result_;
};

/// Returns 4 for a prefix of mapped IPv4 addresses, else 6.
uint8_t ip_version_of(const AllowedPrefix& prefix) {
  Endpoint endpoint;
  endpoint.address = prefix.address;
  return prefix.bits >= kMappedPrefixBits && endpoint.is_ipv4() ? 4 : 6;
}

bool contains(const AllowedPrefix& prefix, const Address& address) {
  const uint32_t whole_bytes = prefix.bits / 8;
  for (uint32_t i = 0; i < whole_bytes; i++) {
    if (address[i] != prefix.address[i]) return false;
  }
  const uint32_t bits_left = prefix.bits % 8;
  if (bits_left == 0) return true;
  return ((address[whole_bytes] ^ prefix.address[whole_bytes]) >> (8 - bits_left)) == 0;
}

/// Returns the address with zeros behind the prefix.
Address network_address(const Address& address, uint32_t bits) {
  Address network{};
  for (uint32_t i = 0; i < network.size() && i * 8 < bits; i++) {
    const uint32_t kept = std::min(bits - i * 8, 8U);
    network[i] = static_cast<uint8_t>(address[i] & (0xFF00U >> kept));
  }
  return network;
}

Result<AllowedPrefix> parse_prefix(std::string_view text) {
  const auto refused = [&] {
    return failure(
        fmt::format("'{}' is refused; allowed: ADDRESS/BITS, several joined by +", text));
  };
  const size_t slash = text.find('/');
  if (slash == std::string_view::npos) return refused();
  const std::string_view address = text.substr(0, slash), bits_text = text.substr(slash + 1);
  const bool is_ipv6 = address.find(':') != std::string_view::npos;
  const auto endpoint =
      Endpoint::parse(is_ipv6 ? fmt::format("[{}]:1", address) : fmt::format("{}:1", address));
  const auto bits = parse_number<uint32_t>(bits_text);
  const uint32_t bits_max = is_ipv6 ? 128 : 32;
  if (!endpoint || !bits || *bits > bits_max) return refused();
  const AllowedPrefix prefix{.address = endpoint->address, .bits = 128 - bits_max + *bits};
  // Refuse bits behind the prefix: the user has mistyped the address or the length.
  const Endpoint network{.address = network_address(prefix.address, prefix.bits)};
  if (network.address != prefix.address) {
    return failure(fmt::format("'{}' has bits behind its first {}; allowed: {}/{}", text, *bits,
                               network.host_text(), *bits));
  }
  return prefix;
}

}  // namespace

const char* to_string(Level level) {
  switch (level) {
    case Level::kSource:
      return "source";
    case Level::kNetwork:
      return "network";
    case Level::kDestination:
      return "destination";
  }
  return "unknown";
}

const char* to_string(Action action) {
  switch (action) {
    case Action::kDrop:
      return "drop";
    case Action::kPolice:
      return "police";
    case Action::kKeep:
      return "keep";
  }
  return "unknown";
}

const char* to_string(PacketKind kind) {
  switch (kind) {
    case PacketKind::kTcpSyn:
      return "tcp_syn";
    case PacketKind::kTcp:
      return "tcp";
    case PacketKind::kUdp:
      return "udp";
    case PacketKind::kIcmp:
      return "icmp";
    case PacketKind::kOther:
      return "other";
  }
  return "unknown";
}

Result<void> check(const GuardConfig& config) {
  Checks checks;
  for (const LevelConfig& level : config.levels) {
    for (const uint32_t pps : level.pps) checks.range("bandwidth", pps, 1, kPpsMax);
  }
  checks.range("detect time", config.detect_time, seconds(1), seconds(60))
      .range("recover time", config.recover_time, seconds(1), seconds(3'600))
      .range("timeout time", config.timeout_time, seconds(1), seconds(7'200))
      .range("timer period", config.timer_period, milliseconds(10), seconds(1))
      .range("timer threads", config.timer_threads, 1, 1'000)
      .range("destinations", config.destinations_max, 64, kRecordsMax)
      .range("suspects", config.suspects_max, 64, kRecordsMax)
      .range("report", config.report_max, 1, kCulpritsMax)
      .range("handshakes (log2)", config.handshakes_log2, 10, 28)
      .range("handshake time", config.handshake_time, milliseconds(10), seconds(60))
      .range("known bits (log2)", config.known_bits_log2, 16, 34)
      .range("known time", config.known_time, seconds(1), seconds(3'600))
      .range("settle time", config.settle_time, milliseconds(10), seconds(60))
      .range("allowed prefixes", config.allowed.size(), 0, kAllowedPrefixesMax);
  for (const AllowedPrefix& prefix : config.allowed) {
    checks.range("allowed prefix bits", prefix.bits, 0, 128);
  }
  return checks.result();
}

Result<std::vector<AllowedPrefix>> parse_allowed(std::string_view text) {
  std::vector<AllowedPrefix> allowed;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find('+', begin), text.size());
    auto prefix = parse_prefix(text.substr(begin, end - begin));
    if (!prefix) return tl::unexpected(prefix.error());
    allowed.push_back(*prefix);
    begin = end + 1;
  }
  return allowed;
}

bool is_allowed(const GuardConfig& config, const Address& source, uint8_t ip_version) {
  for (const AllowedPrefix& prefix : config.allowed) {
    if (ip_version_of(prefix) == ip_version && contains(prefix, source)) return true;
  }
  return false;
}

}  // namespace tributary::guard
