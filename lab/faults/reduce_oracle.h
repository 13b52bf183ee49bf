// SPDX-License-Identifier: Apache-2.0
/// @file
/// What an all-reduce must give, bit for bit, computed the simplest way: element by element, over
/// exactly the sources that the outcome names.
///
/// Model:   Inputs are pure functions of (seed, collective, rank, process): a worker that was
///          started again brings other values, so nothing of its predecessor can pass for its own.
///          Sums go through the scalar definitions of host/number_format.h. Results are compared
///          within a session, which is named by its number at the root of the tree.
/// Errors:  check() returns what is wrong, empty if nothing is.
/// Tests:   tests/lab/faults/reduce_oracle_test.cc
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "host/generated_tensor.h"
#include "host/worker_protocol.h"

namespace tributary::lab {

/// One all-reduce that every rank takes part in.
struct Collective {
  uint32_t element_count = 1;
  wire::ElementFormat format = wire::ElementFormat::kInt32;
  host::ReduceOp op = host::ReduceOp::kSum;
};

/// A value that cannot be summed, in one rank's tensor.
struct BadValue {
  uint32_t collective = 0;
  uint32_t rank = 0;
  uint32_t element = 0;
  bool not_finite = false;  ///< An infinity; else too large for the scale and that many ranks.
};

/// A rank's tensor; one of the two is used, by format.
struct Tensor {
  std::vector<int32_t> integers;
  std::vector<float> floats;
};

class ReduceOracle {
 public:
  /// The scale for kFixedScale: inputs of up to kMagnitudeMax never overflow for 16 ranks.
  static constexpr float kScale = 1.0e5F;
  static constexpr double kMagnitudeMax = 300.0;

  struct Config {
    uint64_t seed = 1;
    uint32_t world = 2;
    uint32_t gradients = 8;   ///< Elements a block.
    bool mitigation = false;  ///< Blocks may be degraded, and an exponent may have been agreed on
                              ///< by some of the ranks only: it travels in another packet.
    std::vector<Collective> work;
    std::optional<BadValue> bad_value = {};
    /// What the protocol multiplies a block of floats with (host/generated_tensor.h).
    host::ScaleOfExponent scale_of = host::scale_for_exponent;
  };
  explicit ReduceOracle(Config config) : config_(std::move(config)) {}

  /// What the rank's `process` (0: the first that was started) puts in.
  [[nodiscard]] Tensor input(uint32_t collective, uint32_t rank, uint32_t process) const;
  [[nodiscard]] const std::vector<Collective>& work() const { return config_.work; }

  /// What a worker was given.
  struct Given {
    uint64_t session = 0;  ///< At the root.
    /// Which process of each rank is in the session. Shape [world].
    std::span<const uint32_t> processes;
    uint32_t collective = 0;
    uint32_t rank = 0;
  };
  /// Notes and checks it: sources named consistently and completely, every sum exact, and equal to
  /// what other ranks were given for the same block.
  [[nodiscard]] std::string check(const Given& given, const Tensor& result,
                                  const host::Outcome& outcome);

 private:
  /// What somebody was given for a block.
  struct Seen {
    uint32_t rank;
    host::SourceSet sources;
    std::vector<uint32_t> bits;  ///< Of the block's elements.
  };
  using Inputs = std::vector<const Tensor*>;  ///< Shape [world].

  [[nodiscard]] std::string check_degraded(const Collective& what,
                                           const host::Outcome& outcome) const;
  [[nodiscard]] std::string check_status(const Given& given, const host::Outcome& outcome) const;
  [[nodiscard]] std::string check_blocks(const Given& given, const Tensor& result,
                                         const host::Outcome& outcome);
  [[nodiscard]] Inputs inputs_of(const Given& given);
  [[nodiscard]] host::SourceSet sources_of(uint32_t block, const host::Outcome& outcome) const;
  [[nodiscard]] std::vector<uint32_t> expected(const Inputs& inputs, uint32_t collective,
                                               uint32_t block, const host::SourceSet& sources,
                                               std::optional<int8_t> exponent) const;
  /// Exponents on which the ranks may have agreed for a block.
  [[nodiscard]] std::vector<std::optional<int8_t>> exponents(const Inputs& inputs,
                                                             uint32_t collective,
                                                             uint32_t block) const;
  [[nodiscard]] bool is_exact(const Inputs& inputs, uint32_t collective, uint32_t block,
                              const host::SourceSet& sources,
                              const std::vector<uint32_t>& bits) const;
  [[nodiscard]] std::vector<uint32_t> bits_of(const Tensor& tensor, uint32_t block) const;

  const Config config_;
  /// By collective, rank and process.
  std::map<std::tuple<uint32_t, uint32_t, uint32_t>, Tensor> inputs_;
  /// By session, collective and block.
  std::map<std::tuple<uint64_t, uint32_t, uint32_t>, Seen> seen_;
};

}  // namespace tributary::lab
