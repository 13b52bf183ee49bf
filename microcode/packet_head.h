// SPDX-License-Identifier: Apache-2.0
/// @file
/// The packet head: the first bytes of a packet, which a PPE thread finds in its local memory
/// (Trio paper §4).
///
/// Errors:  view() returns nullopt if the head ends before the header does.
/// Tests:   tests/microcode/packet_head_test.cc
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>

#include "wire/bit_field.h"

namespace tributary::microcode {

/// Copies a header's bytes from `first_byte` on.
template <class Header>
void copy_bytes(const wire::View<Header>& view, uint32_t first_byte, std::span<uint8_t> to) {
  std::memcpy(to.data(), view.bytes() + first_byte, to.size());
}

/// The part of a packet that lies in the thread's local memory, at most kHeadBytes.
class PacketHead {
 public:
  explicit PacketHead(std::span<const std::byte> bytes) : bytes_(bytes) {}

  /// Returns the header at `offset_bytes`, or nullopt if the head ends before the header does.
  template <class Header>
  [[nodiscard]] std::optional<wire::View<Header>> view(uint32_t offset_bytes) const {
    if (bytes_.size() < size_t{offset_bytes} + Header::kBytes) return std::nullopt;
    return wire::View<Header>(bytes_.data() + offset_bytes);
  }
  [[nodiscard]] uint32_t size() const { return static_cast<uint32_t>(bytes_.size()); }
  /// Returns bytes for a decoder that works on plain memory.
  /// @pre offset_bytes + size_bytes <= size().
  [[nodiscard]] std::span<const std::byte> read(uint32_t offset_bytes, uint32_t size_bytes) const {
    return bytes_.subspan(offset_bytes, size_bytes);
  }
  [[nodiscard]] const std::byte* bytes() const { return bytes_.data(); }

 private:
  std::span<const std::byte> bytes_;
};

}  // namespace tributary::microcode
