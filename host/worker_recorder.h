// SPDX-License-Identifier: Apache-2.0
/// @file
/// The flight recorder of one rank: the recent events of its channels, written to a file once, when
/// an error or close() ends the rank.
///
/// Threads: Any. A channel's writer belongs to its thread.
/// Errors:  open() refuses a folder that is not writable. If the file cannot be written, problem()
///          returns the error; the rank ends as it would have.
/// Memory:  A megabyte for each channel.
/// Tests:   tests/host/worker_recorder_test.cc
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>

#include "base/result.h"
#include "recorder/flight_recorder.h"
#include "recorder/recording_files.h"

namespace tributary::host {

class WorkerRecorder {
 public:
  /// @param folder Of the file job-JOB-rank-RANK-TIME-CAUSE.trec.
  static Result<std::shared_ptr<WorkerRecorder>> open(const std::string& folder, uint32_t job,
                                                      uint32_t rank);

  /// Returns the writer of a new channel; null if there are too many.
  [[nodiscard]] recorder::Writer* add_channel();
  /// Writes the file. Later calls have no effect.
  void store(recorder::Cause cause);

  /// Returns the path of the file; empty: it is not written.
  [[nodiscard]] std::string path() const;
  /// Returns the reason why the file could not be written; empty: there is none.
  [[nodiscard]] std::string problem() const;
  [[nodiscard]] const recorder::FlightRecorder& flight_recorder() const { return recorder_; }
  /// Returns the path for a recording by a signal handler.
  [[nodiscard]] std::string abnormal_path() const {
    return files_.path_for(recorder::Cause::kAbnormalEnd);
  }

  WorkerRecorder(recorder::RecorderConfig config, recorder::RecordingFiles files)
      : recorder_(std::move(config)), files_(std::move(files)) {}

 private:
  recorder::FlightRecorder recorder_;
  const recorder::RecordingFiles files_;
  mutable std::mutex mutex_;  ///< Of the following.
  bool is_stored_ = false;
  std::string path_;
  std::string problem_;
};

}  // namespace tributary::host
