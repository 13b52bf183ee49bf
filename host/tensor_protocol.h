// SPDX-License-Identifier: Apache-2.0
/// @file
/// The interface between a worker's protocol and its driver. A protocol does no I/O and reads no
/// clock, so sockets drive it live, and the virtual network drives it in experiments.
///
/// Shapes:  A tensor is cut into blocks of gradients() elements; its last block holds the rest.
/// Units:   Bytes of UDP payload. Instants of a clock that never goes back.
/// Threads: A protocol is owned by one thread.
/// Errors:  A Transfer ends with a Status and one line of text (host/all_reduce.h). Events that a
///          packet can cause are counted and change nothing.
/// Memory:  The owner keeps a Transfer alive and in place until it is `done`.
/// Tests:   tests/host/trio_ml/worker_protocol_test.cc, tests/lab/cluster/worker_node_test.cc
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/endpoint.h"
#include "base/time.h"
#include "host/aggregator_list.h"
#include "host/all_reduce.h"
#include "host/formats/number_format.h"
#include "host/worker_counters.h"
#include "wire/trio_ml.h"

namespace tributary::host {

/// One all-reduce on its way through a protocol. The owner keeps it alive until `done`.
struct Transfer {
  // Set by the owner. Exactly one of the four describes the tensor.
  std::span<float> floats;
  std::span<int32_t> integers;
  HalfTensor halves;  ///< With a block exponent.
  /// The number of int32 elements of a tensor that has no storage. Blocks, heads, sizes and results
  /// are the same as with `integers`, but no lane is read or written, so experiments at scale need
  /// no tensors. See Outgoing::stored_bytes and Incoming::stored.
  uint64_t elided_elements = 0;
  /// Elements of the whole tensor if this is a part of it; 0: this is all of it. Ranks compare it
  /// to detect that they disagree.
  uint64_t tensor_elements = 0;
  /// The all-reduce that this is a part of, counted from 1 by its communicator; 0: not counted.
  uint32_t all_reduce = 0;
  /// Receive the sum of the other ranks and contribute nothing (Trio-ML only). For a rank that is
  /// behind and would be late anyway. The tensor is only written. A block that the others have not
  /// begun waits for them, so use it for positions below Progress::heard.
  bool receive_only = false;
  /// The rank that gets the result (Trio-ML only); see AllReduceOptions::owner.
  std::optional<uint32_t> owner = {};
  ReduceOp op = ReduceOp::kSum;
  uint32_t priority = 0;  ///< See AllReduceOptions::priority.
  wire::ElementFormat format = wire::ElementFormat::kInt32;
  float scale = 1.0F;  ///< For kFixedScale.

  // Set by the protocol.
  bool done = false;
  Outcome outcome;

  /// Elements of a block; 0: the protocol has not cut the tensor.
  [[nodiscard]] uint32_t block_elements() const { return block_elements_; }
  [[nodiscard]] uint64_t element_count() const {
    return floats.size() + integers.size() + halves.bits.size() + elided_elements;
  }

 private:
  friend class StreamWindow;
  uint32_t block_elements_ = 0;
  uint64_t position_first_ = 0;
  uint64_t lead_ = 0;  ///< Positions before the first gradients (kBlockExponent).
  uint64_t positions_left_ = 0;
  uint16_t gen_id_ = 0;
  std::vector<AgreedExponent> exponents_;  ///< By block (kBlockExponent).
};

/// A received packet.
struct Incoming {
  const Endpoint& from;
  /// The packet's bytes; only the head of an elided one.
  std::span<const std::byte> stored;
  uint32_t size_bytes = 0;  ///< On the wire, stored or not.
};

/// A packet to send.
struct Outgoing {
  uint32_t size_bytes = 0;    ///< On the wire; 0: nothing to send.
  uint32_t stored_bytes = 0;  ///< Bytes written: all, or the head of an elided packet.
  Endpoint to;
};

/// A driver repeats four steps:
///   1. on_packet() for each packet that has arrived;
///   2. on_time();
///   3. next_packet(), and send it, until there is nothing to send;
///   4. sleep until next_deadline() or the next packet.
/// A protocol may have one peer (an aggregator) or several (other workers, parameter servers), so
/// each Outgoing names its destination.
class TensorProtocol {
 public:
  enum class Phase : uint8_t { kJoining, kRunning, kEnded };

  TensorProtocol() = default;
  TensorProtocol(const TensorProtocol&) = delete;
  TensorProtocol& operator=(const TensorProtocol&) = delete;
  virtual ~TensorProtocol() = default;

  /// Queues a transfer. If the protocol has ended, the transfer is done at once with its status.
  virtual void submit(Transfer& transfer, Instant now) = 0;
  /// Sends leaves if the protocol has them, and ends all transfers with kClosed.
  virtual void leave(Instant now) = 0;
  /// Ends everything with this status, because the driver cannot continue.
  /// @param lost_aggregator The aggregator that the rank has lost, by its place from 1 on among
  ///                        those with a weight above 0; 0: none. The leaves tell it to the other
  ///                        ranks.
  virtual void fail(Status status, std::string text, uint32_t lost_aggregator) = 0;

  /// Returns true if packets from this sender are for this protocol. A driver that knows senders
  /// asks before on_packet(), and counts the others as foreign.
  [[nodiscard]] virtual bool accepts_from(const Endpoint& from) const = 0;
  /// Handles a packet. @return the time since the block was first sent, if the packet brought the
  /// block's result.
  virtual std::optional<Duration> on_packet(const Incoming& packet, Instant now) = 0;
  /// Records that the peer's machine said that nothing listens at the peer's port (ICMP port
  /// unreachable). Anybody can forge this message, so it counts only while the peer is silent.
  virtual void on_refused(Instant /*now*/) {}
  /// Records a refusal by one peer of a protocol with several peers, as on_refused() does.
  virtual void on_refused_by(const Endpoint& /*peer*/, Instant now) { on_refused(now); }
  /// Records that the peer has closed the connection over which this protocol reaches it. Nobody
  /// else can cause this. May be called more than once.
  virtual void on_closed() {}
  /// Holds back new packets (true) or lets them go (false). Repairs and control messages still go.
  virtual void hold(bool /*held*/) {}
  /// Lets at most `packets` new packets be in flight, if that is less than the window; at least 1.
  /// For a driver that controls congestion (host/trio_ml/congestion_window.h).
  virtual void limit_window(uint32_t /*packets*/) {}
  /// Batches new packets: holds them until the window admits the smaller of `packets` and a quarter
  /// of the window, or all that are left. 1 (default) disables batching. For a driver that sends a
  /// batch with one call and one wake-up of its peer.
  virtual void gather_packets(uint32_t /*packets*/) {}
  /// Tells whether there are new packets that the window admits, held back or not.
  [[nodiscard]] virtual bool has_new_packets() const { return false; }
  /// Queues overdue packets and checks deadlines.
  virtual void on_time(Instant now) = 0;
  /// Writes the next packet to send. @param out At least packet_bytes_max().
  [[nodiscard]] virtual Outgoing next_packet(std::span<std::byte> out, Instant now) = 0;
  /// Returns when on_time() is due.
  [[nodiscard]] virtual Instant next_deadline() const = 0;

  [[nodiscard]] virtual Phase phase() const = 0;
  /// Returns the reason for the end; kOk while the protocol runs.
  [[nodiscard]] virtual Status status() const = 0;
  [[nodiscard]] virtual const std::string& status_text() const = 0;
  /// Returns the aggregator for whose loss it ended, by its place in the job's list from 1 on, if
  /// fail() or another rank named one; 0: none.
  [[nodiscard]] virtual uint32_t lost_aggregator() const { return 0; }
  /// Returns true if no transfer is in flight.
  [[nodiscard]] virtual bool idle() const = 0;
  [[nodiscard]] virtual const CommunicatorCounters& counters() const = 0;

  // The agreed terms.
  [[nodiscard]] virtual uint32_t packet_bytes_max() const = 0;
  /// Elements of a block.
  [[nodiscard]] virtual uint32_t gradients() const = 0;
  /// Elements of a block with kBlockExponent16; 0: the protocol does not support that format.
  [[nodiscard]] virtual uint32_t narrow_gradients() const { return 0; }
  /// Blocks in flight, at most.
  [[nodiscard]] virtual uint32_t window() const = 0;
  /// The window in the configuration of the aggregator's job; 0: not told.
  [[nodiscard]] virtual uint32_t job_window() const { return 0; }
  /// Sessions of each rank, this one included: one for each of its threads.
  [[nodiscard]] virtual uint32_t channels() const { return 1; }
  /// 0: no mitigation.
  [[nodiscard]] virtual Duration straggler_timeout() const { return Duration(); }
  /// Multicast group of the results; not set: unicast.
  [[nodiscard]] virtual const Endpoint& group() const { return kNobody; }
  /// Returns the aggregator's reason to refuse the join; kNone: it did not.
  [[nodiscard]] virtual wire::Reason refusal() const { return wire::Reason::kNone; }
  /// Returns the aggregators to join instead, if a directory refused the join for its list.
  [[nodiscard]] virtual const std::vector<Aggregator>& redirection() const { return kNone; }
  /// Names the session that it joined; 0: none yet, or the protocol has no sessions.
  [[nodiscard]] virtual uint64_t session() const { return 0; }
  /// The progress of this rank's stream and of the others'. Zeros if the others never continue
  /// without this rank.
  [[nodiscard]] virtual Progress progress() const { return {}; }
  /// Returns the ranks for which the aggregator's blocks do not wait, as far as it has said so.
  [[nodiscard]] virtual SourceSet permanent_stragglers() const { return {}; }

 private:
  static constexpr Endpoint kNobody{};
  inline static const std::vector<Aggregator> kNone{};
};

/// Makes the protocol of a new process.
/// @param nonce Not 0; new for each process. Live: of the kernel's entropy.
using ProtocolFactory = std::function<std::unique_ptr<TensorProtocol>(uint64_t nonce, Instant now)>;

}  // namespace tributary::host
