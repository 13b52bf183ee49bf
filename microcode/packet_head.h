// SPDX-License-Identifier: Apache-2.0
/// @file
/// The packet head: the first bytes of a packet, which a PPE thread finds in its local memory
/// (Trio paper §4).
///
/// Errors:  view() returns nothing if the head ends before the header does. read() past the head is
///          a bug of the program.
/// Tests:   tests/microcode/packet_head_test.cc
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <source_location>
#include <span>

#include "base/assert.h"
#include "microcode/rule.h"
#include "wire/bit_field.h"

namespace tributary::microcode {

/// Copies a header's bytes from `first_byte` on.
template <class Header>
void copy_bytes(const wire::View<Header>& view, uint32_t first_byte, std::span<uint8_t> to) {
  std::memcpy(to.data(), view.bytes() + first_byte, to.size());
}

/// A header of the packet, or nothing, as std::optional would hold it. One pointer stays in a
/// register; compilers keep an optional's flag in memory.
template <class Header>
class OptionalView {
 public:
  OptionalView() = default;
  explicit OptionalView(const std::byte* header) : view_(header) {}
  [[nodiscard]] bool has_value() const { return view_.bytes() != nullptr; }
  explicit operator bool() const { return has_value(); }
  /// @pre has_value().
  [[nodiscard]] const wire::View<Header>& operator*() const { return view_; }
  [[nodiscard]] const wire::View<Header>* operator->() const { return &view_; }

 private:
  wire::View<Header> view_{nullptr};
};

/// The part of a packet that lies in the thread's local memory, at most kHeadBytes.
class PacketHead {
 public:
  explicit PacketHead(std::span<const std::byte> bytes) : bytes_(bytes) {}

  /// Returns the header at `offset_bytes`, or nothing if the head ends before the header does.
  template <class Header>
  [[nodiscard]] OptionalView<Header> view(uint32_t offset_bytes) const {
    if (bytes_.size() < size_t{offset_bytes} + Header::kBytes) return {};
    return OptionalView<Header>(bytes_.data() + offset_bytes);
  }
  [[nodiscard]] uint32_t size() const { return static_cast<uint32_t>(bytes_.size()); }
  /// Returns bytes for a decoder that works on plain memory.
  /// @pre offset_bytes + size_bytes <= size().
  [[nodiscard]] std::span<const std::byte> read(
      uint32_t offset_bytes, uint32_t size_bytes,
      std::source_location place = std::source_location::current()) const {
    TRIB_REQUIRE_AT(uint64_t{offset_bytes} + size_bytes <= bytes_.size(), rule::kReadHead, place);
    return bytes_.subspan(offset_bytes, size_bytes);
  }
  [[nodiscard]] const std::byte* bytes() const { return bytes_.data(); }

 private:
  std::span<const std::byte> bytes_;
};

}  // namespace tributary::microcode
