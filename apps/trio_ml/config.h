// SPDX-License-Identifier: Apache-2.0
/// @file
/// The configuration of a job: the settings of the Trio paper's job record (Figure 17), and those
/// that a server outside a router needs.
///
/// Units:  Counts and durations as named. A job takes memory_bytes(), whatever its traffic.
/// Errors: check() names the key, the value and the allowed values.
/// Tests:  tests/apps/trio_ml/config_test.cc
#pragma once

#include <cstdint>

#include "auth/secret.h"
#include "base/endpoint.h"
#include "base/result.h"
#include "base/time.h"
#include "wire/trio_ml.h"

namespace tributary::trio_ml {

/// Limit on block_cnt_max. The paper's field has 12 bits (Figure 17) and its window up to 65,535
/// packets (§5); this is the larger of the two.
inline constexpr uint32_t kBlockCntLimit = 65536;
/// Limit on the gradients of a block: grad_cnt has 12 bits (Figure 8).
inline constexpr uint32_t kBlockGradLimit = 4095;
/// Limit on the results kept for each place of the window.
inline constexpr uint32_t kHistoryLimit = 64;
/// Limit on the timer threads of a job.
inline constexpr uint32_t kTimerThreadsLimit = 1000;

/// The least and the largest value of a time.
struct DurationRange {
  Duration min;
  Duration max;
};
inline constexpr DurationRange kTimeoutRange{milliseconds(1), seconds(60)};
inline constexpr DurationRange kPermanentRange{milliseconds(10), seconds(3600)};
inline constexpr DurationRange kSilentRange{milliseconds(3500), seconds(86'400)};

/// Limit on the parameters of an asynchronous job: a message states their number in 32 bits.
inline constexpr uint64_t kParametersLimit = UINT32_MAX;
/// The fewest gradients of an asynchronous job's blocks, unless its block_grad_max is lower: each
/// block has records of its own. Assumed: a packet of 1500 bytes holds more.
inline constexpr uint32_t kParameterBlockMin = 256;

/// The clients that a job serves.
enum class Clients : uint8_t {
  kAny,       ///< Plain packets while no session runs; sessions while no plain packets come.
  kPlain,     ///< Plain packets only: joins are refused.
  kSessions,  ///< Sessions only: plain packets are refused.
};

/// The effect of a member that is silent for JobConfig::silent_after. With mitigation, kEnd also
/// covers a member that leaves; see JobConfig::ends_at_leave().
enum class Silence : uint8_t {
  kAuto,     ///< See JobConfig::on_silence().
  kWait,     ///< None: the others wait up to their own deadlines.
  kExclude,  ///< The others go on without it, until its next contribution.
  kEnd,      ///< The others get a notice, and those that wait for it end.
};
/// Returns the key's value, as in "exclude".
[[nodiscard]] const char* to_string(Silence silence);

struct JobConfig {
  uint8_t id = 1;
  uint32_t sources = 1;            ///< Direct senders: src_id 0 to sources - 1; at most 256.
  uint32_t block_cnt_max = 4096;   ///< Window: most blocks in progress; a power of two.
  uint32_t block_grad_max = 2048;  ///< Most gradients of a block.
  uint32_t history = 1;            ///< Result cache: results kept for each place of the window.
  /// The places of a large window share buffers, so that the job takes less memory. A source that
  /// is a whole window ahead may then be refused, and retransmits. Off: every place has its own
  /// buffers, for sources that never retransmit.
  bool shared_buffers = true;
  bool mitigation = false;              ///< Straggler mitigation (Trio paper §5).
  Duration timeout = milliseconds(10);  ///< block_exp; an idle block ends within twice this time.
  uint32_t timer_threads = 10;          ///< N: each visits 1/N of the blocks.
  Duration permanent_after = milliseconds(1000);  ///< Period of the infrequent timer.
  Duration silent_after =
      wire::kSilentAfter;  ///< A member that sends nothing for this long is gone.
  Silence silence = Silence::kAuto;
  /// Bytes of payload that the aggregator's port holds while its core is busy; 0: enough for every
  /// window. Sessions get windows for which all sources' packets in flight fit.
  uint32_t room_bytes = 0;
  /// Most replies to one source on each core. A source that catches up asks for results at the
  /// speed of its link; a source that asks faster is an attacker. The default is assumed.
  uint64_t reply_bits_per_s = 10'000'000'000;
  /// UDP ports of the aggregator: one for each core if its port steers by them; a power of two.
  uint32_t ports = 1;
  /// Worker threads of a rank. Each thread has a channel: a separate job with the same settings,
  /// its own session and its own memory; see channel_of().
  uint32_t channels = 1;
  Clients clients = Clients::kAny;
  auth::JobAuth auth = {};  ///< With a mode other than `none` the job serves sessions only.
  /// Identifies this aggregator among those that share the secret. A restart does not change it.
  uint64_t aggregator_id = 0;
  bool reports = false;    ///< Asks workers for their own counts; see member_report.h.
  bool directory = false;  ///< Hands out the job's aggregators; see aggregator_table.h.
  bool pin = false;        ///< A source keeps its first address; others are refused.
  Endpoint group{};        ///< Multicast group for results; not set: unicast to every source.
  /// Asynchronous training (BytePS §5): the aggregator keeps the parameters, adds each push at once
  /// and answers its sender alone. See parameter_store.h.
  bool asynchronous = false;
  uint64_t parameters = 0;  ///< Elements that an asynchronous job keeps; else 0.

  // Hierarchical aggregation (Trio paper §4): to the aggregator `upstream` this aggregator is
  // source `upstream_source` of the same job.
  Endpoint upstream{};
  uint32_t upstream_source = 0;
  /// Most gradients that a packet to `upstream` carries without fragments; 0: no limit. Sources may
  /// be nearer, and request more.
  uint32_t upstream_grad_max = 0;
  bool sources_are_aggregators = false;  ///< Sources are lower aggregators; sums their src_cnt.
  /// Every lower aggregator numbers its ranks from 0, so results cannot name the missing ranks. For
  /// jobs of more than kSourcesMax workers in the lab.
  bool ranks_overlap = false;
  uint32_t rank_base = 0;  ///< The rank of this aggregator's source 0.
  uint32_t world = 0;      ///< Ranks in the whole tree; 0: `sources`.

  [[nodiscard]] bool takes_plain_packets() const {
    return clients != Clients::kSessions && auth.mode == auth::Mode::kNone && !asynchronous;
  }
  /// Tells whether blocks complete without a source that is late.
  [[nodiscard]] bool completes_without_late() const { return mitigation || asynchronous; }
  /// Returns the effect of a silent member. By default the others go on if blocks complete without
  /// late sources, and end otherwise.
  [[nodiscard]] Silence on_silence() const {
    if (silence != Silence::kAuto) return silence;
    return completes_without_late() ? Silence::kExclude : Silence::kEnd;
  }
  /// Tells whether members that wait for a member that has left get a notice and end.
  [[nodiscard]] bool ends_at_leave() const {
    return !completes_without_late() || on_silence() == Silence::kEnd;
  }
  /// Tells whether silence itself excludes a source, beside the job's straggler mitigation.
  [[nodiscard]] bool excludes_silent() const { return silence == Silence::kExclude; }
  [[nodiscard]] uint32_t ranks() const { return world == 0 ? sources : world; }

  bool operator==(const JobConfig&) const = default;
};

/// Returns the job that serves one channel. Its id and its group's port are `channel` higher than
/// the job's. Its room_bytes is its share of the job's. Channel 0 keeps the id and the channel
/// count.
[[nodiscard]] JobConfig channel_of(const JobConfig& config, uint32_t channel);

/// Checks a configuration. @return an Error for the first value that is not allowed.
[[nodiscard]] Result<void> check(const JobConfig& config);

/// Returns the fewest gradients for which the workers of an asynchronous job may ask.
[[nodiscard]] uint32_t gradients_min(const JobConfig& config);

/// Returns the number of aggregation buffers of a job on one of `shard_count` cores.
[[nodiscard]] uint32_t buffer_count(const JobConfig& config, uint32_t shard_count);

/// Returns the bytes of shared memory that a job takes on one of `shard_count` cores: buffers,
/// block records, result cache. With history 1, shared buffers and blocks of at least 1024
/// gradients this is at most the size of 2 * block_cnt_max buffers.
[[nodiscard]] uint64_t memory_bytes(const JobConfig& config, uint32_t shard_count);

}  // namespace tributary::trio_ml
