// SPDX-License-Identifier: Apache-2.0
#include "host/trio_ml/block_codec.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/mutant.h"
#include "host/formats/half_format.h"

namespace tributary::host {

using wire::ElementFormat;

/// Returns the part of a tensor that a block holds.
template <class T>
std::span<T> BlockCodec::slice(std::span<T> tensor, const Transfer& transfer,
                               uint64_t block) const {
  const uint32_t elements =
      transfer.format == ElementFormat::kBlockExponent16 ? narrow_gradients_ : gradients_;
  const uint64_t first = block * elements;
  return tensor.subspan(first, std::min<uint64_t>(elements, tensor.size() - first));
}

void BlockCodec::open(uint32_t gradients, uint32_t narrow_gradients) {
  gradients_ = gradients;
  narrow_gradients_ = narrow_gradients == 0 ? gradients : narrow_gradients;
  const uint32_t most = std::max(gradients_, narrow_gradients_);
  wide_.resize(most);
  words_.resize(size_t{most} * sizeof(int32_t));
}

/// Returns the floats of a block. Those of halves lie in wide_ until the next call.
std::span<const float> BlockCodec::floats_of(const Transfer& transfer, uint64_t block) {
  if (transfer.halves.bits.empty()) {
    return slice<const float>(transfer.floats, transfer, block);
  }
  const auto halves = slice<const uint16_t>(transfer.halves.bits, transfer, block);
  widen_halves(halves, transfer.halves.type, wide_.data());
  return std::span(wide_).first(halves.size());
}

double BlockCodec::scale_of(const Transfer& transfer, int8_t exponent) const {
  if (transfer.format == ElementFormat::kFixedScale) return transfer.scale;
  return transfer.format == ElementFormat::kBlockExponent16 ? narrow_scale(exponent)
                                                            : scale_for_exponent(exponent, world_);
}

int8_t BlockCodec::exponent_of(const Transfer& transfer, uint64_t block) {
  return block_exponent(floats_of(transfer, block));
}

/// Tells whether an element would be more precise with the largest exponent of this rank and of the
/// ranks in the exponent's round.
bool BlockCodec::is_coarse(const Transfer& transfer, std::span<const float> floats,
                           AgreedExponent agreed) const {
  if (agreed.exponent == agreed.stated) return false;  // No rank missed the round.
  const int8_t own = block_exponent(floats);
  const int8_t finest = std::max(own, agreed.stated);
  // The aggregator rounds the sum of 16-bit lanes to the unit of the agreed exponent.
  if (transfer.format == ElementFormat::kBlockExponent16) {
    return own != kNoExponent && finest < agreed.exponent;
  }
  return finest < agreed.exponent &&
         !is_as_precise(floats, scale_of(transfer, agreed.exponent), scale_of(transfer, finest));
}

Fit BlockCodec::write(const Transfer& transfer, uint64_t block, AgreedExponent agreed,
                      std::byte* lanes, Underflow* underflow) {
  if (transfer.format == ElementFormat::kInt32) {
    pack_int32(slice<const int32_t>(transfer.integers, transfer, block), lanes);
    return Fit::kFits;
  }
  const std::span<const float> floats = floats_of(transfer, block);
  const double scale = scale_of(transfer, agreed.exponent);
  Fit fit = Fit::kFits;
  if (transfer.format == ElementFormat::kBlockExponent16) {
    fit = pack_fixed(floats, scale, kNarrowRoundedMax, words_.data(), underflow);
    narrow_lanes(words_.data(), floats.size(), lanes);
  } else {
    const uint32_t sources = TRIB_MUTANT(kOverflowUnseen) ? 1 : world_;
    fit = pack_fixed(floats, scale, lane_magnitude_max(sources), lanes, underflow);
  }
  const bool coarse = fit == Fit::kFits && wire::has_exponent(transfer.format) &&
                      is_coarse(transfer, floats, agreed);
  return coarse ? Fit::kImprecise : fit;
}

void BlockCodec::read(const Transfer& transfer, uint64_t block, int8_t exponent, uint32_t sources,
                      const std::byte* lanes) {
  const uint32_t in_sum = TRIB_MUTANT(kMeanOfWorld) ? world_ : sources;
  const uint32_t divisor = transfer.op == ReduceOp::kMean ? in_sum : 1;
  if (transfer.format == ElementFormat::kInt32) {
    unpack_int32(lanes, divisor, slice(transfer.integers, transfer, block));
    return;
  }
  double scale = scale_of(transfer, exponent);
  const auto floats =
      transfer.halves.bits.empty() ? slice(transfer.floats, transfer, block) : std::span<float>();
  const auto halves = transfer.halves.bits.empty() ? std::span<uint16_t>()
                                                   : slice(transfer.halves.bits, transfer, block);
  if (transfer.format == ElementFormat::kBlockExponent16) {
    widen_lanes(lanes, floats.size() + halves.size(), words_.data());
    lanes = words_.data();
    scale = std::ldexp(scale, -static_cast<int>(wire::result_shift(world_)));
  }
  if (halves.empty()) {
    unpack_fixed(lanes, scale, divisor, floats);
  } else {
    unpack_halves(lanes, scale, divisor, transfer.halves.type, halves);
  }
}

void BlockCodec::spoil(const Transfer& transfer, uint64_t block) const {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  if (!transfer.floats.empty()) std::ranges::fill(slice(transfer.floats, transfer, block), kNan);
  if (transfer.halves.bits.empty()) return;
  std::ranges::fill(slice(transfer.halves.bits, transfer, block),
                    narrow_half(double{kNan}, transfer.halves.type));
}

}  // namespace tributary::host
