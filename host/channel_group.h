// SPDX-License-Identifier: Apache-2.0
/// @file
/// The channels of one rank: one to each aggregator of the job, times the rank's threads.
///
/// Model:   GroupState decides: the first channel that ends ends all others, and tensors are cut
///          into parts of whole blocks. This class has its threads and their locks. A thread drives
///          a channel to each aggregator.
/// Threads: Any thread may call wait(), wait_until_done(), submit() and leave_all(). Channels and
///          the cutter are complete before the first submit().
/// Errors:  Outcome::status and one line of text.
/// Memory:  A tensor stays in place until its Outcome is there.
/// Tests:   tests/host/communicator_test.cc, tests/host/sharded_communicator_test.cc
#pragma once

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "engine/port.h"
#include "host/aggregator_list.h"
#include "host/all_reduce.h"
#include "host/channel.h"
#include "host/channel_thread.h"
#include "host/group_state.h"

namespace tributary::host {

class WorkerRecorder;

class ChannelGroup final : public Channel::Owner {
 public:
  ChannelGroup() = default;
  ~ChannelGroup() override { close(); }

  // --- The join ---

  /// Lets urgent channels send first, by ChannelPlace::priority. Call it before the first channel.
  void use_priorities() { has_priorities_ = true; }

  /// Adds a channel and starts its join. Refuses packets that do not fit the port.
  Result<void> add_channel(std::unique_ptr<TensorProtocol> protocol,
                           std::unique_ptr<engine::Port> port, ChannelPlace place = {});
  /// Waits until every channel has joined, or one has failed. @return the result of the join.
  /// @param status Receives the protocol's status if the join failed; may be null.
  Result<void> wait_for_joins(Status* status);
  /// Sets how tensors are cut. @param weights One for each channel, in the order they were added.
  void set_cut(uint32_t gradients, uint32_t narrow_gradients, const std::vector<uint32_t>& weights);
  /// Gives each channel the same part of every tensor. See GroupState.
  void fix_shares(std::vector<wire::ParameterShare> shares) {
    state_.fix_shares(std::move(shares));
  }
  /// Returns the list to join with after a refusal: the directory's. Empty: the ranks have
  /// different lists, so their directory has changed its list meanwhile. Not set: another refusal.
  [[nodiscard]] std::optional<std::vector<Aggregator>> next_list();
  /// Returns true if the join failed because an aggregator does not answer, ends or lacks the job.
  [[nodiscard]] bool has_lost_aggregator();

  /// Lets the first failure, or else close(), write the rank's recording. @param recorder May be
  /// null. Its channels have been added.
  void record_to(std::shared_ptr<WorkerRecorder> recorder);
  /// Returns the rank's recorder; may be null.
  [[nodiscard]] const std::shared_ptr<WorkerRecorder>& recorder() const { return recorder_; }

  // --- All-reduces ---

  /// Queues a tensor. @return its number, for wait().
  uint64_t submit(const Transfer& transfer);
  /// Waits for a tensor. Call it once for each number.
  Outcome wait(uint64_t number);
  bool wait_until_done(uint64_t number, Duration at_most);

  // --- The end ---

  /// Ends all channels, and those that are added later. Returns at once.
  void leave_all();
  /// Ends all channels and waits for their threads.
  void close();

  /// The channels, in the order they were added. Complete after the join.
  [[nodiscard]] const std::vector<std::unique_ptr<Channel>>& channels() const { return channels_; }
  [[nodiscard]] uint32_t gradients() const { return state_.gradients(); }
  [[nodiscard]] uint32_t narrow_gradients() const { return state_.narrow_gradients(); }

 private:
  struct Entry {
    std::vector<Channel::Part> parts;  ///< Shape [channels that take part]; do not move.
    size_t parts_left = 0;             ///< Parts in flight.
  };

  // In a channel's thread.
  void on_phase(Channel& channel) override;
  void on_done(std::span<Channel::Part* const> parts) override;
  void on_gate_open(uint32_t priority) override;

  // @pre mutex_ is held.
  void note_end(size_t ended);
  void end(Channel& channel) const;
  [[nodiscard]] bool joins_are_over();
  ChannelThread& thread_for(const Channel& channel, uint32_t thread);

  std::mutex mutex_;
  std::condition_variable changed_;  ///< Parts are done, or a channel has joined or ended.
  std::unordered_map<uint64_t, Entry> entries_;  ///< Node-based: parts do not move.
  uint64_t next_number_ = 0;
  bool leaving_ = false;  ///< The caller has stopped the join.
  bool has_priorities_ = false;
  SendGate gate_;
  GroupState state_;
  std::shared_ptr<WorkerRecorder> recorder_;  ///< Null: there is none.
  std::vector<std::unique_ptr<Channel>> channels_;
  /// Shape [threads of the rank]: those that several channels share.
  std::vector<std::unique_ptr<ChannelThread>> threads_;
  /// Threads of one channel each, whose ports can only wait alone.
  std::vector<std::unique_ptr<ChannelThread>> single_threads_;
};

}  // namespace tributary::host
