// SPDX-License-Identifier: Apache-2.0
/// @file
/// The record of a campaign run: broken promises and, on request, a trace.
///
/// Threads: One.
/// Tests:   tests/lab/faults/fault_run_test.cc
#pragma once

#include <fmt/format.h>

#include <string>
#include <utility>
#include <vector>

#include "base/event_core.h"

namespace tributary::lab {

/// The kind of a broken promise.
enum class Breach : uint8_t {
  kWrong,   ///< A wrong sum, source set, status or time.
  kStuck,   ///< A wait beyond the deadline, or a rank that cannot finish after calm_at.
  kLeaked,  ///< A leftover record, buffer, packet or session.
};

class Journal {
 public:
  Journal(const EventCore& core, bool traced) : core_(core), traced_(traced) {}

  void breach(Breach kind, std::string text) {
    auto& broken = kind == Breach::kWrong ? wrong : kind == Breach::kStuck ? stuck : leaked;
    trace("*** {}", text);
    broken.push_back(std::move(text));
  }
  /// Adds a line with its time to the trace; does not format it unless tracing is on.
  template <class... Args>
  void trace(fmt::format_string<Args...> format, Args&&... args) {
    if (!traced_) return;
    lines.push_back(fmt::format("{:12.3f} ms  {}", in_seconds(core_.now().since_start()) * 1e3,
                                fmt::format(format, std::forward<Args>(args)...)));
  }

  std::vector<std::string> wrong;
  std::vector<std::string> stuck;
  std::vector<std::string> leaked;
  std::vector<std::string> lines;  ///< The trace.

 private:
  const EventCore& core_;
  const bool traced_;
};

}  // namespace tributary::lab
