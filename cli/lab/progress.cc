// SPDX-License-Identifier: Apache-2.0
#include "cli/lab/progress.h"

#include <fmt/format.h>

namespace tributary::cli {
namespace {

constexpr uint64_t kBarWidth = 24;

}  // namespace

std::string progress_line(uint64_t done, uint64_t total, double elapsed_s, const char* items) {
  const uint64_t filled = total == 0 ? kBarWidth : done * kBarWidth / total;
  std::string line =
      fmt::format("[{}{}] {} of {} {}, {:.0f} s", std::string(filled, '#'),
                  std::string(kBarWidth - filled, ' '), done, total, items, elapsed_s);
  if (done > 0 && done < total) {
    const double left_s = elapsed_s / static_cast<double>(done) * static_cast<double>(total - done);
    line += fmt::format(", about {:.0f} s left", left_s);
  }
  return line;
}

LabProgress::LabProgress(const char* items)
    : line_([this, items](double elapsed_s) {
        const uint64_t total = total_.load(std::memory_order_relaxed);
        if (total == 0) return fmt::format("{:.0f} s", elapsed_s);  // Not known yet.
        return progress_line(done_.load(std::memory_order_relaxed), total, elapsed_s, items);
      }) {}

void LabProgress::update(uint64_t done, uint64_t total) {
  done_.store(done, std::memory_order_relaxed);
  total_.store(total, std::memory_order_relaxed);
}

}  // namespace tributary::cli
