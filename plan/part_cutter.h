// SPDX-License-Identifier: Apache-2.0
/// @file
/// Cuts a sequence of tensors into parts and gives each part to an aggregator, by weight.
///
/// Model:   Integer arithmetic on weights and tensor sizes, so all ranks cut alike. An aggregator's
///          credit is the elements that its weight entitles it to, less those it was given.
/// Shapes:  Parts are whole blocks in ascending order. An aggregator's parts lie side by side.
/// Units:   Elements and blocks; a block has `gradients` elements, the tensor's last one may less.
/// Threads: Owned by one. Every rank calls cut() for the same tensors in the same order.
/// Errors:  None; callers check the weights where they read them.
/// Memory:  One credit for each aggregator, however many tensors there were.
/// Tests:   tests/plan/part_cutter_test.cc
#pragma once

#include <cstdint>
#include <vector>

namespace tributary::plan {

/// Fewest blocks that an aggregator is given of a tensor, unless it gets all of it. Assumed: with
/// fewer, waking a second thread costs more than it saves.
inline constexpr uint64_t kPartBlocksMin = 32;

/// Largest part. Source: BytePS §4.1 ("parts no larger than 4MB").
inline constexpr uint64_t kPartBytesMax = 4'000'000;

struct Part {
  uint32_t aggregator = 0;  ///< Position in the list of weights.
  uint64_t element_first = 0;
  uint64_t element_count = 0;

  bool operator==(const Part&) const = default;
};

class PartCutter {
 public:
  /// @param weights One for each aggregator, or for each channel to one; not all 0. With weight 0
  ///   it gets nothing.
  explicit PartCutter(std::vector<uint32_t> weights);

  /// Returns the parts of the next tensor:
  /// - If every share has kPartBlocksMin blocks, each aggregator gets its share to within a block.
  /// - Otherwise those with the largest credits get it, each at least kPartBlocksMin blocks. So
  ///   many small tensors together follow the weights.
  /// - A range above kPartBytesMax is cut into parts that differ by at most one block.
  /// A tensor without elements is one empty part.
  /// @param gradients         Elements in a block, not 0.
  /// @param bytes_per_element On the wire, not 0.
  [[nodiscard]] std::vector<Part> cut(uint64_t element_count, uint32_t gradients,
                                      uint32_t bytes_per_element);

 private:
  /// Weights times elements, which may exceed 64 bits.
  __extension__ using Wide = __int128;
  struct Claim;

  [[nodiscard]] std::vector<Claim> claims_for(uint64_t blocks) const;
  [[nodiscard]] std::vector<Claim> quotas() const;
  [[nodiscard]] bool is_large(uint64_t blocks) const;
  void share_out(uint64_t blocks, uint32_t gradients, std::vector<Claim>& claims) const;

  std::vector<uint32_t> weights_;
  uint64_t weight_sum_ = 0;
  /// Unit: elements times weight_sum_. The sum of all credits is 0 between two tensors.
  std::vector<Wide> credits_;  ///< Shape [aggregators].
};

}  // namespace tributary::plan
