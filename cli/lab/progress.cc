// SPDX-License-Identifier: Apache-2.0
#include "cli/lab/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>

#include "cli/console.h"

namespace tributary::cli {
namespace {

/// Back to the line's start and clear it (ECMA-48: EL).
constexpr const char* kWipe = "\r\x1b[K";
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
    : items_(items),
      terminal_(isatty(STDERR_FILENO) == 1),
      start_(std::chrono::steady_clock::now()) {}

LabProgress::~LabProgress() {
  if (printed_) print_error("{}", kWipe);
}

void LabProgress::update(uint64_t done, uint64_t total) {
  if (!terminal_) return;
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start_;
  print_error("{}{}", kWipe, progress_line(done, total, elapsed.count(), items_));
  std::fflush(stderr);
  printed_ = true;
}

}  // namespace tributary::cli
