// SPDX-License-Identifier: Apache-2.0
/// @file
/// The client library: all-reduce through a Tributary aggregator, in place, over a UDP socket for
/// each worker thread. By drive() through whatever another worker's protocol talks to.
///
/// Model:   A rank has one or more threads, each with a channel: a job_id, a session and a port of
///          its own. A tensor is cut into as many parts of whole blocks, part c goes over channel
///          c, and an all-reduce ends when all parts have; the first channel that fails ends all.
/// Shapes:  A tensor is a span of float or int32 of any length from 1 element to 1 GB. Every rank
///          calls all_reduce with the same lengths, types and order.
/// Threads: A Communicator may be used from several threads; calls are queued in the order in which
///          they take its lock. The packet work is done by the threads inside.
/// Errors:  Values, never exceptions: Outcome::status with one line of text that names the cause
///          (which rank, which aggregator, since when). After any status but kOk, kOverflow and
///          kNotFinite the communicator is finished: later calls return the same status at once.
/// Memory:  A tensor must stay alive and untouched until its Outcome is there.
/// Source:  Trio paper §4, §5; number formats: ATP §3.8 (fixed scale), SwitchML §4.6 (block
///          exponent).
/// Tests:   tests/host/
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/endpoint.h"
#include "base/result.h"
#include "base/time.h"
#include "host/half_format.h"

namespace tributary::engine {
class Port;
}

namespace tributary::host {

class TensorProtocol;

/// Which sources (ranks) a sum holds; bit r of word r/64 is rank r.
using SourceSet = std::array<uint64_t, 4>;
[[nodiscard]] constexpr bool contains(const SourceSet& set, uint32_t rank) {
  return (set[rank / 64] >> (rank % 64) & 1) != 0;
}

enum class ReduceOp : uint8_t {
  kSum,
  kMean,  ///< Sum divided by the number of sources in it (Trio paper §5), block by block.
};

/// How float32 travels as the 32-bit integers that the aggregator adds.
enum class FloatFormat : uint8_t {
  kFixedScale,     ///< round(x * scale); a value too large makes kOverflow on every rank (ATP).
  kBlockExponent,  ///< A common power of two for each block, agreed one window ahead (SwitchML).
};

enum class Status : uint8_t {
  kOk,
  kOverflow,        ///< Some rank's value times scale does not fit; tensors are unspecified.
  kNotFinite,       ///< Some rank's tensor holds an infinity or a NaN; tensors are unspecified.
  kPeerMissing,     ///< Deadline over: the named ranks have not contributed.
  kPeerLeft,        ///< A rank said good-bye or was restarted while this rank waits for it.
  kAggregatorGone,  ///< Deadline over without any answer from the aggregator.
  kSessionLost,     ///< The aggregator was restarted or has ended this session.
  kDesynchronised,  ///< This rank lags behind the result cache; rejoin with fresh parameters.
  kMismatch,        ///< Ranks disagree about a tensor: length, type, scale, operation.
  kRefused,         ///< The aggregator does not want this rank (unknown job, rank taken, …).
  kClosed,          ///< close() was called.
};
[[nodiscard]] const char* to_string(Status status);

/// Blocks that were summed without every source (straggler mitigation, Trio paper §5).
struct DegradedRange {
  uint64_t element_first;
  uint32_t element_count;
  /// Exactly the ranks whose values are in the sum; none where nobody can tell.
  SourceSet sources;
  /// Where nobody can tell, how many they are; 0: no sum has reached this rank, nor ever will.
  uint32_t contributors = 0;
};

struct Outcome {
  Status status = Status::kOk;
  std::string text;                     ///< Why, if not kOk.
  uint64_t blocks = 0;                  ///< Blocks (packets' worth) of this tensor.
  std::vector<DegradedRange> degraded;  ///< Ascending by element_first.
};

struct CommunicatorConfig {
  Endpoint server;
  uint8_t job_id = 1;
  uint32_t rank = 0;  ///< 0 … world-1.
  /// src_id at this worker's aggregator; not set: the rank. Differs below a tree of aggregators.
  std::optional<uint32_t> source;
  uint32_t world = 1;  ///< All ranks of the job, 1 … 256.
  /// Elements a packet; 352 fits an MTU of 1500 with every header. 0: as many as pay, by the path's
  /// MTU and the aggregator's limit. The least that any rank wants holds for all.
  uint32_t gradients = 352;
  /// What the aggregator does not allow is lowered, not refused. Set along with gradients = 0.
  bool gradients_flexible = false;
  /// Packets in flight; the aggregator may lower it. 0: as many as the aggregator's socket can hold
  /// of all ranks. The least that any rank wants holds for all.
  uint32_t window = 256;
  /// Worker threads, 1 … 16: this rank joins so many jobs, from job_id on, and each thread reduces
  /// its part of every tensor of many blocks. The aggregator may lower it (a job's `channels`); the
  /// least that any rank wants holds for all. The window is each thread's.
  uint32_t threads = 1;
  Duration deadline = seconds(60);  ///< Longest wait for a peer, the aggregator, or the join.
  /// Repair of losses. Off only in experiments on what happens without: then a lost packet is not
  /// asked about, and ends at the deadline or as a straggler's.
  bool repair = true;
};

/// A tensor of 16-bit floats, as their bits. They travel as kBlockExponent whatever the options
/// say: no fixed scale reaches from one end of these formats to the other.
struct HalfTensor {
  std::span<uint16_t> bits;
  HalfType type = HalfType::kFloat16;
};

struct AllReduceOptions {
  ReduceOp op = ReduceOp::kSum;
  /// Contribute nothing and take the sum of the other ranks; see Transfer::receive_only.
  bool receive_only = false;
  FloatFormat format = FloatFormat::kFixedScale;
  float scale = 1.0e8F;  ///< For kFixedScale. Source: ATP §3.8 (10^8).
};

/// How far a rank's stream of tensors has come, and how far others have. In positions: a packet's
/// worth of elements each, and with kBlockExponent one more for each exponent that travels ahead.
/// Of several threads, the first one's, which has a part of every tensor.
struct Progress {
  uint64_t submitted = 0;  ///< Positions of what this rank has submitted, done or not.
  /// One past the highest position of which a result was heard. Above `submitted` when the others
  /// have gone on without this rank (straggler mitigation).
  uint64_t heard = 0;
};

/// What a communicator has done so far, all threads together.
struct CommunicatorCounters {
  uint64_t packets_sent = 0;
  uint64_t packets_received = 0;
  uint64_t retransmitted = 0;  ///< Contributions sent again.
  uint64_t probes = 0;         ///< Header-only questions about a block.
  uint64_t blocks = 0;         ///< Results taken.
  uint64_t degraded_blocks = 0;
  uint64_t duplicate_results = 0;
  uint64_t invalid_packets = 0;  ///< Malformed, foreign or of another session; ignored.

  /// For who has several protocols: every count is added up.
  CommunicatorCounters& operator+=(const CommunicatorCounters& more) {
    packets_sent += more.packets_sent;
    packets_received += more.packets_received;
    retransmitted += more.retransmitted;
    probes += more.probes;
    blocks += more.blocks;
    degraded_blocks += more.degraded_blocks;
    duplicate_results += more.duplicate_results;
    invalid_packets += more.invalid_packets;
    return *this;
  }
};

/// One all-reduce on its way.
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
  /// Joins the job over a new UDP socket for each thread and waits until all ranks have. Blocks at
  /// most config.deadline.
  /// @param status Receives the protocol's status when that is what failed; may be null.
  static Result<std::unique_ptr<Communicator>> join(const CommunicatorConfig& config,
                                                    Status* status = nullptr);

  /// Opens the port of a channel, counted from 0. Its thread drives queue 0 of it.
  using PortOpener = std::function<Result<std::unique_ptr<engine::Port>>(uint32_t channel)>;
  /// The same over ports of the caller's (impaired ones, …), opened when a channel joins.
  static Result<std::unique_ptr<Communicator>> join(const CommunicatorConfig& config,
                                                    const PortOpener& open_port,
                                                    Status* status = nullptr);

  /// The same over one port, for one thread.
  static Result<std::unique_ptr<Communicator>> join(const CommunicatorConfig& config,
                                                    std::unique_ptr<engine::Port> port,
                                                    Status* status = nullptr);

  /// The same for any worker's protocol (host/tensor_protocol.h): drives it over queue 0 of the
  /// port until close(). Waits until it has joined, where it has to.
  static Result<std::unique_ptr<Communicator>> drive(std::unique_ptr<TensorProtocol> protocol,
                                                     std::unique_ptr<engine::Port> port,
                                                     Status* status = nullptr);

  /// close()s.
  ~Communicator();
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  /// Replaces `tensor` by its sum or mean over all ranks; returns when that is done.
  Outcome all_reduce(std::span<float> tensor, const AllReduceOptions& options = {});
  Outcome all_reduce(std::span<int32_t> tensor, ReduceOp op = ReduceOp::kSum);
  Outcome all_reduce(HalfTensor tensor, ReduceOp op = ReduceOp::kSum);

  /// The same without waiting. Several may be on their way; each needs one wait().
  Ticket all_reduce_async(std::span<float> tensor, const AllReduceOptions& options = {});
  Ticket all_reduce_async(std::span<int32_t> tensor, ReduceOp op = ReduceOp::kSum,
                          bool receive_only = false);
  Ticket all_reduce_async(HalfTensor tensor, ReduceOp op = ReduceOp::kSum,
                          bool receive_only = false);

  /// Blocks until the all-reduce is done or the time is over. @return whether it is done, or was
  /// waited for already. As often as one likes.
  [[nodiscard]] bool wait_until_done(Ticket ticket, Duration at_most);
  /// Blocks until the all-reduce is done. Once for each ticket.
  Outcome wait(Ticket ticket);

  /// Tells the aggregator good-bye and ends what is on its way with kClosed.
  void close();

  [[nodiscard]] CommunicatorCounters counters() const;
  /// Up to date within a packet burst; what was submitted and not waited for may be missing.
  [[nodiscard]] Progress progress() const;
  /// What was agreed with the aggregator.
  [[nodiscard]] uint32_t window() const;
  [[nodiscard]] uint32_t gradients() const;
  [[nodiscard]] uint32_t threads() const;
  /// 0: no mitigation.
  [[nodiscard]] Duration straggler_timeout() const;

 private:
  struct Impl;
  explicit Communicator(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace tributary::host
