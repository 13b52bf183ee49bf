// SPDX-License-Identifier: Apache-2.0
/// @file
/// The thread that writes a server's log.
///
/// Model:   Every kDrainEvery it takes the events that the cores have noted; every kCompareEvery it
///          compares snapshots, unless the level leaves their lines out. A core notes an event in a
///          ring and never waits for this thread.
/// Threads: stop() belongs to the owner; everything else may run in any thread.
/// Tests:   tests/server/log/server_log_test.cc, tests/system/log_test.cc
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <stop_token>
#include <thread>

#include "server/log/event_reporter.h"
#include "server/log/log.h"
#include "server/observed_server.h"

namespace tributary::server {

inline constexpr std::chrono::milliseconds kDrainEvery{100};
inline constexpr std::chrono::milliseconds kCompareEvery{1000};

class ServerLog final : public LogControl {
 public:
  /// @param server Must outlive this object.
  ServerLog(LogConfig config, ObservedServer& server);
  ~ServerLog() override { stop(); }

  /// Writes the last events and ends the thread. Call it after the server's cores have ended.
  /// Idempotent.
  void stop();

  [[nodiscard]] Log& log() { return log_; }
  /// Returns `rows`, the last lines of the log, and `level`, beside stats().
  [[nodiscard]] nlohmann::ordered_json recent() const override;
  /// Changes the level and logs the change, if the old level or the new one takes info lines.
  void set_level(LogLevel level) override;
  [[nodiscard]] nlohmann::ordered_json stats() const override;

 private:
  void run(const std::stop_token& stop);
  void drain();

  ObservedServer& server_;
  Log log_;
  EventReporter reporter_;
  std::mutex mutex_;
  std::condition_variable_any stopped_;
  std::jthread thread_;
};

}  // namespace tributary::server
