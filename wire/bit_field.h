// SPDX-License-Identifier: Apache-2.0
/// @file
/// Header fields of any width up to 32 bits at any bit offset, like the operands of Trio's ALUs
/// (Trio paper §2.2, "a bit-field of arbitrary length (up to 32 bits) and an arbitrary bit
/// offset").
///
/// Shapes:  A header is an ordered list of fields, most significant bit first, `kBytes` long. A
///          Field that would reach past its header does not compile.
/// Errors:  The caller makes a view only over bytes that exist; microcode::PacketHead checks that.
/// Tests:   tests/wire/bit_field_test.cc
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/byte_order.h"

namespace tributary::wire {

/// Bits in the widest field that one ALU operand can name. Source: Trio paper §2.2.
inline constexpr uint32_t kFieldBitsMax = 32;

/// `kBitWidth` bits from bit `kBitOffset` of a header of `kHeaderBytes` bytes.
template <uint32_t kHeaderBytes, uint32_t kBitOffset, uint32_t kBitWidth>
struct Field {
  static_assert(kBitWidth >= 1 && kBitWidth <= kFieldBitsMax, "an operand has 1 to 32 bits");
  static_assert(kBitOffset + kBitWidth <= kHeaderBytes * 8, "the field reaches past its header");

  static constexpr uint32_t kHeader = kHeaderBytes;
  static constexpr uint32_t kFirstByte = kBitOffset / 8;
  static constexpr uint32_t kLastByte = (kBitOffset + kBitWidth - 1) / 8;
  static constexpr uint32_t kShift = (kLastByte + 1) * 8 - (kBitOffset + kBitWidth);
  static constexpr uint64_t kMask = (uint64_t{1} << kBitWidth) - 1;

  [[nodiscard]] static uint32_t load(const std::byte* header) {
    if constexpr (kShift == 0 && kBitWidth == 32) {
      return load_be<uint32_t>(header + kFirstByte);
    } else if constexpr (kShift == 0 && kBitWidth == 16) {
      return load_be<uint16_t>(header + kFirstByte);
    } else {
      return static_cast<uint32_t>(gather(header) >> kShift & kMask);
    }
  }

  /// Stores the low bits of `value`; ignores bits above the field's width.
  static void store(std::byte* header, uint32_t value) {
    const uint64_t bits = (gather(header) & ~(kMask << kShift)) | ((value & kMask) << kShift);
    for (uint32_t i = 0; i <= kLastByte - kFirstByte; i++) {
      header[kLastByte - i] = static_cast<std::byte>(bits >> (8 * i));
    }
  }

 private:
  /// Returns the bytes that hold the field, at most five, as one integer.
  static uint64_t gather(const std::byte* header) {
    uint64_t bits = 0;
    for (uint32_t i = kFirstByte; i <= kLastByte; i++) {
      bits = bits << 8 | std::to_integer<uint64_t>(header[i]);
    }
    return bits;
  }
};

/// A header to read. The bytes belong to the packet.
template <class Header>
class View {
 public:
  explicit View(const std::byte* header) : header_(header) {}
  template <class F>
  [[nodiscard]] uint32_t get() const {
    static_assert(F::kHeader == Header::kBytes, "a field of another header");
    return F::load(header_);
  }
  [[nodiscard]] const std::byte* bytes() const { return header_; }

 private:
  const std::byte* header_;
};

/// A header to write.
template <class Header>
class MutableView {
 public:
  explicit MutableView(std::byte* header) : header_(header) {}
  template <class F>
  void set(uint32_t value) {
    static_assert(F::kHeader == Header::kBytes, "a field of another header");
    F::store(header_, value);
  }

 private:
  std::byte* header_;
};

}  // namespace tributary::wire
