// SPDX-License-Identifier: Apache-2.0
/// @file
/// The channels of one rank as a state machine without threads and sockets: which end of a channel
/// ends them all, how tensors are cut, and how the outcomes of parts become one.
///
/// Model:   The first channel that ends ends the others with its reason. If it has lost its
///          aggregator, the others' leaves name that aggregator to the other ranks.
/// Threads: Guarded by its owner: ChannelGroup live, lab/faults/sharded_rank.h in virtual time.
/// Errors:  failure(), and the status of merged outcomes.
/// Tests:   tests/host/group_state_test.cc
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "host/all_reduce.h"
#include "host/tensor_parts.h"
#include "host/worker_errors.h"
#include "plan/part_cutter.h"
#include "wire/parameter_share.h"

namespace tributary::host {

/// The other end of a channel, for texts.
struct ChannelPlace {
  std::string text = {};    ///< Empty if there is one channel only.
  uint32_t aggregator = 0;  ///< Its place in the job's list, from 1 on; 0: there is no list.
  uint32_t priority = 0;    ///< Priority of its tensors; see AllReduceOptions::priority.
  uint32_t thread = 0;      ///< Index of the rank's thread that drives the channel.
};

class GroupState {
 public:
  // --- Channels, numbered from 0 in the order of add() ---

  void add(ChannelPlace place) { places_.push_back(std::move(place)); }
  [[nodiscard]] const ChannelPlace& place(size_t channel) const { return places_[channel]; }
  /// Records that a channel has ended. @return the channels that the owner has to end by
  /// TensorProtocol::fail() with failure(): all others after the first end, none after later ones.
  [[nodiscard]] std::vector<size_t> note_end(size_t channel, EndReason reason);
  /// Returns the reason for the first end. It names the aggregator that this rank or another one
  /// has lost, for the other ranks.
  [[nodiscard]] const std::optional<EndReason>& failure() const { return failure_; }

  // --- Tensors ---

  /// Sets how tensors are cut. @param weights One for each channel. @pre All are added.
  /// @param narrow_gradients  Elements of a block with kBlockExponent16; 0: not supported.
  void set_cut(uint32_t gradients, uint32_t narrow_gradients, const std::vector<uint32_t>& weights);
  /// Gives each channel the same elements of every tensor, because its aggregator keeps their
  /// values (asynchronous training). @param shares Shape [channels]. @pre set_cut()
  void fix_shares(std::vector<wire::ParameterShare> shares);
  [[nodiscard]] uint32_t gradients() const { return gradients_; }
  [[nodiscard]] uint32_t narrow_gradients() const { return narrow_gradients_; }
  /// Returns the parts of the next tensor. Part::aggregator is a channel. @pre set_cut()
  [[nodiscard]] std::vector<plan::Part> cut(const Transfer& transfer);
  /// Returns the outcome of a tensor. Takes those of its parts, which are in ascending order.
  /// @pre Every part is done.
  [[nodiscard]] Outcome merge(std::span<TensorPart> parts) const;

 private:
  [[nodiscard]] std::vector<plan::Part> cut_by_shares(uint64_t element_count) const;

  std::vector<ChannelPlace> places_;  ///< Shape [channels].
  std::optional<EndReason> failure_;
  uint32_t gradients_ = 1;
  uint32_t narrow_gradients_ = 0;
  std::vector<plan::PartCutter> cutters_;     ///< By priority; choose a channel for each part.
  std::vector<wire::ParameterShare> shares_;  ///< Shape [channels]; empty: not fixed.
};

}  // namespace tributary::host
