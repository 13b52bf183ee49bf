// SPDX-License-Identifier: Apache-2.0
/// @file
/// Which processes work together: a session of a lower aggregator is part of one at the root, and
/// the root's number names the group whose results have to agree.
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
  /// In place of a process for a rank that has not come yet.
  static constexpr uint32_t kNobody = UINT32_MAX;

  SessionBook(const FaultPlan& plan, FaultWorld& world);

  /// The number at the root of a session that a worker has joined at its aggregator.
  [[nodiscard]] uint64_t root_session(uint32_t job, uint32_t aggregator, uint32_t session) const;
  /// A rank's process has joined it.
  void note_member(uint32_t job, uint64_t root_session, uint32_t rank, uint32_t process);
  /// The processes of a session. Shape [world].
  [[nodiscard]] const std::vector<uint32_t>& members(uint32_t job, uint64_t root_session) const;

  void on_round(LiveNode& node) override;

 private:
  using Key = std::tuple<uint32_t, uint32_t, uint32_t>;  ///< Job, aggregator, session.

  const FaultPlan& plan_;
  FaultWorld& world_;
  std::map<const LiveNode*, uint32_t> index_of_;  ///< Looked up, never walked.
  std::vector<std::vector<uint32_t>> latest_;     ///< Shape [aggregators][jobs].
  std::map<Key, uint32_t> upper_session_;
  std::map<std::pair<uint32_t, uint64_t>, std::vector<uint32_t>> members_;
};

}  // namespace tributary::lab
