// SPDX-License-Identifier: Apache-2.0
/// @file
/// Watches one job at one aggregator from its cables, and says when a straggler is given up too
/// early or too late (docs/aggregation-protocol.md, promise 2).
///
/// Model:   A block whose last contribution came at t ends degraded in (t + timeout, t + 2 x
///          timeout], counted from when every member was heard of. A source is called permanent
///          only when it has contributed nothing for a whole period. Contributions count from their
///          arrival; only those that the result names, since others may just have missed it.
/// Units:   Virtual time, that of the cables.
/// Errors:  verdicts() has one line for each breach.
/// Tests:   tests/lab/faults/promptness_test.cc
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "apps/trio_ml/shard.h"
#include "base/time.h"
#include "wire/trio_ml.h"

namespace tributary::lab {

class PromptnessJudge {
 public:
  /// @param steady The aggregator neither pauses nor jumps in time; else its timeouts are not those
  ///               of the cables, and lengths are not judged.
  PromptnessJudge(const trio_ml::JobConfig& config, bool steady)
      : config_(config), steady_(steady) {}

  /// What the aggregator knows; null while it does not run. Looked at with each datagram.
  void on_arrival(const trio_ml::Job* job, std::span<const std::byte> bytes, Instant now);
  void on_departure(const trio_ml::Job* job, std::span<const std::byte> bytes, Instant now);

  [[nodiscard]] const std::vector<std::string>& verdicts() const { return verdicts_; }

 private:
  struct Block {
    std::vector<Instant> arrived_at;  ///< Shape [sources]; never() for none.
    Instant last_at;
    bool ended = false;
  };

  /// Forgets everything when the session is another one.
  void follow(uint32_t session);
  [[nodiscard]] bool is_late(Instant last_at, Instant now) const;
  void judge_end(Block& block, const wire::Message& message, Instant now);

  const trio_ml::JobConfig config_;
  const bool steady_;
  uint32_t session_ = 0;
  std::map<uint32_t, Block> blocks_;
  std::vector<Instant> heard_at_;          ///< Shape [sources]; never() before.
  std::vector<Instant> contributed_at_;    ///< Likewise; the last time.
  Instant present_at_ = Instant::never();  ///< Since when every member was heard of.
  bool gave_up_ = false;                   ///< Somebody was called permanent in this session.
  std::vector<std::string> verdicts_;
};

}  // namespace tributary::lab
