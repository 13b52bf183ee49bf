// SPDX-License-Identifier: Apache-2.0
/// @file
/// Test tensors that every worker can compute for every rank, with bit-exact checks of results.
///
/// Model:   A value is a hash of (seed, rank, iteration, element). int32 sums wrap. float32 values
///          have 25 random bits below 2^-4, so that 256 ranks fit at scale 10^8. Each run of
///          kRunElements is divided by a random power of two, so ranks differ in block exponents.
/// Shapes:  Tensors of any length; element indices count from the start of the whole tensor.
/// Threads: Immutable after construction; the checks allocate a few KB each.
/// Errors:  The checks return the number of wrong elements; all of them if the Outcome's ranges
///          are not ascending, overlap, leave the tensor or name no rank of the world.
/// Tests:   tests/host/generated_tensor_test.cc
#pragma once

#include <cstdint>
#include <span>

#include "host/all_reduce.h"
#include "host/formats/number_format.h"

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

/// Returns the number of int32 elements that are not the sum or mean of exactly the ranks that
/// `outcome` names: the sources of a degraded range, all ranks elsewhere.
[[nodiscard]] uint64_t check_int32(const GeneratedTensor& tensor, uint64_t iteration,
                                   std::span<const int32_t> result, ReduceOp op,
                                   const Outcome& outcome);

/// Returns the scale of a block whose largest exponent is `exponent`: scale_for_exponent(), or
/// switchml_scale() (host/switchml/switchml_config.h).
using ScaleOfExponent = double (*)(int8_t exponent, uint32_t world);

/// Returns the number of float32 elements that differ from from_fixed() of the sum of to_fixed().
/// With kBlockExponent a block has `gradients` elements (1 … 4095, as in the packets) and the
/// largest exponent of all ranks. A degraded block may have been scaled for ranks outside its sum.
/// There the check accepts any exponent from its sources' largest to all ranks' largest that
/// reproduces every element; for an imprecise block, any larger one too.
[[nodiscard]] uint64_t check_float(const GeneratedTensor& tensor, uint64_t iteration,
                                   std::span<const float> result, const AllReduceOptions& options,
                                   uint32_t gradients, const Outcome& outcome,
                                   ScaleOfExponent scale_of = scale_for_exponent);

/// Returns the number of float32 elements of an all-reduce with 16-bit lanes that are outside the
/// bound of docs/number-formats.md. @param gradients  Elements of a block.
/// @param partial_sums  The aggregators that round: 1, or those next to the ranks of a tree.
[[nodiscard]] uint64_t check_narrow(const GeneratedTensor& tensor, uint64_t iteration,
                                    std::span<const float> result, ReduceOp op, uint32_t gradients,
                                    uint32_t partial_sums, const Outcome& outcome);

}  // namespace tributary::host
