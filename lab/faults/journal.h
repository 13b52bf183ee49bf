// SPDX-License-Identifier: Apache-2.0
/// @file
/// The record of a campaign run: broken promises and, on request, a trace.
///
/// Threads: One.
/// Tests:   tests/lab/faults/fault_run_test.cc
#pragma once

#include <fmt/format.h>

#include <array>
#include <string>
#include <utility>
#include <vector>

#include "base/event_core.h"

namespace tributary::lab {

/// The kind of a broken promise.
enum class Breach : uint8_t {
  kWrong,           ///< A wrong sum, source set, status or time.
  kStuck,           ///< A wait beyond the deadline, or a rank that cannot finish after calm_at.
  kLeaked,          ///< A leftover record, buffer, packet or session.
  kForged,          ///< An effect of an attacker's packet.
  kDegradedByLoss,  ///< A contribution that its block lacks only because of lost packets.
};
inline constexpr uint32_t kBreachKinds = 5;
/// The names of the kinds in reports.
inline constexpr std::array<const char*, kBreachKinds> kBreachNames{
    "wrong", "stuck", "leaked", "forged_accepted", "degraded_by_loss_alone"};
/// The broken promises of a run, one line each, by kind.
using Breaches = std::array<std::vector<std::string>, kBreachKinds>;

class Journal {
 public:
  Journal(const EventCore& core, bool traced) : core_(core), traced_(traced) {}

  void breach(Breach kind, std::string text) {
    trace("*** {}", text);
    breaches[static_cast<uint32_t>(kind)].push_back(std::move(text));
  }
  [[nodiscard]] const std::vector<std::string>& of(Breach kind) const {
    return breaches[static_cast<uint32_t>(kind)];
  }
  /// Adds a line with its time to the trace; does not format it unless tracing is on.
  template <class... Args>
  void trace(fmt::format_string<Args...> format, Args&&... args) {
    if (!traced_) return;
    lines.push_back(fmt::format("{:12.3f} ms  {}", in_seconds(core_.now().since_start()) * 1e3,
                                fmt::format(format, std::forward<Args>(args)...)));
  }

  Breaches breaches;
  std::vector<std::string> lines;  ///< The trace.

 private:
  const EventCore& core_;
  const bool traced_;
};

}  // namespace tributary::lab
