// SPDX-License-Identifier: Apache-2.0
/// @file
/// The expected result of an all-reduce, bit for bit, computed in the simplest way: element by
/// element, over exactly the sources that the outcome names.
///
/// Model:   Inputs are pure functions of (seed, collective, rank, process). A restarted worker has
///          other values, so its predecessor's cannot pass for its own. Sums use the scalar
///          definitions of host/formats/number_format.h. Results are compared within a session,
///          named by its number at the root.
/// Errors:  check() returns the error, empty if there is none.
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
#include "host/trio_ml/worker_protocol.h"

namespace tributary::lab {

/// One all-reduce of all ranks.
struct Collective {
  uint32_t element_count = 1;
  wire::ElementFormat format = wire::ElementFormat::kInt32;
  host::ReduceOp op = host::ReduceOp::kSum;
  std::optional<uint32_t> owner = {};  ///< The rank that gets the result; not set: all ranks.
};

/// A value that cannot be summed, in one rank's tensor.
struct BadValue {
  uint32_t collective = 0;
  uint32_t rank = 0;
  uint32_t element = 0;
  bool not_finite =
      false;  ///< true: an infinity; false: too large for the scale and the number of ranks.
};

/// A rank's tensor; the format selects one of the two.
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
    uint32_t gradients = 8;  ///< Elements in a block.
    bool mitigation =
        false;  ///< Blocks may be degraded. An exponent may come from some of the ranks
                ///< only, because it travels in another packet.
    std::vector<Collective> work;
    std::optional<BadValue> bad_value = {};
    /// The protocol's factor for a block of floats (host/generated_tensor.h).
    host::ScaleOfExponent scale_of = host::scale_for_exponent;
  };
  explicit ReduceOracle(Config config) : config_(std::move(config)) {}

  /// Returns the input of the rank's `process` (0 is the first one started).
  [[nodiscard]] Tensor input(uint32_t collective, uint32_t rank, uint32_t process) const;
  [[nodiscard]] const std::vector<Collective>& work() const { return config_.work; }

  /// The context of a result.
  struct Given {
    uint64_t session = 0;  ///< Number at the root.
    /// The process of each rank in the session. Shape [world].
    std::span<const uint32_t> processes;
    uint32_t collective = 0;
    uint32_t rank = 0;
    // The blocks that this session summed; in a sharded job not all.
    uint32_t block_first = 0;
    uint32_t block_end = UINT32_MAX;
  };
  /// Records and checks a result: sources named consistently and completely, every sum exact,
  /// equal to other ranks' results for the same block, and precise unless it is reported imprecise.
  /// A rank that does not own the result must have its own tensor, as it was.
  [[nodiscard]] std::string check(const Given& given, const Tensor& result,
                                  const host::Outcome& outcome);

 private:
  /// The first result or receipt seen for a block.
  struct Seen {
    uint32_t rank;
    host::SourceSet sources;
    std::vector<uint32_t> bits;  ///< Bits of the sum's elements; empty: no rank with the sum yet.
  };
  using Inputs = std::vector<const Tensor*>;  ///< Shape [world].

  [[nodiscard]] std::string check_degraded(const Collective& what,
                                           const host::Outcome& outcome) const;
  [[nodiscard]] std::string check_status(const Given& given, const host::Outcome& outcome) const;
  [[nodiscard]] std::string check_blocks(const Given& given, const Tensor& result,
                                         const host::Outcome& outcome);
  /// Checks the sum of a block, and remembers it.
  [[nodiscard]] std::string check_sum(const Given& given, uint32_t block, Seen& seen,
                                      std::vector<uint32_t> bits, bool imprecise);
  [[nodiscard]] Inputs inputs_of(const Given& given);
  /// Returns the degraded range that is this block; nullptr if there is none.
  [[nodiscard]] const host::DegradedRange* range_of(uint32_t block,
                                                    const host::Outcome& outcome) const;
  [[nodiscard]] host::SourceSet sources_of(uint32_t block, const host::Outcome& outcome) const;
  [[nodiscard]] bool is_imprecise(uint32_t block, const host::Outcome& outcome) const;
  [[nodiscard]] std::vector<uint32_t> expected(const Inputs& inputs, uint32_t collective,
                                               uint32_t block, const host::SourceSet& sources,
                                               std::optional<int8_t> exponent) const;
  /// Returns the exponents on which the ranks may have agreed for a block.
  [[nodiscard]] std::vector<std::optional<int8_t>> exponents(const Inputs& inputs,
                                                             uint32_t collective,
                                                             uint32_t block) const;
  [[nodiscard]] bool is_exact(const Inputs& inputs, uint32_t collective, uint32_t block,
                              const host::SourceSet& sources,
                              const std::vector<uint32_t>& bits) const;
  [[nodiscard]] bool is_precise(const Inputs& inputs, uint32_t collective, uint32_t block,
                                const host::SourceSet& sources,
                                const std::vector<uint32_t>& bits) const;
  [[nodiscard]] std::vector<uint32_t> bits_of(const Tensor& tensor, uint32_t block) const;

  const Config config_;
  /// Key: collective, rank and process.
  std::map<std::tuple<uint32_t, uint32_t, uint32_t>, Tensor> inputs_;
  /// Key: session, collective and block.
  std::map<std::tuple<uint64_t, uint32_t, uint32_t>, Seen> seen_;
};

}  // namespace tributary::lab
