// SPDX-License-Identifier: Apache-2.0
/// @file
/// Reports contributions that a degraded block lacks although only lost packets delayed them
/// (docs/aggregation-protocol.md, promise 3).
///
/// Model:   Judges runs whose only faults are those of links: loss, duplication, reordering. A
///          missing rank counts if it sent its contribution at least one timeout before the block
///          ended, and if there was time for more rounds of repair than its cable lost packets in
///          between. A round is one wait for a probe and two round trips at the slowest. Nothing
///          counts if the timeout is shorter than two rounds: no protocol could repair the loss.
/// Units:   Virtual time at the cables.
/// Errors:  verdicts() has one line for each contribution.
/// Tests:   tests/lab/faults/loss_judge_test.cc
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "apps/trio_ml/job.h"
#include "base/time.h"
#include "lab/faults/fault_plan.h"

namespace tributary::lab {

class LossJudge {
 public:
  /// @param round Longest time of a round of repair.
  explicit LossJudge(Duration round) : round_(round) {}

  /// Returns whether the plan's runs are judged.
  [[nodiscard]] static bool judges(const FaultPlan& plan);
  /// Returns the longest time of a round of repair on the plan's links.
  [[nodiscard]] static Duration round_of(const FaultPlan& plan);

  /// Observes a worker's datagram. @param lost Packets that its cable has lost, both ways.
  void on_sent(std::span<const std::byte> bytes, uint64_t lost, Instant now);
  /// Observes the aggregator's datagram.
  /// @param lost_of Returns the packets that a source's cable has lost, both ways.
  void on_departure(const trio_ml::Job& job, std::span<const std::byte> bytes,
                    const std::function<uint64_t(uint32_t source)>& lost_of, Instant now);

  [[nodiscard]] const std::vector<std::string>& verdicts() const { return verdicts_; }

 private:
  struct Sent {
    Instant at;
    uint64_t lost = 0;
  };
  using Key = std::pair<uint64_t, uint32_t>;  ///< The key of a source or of results, and a block.

  const Duration round_;
  std::map<Key, Sent> sent_;   ///< First contributions.
  std::map<Key, bool> ended_;  ///< Blocks whose result has left.
  std::vector<std::string> verdicts_;
};

}  // namespace tributary::lab
