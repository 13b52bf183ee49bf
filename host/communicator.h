// SPDX-License-Identifier: Apache-2.0
/// @file
/// The client library: all-reduce in place, through a Tributary aggregator or any worker protocol.
///
/// Model:   A rank has a channel to each aggregator of the job, times its threads. A channel has a
///          job_id, a session and a port. Tensors are cut into parts of whole blocks, and each part
///          goes over one channel (plan/part_cutter.h).
/// Shapes:  A tensor has 1 element to 1 GB. Ranks call with equal lengths and types, in one order.
/// Threads: Any thread may call a Communicator; calls are queued in the order they take its lock.
/// Errors:  Outcome::status with one line of text, never an exception. After any status but kOk,
///          kOverflow and kNotFinite the communicator is finished, and calls return that status.
/// Memory:  A tensor must stay alive and untouched until its Outcome is there.
/// Tests:   tests/host/communicator_test.cc, tests/host/sharded_communicator_test.cc
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/endpoint.h"
#include "base/result.h"
#include "base/time.h"
#include "host/all_reduce.h"
#include "host/worker_config.h"
#include "host/worker_counters.h"

namespace tributary::engine {
class Port;
}

namespace tributary::host {

class ChannelGroup;
class TensorProtocol;

/// One all-reduce in flight.
class Ticket {
 public:
  [[nodiscard]] uint64_t number() const { return number_; }

 private:
  friend class Communicator;
  explicit Ticket(uint64_t number) : number_(number) {}
  uint64_t number_;
};

class Communicator {
 public:
  /// Joins the job over a new port for each thread (config.local tells which), and waits until all
  /// ranks have joined.
  /// Blocks at most config.deadline.
  /// @param status Receives the protocol's status if the protocol failed; may be null.
  static Result<std::unique_ptr<Communicator>> join(const CommunicatorConfig& config,
                                                    Status* status = nullptr);

  /// Opens the port of a channel, counted from 0, to an aggregator. The channel's thread drives its
  /// queue 0.
  using PortOpener = std::function<Result<std::unique_ptr<engine::Port>>(uint32_t channel,
                                                                         const Endpoint& server)>;
  /// Joins over ports from `open_port`, called as each channel joins.
  static Result<std::unique_ptr<Communicator>> join(const CommunicatorConfig& config,
                                                    const PortOpener& open_port,
                                                    Status* status = nullptr);

  /// Joins with one thread over one port. Refuses a directory, whose list needs further ports.
  static Result<std::unique_ptr<Communicator>> join(const CommunicatorConfig& config,
                                                    std::unique_ptr<engine::Port> port,
                                                    Status* status = nullptr);

  /// Drives any worker protocol (host/tensor_protocol.h) over queue 0 of the port until close().
  /// Waits until the protocol has joined, if it has to join.
  static Result<std::unique_ptr<Communicator>> drive(std::unique_ptr<TensorProtocol> protocol,
                                                     std::unique_ptr<engine::Port> port,
                                                     Status* status = nullptr);

  /// Calls close().
  ~Communicator();
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  /// Replaces `tensor` by its sum or mean over all ranks. Returns when that is done.
  Outcome all_reduce(std::span<float> tensor, const AllReduceOptions& options = {});
  Outcome all_reduce(std::span<int32_t> tensor, ReduceOp op = ReduceOp::kSum);
  Outcome all_reduce(HalfTensor tensor, ReduceOp op = ReduceOp::kSum);

  /// Starts an all-reduce and returns at once. Several may be in flight; each needs one wait().
  Ticket all_reduce_async(std::span<float> tensor, const AllReduceOptions& options = {});
  /// @param priority, owner See AllReduceOptions.
  Ticket all_reduce_async(std::span<int32_t> tensor, ReduceOp op = ReduceOp::kSum,
                          bool receive_only = false, uint32_t priority = 0,
                          std::optional<uint32_t> owner = {});
  Ticket all_reduce_async(HalfTensor tensor, ReduceOp op = ReduceOp::kSum,
                          bool receive_only = false, uint32_t priority = 0,
                          std::optional<uint32_t> owner = {});

  /// Blocks until the all-reduce is done or the time has passed. May be called any number of times.
  /// @return true if it is done, or if wait() has returned its outcome.
  [[nodiscard]] bool wait_until_done(Ticket ticket, Duration at_most);
  /// Blocks until the all-reduce is done. Call it once for each ticket.
  Outcome wait(Ticket ticket);

  /// Sends leaves to the aggregator and ends all transfers with kClosed.
  void close();

  [[nodiscard]] CommunicatorCounters counters() const;
  /// Up to date within one burst of packets. May miss tensors that were submitted and not awaited.
  [[nodiscard]] Progress progress() const;
  /// Returns the ranks for which some aggregator's blocks do not wait: permanent stragglers (Trio
  /// paper §5). Updated whenever an operation ends.
  [[nodiscard]] SourceSet permanent_stragglers() const;
  /// Returns the recorder of CommunicatorConfig::record_folder; null: there is none.
  [[nodiscard]] std::shared_ptr<const WorkerRecorder> recorder() const;
  // The terms agreed with the aggregator.
  [[nodiscard]] uint32_t window() const;                ///< First channel's window, in packets.
  [[nodiscard]] std::vector<uint32_t> windows() const;  ///< Each channel's window, in packets.
  [[nodiscard]] uint32_t gradients() const;
  /// Returns the elements of a packet with 16-bit gradients; 0: an aggregator takes none.
  [[nodiscard]] uint32_t narrow_gradients() const;
  /// Returns the bits of a float32 on the wire with FloatFormat::kBlockExponent, and of a float16
  /// or bfloat16.
  [[nodiscard]] uint32_t float_wire_bits() const;
  [[nodiscard]] uint32_t half_wire_bits() const;
  /// Returns the number of channels: worker threads times aggregators.
  [[nodiscard]] uint32_t threads() const;
  /// 0: no mitigation.
  [[nodiscard]] Duration straggler_timeout() const;

 private:
  Communicator(std::unique_ptr<ChannelGroup> group, WireBits wire);
  std::unique_ptr<ChannelGroup> group_;
  const WireBits wire_;
};

}  // namespace tributary::host
