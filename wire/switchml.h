// SPDX-License-Identifier: Apache-2.0
/// @file
/// SwitchML's packets as its published code sends them over UDP, bit for bit.
///
/// Source:  p4lang/p4app-switchML, commit b5c74a0: p4/headers.p4, p4/types.p4 and the DPDK client.
/// Errors:  Bytes that are no SwitchML packet decode to nullopt.
/// Threads: Pure functions.
/// Tests:   tests/wire/switchml_test.cc
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "wire/bit_field.h"

namespace tributary::wire {

/// The UDP payload, by byte:
///
///   0     message type (high 4 bits; 1), unused (1 bit), size (3 bits: 1 = 64 elements, 3 = 256)
///   1     low 8 bits of the job's number; echoed, never checked
///   2–5   packet id in the client's byte order; echoed
///   6–7   pool index: bit 15 is the set (the algorithm's version), bits 13–0 are the slot; only a
///         switch with timeouts uses bit 14 (docs/tofino.md)
///   8, 9  exponents, signed
///   10–   64 or 256 integers of 32 bits, most significant byte first
///
/// Clients send to port 0xbee0 (the switch accepts 0xbee0 to 0xbeef). Replies have the ports
/// swapped, time to live 64 and UDP checksum 0.
struct SwitchmlHeader {
  static constexpr uint32_t kBytes = 10;
  using MessageType = Field<kBytes, 0, 4>;
  using Size = Field<kBytes, 5, 3>;
  using JobNumber = Field<kBytes, 8, 8>;
  using PacketId = Field<kBytes, 16, 32>;  ///< Swap its bytes on a little-endian client.
  using Set = Field<kBytes, 48, 1>;
  /// Some workers are missing from the sum. The job number then says how many are in it.
  using Degraded = Field<kBytes, 49, 1>;
  using Slot = Field<kBytes, 50, 14>;
  using Exponent0 = Field<kBytes, 64, 8>;
  using Exponent1 = Field<kBytes, 72, 8>;
};

inline constexpr uint16_t kSwitchmlPort = 0xbee0;
inline constexpr uint16_t kSwitchmlPortMask = 0xfff0;
inline constexpr uint32_t kSwitchmlMessageType = 1;
inline constexpr uint32_t kSwitchmlSlotMax = (1 << 14) - 1;
/// Most workers: a slot's bitmap has one bit for each. Source: published switch program.
inline constexpr uint32_t kSwitchmlWorkersMax = 32;
inline constexpr uint8_t kSwitchmlTimeToLive = 64;

/// Convert between a number of elements and its size code; nullopt if there is none. 32 and 128
/// have codes, but the published switch drops them.
[[nodiscard]] std::optional<uint32_t> switchml_size_code(uint32_t elements);
[[nodiscard]] std::optional<uint32_t> switchml_elements(uint32_t size_code);

struct SwitchmlMessage {
  uint8_t job_number = 0;
  uint32_t packet_id = 0;
  bool set = false;
  uint16_t slot = 0;
  int8_t exponent0 = 0;
  int8_t exponent1 = 0;
  std::vector<int32_t> elements = {};  ///< 64 or 256.

  friend bool operator==(const SwitchmlMessage&, const SwitchmlMessage&) = default;
};

/// A message without its elements.
struct SwitchmlHead {
  uint8_t job_number = 0;
  uint32_t packet_id = 0;
  bool set = false;
  uint16_t slot = 0;
  int8_t exponent0 = 0;
  int8_t exponent1 = 0;
  uint32_t elements = 0;  ///< Elements that follow; must have a size code.
  bool degraded = false;  ///< The sum lacks workers; set by a switch with timeouts.
};

/// Writes SwitchmlHeader::kBytes bytes at `to`. @pre As switchml_payload().
void encode_switchml_head(const SwitchmlHead& head, std::byte* to);
/// Decodes the first SwitchmlHeader::kBytes; the elements may be missing.
/// @return nullopt if the payload is too short or not SwitchML's.
[[nodiscard]] std::optional<SwitchmlHead> decode_switchml_head(std::span<const std::byte> payload);
/// Returns the bytes of a whole message.
[[nodiscard]] constexpr uint32_t switchml_bytes(uint32_t elements) {
  return SwitchmlHeader::kBytes + elements * static_cast<uint32_t>(sizeof(int32_t));
}

/// Encodes the UDP payload. @pre elements.size() has a size code, slot <= kSwitchmlSlotMax.
[[nodiscard]] std::vector<std::byte> switchml_payload(const SwitchmlMessage& message);
/// Decodes a UDP payload.
/// @return nullopt if it is not a SwitchML message, or is shorter than its size field says.
[[nodiscard]] std::optional<SwitchmlMessage> parse_switchml(std::span<const std::byte> payload);

}  // namespace tributary::wire
