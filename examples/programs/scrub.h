// SPDX-License-Identifier: Apache-2.0
/// @file
/// Overwrites the payload of each UDP and TCP packet over IPv4 with zeros, as before a capture is
/// given away. Headers and lengths stay; a right checksum stays right, and a wrong one stays wrong.
/// Other packets pass unchanged.
///
/// Tests: examples/programs/scrub_test.cc
#pragma once

#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <span>

#include "base/internet_checksum.h"
#include "cli/program_main.h"
#include "microcode/local_memory.h"
#include "wire/headers.h"

namespace scrub {

using namespace tributary;
using wire::EthernetHeader, wire::Ipv4Header, wire::TcpHeader, wire::UdpHeader;

constexpr microcode::Instruction kReadIp{"read_ip", {.lmem_reads = 2, .register_writes = 2}};
constexpr microcode::Instruction kReadTransport{"read_transport",
                                                {.lmem_reads = 2, .register_writes = 2}};
constexpr microcode::Instruction kClear{"clear_16_bytes", {.lmem_reads = 2, .lmem_writes = 2}};
constexpr microcode::Instruction kNextChunk{"next_chunk",
                                            {.register_reads = 2, .register_writes = 1}};
constexpr microcode::Instruction kAdd{"add_16_bytes", {.lmem_reads = 2, .register_writes = 1}};
constexpr microcode::Instruction kWriteChecksum{"write_checksum",
                                                {.register_reads = 2, .lmem_writes = 1}};
constexpr microcode::Instruction kForward{"forward", {}};

constexpr uint32_t kStepBytes = 16;  ///< Bytes that one instruction can read: two of 8 (Trio §3.1).
constexpr std::array<std::byte, microcode::kTailChunkBytes> kZeros{};

/// A packet's payload and the checksum that covers it. Offsets are in the packet.
struct Payload {
  uint32_t begin = 0;
  uint32_t end = 0;
  uint32_t checksum_at = 0;
  uint32_t checksum = 0;
  bool has_checksum = true;  ///< False: UDP with the checksum 0 (RFC 768).
};

/// Returns the checksum after words with the sum `cleared` have become 0 (RFC 1624, equation 3).
constexpr uint32_t checksum_after(uint32_t checksum, uint32_t cleared) {
  return ~fold_sum((~checksum & 0xffff) + (~uint32_t{fold_sum(cleared)} & 0xffff)) & 0xffff;
}

struct Scrub {
  static constexpr std::string_view kName = "scrub";
  static constexpr std::string_view kSummary =
      "Overwrites the payload of UDP and TCP packets over IPv4 with zeros";
  static constexpr std::array<KeySpec, 0> kKeys{};

  static Result<std::unique_ptr<Scrub>> create(memory::SharedMemory&, const KeyValues&) {
    return std::make_unique<Scrub>();
  }

  /// Runs the thread of one packet.
  template <microcode::Machine M>
  static microcode::Thread process(M& m, Scrub&) {
    const std::optional<Payload> payload = find_payload(m);
    if (payload) {
      const uint32_t head_end = std::min(payload->end, m.head().size());
      uint32_t cleared = 0;
      for (uint32_t at = payload->begin; at < head_end; at += kStepBytes) {
        cleared += clear_head(m, at, std::min(kStepBytes, head_end - at));
      }
      std::array<std::byte, microcode::kTailChunkBytes> chunk;
      for (uint32_t at = head_end; at < payload->end; at += microcode::kTailChunkBytes) {
        m.instruction(kNextChunk);
        const uint32_t wanted = std::min(microcode::kTailChunkBytes, payload->end - at);
        co_await m.read_tail(at - head_end, std::span(chunk).first(wanted));
        cleared += sum_of(m, std::span(chunk).first(wanted));
        co_await m.write_tail(at - head_end, std::span(kZeros).first(wanted));
      }
      write_checksum(m, *payload, cleared);
    }
    m.instruction(kForward);
    m.forward();
  }

 private:
  /// Returns the payload; nothing for other packets, for fragments, and for payloads that do not
  /// begin in the head.
  template <microcode::Machine M>
  static std::optional<Payload> find_payload(M& m) {
    m.instruction(kReadIp);
    const auto ether = m.head().template view<EthernetHeader>(0);
    const auto ip = m.head().template view<Ipv4Header>(EthernetHeader::kBytes);
    if (!ip || ether->template get<EthernetHeader::EtherType>() != wire::kEtherTypeIpv4) return {};
    const uint32_t header_bytes = 4 * ip->template get<Ipv4Header::HeaderWords>();
    const uint32_t end = EthernetHeader::kBytes + ip->template get<Ipv4Header::TotalLength>();
    const bool is_fragment = ip->template get<Ipv4Header::MoreFragments>() != 0 ||
                             ip->template get<Ipv4Header::FragmentOffset>() != 0;
    const uint32_t protocol = ip->template get<Ipv4Header::Protocol>();
    if (header_bytes < Ipv4Header::kBytes || is_fragment) return {};

    m.instruction(kReadTransport);
    const uint32_t at = EthernetHeader::kBytes + header_bytes;
    Payload payload{.end = std::min(end, m.packet_size())};
    if (protocol == wire::kIpProtocolUdp) {
      const auto udp = m.head().template view<UdpHeader>(at);
      if (!udp) return {};
      payload.begin = at + UdpHeader::kBytes;
      payload.end = std::min(payload.end, at + udp->template get<UdpHeader::Length>());
      payload.checksum_at = at + UdpHeader::Checksum::kFirstByte;
      payload.checksum = udp->template get<UdpHeader::Checksum>();
      payload.has_checksum = payload.checksum != 0;
    } else if (protocol == wire::kIpProtocolTcp) {
      const auto tcp = m.head().template view<TcpHeader>(at);
      if (!tcp) return {};
      payload.begin = at + 4 * tcp->template get<TcpHeader::HeaderWords>();
      payload.checksum_at = at + TcpHeader::Checksum::kFirstByte;
      payload.checksum = tcp->template get<TcpHeader::Checksum>();
    }
    const bool is_found = payload.begin > payload.checksum_at && payload.begin < payload.end &&
                          payload.begin <= m.head().size();
    return is_found ? std::optional(payload) : std::nullopt;
  }

  /// Clears up to kStepBytes bytes of the head. @return the sum of their 16-bit words.
  template <microcode::Machine M>
  static uint32_t clear_head(M& m, uint32_t at, uint32_t count) {
    m.instruction(kClear);
    const uint32_t sum = word_sum(m.head().read(at, count));
    m.write_head(at, std::span(kZeros).first(count));
    return sum;
  }

  /// Returns the sum of a chunk's 16-bit words.
  template <microcode::Machine M>
  static uint32_t sum_of(M& m, std::span<const std::byte> chunk) {
    uint32_t sum = 0;
    for (uint32_t at = 0; at < chunk.size(); at += kStepBytes) {
      m.instruction(kAdd);
      const auto step = chunk.subspan(at, std::min<size_t>(kStepBytes, chunk.size() - at));
      microcode::note_load(m, step.data(), static_cast<uint32_t>(step.size()));
      sum += word_sum(step);
    }
    return sum;
  }

  template <microcode::Machine M>
  static void write_checksum(M& m, const Payload& payload, uint32_t cleared) {
    if (!payload.has_checksum) return;
    m.instruction(kWriteChecksum);
    uint32_t checksum = checksum_after(payload.checksum, cleared);
    if (checksum == 0) checksum = 0xffff;  // Equal in one's complement, and not "none" in UDP.
    const std::array bytes{static_cast<std::byte>(checksum >> 8), static_cast<std::byte>(checksum)};
    m.write_head(payload.checksum_at, bytes);
  }
};

}  // namespace scrub
