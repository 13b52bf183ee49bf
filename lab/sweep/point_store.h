// SPDX-License-Identifier: Apache-2.0
/// @file
/// Keeps outcomes in a directory, so that an interrupted experiment continues where it stopped.
///   DIR/points-0.jsonl    one line a finished point: {"key":…,"label":…,"model":…,"outcome":…}
///                         one line a failed point: {"key":…,"label":…,"model":…,"failure":…}
///   DIR/points-1.jsonl    of the second process (MPI rank), and so on
///
/// Model:   Each process appends whole lines to its own file and reads the files of all processes.
///          Lines that are cut short, without an outcome or of another model are not used.
/// Threads: One; the runner calls it under its lock.
/// Errors:  Names a directory that it cannot create, read or write, and a file in it that is not
///          regular or above 4 GiB.
/// Tests:   tests/lab/sweep/runner_test.cc
#pragma once

#include <cstdint>
#include <fstream>
#include <map>
#include <set>
#include <string>

#include "base/result.h"
#include "lab/sweep/outcome.h"

namespace tributary::lab {

class PointStore {
 public:
  /// Keeps nothing on disk.
  PointStore() = default;
  /// Creates the directory if it is missing, and reads the outcomes in it.
  /// @param model model_digest() of the program that makes the outcomes.
  static Result<PointStore> open(const std::string& directory, uint32_t rank,
                                 const std::string& model);

  /// Returns null if the point is not finished.
  [[nodiscard]] const PointOutcome* find(const std::string& key) const;
  /// Keeps an outcome. It is on disk when this returns.
  Result<void> append(const std::string& key, const std::string& label, PointOutcome outcome);
  /// Returns null if the point has not failed. A failed point may have been finished since.
  [[nodiscard]] const std::string* find_failure(const std::string& key) const;
  /// Returns whether the directory has an outcome of the point by another model.
  [[nodiscard]] bool is_outdated(const std::string& key) const { return outdated_.contains(key); }
  /// Keeps the reason of a failure, as append() keeps an outcome.
  Result<void> append_failure(const std::string& key, const std::string& label,
                              const std::string& reason);
  /// Reads the files again, with the lines that other processes have added.
  Result<void> reload();

 private:
  Result<void> read_file(const std::string& path);
  Result<void> write_line(const Json& line);

  std::string directory_;  ///< Empty for none.
  std::string model_;
  std::string own_path_;
  std::ofstream own_file_;
  std::map<std::string, PointOutcome> outcomes_;
  std::map<std::string, std::string> failures_;
  std::set<std::string> outdated_;  ///< Keys of outcomes by other models.
};

}  // namespace tributary::lab
