// SPDX-License-Identifier: Apache-2.0
/// @file
/// What a job of the aggregator is told at configuration time: the job record's settings of the
/// Trio paper (Figure 17) plus what a server outside a router needs.
///
/// Units:  Counts and durations as named. A job's memory is memory_bytes() whatever its traffic.
/// Errors: check() names the key, the value and what is allowed.
/// Tests:  tests/apps/trio_ml/config_test.cc
#pragma once

#include <cstdint>

#include "base/endpoint.h"
#include "base/result.h"
#include "base/time.h"

namespace tributary::trio_ml {

/// Most blocks at once that a job may ask for. The paper's field has 12 bits (Figure 17) and its
/// window up to 65,535 packets (§5); we take the larger.
inline constexpr uint32_t kBlockCntLimit = 65536;
/// Most gradients a block: grad_cnt has 12 bits (Figure 8).
inline constexpr uint32_t kBlockGradLimit = 4095;
/// Most results kept for each place of the window.
inline constexpr uint32_t kHistoryLimit = 64;

struct JobConfig {
  uint8_t id = 1;
  uint32_t sources = 1;            ///< Direct senders: src_id 0 … sources-1; at most 256.
  uint32_t block_cnt_max = 4096;   ///< Window: blocks in progress; a power of two.
  uint32_t block_grad_max = 2048;  ///< Gradients a block, at most.
  uint32_t history = 1;            ///< Result cache: results kept for each place of the window.
  /// Places of a large window share a few buffers, so that the job takes no more memory than its
  /// buffers; a source that is a whole window ahead is refused then, and asks again. Off: every
  /// place has its own, for sources that never ask again.
  bool shared_buffers = true;
  bool mitigation = false;              ///< Straggler mitigation (Trio paper §5).
  Duration timeout = milliseconds(10);  ///< block_exp; an idle block ends at most 2x later.
  uint32_t timer_threads = 10;          ///< N: each visits 1/N of the blocks.
  Duration permanent_after = milliseconds(1000);  ///< Period of the infrequent timer.
  /// Payload that the aggregator's port holds while its core is busy; 0: enough for every window.
  /// Windows are lowered so that all sources' packets in flight fit.
  uint32_t room_bytes = 0;
  /// UDP ports of the aggregator, one for each core, if its port steers by them; a power of two.
  uint32_t ports = 1;
  /// Worker threads of a rank: each has a channel of the job, which is a job of its own with the
  /// same settings, its own session and memory; see channel_of().
  uint32_t channels = 1;
  bool pin = false;  ///< A source keeps its first address; others are refused.
  Endpoint group{};  ///< Multicast group for results; not set: unicast to every source.

  // Hierarchical aggregation (Trio paper §4): this aggregator is source `upstream_source` of the
  // same job at the aggregator `upstream`.
  Endpoint upstream{};
  uint32_t upstream_source = 0;
  bool sources_are_aggregators = false;  ///< Senders are lower aggregators: add up their src_cnt.
  uint32_t rank_base = 0;                ///< This aggregator's source 0 is rank rank_base …
  uint32_t world = 0;                    ///< … of so many ranks in the whole tree; 0: `sources`.

  [[nodiscard]] uint32_t ranks() const { return world == 0 ? sources : world; }
};

/// The job that is channel `channel` of a job: its id that many later, as is the port of its group,
/// and of what the port holds a share. Channel 0 has the id of the job and speaks for all.
[[nodiscard]] JobConfig channel_of(const JobConfig& config, uint32_t channel);

/// @return an Error for the first value that is not allowed.
[[nodiscard]] Result<void> check(const JobConfig& config);

/// Aggregation buffers that a job with this configuration gets on one of `shard_count` cores.
[[nodiscard]] uint32_t buffer_count(const JobConfig& config, uint32_t shard_count);

/// Shared memory one shard takes for the job, in bytes: buffers, block records, result cache. With
/// history 1, shared buffers and blocks of 1024 gradients or more it is at most twice block_cnt_max
/// buffers.
[[nodiscard]] uint64_t memory_bytes(const JobConfig& config, uint32_t shard_count);

}  // namespace tributary::trio_ml
