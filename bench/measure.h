// SPDX-License-Identifier: Apache-2.0
/// @file
/// What every benchmark needs: CPU time of a thread, a CPU for a thread, medians, a file's text,
/// and a folder for the time of a run.
///
/// Tests: tests/bench/measure_test.cc
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace tributary::bench {

/// CPU time that this thread has had, in seconds: who else is busy on the machine does not count.
[[nodiscard]] double thread_cpu_s();

/// CPUs that this thread may run on, by their numbers.
[[nodiscard]] std::vector<int> cpus_allowed();
/// This thread stays on `cpu`. Two threads that are to run at once must be told where: for the
/// first milliseconds Linux may keep both on one CPU.
void pin_to_cpu(int cpu);

/// The value at `part` (0 … 1) of the sorted values, between two of them in proportion.
/// @param values Not empty.
[[nodiscard]] double quantile(std::vector<double> values, double part);
[[nodiscard]] inline double median(std::vector<double> values) {
  return quantile(std::move(values), 0.5);
}

/// The content of a file, a file under /proc as well; empty, or a part, where it cannot be read: a
/// process may end while its files are being read.
[[nodiscard]] std::string text_of(const std::filesystem::path& path);

/// A fresh folder that goes away with its content.
class ScratchFolder {
 public:
  ScratchFolder();
  ~ScratchFolder();
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;

  /// Empty where none can be made.
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace tributary::bench
