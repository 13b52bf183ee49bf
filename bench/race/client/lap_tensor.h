// SPDX-License-Identifier: Apache-2.0
/// @file
/// The tensors of a race. Every rank's values differ. Every system must compute the same bits, in
/// any order of additions and with floats or scaled integers.
///
/// Model:   value(rank, i) = pattern(reduction, i) * (rank + 1) / 2^kFractionBits, with a pattern
///          of 16 bits. A sum over up to kWorkersMax ranks has at most 16 + 8 bits. So float32
///          holds it exactly in any order, as does an int32 at scale kFixedScale.
/// Shapes:  Any length; index i counts from the start of the tensor.
/// Errors:  None. count_wrong() counts.
/// Tests:   tests/bench/race/client/lap_tensor_test.cc
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace tributary::race {

/// Most workers of a race: 1 + 2 + … + 16 = 136 needs 8 bits besides the pattern's 16.
inline constexpr uint32_t kWorkersMax = 16;
inline constexpr uint32_t kFractionBits = 10;
/// Scale for systems that add scaled integers: values stay whole, sums stay below 2^31.
inline constexpr float kFixedScale = 1 << 14;
static_assert(uint64_t{136} * (1 << 15) * (1 << 14) / (1 << kFractionBits) < (uint64_t{1} << 31));

/// Elements whose sum lacks a straggler; `weight` is the sum of rank + 1 over the ranks in the sum.
struct PartialSum {
  uint64_t element_first;
  uint64_t element_count;
  uint32_t weight;
};

/// Writes the contribution of `rank` to reduction number `reduction`.
void fill(std::span<float> tensor, uint32_t rank, uint32_t reduction);

/// The largest error of an element that is not wrong: `absolute` plus `of_sum` times the sum.
struct Tolerance {
  double absolute = 0;
  double of_sum = 0;
};
/// Returns the tolerance of a sum with 16-bit lanes (docs/number-formats.md): values lie below
/// 2^15 / 2^kFractionBits * workers, and whole blocks come close to that.
[[nodiscard]] Tolerance narrow_tolerance(uint32_t workers);

/// Writes the nearest float16 of each element, ties to even, and back.
void to_halves(std::span<const float> tensor, std::span<uint16_t> halves);
void from_halves(std::span<const uint16_t> halves, std::span<float> tensor);
/// Adds halves, each sum rounded to float16.
void add_halves(const uint16_t* from, uint16_t* to, size_t count);

/// Counts the elements that differ from the expected sum by more than the tolerance. In `partial`
/// ranges (ascending, without overlap) that is the sum for their weight, elsewhere the sum over
/// `workers` ranks. Ranges that do not fit make all elements wrong.
[[nodiscard]] uint64_t count_wrong(std::span<const float> tensor, uint32_t workers,
                                   uint32_t reduction, std::span<const PartialSum> partial,
                                   const Tolerance& tolerance = {});

}  // namespace tributary::race
