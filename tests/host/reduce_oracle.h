// SPDX-License-Identifier: Apache-2.0
/// @file
/// What an all-reduce must give, bit for bit, computed the simplest way: element by element, over
/// exactly the sources that the outcome names.
///
/// Model:   Inputs are pure functions of (seed, collective, rank). Sums go through the scalar
///          definitions of host/number_format.h.
/// Errors:  check() returns what is wrong, empty if nothing is.
/// Tests:   used by tests/host/virtual_network_test.cc; fails there when broken on purpose.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "host/worker_protocol.h"

namespace tributary::testing {

/// One all-reduce that every rank takes part in.
struct Collective {
  uint32_t element_count = 1;
  microcode::ElementFormat format = microcode::ElementFormat::kInt32;
  host::ReduceOp op = host::ReduceOp::kSum;
};

/// A rank's tensor; one of the two is used, by format.
struct Tensor {
  std::vector<int32_t> integers;
  std::vector<float> floats;
};

class ReduceOracle {
 public:
  /// The scale for kFixedScale: inputs of up to 300 in magnitude never overflow for 6 ranks.
  static constexpr float kScale = 1.0e6F;

  /// @param gradients        Elements a block.
  /// @param partial_exponents An exponent may have been agreed on by some of the ranks only: it
  ///                          travels in another packet than its block, which may be degraded.
  ReduceOracle(uint64_t seed, uint32_t world, uint32_t gradients, bool partial_exponents,
               std::vector<Collective> work);

  [[nodiscard]] Tensor input(uint32_t collective, uint32_t rank) const;
  [[nodiscard]] const std::vector<Collective>& work() const { return work_; }

  /// Notes and checks what a rank was given: sources named consistently and completely, every sum
  /// exact, and equal to what other ranks were given for the same block.
  [[nodiscard]] std::string check(uint32_t collective, uint32_t rank, const Tensor& result,
                                  const host::Outcome& outcome);

 private:
  /// What somebody was given for a block.
  struct Given {
    uint32_t rank;
    host::SourceSet sources;
    std::vector<uint32_t> bits;  ///< Of the block's elements.
  };
  [[nodiscard]] std::string check_degraded(const Collective& what,
                                           const host::Outcome& outcome) const;
  [[nodiscard]] std::vector<uint32_t> expected(uint32_t collective, uint32_t block,
                                               const host::SourceSet& sources,
                                               std::optional<int8_t> exponent) const;
  /// Exponents on which the ranks may have agreed for a block.
  [[nodiscard]] std::vector<std::optional<int8_t>> exponents(uint32_t collective,
                                                             uint32_t block) const;
  [[nodiscard]] std::vector<uint32_t> bits_of(const Tensor& tensor, uint32_t block) const;

  const uint32_t world_;
  const uint32_t gradients_;
  const bool partial_exponents_;
  const std::vector<Collective> work_;
  std::vector<std::vector<Tensor>> inputs_;               ///< Shape [collective][rank].
  std::map<std::pair<uint32_t, uint32_t>, Given> given_;  ///< By collective and block.
};

}  // namespace tributary::testing
