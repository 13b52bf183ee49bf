// SPDX-License-Identifier: Apache-2.0
#include "host/worker_recorder.h"

#include <fmt/format.h>

#include <csignal>
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

WorkerRecorder::WorkerRecorder(recorder::RecorderConfig config, recorder::RecordingFiles files)
    : recorder_(std::move(config)),
      files_(std::move(files)),
      abnormal_end_(recorder::AbnormalEnd::arm_if_free(
          recorder_, files_.path_for(recorder::Cause::kAbnormalEnd),
          files_.path_for(recorder::Cause::kSignal))) {
  // The program's threads take its signals, not this one.
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  writer_ = std::jthread([this](const std::stop_token& stop) { write_stalls(stop); });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

WorkerRecorder::~WorkerRecorder() = default;

void WorkerRecorder::begin_attempt() {
  const std::lock_guard lock(mutex_);
  for (recorder::Writer* const writer : channels_) writer->flush();
  channel_count_ = 0;
}

recorder::Writer* WorkerRecorder::add_channel() {
  const std::lock_guard lock(mutex_);
  if (channel_count_ == channels_.size()) {
    recorder::Writer* const writer = recorder_.add_writer(recorder_.writer_count());
    if (writer == nullptr) return nullptr;
    channels_.push_back(writer);
  }
  return channels_[channel_count_++];
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

void WorkerRecorder::store_stall(Instant now) {
  const std::lock_guard lock(stall_mutex_);
  if (!stall_files_.take(now)) return;
  has_stall_ = true;
  stalled_.notify_one();
}

void WorkerRecorder::write_stalls(const std::stop_token& stop) {
  std::unique_lock lock(stall_mutex_);
  while (stalled_.wait(lock, stop, [this] { return has_stall_; })) {
    has_stall_ = false;
    lock.unlock();
    const auto cause = recorder::Cause::kStall;
    const auto stored = files_.store(cause, recording_of(recorder_, cause));
    lock.lock();
    if (stored) continue;
    const std::lock_guard text_lock(mutex_);
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
