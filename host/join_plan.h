// SPDX-License-Identifier: Apache-2.0
/// @file
/// The join of a rank without threads and sockets: its aggregators, and the configuration of the
/// channel to each of them.
///
/// Model:   First a channel to each aggregator. When all have joined, agree() compares their terms.
///          Then the further channels of the rank's threads.
/// Threads: Owned by one thread.
/// Errors:  One line from agree().
/// Tests:   tests/host/join_plan_test.cc
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "host/aggregator_list.h"
#include "host/group_state.h"
#include "host/worker_config.h"
#include "wire/parameter_share.h"

namespace tributary::host {

class JoinPlan {
 public:
  /// The terms of the session of a first channel.
  struct Terms {
    uint32_t gradients = 1;
    uint32_t narrow_gradients = 0;  ///< 0: no 16-bit gradients.
    uint32_t channels = 1;
    uint32_t job_window = 0;       ///< See SessionTerms; 0: not told.
    Duration straggler_timeout{};  ///< 0: no mitigation.
  };

  /// @param config Has `server`, or aggregators with at least one weight above 0.
  explicit JoinPlan(const CommunicatorConfig& config);

  /// The aggregators that this job uses: those with a weight, or `server`.
  [[nodiscard]] const std::vector<Aggregator>& aggregators() const { return aggregators_; }
  /// Sets the packets that fit all paths, if the configuration leaves them open.
  void set_gradients(uint32_t gradients);

  /// Returns the configuration of the first channel to an aggregator.
  [[nodiscard]] CommunicatorConfig first_channel(size_t aggregator) const;
  /// Takes the terms of all first channels. All must have the same blocks, because a tensor is cut
  /// into blocks first, and jobs of the same window and straggler timeout: otherwise the parts of
  /// one tensor behave differently. @param terms Shape [aggregators].
  [[nodiscard]] Result<void> agree(std::span<const Terms> terms);
  /// Returns the configuration of a further channel, from 1 on. @pre agree()
  [[nodiscard]] CommunicatorConfig further_channel(size_t aggregator, uint32_t channel) const;
  /// Returns a channel's place. @param channel 0: the first one.
  [[nodiscard]] ChannelPlace place(size_t aggregator, uint32_t channel) const;

  // --- After agree() ---

  [[nodiscard]] uint32_t channels() const { return agreed_.channels; }  ///< To each aggregator.
  [[nodiscard]] uint32_t gradients() const { return agreed_.gradients; }
  /// 0 unless every aggregator takes as many.
  [[nodiscard]] uint32_t narrow_gradients() const { return agreed_.narrow_gradients; }
  /// Returns the parts of an asynchronous job's parameters that the aggregators keep.
  [[nodiscard]] std::vector<wire::ParameterShare> shares() const;
  /// Returns the weights of all channels: the first ones in the order of the list, then the second
  /// ones, and so on.
  [[nodiscard]] std::vector<uint32_t> weights() const;

 private:
  [[nodiscard]] std::string difference(std::span<const Terms> terms, size_t other) const;

  CommunicatorConfig common_;  ///< Settings that all channels share.
  std::vector<Aggregator> aggregators_;
  uint64_t weight_sum_ = 0;
  Terms agreed_;
};

}  // namespace tributary::host
