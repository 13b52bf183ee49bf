// SPDX-License-Identifier: Apache-2.0
#include "cli/lab/run_progress.h"

#include <fmt/format.h>

namespace tributary::cli {

RunProgress::RunProgress(lab::RunObserver* inner, int file)
    : inner_(inner),
      line_(
          [this](double elapsed_s) {
            const auto at = Duration::from_ticks(at_ticks_.load(std::memory_order_relaxed));
            return fmt::format("{:.0f} s, at {:.6f} s of virtual time", elapsed_s, in_seconds(at));
          },
          file) {}

Result<void> RunProgress::begin(const lab::RunInside& inside) {
  return inner_ == nullptr ? Result<void>() : inner_->begin(inside);
}

bool RunProgress::before_event(Instant next) {
  at_ticks_.store(next.since_start().ticks(), std::memory_order_relaxed);
  return inner_ == nullptr || inner_->before_event(next);
}

void RunProgress::end() {
  if (inner_ != nullptr) inner_->end();
}

}  // namespace tributary::cli
