// SPDX-License-Identifier: Apache-2.0
/// @file
/// The last two minutes of a server: its traffic, and how late each source of a job was.
///
/// Model:   An Observer adds a snapshot each second. A source's lateness in a sample is the time
///          since the last contribution to the oldest block that lacks this source; zero if no
///          block lacks it. Shorter waits between two samples are not seen.
///          Beginnings of all-reduces come from the workers' reports (begin_history.h).
/// Units:   Lateness in ms, in steps of 10 ms and at most kLatenessMax.
/// Bounds:  Memory depends on the configured jobs and sources only, never on traffic.
/// Threads: Any; a mutex guards the object. No core takes it.
/// Tests:   tests/server/control/history_test.cc
#pragma once

#include <array>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <thread>
#include <vector>

#include "server/control/begin_history.h"
#include "server/snapshot.h"

namespace tributary::control {

/// Samples that are kept.
inline constexpr uint32_t kSamplesMax = 120;
inline constexpr Duration kSampleEvery = seconds(1);
/// Upper bounds of the histogram's buckets; a last bucket has none. Assumed: half a decade each,
/// from the usual spread of ranks to a worker's deadline.
inline constexpr std::array<Duration, 8> kLatenessBounds{
    milliseconds(10), milliseconds(30), milliseconds(100), milliseconds(300),
    seconds(1),       seconds(3),       seconds(10),       seconds(30)};
/// The unit in which a sample keeps a lateness.
inline constexpr Duration kLatenessStep = milliseconds(10);
inline constexpr Duration kLatenessMax = kLatenessStep * UINT16_MAX;
/// A source that is late for longer has a stall. Assumed: longer than the usual spread of ranks.
inline constexpr Duration kStallShown = milliseconds(300);
/// Stalls of a job that are kept.
inline constexpr uint32_t kStallsMax = 64;

/// Totals of the server since its start.
struct Sample {
  Duration uptime;
  uint64_t rx_bytes = 0;
  uint64_t tx_bytes = 0;
  uint64_t blocks_completed = 0;
  uint64_t blocks_degraded = 0;
  std::vector<Duration> cpu{};  ///< CPU time of each core.
};

struct LatenessHistogram {
  std::array<uint64_t, kLatenessBounds.size() + 1> counts{};  ///< Samples in each bucket.
  double sum_s = 0;
};

/// A time in which others waited for a source.
struct Stall {
  uint32_t source = 0;
  uint32_t block_id = 0;  ///< The first block that lacked the source.
  Duration began;         ///< In the server's uptime.
  Duration lasted;        ///< The longest lateness that a sample has seen.
  bool ended = false;
};

struct SourceHistory {
  std::vector<uint32_t> ranks;
  std::vector<Duration> lateness;  ///< Oldest sample first.
  LatenessHistogram histogram;
};

struct JobHistory {
  uint32_t job = 0;
  std::vector<Duration> uptime;        ///< The server's at each sample, oldest first.
  std::vector<uint64_t> blocks_total;  ///< Oldest sample first.
  std::vector<SourceHistory> sources;  ///< Shape [sources].
  std::vector<Stall> stalls;           ///< Newest first.
  BeginTable begins;                   ///< Lateness by all-reduce.
};

/// Returns the bucket of a lateness: 0 … kLatenessBounds.size().
[[nodiscard]] uint32_t lateness_bucket(Duration lateness);

class History {
 public:
  /// Adds a sample. Forgets the jobs that the snapshot lacks.
  void add(const server::Snapshot& snapshot);

  [[nodiscard]] std::vector<Sample> samples() const;
  /// Returns all jobs in the order of their ids.
  [[nodiscard]] std::vector<JobHistory> jobs() const;

 private:
  struct SourceRecord {
    std::vector<uint32_t> ranks;
    std::deque<uint16_t> lateness_steps;
    LatenessHistogram histogram;
    bool stalled = false;  ///< The newest stall of this source has not ended.
  };
  struct JobRecord {
    std::deque<Duration> uptime;
    std::deque<uint64_t> blocks_total;
    std::vector<SourceRecord> sources;
    std::deque<Stall> stalls;  ///< Newest first.
    BeginHistory begins;
  };
  static void add_job(JobRecord& record, const server::JobSnapshot& job,
                      const server::Snapshot& snapshot);
  static void note_stall(JobRecord& record, uint32_t source, const server::BlockSnapshot* block,
                         Duration lateness, Duration uptime);

  mutable std::mutex mutex_;
  std::deque<Sample> samples_;
  std::map<uint32_t, JobRecord> jobs_;  ///< By id.
};

/// Adds a snapshot to a History each kSampleEvery, in a thread of its own.
class Observer {
 public:
  /// @param history Must outlive this object.
  Observer(std::function<server::Snapshot()> snapshot, History& history);
  ~Observer();
  Observer(const Observer&) = delete;
  Observer& operator=(const Observer&) = delete;

 private:
  void run();

  const std::function<server::Snapshot()> snapshot_;
  History& history_;
  std::mutex mutex_;
  std::condition_variable wake_;
  bool ending_ = false;
  std::thread thread_;
};

}  // namespace tributary::control
