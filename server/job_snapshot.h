// SPDX-License-Identifier: Apache-2.0
/// @file
/// The state of a job for people: its sources, and the blocks that wait longest.
///
/// Model:   A core copies its part into a JobView between two bursts. All memory is taken before,
///          and a visit reads at most kPlacesPerVisit places and makes about kComparisonsPerVisit
///          comparisons, so it costs about a burst, whatever sources send. merge() then combines
///          the views of all cores in the caller's thread.
/// Threads: read() and read_blocks() run in the core's thread, everything else in the caller's.
/// Tests:   tests/server/job_snapshot_test.cc
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "apps/trio_ml/job.h"
#include "apps/trio_ml/session/member_report.h"

namespace tributary::server {

/// Places of a window that one visit of a core reads.
inline constexpr uint32_t kPlacesPerVisit = 1024;
/// Comparisons of a block with the oldest one that lacks a source. A visit ends after the 64 places
/// in which it reaches this number: with 256 sources it makes at most 64 * 256 more. Assumed: 1 ns
/// each.
inline constexpr uint32_t kComparisonsPerVisit = 16'384;
/// The longest-waiting blocks that a core reports for each job.
inline constexpr uint32_t kOldestBlocks = 64;
/// An older report of a worker says nothing about the present. Assumed: two of three were lost.
inline constexpr Duration kReportFresh = milliseconds(3500);

/// A block in progress.
struct BlockSnapshot {
  uint32_t block_id = 0;
  Instant referenced_at;        ///< Time of its last contribution.
  wire::SourceMask missing{};   ///< Sources whose contribution it expects.
  bool waits_upstream = false;  ///< Complete here; the upper aggregator has not answered.
};

/// The state of a job's upper aggregator, as this one sees it.
struct UpstreamSnapshot {
  enum class State : uint8_t {
    kIdle,     ///< Nobody asks it for a session.
    kJoining,  ///< It has not started its session.
    kJoined,
    kSilent,   ///< It does not answer: see trio_ml::kUpstreamSilentAfter.
    kRefused,  ///< It refuses this aggregator.
  };
  State state = State::kIdle;
  Duration silent_for{};                       ///< For how long it owes an answer; 0: it owes none.
  wire::Reason refusal = wire::Reason::kNone;  ///< Reason of its refusal.
  /// While joining: the aggregator that keeps the session from starting, this upper one or one
  /// above it, and whether that one is silent.
  Endpoint waits_at{};
  bool waits_for_silent = false;
};
[[nodiscard]] const char* to_string(UpstreamSnapshot::State state);

/// The part of a job's state that one core owns.
class JobView {
 public:
  explicit JobView(const trio_ml::JobConfig& config);

  /// Copies everything but the blocks.
  /// @param core Only core 0 knows which sources wait for a session, and the upper aggregator.
  void read(const trio_ml::Job& job, uint32_t core, Instant now);
  /// Copies the blocks in progress of up to kPlacesPerVisit places, within kComparisonsPerVisit.
  /// @return whether places are left.
  bool read_blocks(trio_ml::Job& job);

  std::vector<Endpoint> addresses;                  ///< Shape [sources].
  std::vector<trio_ml::MemberReport> reports;       ///< Shape [sources]; of core 0.
  std::vector<trio_ml::RefusedJoin> refused_joins;  ///< Shape [sources]; of core 0.
  wire::SourceMask active{};                        ///< Sources that new blocks wait for.
  wire::SourceMask joining{};                       ///< Sources that wait for a session.
  std::optional<UpstreamSnapshot> upstream{};       ///< Core 0's, if there is an upper aggregator.
  uint64_t blocks_held = 0;
  uint64_t blocks_in_progress = 0;
  uint64_t blocks_total = 0;
  uint64_t blocks_degraded = 0;
  uint64_t memory_bytes = 0;
  uint64_t buffers_free = 0;
  std::vector<BlockSnapshot> oldest;  ///< A heap with the newest first; at most kOldestBlocks.
  /// The oldest block that lacks each source. Behind them, the oldest one that waits for the upper
  /// aggregator. Shape [sources + 1].
  std::vector<std::optional<BlockSnapshot>> oldest_without;

 private:
  void keep_oldest(const BlockSnapshot& block);
  /// Updates oldest_without. @return the number of comparisons.
  uint32_t keep_oldest_without(const BlockSnapshot& block);

  uint32_t next_place_ = 0;
  /// The last block that keep_oldest_without() has compared.
  std::optional<BlockSnapshot> compared_{};
};

enum class SourceState : uint8_t {
  kAbsent,   ///< Nothing was received from it.
  kPlain,    ///< It sends packets without a session.
  kJoining,  ///< It waits for the session to start.
  kMember,
  kSilent,  ///< A member that has sent nothing for JobConfig::silent_after.
  kLeft,
};
[[nodiscard]] const char* to_string(SourceState state);

struct SourceSnapshot {
  SourceState state = SourceState::kAbsent;
  bool waited_for = true;  ///< False: new blocks do not wait for it.
  bool joining = false;    ///< It, or its successor, waits for a session.
  Endpoint address{};      ///< Not set: unknown.
  std::optional<Duration>
      silent_for{};  ///< For members only; at most trio_ml::kHeardPeriod too long.
  std::optional<trio_ml::MemberReport> report{};       ///< Its own counts.
  std::optional<trio_ml::RefusedJoin> refused_join{};  ///< Its last join, if it was not accepted.
  std::vector<uint32_t> ranks{};  ///< Its rank, or all ranks below a lower aggregator.
};
/// Tells whether a member's report describes the present: it is at most kReportFresh old.
[[nodiscard]] bool has_fresh_report(const SourceSnapshot& source, Instant now);

/// The state of one channel of a job. Most jobs have one channel.
struct JobSnapshot {
  trio_ml::JobConfig config;
  uint32_t channel = 0;      ///< Its number in the operator's job.
  uint32_t session = 0;      ///< 0: none runs.
  bool draining = false;     ///< No further session starts.
  uint64_t blocks_held = 0;  ///< In progress, or of an old session that a core has not discarded.
  uint64_t blocks_in_progress = 0;
  uint64_t blocks_total = 0;     ///< Results since the job was added.
  uint64_t blocks_degraded = 0;  ///< Results without some source's contribution.
  uint64_t memory_bytes = 0;
  uint64_t buffers_free = 0;
  std::optional<UpstreamSnapshot> upstream{};  ///< Not set: there is no upper aggregator.
  std::vector<SourceSnapshot> sources;
  /// Blocks in progress by the time of their last contribution: the kOldestBlocks oldest ones, the
  /// oldest one that lacks each source, and the oldest one that waits for the upper aggregator.
  std::vector<BlockSnapshot> blocks;

  /// Returns the id of the operator's job, which is that of channel 0.
  [[nodiscard]] uint32_t job_id() const { return config.id - channel; }
};

/// Returns the sources or ranks in a mask, in ascending order.
[[nodiscard]] std::vector<uint32_t> numbers_in(const wire::SourceMask& mask);

/// Combines the views of all cores.
[[nodiscard]] JobSnapshot merge(const trio_ml::Session& session, std::span<const JobView> views,
                                Instant now);

}  // namespace tributary::server
