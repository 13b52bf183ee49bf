// SPDX-License-Identifier: Apache-2.0
/// @file
/// Keeps the recordings of an aggregator: writes one on a signal, when a block stalls, when a
/// silent rank ends a session, and when the process ends abnormally; hands one to the control API.
///
/// Model:   A thread looks at a snapshot every kLookEvery, also while the recorder is off, so that
///          a later start writes no file for an old stall or silence. Only look() and set_on() ask
///          the cores, so a recording can be taken while a core hangs.
/// Threads: The cores write events. A thread of this class writes files of stalls, the owner's
///          thread those of signals; the control API calls RecordControl from its threads.
/// Errors:  A folder given by the user must be writable. Afterwards a file that cannot be written
///          gives one line in the log; the cores notice nothing.
/// Tests:   tests/server/recording/record_keeper_test.cc, tests/system/record_test.cc
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>

#include "recorder/abnormal_end.h"
#include "recorder/recording_files.h"
#include "server/appliance.h"
#include "server/log/log.h"
#include "server/record_control.h"
#include "server/recording/stall_watch.h"

namespace tributary::server {

inline constexpr std::chrono::milliseconds kLookEvery{500};

struct RecordConfig {
  bool on = true;
  std::string folder{};        ///< Folder of the files; empty: the control socket's, if writable.
  uint32_t events = 1U << 15;  ///< Events in each core's ring.
  Duration stall_after = recorder::kStallAfter;  ///< 0: no file for stalls and silent ranks.
};

class RecordKeeper final : public RecordControl {
 public:
  /// @param appliance With a flight recorder. Must outlive this object, like `log`.
  static Result<std::unique_ptr<RecordKeeper>> start(const RecordConfig& config,
                                                     Appliance& appliance, Log& log);
  ~RecordKeeper() override;

  /// Writes a file, and a line in the log with its path or the reason why there is none.
  void store(recorder::Cause cause);
  /// Finds new stalls and silences since the last look. Writes a file for them if it is on.
  void look();
  /// Ends the thread. Call it before Appliance::stop(). Idempotent.
  void stop();
  /// Returns the reason why there are no files; empty: there are.
  [[nodiscard]] const std::string& warning() const { return warning_; }

  [[nodiscard]] std::string recording() override;
  void set_on(bool on) override;
  [[nodiscard]] nlohmann::json files() override;
  [[nodiscard]] std::optional<std::string> file(const std::string& name) override;
  [[nodiscard]] nlohmann::json state() override;

 private:
  RecordKeeper(const RecordConfig& config, Appliance& appliance, Log& log);
  Result<void> open_files(const std::string& folder);
  void run(const std::stop_token& stop);

  Appliance& appliance_;
  Log& log_;
  recorder::FlightRecorder& recorder_;
  std::mutex look_mutex_;          ///< Lets calls of look() take turns.
  recorder::Writer* const watch_;  ///< With look_mutex_; like the next.
  StallWatch stalls_;
  std::string warning_;
  std::optional<recorder::RecordingFiles> files_;  ///< Not set: there is no folder.
  std::optional<recorder::AbnormalEnd> abnormal_end_;
  std::mutex switch_mutex_;  ///< Lets calls of set_on() take turns.
  std::atomic<bool> on_{true};
  std::mutex mutex_;
  std::string last_file_;  ///< With mutex_; like the next.
  std::string last_error_;
  std::mutex wake_mutex_;
  std::condition_variable_any wake_;
  std::jthread thread_;
};

}  // namespace tributary::server
