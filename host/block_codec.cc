// SPDX-License-Identifier: Apache-2.0
#include "host/block_codec.h"

#include <algorithm>

#include "base/mutant.h"
#include "host/half_format.h"

namespace tributary::host {

using wire::ElementFormat;

namespace {

/// Returns the part of a tensor that a block holds.
template <class T>
std::span<T> slice(std::span<T> tensor, uint64_t block, uint32_t gradients) {
  const uint64_t first = block * gradients;
  return tensor.subspan(first, std::min<uint64_t>(gradients, tensor.size() - first));
}

}  // namespace

void BlockCodec::open(uint32_t gradients) {
  gradients_ = gradients;
  wide_.resize(gradients);
}

/// Returns the floats of a block. Those of halves lie in wide_ until the next call.
std::span<const float> BlockCodec::floats_of(const Transfer& transfer, uint64_t block) {
  if (transfer.halves.bits.empty()) {
    return slice<const float>(transfer.floats, block, gradients_);
  }
  const auto halves = slice<const uint16_t>(transfer.halves.bits, block, gradients_);
  widen_halves(halves, transfer.halves.type, wide_.data());
  return std::span(wide_).first(halves.size());
}

float BlockCodec::scale_of(const Transfer& transfer, int8_t exponent) const {
  return transfer.format == ElementFormat::kFixedScale ? transfer.scale
                                                       : scale_for_exponent(exponent, world_);
}

int8_t BlockCodec::exponent_of(const Transfer& transfer, uint64_t block) {
  return block_exponent(floats_of(transfer, block));
}

/// Tells whether an element would be more precise with the largest exponent of this rank and of the
/// ranks in the exponent's round.
bool BlockCodec::is_coarse(std::span<const float> floats, AgreedExponent agreed) const {
  if (agreed.exponent == agreed.stated) return false;  // No rank missed the round.
  const int8_t finest = std::max(block_exponent(floats), agreed.stated);
  return finest < agreed.exponent &&
         !is_as_precise(floats, scale_for_exponent(agreed.exponent, world_),
                        scale_for_exponent(finest, world_));
}

Fit BlockCodec::write(const Transfer& transfer, uint64_t block, AgreedExponent agreed,
                      std::byte* lanes, Underflow* underflow) {
  if (transfer.format == ElementFormat::kInt32) {
    pack_int32(slice<const int32_t>(transfer.integers, block, gradients_), lanes);
    return Fit::kFits;
  }
  const std::span<const float> floats = floats_of(transfer, block);
  const Fit fit =
      pack_fixed(floats, scale_of(transfer, agreed.exponent),
                 lane_magnitude_max(TRIB_MUTANT(kOverflowUnseen) ? 1 : world_), lanes, underflow);
  const bool coarse = fit == Fit::kFits && transfer.format == ElementFormat::kBlockExponent &&
                      is_coarse(floats, agreed);
  return coarse ? Fit::kImprecise : fit;
}

void BlockCodec::read(const Transfer& transfer, uint64_t block, int8_t exponent, uint32_t sources,
                      const std::byte* lanes) const {
  const uint32_t in_sum = TRIB_MUTANT(kMeanOfWorld) ? world_ : sources;
  const uint32_t divisor = transfer.op == ReduceOp::kMean ? in_sum : 1;
  if (transfer.format == ElementFormat::kInt32) {
    unpack_int32(lanes, divisor, slice(transfer.integers, block, gradients_));
    return;
  }
  const float scale = scale_of(transfer, exponent);
  if (transfer.halves.bits.empty()) {
    unpack_fixed(lanes, scale, divisor, slice(transfer.floats, block, gradients_));
  } else {
    unpack_halves(lanes, scale, divisor, transfer.halves.type,
                  slice(transfer.halves.bits, block, gradients_));
  }
}

}  // namespace tributary::host
