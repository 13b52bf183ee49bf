// SPDX-License-Identifier: Apache-2.0
/// @file
/// Test tensors that every worker can compute for every rank, and the check of an all-reduce
/// against them, bit for bit.
///
/// Model:   A value is a hash of (seed, rank, iteration, element). int32 values take all 2^32, so
///          their sums wrap. float32 values have 25 random bits below 2^-4 in magnitude, so that
///          256 ranks fit at scale 10^8; every run of kRunElements elements of a rank is made
///          smaller by a random power of two, so that ranks disagree about the exponent of a block.
/// Shapes:  Tensors of any length; element indices are those of the whole tensor.
/// Threads: Immutable after construction; the checks allocate a few KB each.
/// Errors:  The checks count wrong elements. An Outcome with ranges that are not ascending,
///          overlap, leave the tensor or name no rank of the world makes all of them wrong.
/// Tests:   tests/host/generated_tensor_test.cc
#pragma once

#include <cstdint>
#include <span>

#include "host/all_reduce.h"
#include "host/number_format.h"

namespace tributary::host {

class GeneratedTensor {
 public:
  /// Elements that share one power of two.
  static constexpr uint32_t kRunElements = 64;
  /// The smallest such power is 2^-kShiftMax.
  static constexpr uint32_t kShiftMax = 15;

  /// @param world  1 … 256, the ranks whose tensors the checks sum.
  GeneratedTensor(uint64_t seed, uint32_t world) : seed_(seed), world_(world) {}

  [[nodiscard]] uint32_t world() const { return world_; }

  /// Writes the values of the elements from `element_first` on.
  void fill(uint32_t rank, uint64_t iteration, uint64_t element_first, std::span<float> out) const;
  void fill(uint32_t rank, uint64_t iteration, uint64_t element_first,
            std::span<int32_t> out) const;

 private:
  uint64_t seed_;
  uint32_t world_;
};

/// Elements of `result` that are not the sum or mean of exactly the ranks that `outcome` names for
/// them: the sources of a degraded range, all ranks elsewhere.
[[nodiscard]] uint64_t check_int32(const GeneratedTensor& tensor, uint64_t iteration,
                                   std::span<const int32_t> result, ReduceOp op,
                                   const Outcome& outcome);

/// What a protocol multiplies the floats of a block with whose exponents' largest is `exponent`:
/// scale_for_exponent(), or switchml_scale() (host/switchml_config.h).
using ScaleOfExponent = float (*)(int8_t exponent, uint32_t world);

/// The same for float32: from_fixed() of the sum of to_fixed(), bit for bit.
/// Under kBlockExponent a block is `gradients` elements (1 … 4095, the packets' count), and its
/// exponent the largest of all ranks. A degraded block may have been scaled for ranks that are not
/// in its sum, so there any one exponent between its sources' and all ranks' is accepted, if it
/// reproduces every element.
[[nodiscard]] uint64_t check_float(const GeneratedTensor& tensor, uint64_t iteration,
                                   std::span<const float> result, const AllReduceOptions& options,
                                   uint32_t gradients, const Outcome& outcome,
                                   ScaleOfExponent scale_of = scale_for_exponent);

}  // namespace tributary::host
