// SPDX-License-Identifier: Apache-2.0
/// @file
/// Observes one job at one aggregator from its cables and reports stragglers excluded too early or
/// too late (docs/aggregation-protocol.md, promise 2).
///
/// Model:   A block whose last contribution came at t ends degraded in (t + timeout, t + 2 x
///          timeout], counted from the time when every member has been heard from. A source becomes
///          permanent only after a whole period without a contribution. Contributions count from
///          their arrival, and only those that the result names, because others may have just
///          missed it.
/// Units:   Virtual time at the cables.
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
  /// @param steady The aggregator's clock neither pauses nor jumps. Otherwise its timeouts differ
  ///               from those at the cables, and durations are not judged.
  PromptnessJudge(const trio_ml::JobConfig& config, bool steady)
      : config_(config), steady_(steady) {}

  /// Observes a datagram. @param job The aggregator's job; null while it does not run.
  void on_arrival(const trio_ml::Job* job, std::span<const std::byte> bytes, Instant now);
  void on_departure(const trio_ml::Job* job, std::span<const std::byte> bytes, Instant now);

  [[nodiscard]] const std::vector<std::string>& verdicts() const { return verdicts_; }

 private:
  struct Block {
    std::vector<Instant> arrived_at;  ///< Shape [sources]; never() if missing.
    Instant last_at;
    bool ended = false;
  };

  /// Clears all state when the session changes.
  void adopt_session(uint32_t session);
  [[nodiscard]] bool is_late(Instant last_at, Instant now) const;
  void check_end_time(Block& block, const wire::Message& message, Instant now);

  const trio_ml::JobConfig config_;
  const bool steady_;
  uint32_t session_ = 0;
  std::map<uint32_t, Block> blocks_;
  std::vector<Instant> first_heard_at_;  ///< Shape [sources]; never() before.
  std::vector<Instant>
      contributed_at_;  ///< Shape [sources]: the last contribution; never() before.
  Instant present_at_ = Instant::never();  ///< Time since which every member has been heard from.
  bool has_permanent_source_ = false;      ///< A source became permanent in this session.
  std::vector<std::string> verdicts_;
};

}  // namespace tributary::lab
