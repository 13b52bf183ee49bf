// SPDX-License-Identifier: Apache-2.0
/// @file
/// A packet program on live traffic, as the log and the control API show it. Programs outside this
/// tree have no log and no control API, so the installed libraries leave this file out.
///
/// Threads: As LiveService::core_states().
/// Errors:  None.
/// Tests:   tests/cli/programs/observed_program_test.cc, tests/system/control_of_programs_test.cc
#pragma once

#include <string>

#include "base/clock.h"
#include "programs/live_service.h"
#include "server/observed_server.h"

namespace tributary::cli {

class ObservedProgram final : public server::ObservedServer {
 public:
  /// @param place   Names the program's ports.
  /// @param running Must outlive this object.
  ObservedProgram(std::string name, std::string place, programs::LiveService& running)
      : name_(std::move(name)), place_(std::move(place)), running_(running) {}

  /// The outcomes are those of the program, then `packets_forwarded` and `packets_dropped` of the
  /// machines.
  [[nodiscard]] server::Snapshot snapshot() override;

 private:
  const std::string name_;
  const std::string place_;
  programs::LiveService& running_;
  const Instant started_at_ = monotonic_now();
};

}  // namespace tributary::cli
