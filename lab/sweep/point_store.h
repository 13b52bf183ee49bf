// SPDX-License-Identifier: Apache-2.0
/// @file
/// Outcomes that are kept in a directory, so that an interrupted experiment goes on where it was.
///
///   DIR/points-0.jsonl    one line a finished point: {"key":…,"label":…,"outcome":…}
///   DIR/points-1.jsonl    of the second process (MPI rank), and so on
///
/// Model:   Each process appends to its own file, a whole line at a time, and reads those of all. A
///          line that was cut short by the end of its process counts as not written.
/// Threads: One; the runner calls it under its lock.
/// Errors:  A directory that cannot be made, read or written is refused by name.
/// Memory:  All outcomes.
/// Tests:   tests/lab/sweep/runner_test.cc
#pragma once

#include <cstdint>
#include <fstream>
#include <map>
#include <string>

#include "base/result.h"
#include "lab/sweep/run_json.h"

namespace tributary::lab {

class PointStore {
 public:
  /// Keeps nothing on disk.
  PointStore() = default;
  /// Makes the directory unless it is there, and reads what is kept in it.
  static Result<PointStore> open(const std::string& directory, uint32_t rank);

  /// @return null if the point is not finished.
  [[nodiscard]] const Json* find(const std::string& key) const;
  /// Keeps an outcome; it is on disk when this returns.
  Result<void> append(const std::string& key, const std::string& label, Json outcome);
  /// Reads again what other processes have written.
  Result<void> reload();

 private:
  Result<void> read_file(const std::string& path);

  std::string directory_;  ///< Empty for none.
  std::string own_path_;
  std::ofstream own_file_;
  std::map<std::string, Json> outcomes_;
};

}  // namespace tributary::lab
