// SPDX-License-Identifier: Apache-2.0
/// @file
/// The vocabulary of an all-reduce: its operation, its tensor types, its result and its status.
/// The client library and every worker protocol use these types.
///
/// Shapes:  A tensor is a span of float, int32 or 16-bit floats, from 1 element to 1 GB.
/// Threads: Plain values without shared state.
/// Errors:  Values, never exceptions: Status says what failed, Outcome::text why.
/// Tests:   tests/host/communicator_test.cc, tests/host/worker_errors_test.cc
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "host/formats/half_format.h"
#include "host/formats/number_format.h"

namespace tributary::host {

/// The sources (ranks) in a sum. Bit r of word r/64 stands for rank r.
using SourceSet = std::array<uint64_t, 4>;
[[nodiscard]] constexpr bool contains(const SourceSet& set, uint32_t rank) {
  return (set[rank / 64] >> (rank % 64) & 1) != 0;
}
/// Returns ranks 0 to world - 1.
[[nodiscard]] constexpr SourceSet ranks_below(uint32_t world) {
  SourceSet set{};
  for (uint32_t rank = 0; rank < world; rank++) set[rank / 64] |= uint64_t{1} << (rank % 64);
  return set;
}

enum class ReduceOp : uint8_t {
  kSum,
  kMean,  ///< Sum divided by the number of sources in it (Trio paper §5), block by block.
};

/// The encoding of float32 as the 32-bit integers that the aggregator adds.
enum class FloatFormat : uint8_t {
  kFixedScale,     ///< round(x * scale); a value too large makes kOverflow on every rank (ATP).
  kBlockExponent,  ///< A common power of two for each block, agreed one window ahead (SwitchML).
};

struct AllReduceOptions {
  ReduceOp op = ReduceOp::kSum;
  /// Contribute nothing and take the sum of the other ranks; see Transfer::receive_only. Not in an
  /// asynchronous job.
  bool receive_only = false;
  FloatFormat format = FloatFormat::kFixedScale;
  float scale = 1.0e8F;  ///< For kFixedScale. Source: ATP §3.8 (10^8).
  /// The rank that gets the result, below the world; not set: all ranks. All ranks must set the
  /// same owner for a tensor. The other ranks' tensors are only read. Not in an asynchronous job.
  std::optional<uint32_t> owner = {};
  /// 0 is most urgent; larger values are clamped to CommunicatorConfig::priorities - 1. All ranks
  /// must use the same value for a tensor.
  uint32_t priority = 0;
};

/// A tensor of 16-bit floats, given by their bits. It always travels as kBlockExponent, because no
/// fixed scale covers the range of these formats.
struct HalfTensor {
  std::span<uint16_t> bits;
  HalfType type = HalfType::kFloat16;
};

enum class Status : uint8_t {
  kOk,
  kOverflow,   ///< Some rank's value times scale does not fit; tensors are unspecified.
  kNotFinite,  ///< Some rank's tensor holds an infinity or a NaN; their blocks are NaN.
  /// The named ranks fell silent (job key `silence`), or did not join or contribute by the
  /// deadline.
  kPeerMissing,
  kPeerLeft,  ///< A rank left or restarted while this rank waited for it.
  /// The aggregator was stopped or removed the job, or it did not answer: by the deadline, for
  /// server_silent (CommunicatorConfig), or while its machine refused packets to its port.
  kAggregatorGone,
  kSessionLost,     ///< The aggregator was restarted or has ended this session.
  kDesynchronised,  ///< This rank lags behind the result cache; rejoin with fresh parameters.
  kMismatch,        ///< Ranks disagree about a tensor: length, type, scale, operation.
  kRefused,         ///< The aggregator refuses this rank (unknown job, rank taken, …).
  kClosed,          ///< close() was called.
};
/// Returns the status in lower case with underscores, as in "peer_missing".
[[nodiscard]] const char* to_string(Status status);

/// Elements that were summed without every source (straggler mitigation, Trio paper §5), or whose
/// sum does not have the precision of its format.
struct DegradedRange {
  uint64_t element_first;
  uint32_t element_count;
  /// Exactly the ranks whose values are in the sum; empty if the protocol does not know them.
  SourceSet sources;
  /// The number of ranks in the sum, if `sources` is empty. 0: no sum reached this rank, and none
  /// will.
  uint32_t contributors = 0;
  /// The exponent was agreed without some rank, and a rank's values lost precision to it: the
  /// format's guarantee does not hold (docs/number-formats.md).
  bool imprecise = false;
};

/// The pushes of other ranks that an asynchronous job added to a block between two results of it
/// that this rank received, over the blocks of one transfer.
struct Staleness {
  uint64_t pushes_sum = 0;  ///< Over all blocks: the mean is pushes_sum / Outcome::blocks.
  uint32_t pushes_max = 0;  ///< Most pushes of one block; counted up to 65,534.

  Staleness& operator+=(const Staleness& other) {
    pushes_sum += other.pushes_sum;
    pushes_max = std::max(pushes_max, other.pushes_max);
    return *this;
  }
};

/// The result of one all-reduce.
struct Outcome {
  Status status = Status::kOk;
  std::string text;                     ///< The cause, if not kOk.
  uint64_t blocks = 0;                  ///< Blocks (packets' worth) of this tensor.
  std::vector<DegradedRange> degraded;  ///< Ascending by element_first.
  Staleness staleness;                  ///< For an asynchronous job only.
  /// The floats of this rank's tensor, counted when they were converted to lanes.
  Underflow underflow;
  /// One line if the result is kOk but less precise than its user may expect: many elements
  /// underflowed, or blocks are imprecise. Set by Communicator::wait().
  std::string warning;
};

/// The progress of a rank's stream of tensors, next to the progress of the other ranks. In
/// positions: each carries a packet's worth of elements, and with kBlockExponent there is one more
/// for each exponent sent ahead. With several threads these are the first thread's values, because
/// it has a part of every tensor.
struct Progress {
  uint64_t submitted = 0;  ///< Positions that this rank has submitted, done or not.
  /// One past the highest position whose result was heard. Larger than `submitted` if the others
  /// have continued without this rank (straggler mitigation).
  uint64_t heard = 0;
};

}  // namespace tributary::host
