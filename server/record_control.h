// SPDX-License-Identifier: Apache-2.0
/// @file
/// The commands of an operator to the flight recorder, as an interface.
///
/// Threads: Any, several at once.
/// Errors:  None: a server without a recorder has no RecordControl.
/// Tests:   tests/server/recording/record_keeper_test.cc
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

namespace tributary::server {

class RecordControl {
 public:
  RecordControl() = default;
  RecordControl(const RecordControl&) = delete;
  RecordControl& operator=(const RecordControl&) = delete;
  virtual ~RecordControl() = default;

  /// Returns the bytes of a recording. Asks no core, so it works while one hangs.
  [[nodiscard]] virtual std::string recording() = 0;
  /// Starts or stops recording on all cores.
  virtual void set_on(bool on) = 0;
  /// Returns the files that the server has written, newest first: an array of objects with `name`,
  /// `written`, a time in UTC, and `size_bytes`.
  [[nodiscard]] virtual nlohmann::json files() { return nlohmann::json::array(); }
  /// Returns the content of one of files(); nothing if there is none with this name.
  [[nodiscard]] virtual std::optional<std::string> file(const std::string& /*name*/) { return {}; }
  /// Returns `on`; `events_per_core`, the capacity; the sums `recorded`, `overwritten` and
  /// `left_out`; `last_file` and `last_error`.
  [[nodiscard]] virtual nlohmann::json state() = 0;
};

}  // namespace tributary::server
