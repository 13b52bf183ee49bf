// SPDX-License-Identifier: Apache-2.0
/// @file
/// The terms that all ranks must agree on for one tensor, as they travel in every contribution.
///
/// Source:  docs/wire-format.md (scale_bits).
/// Threads: Pure functions.
/// Errors:  None.
/// Tests:   tests/host/trio_ml/tensor_terms_test.cc
#pragma once

#include <bit>
#include <cstdint>

#include "host/tensor_protocol.h"
#include "wire/trio_ml.h"

namespace tributary::host {

/// scale_bits of 16-bit floats with a block exponent. float32 has 0.
inline constexpr uint32_t kTypeFloat16 = 1;
inline constexpr uint32_t kTypeBfloat16 = 2;

/// Returns the bits of the scale, or the type that travels with a block exponent.
[[nodiscard]] inline uint32_t type_bits_of(const Transfer& transfer) {
  if (transfer.format == wire::ElementFormat::kFixedScale) {
    return std::bit_cast<uint32_t>(transfer.scale);
  }
  if (transfer.halves.bits.empty()) return 0;
  return transfer.halves.type == HalfType::kFloat16 ? kTypeFloat16 : kTypeBfloat16;
}

/// Returns the terms of the tensor that the transfer is, or is a part of.
[[nodiscard]] inline wire::TensorTerms terms_of(const Transfer& transfer) {
  const bool mean = transfer.op == ReduceOp::kMean;
  const uint64_t elements =
      transfer.tensor_elements == 0 ? transfer.element_count() : transfer.tensor_elements;
  return {.format = transfer.format,
          .tensor_elements = static_cast<uint32_t>(elements),
          .scale_bits = type_bits_of(transfer) | (mean ? wire::kScaleBitMean : 0) |
                        wire::owner_bits(transfer.format, transfer.owner)};
}

}  // namespace tributary::host
