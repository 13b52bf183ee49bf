// SPDX-License-Identifier: Apache-2.0
#include "host/worker_recorder.h"

#include <fmt/format.h>

#include <utility>
#include <vector>

#include "host/all_reduce.h"
#include "wire/trio_ml.h"

namespace tributary::host {

Result<std::shared_ptr<WorkerRecorder>> WorkerRecorder::open(const std::string& folder,
                                                             uint32_t job, uint32_t rank) {
  auto files = recorder::RecordingFiles::open(folder, fmt::format("job-{}-rank-{}", job, rank));
  if (!files) return failure("record=" + files.error().text);
  std::vector<recorder::Label> labels;
  recorder::add_labels(labels, recorder::Domain::kReason,
                       static_cast<wire::Reason>(wire::kReasonLast));
  recorder::add_labels(labels, recorder::Domain::kStatus, Status::kClosed);
  return std::make_shared<WorkerRecorder>(
      recorder::RecorderConfig{
          .is_worker = true, .rank = static_cast<uint16_t>(rank), .labels = std::move(labels)},
      *std::move(files));
}

recorder::Writer* WorkerRecorder::add_channel() {
  return recorder_.add_writer(recorder_.writer_count());
}

void WorkerRecorder::store(recorder::Cause cause) {
  const std::lock_guard lock(mutex_);
  if (std::exchange(is_stored_, true)) return;
  auto stored = files_.store(cause, recording_of(recorder_, cause));
  if (stored) {
    path_ = *std::move(stored);
  } else {
    problem_ = stored.error().text;
  }
}

std::string WorkerRecorder::path() const {
  const std::lock_guard lock(mutex_);
  return path_;
}

std::string WorkerRecorder::problem() const {
  const std::lock_guard lock(mutex_);
  return problem_;
}

}  // namespace tributary::host
