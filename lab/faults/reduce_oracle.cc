// SPDX-License-Identifier: Apache-2.0
#include "lab/faults/reduce_oracle.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "base/prng.h"
#include "host/formats/number_format.h"

namespace tributary::lab {

using host::SourceSet;
using host::Status;
using wire::ElementFormat;

namespace {

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
    // Block exponents: eighty powers of two apart, and some zeros. ldexp() is exact.
    const double size = what.format == ElementFormat::kFixedScale
                            ? ReduceOracle::kMagnitudeMax
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

Tensor ReduceOracle::input(uint32_t collective, uint32_t rank, uint32_t process) const {
  Prng seeds(config_.seed ^ uint64_t{collective} << 40 ^ uint64_t{rank} << 20 ^ process);
  Tensor tensor = generated(seeds.any_u64(), config_.work[collective]);
  const auto& bad = config_.bad_value;
  if (bad && bad->collective == collective && bad->rank == rank && !tensor.floats.empty()) {
    // The smallest value that overflows: with half as many ranks it would fit.
    const float too_large =
        static_cast<float>(host::lane_magnitude_max(config_.world)) * 1.5F / kScale;
    tensor.floats[bad->element % tensor.floats.size()] =
        bad->not_finite ? std::numeric_limits<float>::infinity() : too_large;
  }
  return tensor;
}

std::string ReduceOracle::check_degraded(const Collective& what,
                                         const host::Outcome& outcome) const {
  if (!config_.mitigation && !outcome.degraded.empty()) return "degraded without mitigation";
  const uint32_t gradients = config_.gradients;
  uint64_t next = 0;
  for (const host::DegradedRange& range : outcome.degraded) {
    if (range.element_first % gradients != 0 || range.element_first < next ||
        range.element_first >= what.element_count) {
      return fmt::format("degraded range at {} is out of order or out of range",
                         range.element_first);
    }
    if (range.element_count !=
        std::min<uint64_t>(gradients, what.element_count - range.element_first)) {
      return fmt::format("degraded range at {} is not a whole block", range.element_first);
    }
    const SourceSet all = host::ranks_below(config_.world);
    const bool imprecise = range.imprecise && what.format == ElementFormat::kBlockExponent;
    if (!is_subset(range.sources, all) || size_of(range.sources) == 0 ||
        (range.sources == all && !imprecise)) {
      return fmt::format("degraded range at {} has {} of {} sources", range.element_first,
                         size_of(range.sources), config_.world);
    }
    next = range.element_first + range.element_count;
  }
  return {};
}

/// Checks that a value that cannot be summed is reported to every rank whose sum would include it,
/// and to no other.
std::string ReduceOracle::check_status(const Given& given, const host::Outcome& outcome) const {
  const Collective& what = config_.work[given.collective];
  const auto& bad = config_.bad_value;
  const bool has_bad = bad && bad->collective == given.collective &&
                       what.format != ElementFormat::kInt32 &&
                       // With a common exponent no value overflows.
                       (bad->not_finite || what.format == ElementFormat::kFixedScale);
  bool included = false;
  if (has_bad) {
    const uint32_t block = bad->element % what.element_count / config_.gradients;
    included = host::contains(sources_of(block, outcome), bad->rank);
  }
  if (outcome.status == Status::kOk) {
    return included ? "a value that cannot be summed is not reported" : "";
  }
  // If a degraded block lacks the largest exponent, a value may overflow.
  const bool may_overflow = what.format == ElementFormat::kBlockExponent && config_.mitigation;
  if (outcome.status == Status::kOverflow && may_overflow) return {};
  const Status expected_status = bad && bad->not_finite ? Status::kNotFinite : Status::kOverflow;
  if (!included || outcome.status != expected_status) {
    return fmt::format("{} without a reason", to_string(outcome.status));
  }
  return {};
}

std::vector<std::optional<int8_t>> ReduceOracle::exponents(const Inputs& inputs,
                                                           uint32_t collective,
                                                           uint32_t block) const {
  if (config_.work[collective].format != ElementFormat::kBlockExponent) return {std::nullopt};
  std::vector<std::optional<int8_t>> all;
  for (const Tensor* tensor : inputs) {
    all.push_back(host::block_exponent(slice(tensor->floats, block, config_.gradients)));
  }
  if (!config_.mitigation) return {*std::max_element(all.begin(), all.end())};
  // Exponents from a degraded block leave room for the missing ranks. If the others had zeros only,
  // the exponent follows from earlier blocks and can be any.
  const bool any = std::count(all.begin(), all.end(), host::kNoExponent) > 0;
  for (size_t i = all.size(); i-- > 0;) all.push_back(host::degraded_exponent(*all[i]));
  for (int exponent = INT8_MIN; any && exponent <= INT8_MAX; exponent++) {
    all.push_back(static_cast<int8_t>(exponent));
  }
  return all;
}

std::vector<uint32_t> ReduceOracle::bits_of(const Tensor& tensor, uint32_t block) const {
  std::vector<uint32_t> bits;
  if (tensor.floats.empty()) {
    for (const int32_t value : slice(tensor.integers, block, config_.gradients)) {
      bits.push_back(static_cast<uint32_t>(value));
    }
  } else {
    for (const float value : slice(tensor.floats, block, config_.gradients)) {
      bits.push_back(std::bit_cast<uint32_t>(value));
    }
  }
  return bits;
}

std::vector<uint32_t> ReduceOracle::expected(const Inputs& inputs, uint32_t collective,
                                             uint32_t block, const SourceSet& sources,
                                             std::optional<int8_t> exponent) const {
  const Collective& what = config_.work[collective];
  const double scale = exponent ? config_.scale_of(*exponent, config_.world) : kScale;
  const int32_t lane_max = host::lane_magnitude_max(config_.world);
  const uint32_t divisor = what.op == host::ReduceOp::kMean ? size_of(sources) : 1;
  const uint32_t end = std::min((block + 1) * config_.gradients, what.element_count);
  std::vector<uint32_t> bits;
  for (uint32_t i = block * config_.gradients; i < end; i++) {
    uint32_t sum = 0;  // Unsigned, so it wraps.
    for (uint32_t rank = 0; rank < config_.world; rank++) {
      if (!host::contains(sources, rank)) continue;
      sum += static_cast<uint32_t>(
          what.format == ElementFormat::kInt32
              ? inputs[rank]->integers[i]
              : std::clamp(host::to_fixed(inputs[rank]->floats[i], scale), -lane_max, lane_max));
    }
    const auto total = static_cast<int32_t>(sum);
    bits.push_back(what.format == ElementFormat::kInt32
                       ? static_cast<uint32_t>(total / static_cast<int32_t>(divisor))
                       : std::bit_cast<uint32_t>(host::from_fixed(total, scale, divisor)));
  }
  return bits;
}

bool ReduceOracle::is_exact(const Inputs& inputs, uint32_t collective, uint32_t block,
                            const SourceSet& sources, const std::vector<uint32_t>& bits) const {
  const auto candidates = exponents(inputs, collective, block);
  return std::any_of(candidates.begin(), candidates.end(), [&](auto exponent) {
    return bits == expected(inputs, collective, block, sources, exponent);
  });
}

ReduceOracle::Inputs ReduceOracle::inputs_of(const Given& given) {
  Inputs inputs;
  for (uint32_t rank = 0; rank < config_.world; rank++) {
    const uint32_t process = given.processes[rank];
    const auto [entry, is_new] = inputs_.try_emplace({given.collective, rank, process});
    if (is_new) entry->second = input(given.collective, rank, process);
    inputs.push_back(&entry->second);
  }
  return inputs;
}

const host::DegradedRange* ReduceOracle::range_of(uint32_t block,
                                                  const host::Outcome& outcome) const {
  const uint64_t first = uint64_t{block} * config_.gradients;
  const auto at = std::lower_bound(outcome.degraded.begin(), outcome.degraded.end(), first,
                                   [](const host::DegradedRange& range, uint64_t wanted) {
                                     return range.element_first < wanted;
                                   });
  return at != outcome.degraded.end() && at->element_first == first ? &*at : nullptr;
}

SourceSet ReduceOracle::sources_of(uint32_t block, const host::Outcome& outcome) const {
  const host::DegradedRange* range = range_of(block, outcome);
  return range != nullptr ? range->sources : host::ranks_below(config_.world);
}

bool ReduceOracle::is_imprecise(uint32_t block, const host::Outcome& outcome) const {
  const host::DegradedRange* range = range_of(block, outcome);
  return range != nullptr && range->imprecise;
}

/// Checks the guarantee of docs/number-formats.md: each source rounds by at most half a unit of the
/// scale that belongs to the largest exponent of all ranks, and the result is rounded to float32.
/// Multiplying by a scale that is not a power of two (SwitchML's) also rounds to float32.
bool ReduceOracle::is_precise(const Inputs& inputs, uint32_t collective, uint32_t block,
                              const SourceSet& sources, const std::vector<uint32_t>& bits) const {
  const Collective& what = config_.work[collective];
  if (what.format != ElementFormat::kBlockExponent) return true;
  int8_t largest = host::kNoExponent;
  for (const Tensor* tensor : inputs) {
    largest =
        std::max(largest, host::block_exponent(slice(tensor->floats, block, config_.gradients)));
  }
  constexpr double kEpsilon = std::numeric_limits<float>::epsilon();
  const auto scale = config_.scale_of(largest, config_.world);
  const double product_error = std::exp2(std::round(std::log2(scale))) == scale ? 0 : kEpsilon;
  const uint32_t count = size_of(sources);
  const double divisor = what.op == host::ReduceOp::kMean ? count : 1;
  for (uint32_t i = 0; i < bits.size(); i++) {
    double sum = 0;
    double error = count * 0.5 / scale;
    for (uint32_t rank = 0; rank < config_.world; rank++) {
      if (!host::contains(sources, rank)) continue;
      const double value = inputs[rank]->floats[size_t{block} * config_.gradients + i];
      sum += value;
      error += std::abs(value) * product_error;
    }
    const auto result = static_cast<double>(std::bit_cast<float>(bits[i]));
    const double bound = error / divisor + std::abs(result) * kEpsilon;
    if (std::abs(result - sum / divisor) > bound) return false;
  }
  return true;
}

std::string ReduceOracle::check_sum(const Given& given, uint32_t block, Seen& seen,
                                    std::vector<uint32_t> bits, bool imprecise) {
  if (!seen.bits.empty()) {
    return seen.bits == bits
               ? ""
               : fmt::format("block {} differs from the result of rank {}", block, seen.rank);
  }
  const Inputs inputs = inputs_of(given);
  if (!is_exact(inputs, given.collective, block, seen.sources, bits)) {
    return fmt::format("block {} is not the sum of its {} sources", block, size_of(seen.sources));
  }
  if (!imprecise && !is_precise(inputs, given.collective, block, seen.sources, bits)) {
    return fmt::format("block {} lost precision, and no rank reports it", block);
  }
  seen.bits = std::move(bits);
  return {};
}

std::string ReduceOracle::check_blocks(const Given& given, const Tensor& result,
                                       const host::Outcome& outcome) {
  const Tensor& own = *inputs_of(given)[given.rank];
  const std::optional<uint32_t> owner = config_.work[given.collective].owner;
  const bool owned = !owner || *owner == given.rank;
  const auto end = static_cast<uint32_t>(std::min<uint64_t>(given.block_end, outcome.blocks));
  for (uint32_t block = given.block_first; block < end; block++) {
    std::vector<uint32_t> bits = bits_of(result, block);
    if (!owned && bits != bits_of(own, block)) {
      return fmt::format("block {}, whose sum rank {} owns, is changed", block, *owner);
    }
    // An owner's tensor is unspecified then.
    if (outcome.status != Status::kOk) continue;
    const SourceSet sources = sources_of(block, outcome);
    const auto [entry, first] =
        seen_.try_emplace({given.session, given.collective, block}, Seen{given.rank, sources, {}});
    Seen& seen = entry->second;
    if (seen.sources != sources) {
      return fmt::format("block {} has other sources than at rank {}", block, seen.rank);
    }
    if (!owned) continue;
    const bool imprecise = is_imprecise(block, outcome);
    std::string wrong = check_sum(given, block, seen, std::move(bits), imprecise);
    if (!wrong.empty()) return wrong;
  }
  return {};
}

std::string ReduceOracle::check(const Given& given, const Tensor& result,
                                const host::Outcome& outcome) {
  const Collective& what = config_.work[given.collective];
  const uint32_t blocks = (what.element_count + config_.gradients - 1) / config_.gradients;
  if (outcome.blocks != blocks) return fmt::format("{} blocks, not {}", outcome.blocks, blocks);
  if (std::string wrong = check_degraded(what, outcome); !wrong.empty()) return wrong;
  if (std::string wrong = check_status(given, outcome); !wrong.empty()) return wrong;
  return check_blocks(given, result, outcome);
}

}  // namespace tributary::lab
