// SPDX-License-Identifier: Apache-2.0
/// @file
/// A packet head that reports each read to an access meter. It has the functions of PacketHead and
/// wire::View, so that a program's source is the same on each machine. It has no bytes(): nothing
/// can measure reads through a pointer.
///
/// Errors: As PacketHead. Bytes that a program reads as a PacketHead are not counted.
/// Tests:  tests/microcode/metered_head_test.cc
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "microcode/access_meter.h"
#include "microcode/packet_head.h"

namespace tributary::microcode {

/// A header to read, as wire::View.
template <class Header>
class MeteredView {
 public:
  MeteredView(AccessMeter* meter, AccessMeter::Place place, const std::byte* header,
              uint32_t lmem_offset_bytes)
      : meter_(meter), place_(place), header_(header), lmem_offset_bytes_(lmem_offset_bytes) {}

  template <class F>
  [[nodiscard]] uint32_t get() const {
    const std::byte* const header = read(F::kFirstByte, F::kLastByte - F::kFirstByte + 1);
    return wire::View<Header>(header).template get<F>();
  }
  /// Copies the header's bytes from `first_byte` on.
  void copy(uint32_t first_byte, std::span<uint8_t> to) const {
    const std::byte* const header = read(first_byte, static_cast<uint32_t>(to.size()));
    copy_bytes(wire::View<Header>(header), first_byte, to);
  }

 private:
  /// Reports the read. @return the header.
  [[nodiscard]] const std::byte* read(uint32_t first_byte, uint32_t size_bytes) const {
    if (meter_ != nullptr) meter_->read_head(lmem_offset_bytes_ + first_byte, size_bytes, place_);
    return header_;
  }

  AccessMeter* meter_;
  AccessMeter::Place place_;
  const std::byte* header_;
  uint32_t lmem_offset_bytes_;
};

template <class Header>
void copy_bytes(const MeteredView<Header>& view, uint32_t first_byte, std::span<uint8_t> to) {
  view.copy(first_byte, to);
}

class MeteredHead {
 public:
  /// @param lmem_offset_bytes The head's place in local memory: kHeadroomBytes, less the bytes that
  ///                          the program has prepended, plus those that it has removed.
  /// @param meter Null: reads are not counted.
  /// @param place Where the program asks for the head.
  MeteredHead(std::span<const std::byte> bytes, uint32_t lmem_offset_bytes, AccessMeter* meter,
              AccessMeter::Place place)
      : bytes_(bytes), lmem_offset_bytes_(lmem_offset_bytes), meter_(meter), place_(place) {}

  template <class Header>
  [[nodiscard]] std::optional<MeteredView<Header>> view(uint32_t offset_bytes) const {
    if (!PacketHead(bytes_).view<Header>(offset_bytes)) return std::nullopt;
    return MeteredView<Header>(meter_, place_, bytes_.data() + offset_bytes,
                               lmem_offset_bytes_ + offset_bytes);
  }
  [[nodiscard]] uint32_t size() const { return static_cast<uint32_t>(bytes_.size()); }

  /// Reads bytes for a decoder that works on plain memory.
  /// @pre offset_bytes + size_bytes <= size().
  [[nodiscard]] std::span<const std::byte> read(uint32_t offset_bytes, uint32_t size_bytes) const {
    TRIB_REQUIRE_AT(uint64_t{offset_bytes} + size_bytes <= bytes_.size(), rule::kReadHead, place_);
    if (meter_ != nullptr) meter_->read_head(lmem_offset_bytes_ + offset_bytes, size_bytes, place_);
    return bytes_.subspan(offset_bytes, size_bytes);
  }
  /// For a decoder that reports the bytes that it has read afterwards, with read().
  operator PacketHead() const { return PacketHead(bytes_); }

 private:
  std::span<const std::byte> bytes_;
  uint32_t lmem_offset_bytes_;
  AccessMeter* meter_;
  AccessMeter::Place place_;
};

}  // namespace tributary::microcode
