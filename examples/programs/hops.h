// SPDX-License-Identifier: Apache-2.0
/// @file
/// Changes packets as a router does: takes one hop from the time to live of each IPv4 packet and
/// updates the checksum of its header. Packets whose time to live ends are dropped. Other packets
/// pass unchanged.
///
/// Tests: examples/programs/hops_test.cc
#pragma once

#include <array>
#include <memory>

#include "cli/program_main.h"
#include "wire/headers.h"

namespace hops {

using namespace tributary;
using wire::EthernetHeader, wire::Ipv4Header;

constexpr microcode::Instruction kReadHeader{"read_header",
                                             {.lmem_reads = 2, .register_writes = 2}};
constexpr microcode::Instruction kWriteHeader{"write_header",
                                              {.register_reads = 2, .lmem_writes = 2}};
constexpr microcode::Instruction kForward{"forward", {}};

/// The fields that change. The protocol shares a 16-bit word of the checksum with the time to live.
struct Hop {
  uint32_t time_to_live;
  uint32_t protocol;
  uint32_t checksum;
};

/// Returns the checksum after the time to live has become smaller by `count` (RFC 1624, equation
/// 3).
constexpr uint32_t checksum_after(const Hop& hop, uint32_t count) {
  const uint32_t before = hop.time_to_live << 8 | hop.protocol;
  const uint32_t after = (hop.time_to_live - count) << 8 | hop.protocol;
  uint32_t sum = (~hop.checksum & 0xffff) + (~before & 0xffff) + after;
  sum = (sum & 0xffff) + (sum >> 16);
  sum = (sum & 0xffff) + (sum >> 16);
  return ~sum & 0xffff;
}

struct Hops {
  static constexpr std::string_view kName = "hops";
  static constexpr std::string_view kSummary =
      "Takes a hop from the time to live of IPv4 packets, and drops those that end";
  static constexpr std::array kKeys{KeySpec{"count", KeyType::kUint,
                                            "Hops to take from each packet",
                                            /*default_text=*/"1", 1, 255}};

  static Result<std::unique_ptr<Hops>> create(memory::SharedMemory&, const KeyValues& settings) {
    return std::make_unique<Hops>(static_cast<uint32_t>(settings.uint("count")));
  }
  explicit Hops(uint32_t hops) : count(hops) {}

  /// Runs the thread of one packet.
  template <microcode::Machine M>
  static microcode::Thread process(M& m, Hops& state) {
    m.instruction(kReadHeader);
    const auto ether = m.head().template view<EthernetHeader>(0);
    const auto ip = m.head().template view<Ipv4Header>(EthernetHeader::kBytes);
    const bool is_ip = ip && ether->template get<EthernetHeader::EtherType>() == 0x0800;
    if (is_ip) {
      const Hop hop{.time_to_live = ip->template get<Ipv4Header::TimeToLive>(),
                    .protocol = ip->template get<Ipv4Header::Protocol>(),
                    .checksum = ip->template get<Ipv4Header::HeaderChecksum>()};
      if (hop.time_to_live <= state.count) {
        m.drop(0);
        co_return;
      }
      write(m, hop, state.count);
    }
    m.instruction(kForward);
    m.forward();
  }

  uint32_t count;

 private:
  template <microcode::Machine M>
  static void write(M& m, const Hop& hop, uint32_t count) {
    m.instruction(kWriteHeader);
    const uint32_t checksum = checksum_after(hop, count);
    const std::array time_to_live{static_cast<std::byte>(hop.time_to_live - count)};
    const std::array sum{static_cast<std::byte>(checksum >> 8), static_cast<std::byte>(checksum)};
    m.write_head(EthernetHeader::kBytes + Ipv4Header::TimeToLive::kFirstByte, time_to_live);
    m.write_head(EthernetHeader::kBytes + Ipv4Header::HeaderChecksum::kFirstByte, sum);
  }
};

}  // namespace hops
