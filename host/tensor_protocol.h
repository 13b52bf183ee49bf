// SPDX-License-Identifier: Apache-2.0
/// @file
/// What every worker's protocol is to whoever drives it: all-reduces, packets and time in, packets
/// with their destinations and a deadline out. It does no I/O and reads no clock, so sockets drive
/// it live and the virtual network in experiments.
///
/// Model:   A driver's round: hand over what came (on_packet), say what time it is (on_time), take
///          what is to be sent until there is nothing left (next_packet), sleep until
///          next_deadline() or the next packet. A protocol may have one peer (an aggregator) or
///          several (other workers, parameter servers): each packet that leaves names where it
///          goes.
/// Shapes:  A tensor is cut into blocks of gradients() elements, its last one the rest.
/// Units:   Bytes are of UDP payload. Instants are of a clock that never goes back.
/// Threads: A protocol is owned by one thread.
/// Errors:  A Transfer ends with a Status and one line of text (host/communicator.h). What a packet
///          can cause is counted and changes nothing.
/// Memory:  The owner keeps a Transfer alive and in place until it is `done`. A protocol that needs
///          more per transfer keeps that itself.
/// Tests:   tests/host/worker_protocol_test.cc, tests/lab/cluster/worker_node_test.cc
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
#include "host/communicator.h"
#include "wire/trio_ml.h"

namespace tributary::host {

class WorkerProtocol;

/// One all-reduce on its way through a protocol. The owner keeps it alive until `done`.
struct Transfer {
  // Set by the owner.
  std::span<float> floats;      ///< Either this …
  std::span<int32_t> integers;  ///< … or this …
  HalfTensor halves;            ///< … or this, with kBlockExponent …
  /// … or this: so many elements of int32 that are nowhere. Blocks, heads, sizes and results are
  /// those of `integers`, but no lane is read or written, so that experiments at scale need no
  /// tensors; see Outgoing::stored_bytes and Incoming::stored.
  uint64_t elided_elements = 0;
  /// Elements of the tensor of which this is a part; 0: it is all of it. By this ranks notice that
  /// they disagree.
  uint64_t tensor_elements = 0;
  /// Takes the sum that the other ranks have made and adds nothing to it: the way of a rank that is
  /// behind and would be late anyway (Trio-ML only). Its tensor is only written. A block that the
  /// others have not begun waits for them, so this is for what lies below Progress::heard.
  bool receive_only = false;
  ReduceOp op = ReduceOp::kSum;
  wire::ElementFormat format = wire::ElementFormat::kInt32;
  float scale = 1.0F;  ///< For kFixedScale.

  // Set by the protocol.
  bool done = false;
  Outcome outcome;

  [[nodiscard]] uint64_t element_count() const {
    return floats.size() + integers.size() + halves.bits.size() + elided_elements;
  }

 private:
  friend class WorkerProtocol;
  uint64_t position_first_ = 0;
  uint64_t lead_ = 0;  ///< Positions before the first gradients (kBlockExponent).
  uint64_t positions_left_ = 0;
  uint16_t gen_id_ = 0;
  std::vector<int8_t> exponents_;  ///< Agreed, by block (kBlockExponent).
};

/// A packet that has come.
struct Incoming {
  const Endpoint& from;
  /// Its bytes; of an elided one the head alone is there.
  std::span<const std::byte> stored;
  uint32_t size_bytes = 0;  ///< As on the wire, stored or not.
};

/// A packet to be sent.
struct Outgoing {
  uint32_t size_bytes = 0;    ///< As on the wire; 0: there is nothing to send now.
  uint32_t stored_bytes = 0;  ///< How many were written: all, or the head of an elided one.
  Endpoint to;
};

class TensorProtocol {
 public:
  enum class Phase : uint8_t { kJoining, kRunning, kEnded };

  TensorProtocol() = default;
  TensorProtocol(const TensorProtocol&) = delete;
  TensorProtocol& operator=(const TensorProtocol&) = delete;
  virtual ~TensorProtocol() = default;

  /// Queues a transfer. If the protocol has ended, it is done at once with that status.
  virtual void submit(Transfer& transfer, Instant now) = 0;
  /// Says good-bye, where the protocol has one; what is on its way ends with kClosed.
  virtual void leave(Instant now) = 0;
  /// The driver cannot go on: ends everything with this status.
  virtual void fail(Status status, std::string text) = 0;

  /// Whether packets from there are for this protocol. A driver that knows senders asks before
  /// on_packet() and counts the others as foreign.
  [[nodiscard]] virtual bool hears(const Endpoint& from) const = 0;
  /// @return if the packet brought the result of a block: how long ago that was first sent.
  virtual std::optional<Duration> on_packet(const Incoming& packet, Instant now) = 0;
  /// Time passes: what is overdue is queued again, deadlines are checked.
  virtual void on_time(Instant now) = 0;
  /// Writes the next packet to send. @param out At least packet_bytes_max().
  [[nodiscard]] virtual Outgoing next_packet(std::span<std::byte> out, Instant now) = 0;
  /// When on_time() has to be called again.
  [[nodiscard]] virtual Instant next_deadline() const = 0;

  [[nodiscard]] virtual Phase phase() const = 0;
  /// Why the protocol has ended; kOk while it has not.
  [[nodiscard]] virtual Status status() const = 0;
  [[nodiscard]] virtual const std::string& status_text() const = 0;
  /// No transfer is on its way.
  [[nodiscard]] virtual bool idle() const = 0;
  [[nodiscard]] virtual const CommunicatorCounters& counters() const = 0;

  // What was agreed.
  [[nodiscard]] virtual uint32_t packet_bytes_max() const = 0;
  /// Elements of a block.
  [[nodiscard]] virtual uint32_t gradients() const = 0;
  /// Blocks in flight, at most.
  [[nodiscard]] virtual uint32_t window() const = 0;
  /// Sessions that each rank has at once, this one included: one for each of its threads.
  [[nodiscard]] virtual uint32_t channels() const { return 1; }
  /// 0: no mitigation.
  [[nodiscard]] virtual Duration straggler_timeout() const { return Duration(); }
  /// Multicast group of the results; not set: unicast.
  [[nodiscard]] virtual const Endpoint& group() const { return kNobody; }
  /// The session that it has joined; 0: none yet, or the protocol has none.
  [[nodiscard]] virtual uint32_t session() const { return 0; }
  /// How far this rank's stream and the others' have come. Zeros where nobody goes on without it.
  [[nodiscard]] virtual Progress progress() const { return {}; }

 private:
  static constexpr Endpoint kNobody{};
};

/// Makes what a new process speaks. @param nonce Not 0; new for each process.
using ProtocolFactory = std::function<std::unique_ptr<TensorProtocol>(uint32_t nonce, Instant now)>;

}  // namespace tributary::host
