// SPDX-License-Identifier: Apache-2.0
/// @file
/// Keeps outcomes in a directory, so that an interrupted experiment continues where it stopped.
///   DIR/points-0.jsonl    one line a finished point: {"key":…,"label":…,"outcome":…}
///                         one line a failed point: {"key":…,"label":…,"failure":…}
///   DIR/points-1.jsonl    of the second process (MPI rank), and so on
///
/// Model:   Each process appends whole lines to its own file and reads the files of all processes.
///          A line that is cut short, or that holds no outcome, counts as not written.
/// Threads: One; the runner calls it under its lock.
/// Errors:  Refuses, by name, a directory that it cannot create, read or write.
/// Memory:  All outcomes.
/// Tests:   tests/lab/sweep/runner_test.cc
#pragma once

#include <cstdint>
#include <fstream>
#include <map>
#include <string>

#include "base/result.h"
#include "lab/sweep/outcome.h"

namespace tributary::lab {

class PointStore {
 public:
  /// Keeps nothing on disk.
  PointStore() = default;
  /// Creates the directory if it is missing, and reads the outcomes in it.
  static Result<PointStore> open(const std::string& directory, uint32_t rank);

  /// Returns null if the point is not finished.
  [[nodiscard]] const PointOutcome* find(const std::string& key) const;
  /// Keeps an outcome. It is on disk when this returns.
  Result<void> append(const std::string& key, const std::string& label, PointOutcome outcome);
  /// Returns null if the point has not failed. A failed point may have been finished since.
  [[nodiscard]] const std::string* find_failure(const std::string& key) const;
  /// Keeps the reason of a failure, as append() keeps an outcome.
  Result<void> append_failure(const std::string& key, const std::string& label,
                              const std::string& reason);
  /// Reads the files again, with the lines that other processes have added.
  Result<void> reload();

 private:
  Result<void> read_file(const std::string& path);
  Result<void> write_line(const Json& line);

  std::string directory_;  ///< Empty for none.
  std::string own_path_;
  std::ofstream own_file_;
  std::map<std::string, PointOutcome> outcomes_;
  std::map<std::string, std::string> failures_;
};

}  // namespace tributary::lab
