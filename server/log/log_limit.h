// SPDX-License-Identifier: Apache-2.0
/// @file
/// Limits the lines of a log: a few for each key, and a total for all keys.
///
/// Model:   The first line of a key opens a window of kLogWindow. Further lines of the key pass
///          until kLogLinesPerKey; the others are suppressed. When the window ends, take_ended()
///          returns the key if it has suppressed lines.
/// Bounds:  At most kLogKeysMax keys and kLogLinesPerSecond lines; what exceeds them is suppressed
///          under the key kLogOverflow.
/// Threads: One at a time.
/// Tests:   tests/server/log/log_limit_test.cc
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/time.h"

namespace tributary::server {

inline constexpr Duration kLogWindow = seconds(10);
/// Assumed: enough to see a pattern, and few enough to read.
inline constexpr uint32_t kLogLinesPerKey = 5;
inline constexpr uint32_t kLogKeysMax = 4096;
/// Assumed: all 256 ranks of a job may join, be heard and leave within a second.
inline constexpr uint32_t kLogLinesPerSecond = 1000;
inline constexpr const char* kLogOverflow = "log_overflow";

class LogLimit {
 public:
  /// Tells whether to write a line; counts it as suppressed otherwise.
  [[nodiscard]] bool allow(const std::string& key, Instant now);

  struct Suppressed {
    std::string key;
    uint64_t lines = 0;
  };
  /// Returns the keys whose window has ended with suppressed lines, and forgets all ended windows.
  [[nodiscard]] std::vector<Suppressed> take_ended(Instant now);
  /// Returns the keys of all windows with suppressed lines, ended or not, and forgets all windows.
  [[nodiscard]] std::vector<Suppressed> take_all();

 private:
  struct Window {
    Instant began_at;
    uint32_t lines = 0;
    uint64_t suppressed = 0;
  };

  /// Forgets the windows that `is_taken` returns true for, and adds those with suppressed lines.
  template <class IsTaken>
  void take(std::vector<Suppressed>& taken, IsTaken is_taken);
  /// Returns the key's window, or the one of kLogOverflow if there is no room.
  Window& window_of(const std::string& key, Instant now);

  std::unordered_map<std::string, Window> windows_;
  Window all_;  ///< Counts all lines of a second.
};

}  // namespace tributary::server
