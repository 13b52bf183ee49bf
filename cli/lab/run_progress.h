// SPDX-License-Identifier: Apache-2.0
/// @file
/// A line on the terminal about a single run of a scenario: its virtual time.
///
/// Threads: The run's; the line prints from a thread of its own.
/// Tests:   tests/cli/lab/run_progress_test.cc
#pragma once

#include <atomic>
#include <cstdint>

#include "cli/status_line.h"
#include "lab/run_observer.h"

namespace tributary::cli {

class RunProgress final : public lab::RunObserver {
 public:
  /// @param inner Observes the run, too; may be null.
  explicit RunProgress(lab::RunObserver* inner = nullptr, int file = STDERR_FILENO);

  /// Returns the observer for lab::run_scenario(): without a terminal, `inner`.
  [[nodiscard]] lab::RunObserver* observer() { return line_.is_shown() ? this : inner_; }

  [[nodiscard]] Result<void> begin(const lab::RunInside& inside) override;
  [[nodiscard]] bool before_event(Instant next) override;
  void end() override;

 private:
  lab::RunObserver* const inner_;
  std::atomic<int64_t> at_ticks_{0};  ///< Relaxed: a figure for people.
  StatusLine line_;
};

}  // namespace tributary::cli
