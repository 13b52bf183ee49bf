// SPDX-License-Identifier: Apache-2.0
/// @file
/// SwitchML's packets as its published code sends them over UDP, bit for bit.
///
/// Shapes:  The UDP payload, by byte:
///          0     message type (high 4 bits; 1), unused (1 bit), size (3 bits: 1 = 64 elements,
///                3 = 256)
///          1     low 8 bits of the job's number; echoed, never looked at
///          2–5   packet id in the client's byte order; echoed
///          6–7   pool index: bit 15 is the set (the algorithm's version), bits 13–0 the slot; bit
///          14
///                is unused, but by a switch with time-outs (docs/tofino.md)
///          8, 9  exponents, signed
///          10–   64 or 256 integers of 32 bits, most significant byte first
///          Clients send to port 0xbee0 (the switch takes 0xbee0 to 0xbeef); replies have the ports
///          swapped, time to live 64 and the UDP checksum 0.
/// Source:  p4lang/p4app-switchML, commit b5c74a0: p4/headers.p4, p4/types.p4 and the DPDK client.
/// Errors:  What is not a SwitchML packet reads as none.
/// Threads: None; pure functions.
/// Tests:   tests/wire/switchml_test.cc
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "wire/bit_field.h"

namespace tributary::wire {

struct SwitchmlHeader {
  static constexpr uint32_t kBytes = 10;
  using MessageType = Field<kBytes, 0, 4>;
  using Size = Field<kBytes, 5, 3>;
  using JobNumber = Field<kBytes, 8, 8>;
  using PacketId = Field<kBytes, 16, 32>;  ///< Swap its bytes on a little-endian client.
  using Set = Field<kBytes, 48, 1>;
  /// Not all workers are in the sum; the job's number then says how many are.
  using Degraded = Field<kBytes, 49, 1>;
  using Slot = Field<kBytes, 50, 14>;
  using Exponent0 = Field<kBytes, 64, 8>;
  using Exponent1 = Field<kBytes, 72, 8>;
};

inline constexpr uint16_t kSwitchmlPort = 0xbee0;
inline constexpr uint16_t kSwitchmlPortMask = 0xfff0;
inline constexpr uint32_t kSwitchmlMessageType = 1;
inline constexpr uint32_t kSwitchmlSlotMax = (1 << 14) - 1;
/// Workers that a slot's bitmap has bits for. Source: published switch program.
inline constexpr uint32_t kSwitchmlWorkersMax = 32;
inline constexpr uint8_t kSwitchmlTimeToLive = 64;

/// The size field for a number of elements; none for one that has no code. 32 and 128 have codes,
/// but the published switch drops them.
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

/// All of a message but its elements.
struct SwitchmlHead {
  uint8_t job_number = 0;
  uint32_t packet_id = 0;
  bool set = false;
  uint16_t slot = 0;
  int8_t exponent0 = 0;
  int8_t exponent1 = 0;
  uint32_t elements = 0;  ///< How many follow; what has a size code.
  bool degraded = false;  ///< Of results by a switch with time-outs.
};

/// Writes SwitchmlHeader::kBytes bytes at `to`. @pre As switchml_payload().
void encode_switchml_head(const SwitchmlHead& head, std::byte* to);
/// Reads the first SwitchmlHeader::kBytes; the elements need not be there.
/// @return none if it is too short or not SwitchML's.
[[nodiscard]] std::optional<SwitchmlHead> decode_switchml_head(std::span<const std::byte> payload);
/// Bytes of a whole message.
[[nodiscard]] constexpr uint32_t switchml_bytes(uint32_t elements) {
  return SwitchmlHeader::kBytes + elements * static_cast<uint32_t>(sizeof(int32_t));
}

/// The UDP payload. @pre elements.size() has a size code, slot <= kSwitchmlSlotMax.
[[nodiscard]] std::vector<std::byte> switchml_payload(const SwitchmlMessage& message);
/// @return none if it is not a SwitchML message, or shorter than its size says.
[[nodiscard]] std::optional<SwitchmlMessage> parse_switchml(std::span<const std::byte> payload);

}  // namespace tributary::wire
