// SPDX-License-Identifier: Apache-2.0
#include "tests/host/reduce_oracle.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>

#include "base/prng.h"
#include "host/number_format.h"

namespace tributary::testing {

using host::SourceSet;
using microcode::ElementFormat;

namespace {

SourceSet first_ranks(uint32_t count) {
  SourceSet set{};
  for (uint32_t rank = 0; rank < count; rank++) set[rank / 64] |= uint64_t{1} << (rank % 64);
  return set;
}

uint32_t size_of(const SourceSet& set) {
  uint32_t size = 0;
  for (const uint64_t word : set) size += static_cast<uint32_t>(std::popcount(word));
  return size;
}

bool is_subset(const SourceSet& part, const SourceSet& whole) {
  for (uint32_t i = 0; i < whole.size(); i++) {
    if ((part[i] & ~whole[i]) != 0) return false;
  }
  return true;
}

Tensor generated(uint64_t seed, const Collective& what) {
  Prng prng(seed);
  Tensor tensor;
  if (what.format == ElementFormat::kInt32) {
    tensor.integers.resize(what.element_count);
    for (int32_t& value : tensor.integers) value = prng.any_i32();
    return tensor;
  }
  tensor.floats.resize(what.element_count);
  for (float& value : tensor.floats) {
    const double unit = 2 * prng.unit() - 1;
    // Block exponents: eighty powers of two apart, and some zeros.
    const double size = what.format == ElementFormat::kFixedScale
                            ? 300.0
                            : std::ldexp(1.0, static_cast<int>(prng.below(80)) - 40);
    value = prng.below(8) == 0 ? 0.0F : static_cast<float>(unit * size);
  }
  return tensor;
}

template <class T>
std::span<const T> slice(const std::vector<T>& tensor, uint32_t block, uint32_t gradients) {
  const size_t first = size_t{block} * gradients;
  return std::span(tensor).subspan(first, std::min<size_t>(gradients, tensor.size() - first));
}

}  // namespace

ReduceOracle::ReduceOracle(uint64_t seed, uint32_t world, uint32_t gradients,
                           bool partial_exponents, std::vector<Collective> work)
    : world_(world),
      gradients_(gradients),
      partial_exponents_(partial_exponents),
      work_(std::move(work)) {
  Prng seeds(seed);
  for (const Collective& what : work_) {
    std::vector<Tensor>& tensors = inputs_.emplace_back();
    for (uint32_t rank = 0; rank < world_; rank++) {
      tensors.push_back(generated(seeds.any_u64(), what));
    }
  }
}

Tensor ReduceOracle::input(uint32_t collective, uint32_t rank) const {
  return inputs_[collective][rank];
}

std::string ReduceOracle::check_degraded(const Collective& what,
                                         const host::Outcome& outcome) const {
  uint64_t next = 0;
  for (const host::DegradedRange& range : outcome.degraded) {
    if (range.element_first % gradients_ != 0 || range.element_first < next ||
        range.element_first >= what.element_count) {
      return fmt::format("degraded range at {} is out of order or place", range.element_first);
    }
    if (range.element_count !=
        std::min<uint64_t>(gradients_, what.element_count - range.element_first)) {
      return fmt::format("degraded range at {} is no whole block", range.element_first);
    }
    const SourceSet all = first_ranks(world_);
    if (!is_subset(range.sources, all) || size_of(range.sources) == 0 || range.sources == all) {
      return fmt::format("degraded range at {} has {} of {} sources", range.element_first,
                         size_of(range.sources), world_);
    }
    next = range.element_first + range.element_count;
  }
  return {};
}

std::vector<std::optional<int8_t>> ReduceOracle::exponents(uint32_t collective,
                                                           uint32_t block) const {
  if (work_[collective].format != ElementFormat::kBlockExponent) return {std::nullopt};
  std::vector<std::optional<int8_t>> all;
  for (const Tensor& tensor : inputs_[collective]) {
    all.push_back(host::block_exponent(slice(tensor.floats, block, gradients_)));
  }
  if (partial_exponents_) return all;
  return {*std::max_element(all.begin(), all.end())};
}

std::vector<uint32_t> ReduceOracle::bits_of(const Tensor& tensor, uint32_t block) const {
  std::vector<uint32_t> bits;
  if (tensor.floats.empty()) {
    for (const int32_t value : slice(tensor.integers, block, gradients_)) {
      bits.push_back(static_cast<uint32_t>(value));
    }
  } else {
    for (const float value : slice(tensor.floats, block, gradients_)) {
      bits.push_back(std::bit_cast<uint32_t>(value));
    }
  }
  return bits;
}

std::vector<uint32_t> ReduceOracle::expected(uint32_t collective, uint32_t block,
                                             const SourceSet& sources,
                                             std::optional<int8_t> exponent) const {
  const Collective& what = work_[collective];
  const float scale = exponent ? host::scale_for_exponent(*exponent, world_) : kScale;
  const uint32_t divisor = what.op == host::ReduceOp::kMean ? size_of(sources) : 1;
  std::vector<uint32_t> bits;
  for (uint32_t i = block * gradients_; i < std::min((block + 1) * gradients_, what.element_count);
       i++) {
    uint32_t sum = 0;  // Unsigned, so it wraps.
    for (uint32_t rank = 0; rank < world_; rank++) {
      if (!host::contains(sources, rank)) continue;
      const Tensor& tensor = inputs_[collective][rank];
      sum += static_cast<uint32_t>(what.format == ElementFormat::kInt32
                                       ? tensor.integers[i]
                                       : host::to_fixed(tensor.floats[i], scale));
    }
    const auto total = static_cast<int32_t>(sum);
    bits.push_back(what.format == ElementFormat::kInt32
                       ? static_cast<uint32_t>(total / static_cast<int32_t>(divisor))
                       : std::bit_cast<uint32_t>(host::from_fixed(total, scale, divisor)));
  }
  return bits;
}

std::string ReduceOracle::check(uint32_t collective, uint32_t rank, const Tensor& result,
                                const host::Outcome& outcome) {
  const Collective& what = work_[collective];
  const uint32_t blocks = (what.element_count + gradients_ - 1) / gradients_;
  if (outcome.blocks != blocks) return fmt::format("{} blocks, not {}", outcome.blocks, blocks);
  if (std::string wrong = check_degraded(what, outcome); !wrong.empty()) return wrong;

  size_t degraded = 0;
  for (uint32_t block = 0; block < blocks; block++) {
    SourceSet sources = first_ranks(world_);
    if (degraded < outcome.degraded.size() &&
        outcome.degraded[degraded].element_first == uint64_t{block} * gradients_) {
      sources = outcome.degraded[degraded++].sources;
    }
    const std::vector<uint32_t> bits = bits_of(result, block);
    const auto candidates = exponents(collective, block);
    const bool exact = std::any_of(candidates.begin(), candidates.end(), [&](auto exponent) {
      return bits == expected(collective, block, sources, exponent);
    });
    if (!exact) {
      return fmt::format("block {} is not the sum of its {} sources", block, size_of(sources));
    }
    const auto [given, first] = given_.try_emplace({collective, block}, Given{rank, sources, bits});
    if (!first && (given->second.sources != sources || given->second.bits != bits)) {
      return fmt::format("block {} differs from what rank {} was given", block, given->second.rank);
    }
  }
  return {};
}

}  // namespace tributary::testing
