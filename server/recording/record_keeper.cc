// SPDX-License-Identifier: Apache-2.0
#include "server/recording/record_keeper.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "base/assert.h"
#include "base/clock.h"
#include "base/cpus.h"
#include "server/socket_place.h"

namespace tributary::server {

using recorder::Cause;

RecordKeeper::RecordKeeper(const RecordConfig& config, Appliance& appliance, Log& log)
    : appliance_(appliance),
      log_(log),
      recorder_(*appliance.flight_recorder()),
      watch_(recorder_.add_writer(recorder::kWatchTrack)),
      stalls_(config.stall_after) {
  TRIB_ASSERT(watch_ != nullptr);
}

Result<std::unique_ptr<RecordKeeper>> RecordKeeper::start(const RecordConfig& config,
                                                          Appliance& appliance, Log& log) {
  std::unique_ptr<RecordKeeper> keeper(new RecordKeeper(config, appliance, log));
  if (const auto opened = keeper->open_files(config.folder); !opened) {
    if (!config.folder.empty()) return failure_in("--record-dir ", opened.error());
    keeper->warning_ =
        opened.error().text + "; the flight recorder writes no files by itself: give --record-dir";
  }
  keeper->thread_ =
      std::jthread([keeper = keeper.get()](const std::stop_token& stop) { keeper->run(stop); });
  return keeper;
}

RecordKeeper::~RecordKeeper() { stop(); }

void RecordKeeper::stop() { thread_ = {}; }

Result<void> RecordKeeper::open_files(const std::string& folder) {
  std::string place = folder;
  if (place.empty()) {
    auto found = writable_folder(socket_folders());
    if (!found) return tl::unexpected(found.error());
    place = *std::move(found);
  }
  auto files = recorder::RecordingFiles::open(place, recorder_.config().name);
  if (!files) return tl::unexpected(files.error());
  files_ = *std::move(files);
  abnormal_end_.emplace(recorder_, files_->path_for(Cause::kAbnormalEnd));
  return {};
}

void RecordKeeper::store(Cause cause) {
  Result<std::string> stored = failure(
      "there is no folder for it: start the server with --record-dir, or use tributary record "
      "dump");
  if (files_) stored = files_->store(cause, recording_of(recorder_, cause));
  {
    const std::lock_guard lock(mutex_);
    last_error_ = stored ? std::string() : stored.error().text;
    if (stored) last_file_ = *stored;
  }
  if (stored) {
    log_.write(LogLevel::kWarn, "recording_written",
               {{"cause", name_of(cause)}, {"path", *stored}});
  } else {
    log_.write(LogLevel::kError, "recording_failed",
               {{"cause", name_of(cause)}, {"error", stored.error().text}});
  }
}

std::string RecordKeeper::recording() { return recording_of(recorder_, Cause::kCommand); }

void RecordKeeper::set_on(bool on) {
  const std::lock_guard lock(switch_mutex_);
  // Otherwise the next look would find a silence from before the start.
  if (on && !on_.load()) look();
  appliance_.set_recording(on);
  on_.store(on);
}

nlohmann::json RecordKeeper::files() {
  nlohmann::json rows = nlohmann::json::array();
  if (!files_) return rows;
  std::vector<recorder::RecordingFile> files = files_->list();
  std::ranges::reverse(files);
  for (const recorder::RecordingFile& file : files) {
    const auto written = std::chrono::time_point_cast<std::chrono::system_clock::duration>(
        std::chrono::file_clock::to_sys(file.written));
    rows.push_back(
        {{"name", file.name},
         {"written", fmt::format("{:%Y-%m-%dT%H:%M:%SZ}",
                                 fmt::gmtime(std::chrono::system_clock::to_time_t(written)))},
         {"size_bytes", file.size_bytes}});
  }
  return rows;
}

std::optional<std::string> RecordKeeper::file(const std::string& name) {
  return files_ ? files_->read(name) : std::nullopt;
}

nlohmann::json RecordKeeper::state() {
  uint64_t recorded = 0;
  uint64_t lost = 0;
  uint64_t left_out = 0;
  for (uint32_t i = 0; i < recorder_.writer_count(); i++) {
    const recorder::Writer& writer = recorder_.writer(i);
    const uint64_t count = writer.ring().put_count();
    recorded += count;
    lost += recorder::Ring::first_whole(count, writer.ring().capacity());
    left_out += writer.left_out();
  }
  const std::lock_guard lock(mutex_);
  return {{"on", on_.load()},         {"events_per_core", recorder_.config().events},
          {"recorded", recorded},     {"overwritten", lost},
          {"left_out", left_out},     {"last_file", last_file_},
          {"last_error", last_error_}};
}

void RecordKeeper::look() {
  const std::lock_guard lock(look_mutex_);
  const Snapshot snapshot = appliance_.snapshot();
  const auto stalls = stalls_.find_new(find_waits(snapshot));
  const bool has_ended =
      stalls_.has_silence_ended(snapshot.packets(trio_ml::Outcome::kSilenceEnded));
  if (!on_.load()) return;
  for (const Wait& stall : stalls) {
    const uint32_t rank = stall.missing.empty() ? recorder::kNoRank : stall.missing.front();
    watch_->note({.kind = recorder::Kind::kStalled,
                  .job = static_cast<uint16_t>(stall.job),
                  .rank = static_cast<uint16_t>(rank),
                  .block = *stall.block,
                  .count = 1,
                  .value = static_cast<uint64_t>(in_milliseconds(*stall.since))},
                 snapshot.at);
  }
  if ((has_ended || !stalls.empty()) && stalls_.take_file(snapshot.at)) {
    store(has_ended ? Cause::kSilence : Cause::kStall);
  }
}

void RecordKeeper::run(const std::stop_token& stop) {
  take_short_slices();  // While it waits for a snapshot, nobody else gets one.
  std::unique_lock lock(wake_mutex_);
  while (!stop.stop_requested()) {
    look();
    wake_.wait_for(lock, stop, kLookEvery, [] { return false; });
  }
}

}  // namespace tributary::server
