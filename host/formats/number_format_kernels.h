// SPDX-License-Identifier: Apache-2.0
/// @file
/// The loops of host/formats/number_format.h, one variant for each instruction set. Users call
/// number_format.h; tests and benches compare the variants through this header.
///
/// Shapes:  `count` elements; lanes are 4 * count bytes, big-endian int32, of any alignment.
/// Threads: The tables are constant after the first call.
/// Tests:   tests/host/formats/number_format_test.cc
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "host/formats/number_format.h"

namespace tributary::host {

/// The properties of a block's lanes by which pack_fixed() chooses a slower loop.
struct LaneRange {
  bool has_zero = false;
  uint32_t largest = 0;  ///< Largest magnitude of a lane.

  bool operator==(const LaneRange&) const = default;
};

/// Every variant writes the same bits and returns the same values.
struct NumberFormatKernels {
  const char* name;

  /// Writes to_fixed() of each element. @return the range of the lanes written, with 2^31 for each
  /// lane that has no int32.
  LaneRange (*pack_fixed)(const float* tensor, size_t count, float scale, std::byte* lanes);
  /// Counts the elements of a tensor and its lanes.
  Underflow (*count_underflow)(const float* tensor, const std::byte* lanes, size_t count);
  /// Writes float32(double(lane) * factor).
  void (*unpack_fixed)(const std::byte* lanes, size_t count, double factor, float* tensor);
  /// Copies 32-bit words and swaps their bytes: from int32 to lanes, and back.
  void (*swap_words)(const std::byte* from, size_t count, std::byte* to);
  /// Writes lane / divisor, rounded toward zero; divisor is not 0.
  void (*divide_lanes)(const std::byte* lanes, size_t count, uint32_t divisor, int32_t* tensor);
  /// Returns the largest of the elements' bits without the sign bit. Such bits order floats like
  /// integers.
  uint32_t (*magnitude_bits_max)(const float* tensor, size_t count);
  /// Copies 32-bit lanes to 16-bit lanes, limited to +-32767, and 16-bit lanes to 32-bit lanes.
  void (*narrow_lanes)(const std::byte* lanes, size_t count, std::byte* narrow);
  void (*widen_lanes)(const std::byte* narrow, size_t count, std::byte* lanes);
};

/// Returns the variants that this processor can run, plain C++ first, fastest last.
[[nodiscard]] std::span<const NumberFormatKernels> number_format_kernels();

}  // namespace tributary::host
