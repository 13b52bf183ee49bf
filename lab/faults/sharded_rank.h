// SPDX-License-Identifier: Apache-2.0
/// @file
/// A rank of a sharded job in virtual time: the channels of a Communicator as one protocol.
///
/// Model:   JoinPlan, GroupState and WorkerProtocol are the live ones and decide everything: lists,
///          terms, cuts, and how the end of one channel ends the others. This class replaces the
///          threads of host/channel.cc: it passes packets and time to each channel.
/// Threads: One.
/// Errors:  The first channel that ends, ends all.
/// Memory:  One part for each channel and tensor in flight.
/// Tests:   tests/lab/faults/sharded_rank_test.cc
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "host/group_state.h"
#include "host/join_plan.h"
#include "host/tensor_protocol.h"
#include "host/trio_ml/worker_protocol.h"

namespace tributary::lab {

class ShardedRank final : public host::TensorProtocol {
 public:
  /// Starts to join all aggregators. @param nonce Not 0.
  ShardedRank(const host::CommunicatorConfig& config, uint64_t nonce, Instant now);

  // --- Its channels, one for each aggregator that the job uses ---

  [[nodiscard]] const std::vector<host::Aggregator>& aggregators() const {
    return plan_.aggregators();
  }
  /// Names the session at an aggregator; 0: not joined.
  [[nodiscard]] uint64_t session_at(size_t channel) const { return channels_[channel]->session(); }
  /// Returns whether a part of a tensor waits for the aggregator.
  [[nodiscard]] bool waits_for(const Endpoint& aggregator) const;
  /// Returns how the tensor that was submitted last is cut. Part::aggregator is a channel.
  [[nodiscard]] const std::vector<plan::Part>& last_cut() const { return last_cut_; }
  [[nodiscard]] const std::optional<host::EndReason>& failure() const { return state_.failure(); }

  // --- The protocol ---

  /// @pre The phase is not kJoining.
  void submit(host::Transfer& transfer, Instant now) override;
  void leave(Instant now) override;
  void fail(host::Status status, std::string text, uint32_t lost_aggregator) override;

  [[nodiscard]] bool accepts_from(const Endpoint& from) const override;
  std::optional<Duration> on_packet(const host::Incoming& packet, Instant now) override;
  void on_refused_by(const Endpoint& peer, Instant now) override;
  void on_time(Instant now) override;
  [[nodiscard]] host::Outgoing next_packet(std::span<std::byte> out, Instant now) override;
  [[nodiscard]] Instant next_deadline() const override;

  [[nodiscard]] Phase phase() const override;
  [[nodiscard]] host::Status status() const override;
  [[nodiscard]] const std::string& status_text() const override;
  [[nodiscard]] bool idle() const override { return flights_.empty(); }
  [[nodiscard]] const host::CommunicatorCounters& counters() const override;
  [[nodiscard]] uint32_t packet_bytes_max() const override;
  [[nodiscard]] uint32_t gradients() const override { return state_.gradients(); }
  [[nodiscard]] uint32_t window() const override { return channels_.front()->window(); }
  /// Differs between ranks that do not share all sessions; 0: not all joined.
  [[nodiscard]] uint64_t session() const override;

 private:
  /// A tensor in flight. The channels hold pointers to the parts.
  struct Flight {
    host::Transfer* whole;
    std::vector<host::TensorPart> parts;
  };

  [[nodiscard]] size_t channel_to(const Endpoint& aggregator) const;
  void settle();
  void agree();

  host::JoinPlan plan_;
  host::GroupState state_;
  std::vector<std::unique_ptr<host::WorkerProtocol>> channels_;  ///< Shape [aggregators].
  bool agreed_ = false;
  std::deque<Flight> flights_;
  std::vector<plan::Part> last_cut_;
  size_t turn_ = 0;                              ///< The channel whose packet leaves next.
  mutable host::CommunicatorCounters counters_;  ///< The sum, computed by counters().
};

}  // namespace tributary::lab
