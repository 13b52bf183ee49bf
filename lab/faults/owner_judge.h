// SPDX-License-Identifier: Apache-2.0
/// @file
/// Reports each single-owner result (docs/wire-format.md) that an aggregator sends to anyone except
/// the owner, or the lower aggregator on the path to it.
///
/// Model:   Observes an aggregator's cables. All workers of a campaign take receipts, so no other
///          rank may get the gradients. Runs with a replayer are not judged: it sends copies of
///          results to others.
/// Errors:  verdicts() has one line for each such datagram.
/// Tests:   tests/lab/faults/fault_run_test.cc; catches_kReceiptWithSum in its CMakeLists.txt
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "apps/trio_ml/job.h"
#include "lab/faults/fault_plan.h"
#include "net/packet.h"

namespace tributary::lab {

class OwnerJudge {
 public:
  /// Returns whether the plan's runs are judged.
  [[nodiscard]] static bool judges(const FaultPlan& plan);

  /// Observes an aggregator's datagram.
  /// @param next_to Returns the address to which the aggregator sends a rank's messages.
  void on_departure(const trio_ml::Job& job, const net::Packet& packet,
                    const std::function<Endpoint(uint32_t rank)>& next_to);

  [[nodiscard]] const std::vector<std::string>& verdicts() const { return verdicts_; }
  /// Returns the number of sums of one rank that were judged.
  [[nodiscard]] uint64_t judged() const { return judged_; }

 private:
  std::vector<std::string> verdicts_;
  uint64_t judged_ = 0;
};

}  // namespace tributary::lab
