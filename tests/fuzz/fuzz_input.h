// SPDX-License-Identifier: Apache-2.0
/// @file
/// Reads a fuzzer's bytes as values (InputReader) and writes values as bytes for seeds
/// (InputWriter). Both use one format.
///
/// Shapes:  Integers are little-endian. A byte string has its length, 16 bits, in front.
/// Errors:  Behind the end, numbers are 0 and byte strings are short. Every input is valid.
/// Tests:   tests/fuzz/replay_test.cc
#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "tests/fuzz/fuzz_target.h"

namespace tributary::fuzz {

class InputReader {
 public:
  explicit InputReader(std::span<const uint8_t> input) : left_(input) {}

  [[nodiscard]] bool at_end() const { return left_.empty(); }

  template <std::unsigned_integral T>
  [[nodiscard]] T take() {
    T value = 0;
    for (uint32_t i = 0; i < sizeof(T) && !left_.empty(); i++) {
      value = static_cast<T>(value | static_cast<T>(left_[0]) << (8 * i));
      left_ = left_.subspan(1);
    }
    return value;
  }
  /// Returns a number below `bound`, 1 to 256, from one byte.
  [[nodiscard]] uint32_t below(uint32_t bound) { return take<uint8_t>() % bound; }

  /// Returns a byte string, cut to `bytes_max`.
  [[nodiscard]] std::vector<std::byte> bytes(uint32_t bytes_max) {
    const auto length = take<uint16_t>();
    const auto part = left_.first(std::min<size_t>({length, bytes_max, left_.size()}));
    left_ = left_.subspan(part.size());
    const auto raw = std::as_bytes(part);
    return {raw.begin(), raw.end()};
  }

  /// Replaces up to seven bytes of a valid packet, each by position and value.
  void damage(std::vector<std::byte>& packet) {
    for (uint32_t count = below(8); count > 0; count--) {
      const auto at = take<uint16_t>();
      const auto value = std::byte{take<uint8_t>()};
      if (!packet.empty()) packet[at % packet.size()] = value;
    }
  }

 private:
  std::span<const uint8_t> left_;
};

class InputWriter {
 public:
  template <std::unsigned_integral T>
  InputWriter& put(T value) {
    for (uint32_t i = 0; i < sizeof(T); i++) {
      bytes_.push_back(static_cast<uint8_t>(value >> (8 * i)));
    }
    return *this;
  }
  /// Writes numbers of one byte each.
  InputWriter& put8(std::initializer_list<uint32_t> values) {
    for (const uint32_t value : values) put(static_cast<uint8_t>(value));
    return *this;
  }
  InputWriter& put_bytes(std::span<const std::byte> bytes) {
    put(static_cast<uint16_t>(bytes.size()));
    for (const std::byte byte : bytes) put(std::to_integer<uint8_t>(byte));
    return *this;
  }
  [[nodiscard]] const Bytes& bytes() const { return bytes_; }

 private:
  Bytes bytes_;
};

/// Returns the same bytes as a fuzzer's input.
[[nodiscard]] inline Bytes input_of(std::span<const std::byte> bytes) {
  Bytes input(bytes.size());
  std::ranges::transform(bytes, input.begin(),
                         [](std::byte b) { return std::to_integer<uint8_t>(b); });
  return input;
}

}  // namespace tributary::fuzz
