// SPDX-License-Identifier: Apache-2.0
/// @file
/// The flight recorder of one rank: the recent events of its channels. Files are written when an
/// error or close() ends the rank, once; when a block stalls; on SIGUSR2 and SIGTERM; and when the
/// process ends abnormally.
///
/// Threads: Any. A channel's writer belongs to its thread. A thread of this class writes the files
///          of stalls, so that no channel waits for the disk.
/// Errors:  open() refuses a folder that is not writable. If the file cannot be written, problem()
///          returns the error; the rank ends as it would have.
/// Memory:  A megabyte for each channel, however many attempts the join takes.
/// Tests:   tests/host/worker_recorder_test.cc
#pragma once

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "recorder/abnormal_end.h"
#include "recorder/flight_recorder.h"
#include "recorder/recording_files.h"
#include "recorder/stall_files.h"

namespace tributary::host {

class WorkerRecorder {
 public:
  /// @param folder Folder of the file job-JOB-rank-RANK-TIME-CAUSE.trec.
  static Result<std::shared_ptr<WorkerRecorder>> open(const std::string& folder, uint32_t job,
                                                      uint32_t rank);

  /// Begins an attempt to join: its channels take over the writers of the last attempt, in their
  /// order, so that attempts take no further memory. @pre The last attempt's threads have ended.
  void begin_attempt();
  /// Returns the writer of a new channel; null if there are too many.
  [[nodiscard]] recorder::Writer* add_channel();
  /// Writes the file of the rank's end. Later calls have no effect.
  void store(recorder::Cause cause);
  /// Lets a file be written for a stall, at most one each recorder::kStallFileEvery. Does not wait
  /// for it.
  void store_stall(Instant now);

  /// Returns the path of the file; empty: it is not written.
  [[nodiscard]] std::string path() const;
  /// Returns the reason why the file could not be written; empty: there is none.
  [[nodiscard]] std::string problem() const;

  /// Arms the signals, unless another rank of this process has.
  WorkerRecorder(recorder::RecorderConfig config, recorder::RecordingFiles files);
  ~WorkerRecorder();
  WorkerRecorder(const WorkerRecorder&) = delete;
  WorkerRecorder& operator=(const WorkerRecorder&) = delete;

 private:
  void write_stalls(const std::stop_token& stop);

  recorder::FlightRecorder recorder_;
  const recorder::RecordingFiles files_;
  std::unique_ptr<recorder::AbnormalEnd> abnormal_end_;  ///< Null: another rank's is armed.
  std::mutex stall_mutex_;                               ///< Guards the next two.
  recorder::StallFiles stall_files_;
  bool has_stall_ = false;  ///< Its file is not written yet.
  std::condition_variable_any stalled_;
  mutable std::mutex mutex_;  ///< Guards the members below.
  std::vector<recorder::Writer*> channels_;
  size_t channel_count_ = 0;  ///< Writers in channels_ that the present attempt to join uses.
  bool is_stored_ = false;
  std::string path_;
  std::string problem_;
  std::jthread writer_;  ///< The last member: it ends first.
};

}  // namespace tributary::host
