// SPDX-License-Identifier: Apache-2.0
/// @file
/// What a campaign run says about itself: what was wrong, and on request everything notable.
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

/// Which promise is broken.
enum class Breach : uint8_t {
  kWrong,   ///< A sum, a claim, a status or a time that is not right.
  kStuck,   ///< Somebody waits beyond the deadline, or cannot finish after all is calm.
  kLeaked,  ///< A record, a buffer, a packet or a session is left over.
};

class Journal {
 public:
  Journal(const EventCore& core, bool traced) : core_(core), traced_(traced) {}

  void breach(Breach kind, std::string text) {
    auto& broken = kind == Breach::kWrong ? wrong : kind == Breach::kStuck ? stuck : leaked;
    trace("*** {}", text);
    broken.push_back(std::move(text));
  }
  /// A line of the trace, with its time; formatted only if somebody wants it.
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
