// SPDX-License-Identifier: Apache-2.0
/// @file
/// Common parts of the benchmarks and the demo: a thread's CPU time, medians, a file's text, and a
/// temporary folder.
///
/// Tests:   tests/bench/measure_test.cc
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/cpus.h"

namespace tributary::bench {

/// Returns this thread's CPU time in seconds. Other programs' work does not count.
[[nodiscard]] inline double thread_cpu_s() { return in_seconds(thread_cpu_time()); }

/// Returns the value at `part` (0 … 1) of the sorted values, interpolated linearly.
/// @param values Not empty.
[[nodiscard]] double quantile(std::vector<double> values, double part);
[[nodiscard]] inline double median(std::vector<double> values) {
  return quantile(std::move(values), 0.5);
}

/// Returns the content of a file, which may lie under /proc. Returns a part or nothing if it cannot
/// be read, because a process may end while its files are read.
[[nodiscard]] std::string text_of(const std::filesystem::path& path);

/// A new folder, deleted with its content.
class ScratchFolder {
 public:
  ScratchFolder();
  ~ScratchFolder();
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;

  /// Returns the path; empty if the folder could not be made.
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace tributary::bench
