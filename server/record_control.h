// SPDX-License-Identifier: Apache-2.0
/// @file
/// The commands of an operator to the flight recorder, as an interface.
///
/// Threads: Any, several at once.
/// Errors:  None: a server without a recorder has no RecordControl.
/// Tests:   tests/server/recording/record_keeper_test.cc
#pragma once

#include <nlohmann/json.hpp>
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
  /// Lets the cores record, or not.
  virtual void set_on(bool on) = 0;
  /// Returns `on`; `events_per_core`, the capacity; the sums `recorded`, `overwritten` and `left_out`;
  /// `last_file` and `last_error`.
  [[nodiscard]] virtual nlohmann::json state() = 0;
};

}  // namespace tributary::server
