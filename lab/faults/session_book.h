// SPDX-License-Identifier: Apache-2.0
/// @file
/// Records which processes share a session. A session of a lower aggregator is part of one at the
/// root, whose result key names the group of processes with equal results.
///
/// Threads: One.
/// Tests:   tests/lab/faults/fault_run_test.cc
#pragma once

#include <cstdint>
#include <map>
#include <tuple>
#include <vector>

#include "lab/faults/fault_world.h"

namespace tributary::lab {

class SessionBook final : public LiveNode::Observer {
 public:
  /// Marks a rank without a process.
  static constexpr uint32_t kNobody = UINT32_MAX;

  SessionBook(const FaultPlan& plan, FaultWorld& world);

  /// Returns the name at the root of a session that a worker joined at its aggregator. A session's
  /// name is its result key.
  [[nodiscard]] uint64_t root_session(uint32_t job, uint32_t aggregator, uint64_t session) const;
  /// Records that a rank's process joined the session.
  void note_member(uint32_t job, uint64_t root_session, uint32_t rank, uint32_t process);
  /// Returns the processes of a session. Shape [world].
  [[nodiscard]] const std::vector<uint32_t>& members(uint32_t job, uint64_t root_session) const;

  void on_round(LiveNode& node) override;

 private:
  using Key = std::tuple<uint32_t, uint32_t, uint64_t>;  ///< Job, aggregator, session.

  const FaultPlan& plan_;
  FaultWorld& world_;
  std::map<const LiveNode*, uint32_t>
      index_of_;                               ///< Used for look-ups only; its order has no effect.
  std::vector<std::vector<uint64_t>> latest_;  ///< Numbers. Shape [aggregators][jobs].
  std::map<Key, uint64_t> upper_session_;
  std::map<std::pair<uint32_t, uint64_t>, std::vector<uint32_t>> members_;
};

}  // namespace tributary::lab
