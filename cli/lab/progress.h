// SPDX-License-Identifier: Apache-2.0
/// @file
/// A line on standard error that says how many points of an experiment, or how many of any other
/// items, are finished. Only on a terminal; nothing elsewhere.
///
/// Threads: update() by one thread at a time.
/// Tests:   tests/cli/lab/progress_test.cc
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace tributary::cli {

/// "[#####     ] 12 of 24 points, 34 s, about 34 s left".
/// @param items The plural noun after the numbers.
[[nodiscard]] std::string progress_line(uint64_t done, uint64_t total, double elapsed_s,
                                        const char* items = "points");

class LabProgress {
 public:
  /// @param items As for progress_line(); must outlive the object.
  explicit LabProgress(const char* items = "points");
  /// Wipes the line.
  ~LabProgress();
  LabProgress(const LabProgress&) = delete;
  LabProgress& operator=(const LabProgress&) = delete;

  void update(uint64_t done, uint64_t total);

 private:
  const char* const items_;
  const bool terminal_;
  const std::chrono::steady_clock::time_point start_;
  bool printed_ = false;
};

}  // namespace tributary::cli
