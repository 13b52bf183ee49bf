// SPDX-License-Identifier: Apache-2.0
#include "host/generated_tensor.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <optional>
#include <vector>

#include "base/prng.h"
#include "host/formats/number_format.h"
#include "wire/trio_ml.h"

namespace tributary::host {
namespace {

constexpr uint32_t kRunElements = GeneratedTensor::kRunElements;
/// Shift that leaves the bits of a hash that a float holds exactly: 24 and the sign.
constexpr uint32_t kFloatHashShift = 7;
/// The unit of a value: 2^24 units are 2^-4, the largest magnitude.
constexpr float kFloatUnit = 0x1p-28F;
/// Elements that a check handles at once; they fit the first-level cache.
constexpr uint32_t kChunkElements = 1024;
constexpr int32_t kExponentMin = -126;

// The loops over a run. They are written once and compiled twice, for any x86-64 and for AVX2,
// which has the multiplication that takes most of their time.

/// Returns the hash of an element of a run. Source: the finaliser of MurmurHash3 (32 bit).
[[gnu::always_inline]] inline uint32_t hash_of(uint32_t key, uint32_t index) {
  uint32_t hash = key + index * 0x9e3779b9U;
  hash = (hash ^ (hash >> 16)) * 0x85ebca6bU;
  hash = (hash ^ (hash >> 13)) * 0xc2b2ae35U;
  return hash ^ (hash >> 16);
}

[[gnu::always_inline]] inline void int_run(uint32_t key, int32_t* out) {
  for (uint32_t i = 0; i < kRunElements; i++) out[i] = static_cast<int32_t>(hash_of(key, i));
}

[[gnu::always_inline]] inline void float_run(uint32_t key, float factor, float* out) {
  for (uint32_t i = 0; i < kRunElements; i++) {
    out[i] = static_cast<float>(static_cast<int32_t>(hash_of(key, i)) >> kFloatHashShift) * factor;
  }
}

struct RunKernels {
  void (*ints)(uint32_t key, int32_t* out);
  void (*floats)(uint32_t key, float factor, float* out);
};

void int_run_plain(uint32_t key, int32_t* out) { int_run(key, out); }
void float_run_plain(uint32_t key, float factor, float* out) { float_run(key, factor, out); }

#if defined(__x86_64__)
[[gnu::target("avx2")]] void int_run_avx2(uint32_t key, int32_t* out) { int_run(key, out); }
[[gnu::target("avx2")]] void float_run_avx2(uint32_t key, float factor, float* out) {
  float_run(key, factor, out);
}
RunKernels fastest_runs() {
  if (__builtin_cpu_supports("avx2")) return {int_run_avx2, float_run_avx2};
  return {int_run_plain, float_run_plain};
}
#else
RunKernels fastest_runs() { return {int_run_plain, float_run_plain}; }
#endif

const RunKernels& run_kernels() {
  static const RunKernels chosen = fastest_runs();
  return chosen;
}

void write_run(uint64_t run_key, int32_t* out) {
  run_kernels().ints(static_cast<uint32_t>(run_key), out);
}

void write_run(uint64_t run_key, float* out) {
  // The key's upper half chooses the power of two, its lower half the values.
  const auto shift = static_cast<uint32_t>(run_key >> 32) % (GeneratedTensor::kShiftMax + 1);
  run_kernels().floats(static_cast<uint32_t>(run_key), kFloatUnit / static_cast<float>(1U << shift),
                       out);
}

/// Writes whole runs directly to `out`, and the partial runs at both ends through a buffer.
template <class T>
void fill_from(uint64_t tensor_key, uint64_t element_first, std::span<T> out) {
  while (!out.empty()) {
    const auto skip = static_cast<uint32_t>(element_first % kRunElements);
    const size_t count = std::min<size_t>(kRunElements - skip, out.size());
    const uint64_t run_key = Prng(tensor_key + element_first / kRunElements).any_u64();
    if (count == kRunElements) {
      write_run(run_key, out.data());
    } else {
      std::array<T, kRunElements> run;
      write_run(run_key, run.data());
      std::copy_n(run.data() + skip, count, out.data());
    }
    element_first += count;
    out = out.subspan(count);
  }
}

uint64_t key_of(uint64_t seed, uint32_t rank, uint64_t iteration) {
  return Prng(Prng(Prng(seed).any_u64() + iteration).any_u64() + rank).any_u64();
}

// The checks.

/// A range of elements with one set of sources.
struct Segment {
  uint64_t first;
  uint64_t count;
  const SourceSet* sources;
  bool degraded;
  bool imprecise;
};

uint32_t count_of(const SourceSet& set) {
  uint32_t count = 0;
  for (const uint64_t word : set) count += static_cast<uint32_t>(std::popcount(word));
  return count;
}

/// Returns true if the set has at least one rank, and none from outside the world.
bool sound(const SourceSet& set, const SourceSet& all) {
  uint64_t foreign = 0;
  for (size_t i = 0; i < set.size(); i++) foreign |= set[i] & ~all[i];
  return foreign == 0 && count_of(set) > 0;
}

/// Cuts the tensor at the degraded ranges; returns nothing if the ranges are not valid.
std::optional<std::vector<Segment>> segments_of(const Outcome& outcome, uint64_t element_count,
                                                const SourceSet& all) {
  std::vector<Segment> segments;
  uint64_t at = 0;
  for (const DegradedRange& range : outcome.degraded) {
    if (range.element_first < at || range.element_first > element_count ||
        range.element_count > element_count - range.element_first || !sound(range.sources, all)) {
      return std::nullopt;
    }
    if (range.element_first > at)
      segments.push_back({at, range.element_first - at, &all, false, false});
    segments.push_back(
        {range.element_first, range.element_count, &range.sources, true, range.imprecise});
    at = range.element_first + range.element_count;
  }
  if (at < element_count) segments.push_back({at, element_count - at, &all, false, false});
  return segments;
}

template <class T>
uint64_t count_different(std::span<const T> a, std::span<const T> b) {
  uint64_t different = 0;
  for (size_t i = 0; i < a.size(); i++) {
    // Compare bits, so that a wrong sign of zero counts.
    different += std::bit_cast<uint32_t>(a[i]) != std::bit_cast<uint32_t>(b[i]) ? 1 : 0;
  }
  return different;
}

/// Computes the expected result of an all-reduce, one chunk at a time.
class Expectation {
 public:
  Expectation(const GeneratedTensor& tensor, uint64_t iteration, ReduceOp op)
      : tensor_(tensor), iteration_(iteration), op_(op) {}

  /// Returns at most kChunkElements elements; valid until the next call.
  std::span<const int32_t> ints(uint64_t first, size_t count, const SourceSet& sources) {
    sums_.fill(0);
    for_each_rank(sources, [&](uint32_t rank) {
      tensor_.fill(rank, iteration_, first, std::span(addends_).first(count));
      add(count);
    });
    pack_int32(std::span(sums_).first(count), lanes_.data());
    unpack_int32(lanes_.data(), divisor(sources), std::span(sums_).first(count));
    return std::span(sums_).first(count);
  }

  /// Returns the expected floats for contributions sent with `scale`.
  std::span<const float> floats(uint64_t first, size_t count, const SourceSet& sources,
                                double scale) {
    const std::span<float> values = std::span(values_).first(count);
    const int32_t limit = lane_magnitude_max(tensor_.world());
    sums_.fill(0);
    for_each_rank(sources, [&](uint32_t rank) {
      tensor_.fill(rank, iteration_, first, values);
      // A tensor that does not fit ends with kOverflow, so its clamped sum is never compared.
      static_cast<void>(pack_fixed(values, scale, limit, lanes_.data()));
      unpack_int32(lanes_.data(), 1, std::span(addends_).first(count));
      add(count);
    });
    pack_int32(std::span(sums_).first(count), lanes_.data());
    unpack_fixed(lanes_.data(), scale, divisor(sources), values);
    return values;
  }

  /// Adds the exact sums or means to `sums`, which are 0. @return the largest magnitude of all
  /// ranks.
  double exact(uint64_t first, const SourceSet& sources, const SourceSet& all,
               std::span<double> sums) {
    double largest = 0;
    for_each_rank(all, [&](uint32_t rank) {
      for (uint64_t at = 0; at < sums.size(); at += kChunkElements) {
        const size_t count = std::min<uint64_t>(kChunkElements, sums.size() - at);
        const auto values = std::span(values_).first(count);
        tensor_.fill(rank, iteration_, first + at, values);
        for (size_t i = 0; i < count; i++) {
          largest = std::max(largest, std::abs(double{values[i]}));
          if (contains(sources, rank)) sums[at + i] += double{values[i]} / divisor(sources);
        }
      }
    });
    return largest;
  }

  /// Returns the largest exponent of any of `sources` in a block of any length.
  int8_t exponent(uint64_t first, uint64_t count, const SourceSet& sources) {
    int8_t largest = kNoExponent;
    for_each_rank(sources, [&](uint32_t rank) {
      for (uint64_t at = 0; at < count; at += kChunkElements) {
        const auto values =
            std::span(values_).first(std::min<uint64_t>(kChunkElements, count - at));
        tensor_.fill(rank, iteration_, first + at, values);
        largest = std::max(largest, block_exponent(values));
      }
    });
    return largest;
  }

 private:
  template <class Visit>
  void for_each_rank(const SourceSet& sources, Visit visit) const {
    for (uint32_t rank = 0; rank < tensor_.world(); rank++) {
      if (contains(sources, rank)) visit(rank);
    }
  }

  uint32_t divisor(const SourceSet& sources) const {
    return op_ == ReduceOp::kMean ? count_of(sources) : 1;
  }

  void add(size_t count) {
    for (size_t i = 0; i < count; i++) {
      sums_[i] = static_cast<int32_t>(static_cast<uint32_t>(sums_[i]) +
                                      static_cast<uint32_t>(addends_[i]));
    }
  }

  const GeneratedTensor& tensor_;
  const uint64_t iteration_;
  const ReduceOp op_;
  std::array<int32_t, kChunkElements> sums_;
  std::array<int32_t, kChunkElements> addends_;
  std::array<float, kChunkElements> values_;
  std::array<std::byte, kChunkElements * sizeof(int32_t)> lanes_;
};

/// Returns the wrong elements of [first, first + count), all sent with one scale.
uint64_t wrong_at_scale(Expectation& expected, std::span<const float> result, uint64_t first,
                        uint64_t count, const SourceSet& sources, double scale) {
  uint64_t wrong = 0;
  for (uint64_t at = 0; at < count; at += kChunkElements) {
    const size_t chunk = std::min<uint64_t>(kChunkElements, count - at);
    wrong += count_different(result.subspan(first + at, chunk),
                             expected.floats(first + at, chunk, sources, scale));
  }
  return wrong;
}

/// Returns the wrong elements of `segment` within the block of `gradients` elements that starts at
/// `block_first`.
uint64_t wrong_in_block(Expectation& expected, std::span<const float> result,
                        const Segment& segment, uint64_t block_first, uint32_t gradients,
                        const SourceSet& all, ScaleOfExponent scale_of) {
  const uint64_t block_count = std::min<uint64_t>(gradients, result.size() - block_first);
  const uint64_t first = std::max(segment.first, block_first);
  const uint64_t end = std::min(segment.first + segment.count, block_first + block_count);
  const auto world = count_of(all);
  const int32_t largest = expected.exponent(block_first, block_count, all);
  int32_t exponent =
      segment.degraded ? expected.exponent(block_first, block_count, *segment.sources) : largest;
  const int32_t last = segment.imprecise ? INT8_MAX : largest;
  uint64_t fewest = end - first;
  while (exponent <= last && fewest > 0) {
    const double scale = scale_of(static_cast<int8_t>(exponent), world);
    fewest = std::min(
        fewest, wrong_at_scale(expected, result, first, end - first, *segment.sources, scale));
    exponent =
        std::max(exponent + 1, kExponentMin);  // No exponent lies between kNoExponent and this.
  }
  return fewest;
}

}  // namespace

void GeneratedTensor::fill(uint32_t rank, uint64_t iteration, uint64_t element_first,
                           std::span<float> out) const {
  fill_from(key_of(seed_, rank, iteration), element_first, out);
}

void GeneratedTensor::fill(uint32_t rank, uint64_t iteration, uint64_t element_first,
                           std::span<int32_t> out) const {
  fill_from(key_of(seed_, rank, iteration), element_first, out);
}

uint64_t check_int32(const GeneratedTensor& tensor, uint64_t iteration,
                     std::span<const int32_t> result, ReduceOp op, const Outcome& outcome) {
  const SourceSet all = ranks_below(tensor.world());
  const auto segments = segments_of(outcome, result.size(), all);
  if (!segments) return result.size();
  Expectation expected(tensor, iteration, op);
  uint64_t wrong = 0;
  for (const Segment& segment : *segments) {
    for (uint64_t at = 0; at < segment.count; at += kChunkElements) {
      const size_t chunk = std::min<uint64_t>(kChunkElements, segment.count - at);
      wrong += count_different(result.subspan(segment.first + at, chunk),
                               expected.ints(segment.first + at, chunk, *segment.sources));
    }
  }
  return wrong;
}

uint64_t check_float(const GeneratedTensor& tensor, uint64_t iteration,
                     std::span<const float> result, const AllReduceOptions& options,
                     uint32_t gradients, const Outcome& outcome, ScaleOfExponent scale_of) {
  const SourceSet all = ranks_below(tensor.world());
  const auto segments = segments_of(outcome, result.size(), all);
  if (!segments || gradients == 0) return result.size();
  Expectation expected(tensor, iteration, options.op);
  uint64_t wrong = 0;
  for (const Segment& segment : *segments) {
    if (options.format == FloatFormat::kFixedScale) {
      wrong += wrong_at_scale(expected, result, segment.first, segment.count, *segment.sources,
                              options.scale);
      continue;
    }
    const uint64_t end = segment.first + segment.count;
    for (uint64_t block = segment.first / gradients * gradients; block < end; block += gradients) {
      wrong += wrong_in_block(expected, result, segment, block, gradients, all, scale_of);
    }
  }
  return wrong;
}

uint64_t check_narrow(const GeneratedTensor& tensor, uint64_t iteration,
                      std::span<const float> result, ReduceOp op, uint32_t gradients,
                      uint32_t partial_sums, const Outcome& outcome) {
  const SourceSet all = ranks_below(tensor.world());
  const auto segments = segments_of(outcome, result.size(), all);
  if (!segments || gradients == 0) return result.size();
  Expectation expected(tensor, iteration, op);
  std::vector<double> sums;
  uint64_t wrong = 0;
  for (const Segment& segment : *segments) {
    const uint64_t end = segment.first + segment.count;
    for (uint64_t block = segment.first / gradients * gradients; block < end; block += gradients) {
      sums.assign(std::min<uint64_t>(gradients, result.size() - block), 0);
      const double largest = expected.exact(block, *segment.sources, all, sums);
      const uint32_t count = count_of(*segment.sources);
      const double unit = std::ldexp(largest, segment.imprecise ? kDegradedHeadroom - 15 : -15);
      const double shift = std::exp2(wire::result_shift(tensor.world()));
      const double error =
          unit * (count + shift * partial_sums) / (op == ReduceOp::kMean ? count : 1);
      for (uint64_t i = std::max(segment.first, block); i < std::min(end, block + sums.size());
           i++) {
        const double difference = std::abs(double{result[i]} - sums[i - block]);
        const double bound = (error + 0x1p-24 * std::abs(double{result[i]})) * (1 + 0x1p-40);
        wrong += difference <= bound ? 0 : 1;
      }
    }
  }
  return wrong;
}

}  // namespace tributary::host
