// SPDX-License-Identifier: Apache-2.0
/// @file
/// Several protocols that are one to their driver: the common part of ShardedProtocol and
/// PrioritisedProtocol, which differ in the member that takes a tensor and the one that sends next.
///
/// Threads: One.
/// Errors:  The first member that ends, ends all; the text names it.
/// Memory:  The members.
/// Tests:   tests/lab/peers/sharded_protocol_test.cc, tests/lab/peers/prioritised_protocol_test.cc
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "host/tensor_protocol.h"

namespace tributary::lab {

class ProtocolGroup : public host::TensorProtocol {
 public:
  void leave(Instant now) final;
  void fail(host::Status status, std::string text, uint32_t lost_aggregator) final;
  void hold(bool held) final;
  /// Gives each member its part, in proportion to its window.
  void limit_window(uint32_t packets) final;
  [[nodiscard]] bool has_new_packets() const final;
  void on_time(Instant now) final;
  [[nodiscard]] Instant next_deadline() const final;

  [[nodiscard]] Phase phase() const final;
  [[nodiscard]] host::Status status() const final { return status_; }
  [[nodiscard]] const std::string& status_text() const final { return status_text_; }
  [[nodiscard]] bool idle() const final;
  /// Returns the progress of the member that is furthest behind the other workers'.
  [[nodiscard]] host::Progress progress() const final;
  [[nodiscard]] const host::CommunicatorCounters& counters() const final;
  [[nodiscard]] uint32_t packet_bytes_max() const final;
  [[nodiscard]] uint32_t gradients() const final;
  [[nodiscard]] uint32_t window() const final;

 protected:
  /// @param member_name Name of a member in texts: "server".
  explicit ProtocolGroup(const char* member_name) : member_name_(member_name) {}

  using Members = std::vector<std::unique_ptr<host::TensorProtocol>>;
  [[nodiscard]] const Members& members() const { return members_; }
  void add_member(std::unique_ptr<host::TensorProtocol> member);
  /// Ends all members after the first one has ended, and calls on_progress(). Call it when members
  /// have taken a packet.
  void note_progress();

 private:
  /// Called when transfers of members may be done.
  virtual void on_progress() {}

  const char* const member_name_;
  Members members_;
  host::Status status_ = host::Status::kOk;
  std::string status_text_;
  mutable host::CommunicatorCounters counters_;  ///< The sum, computed by counters().
};

}  // namespace tributary::lab
