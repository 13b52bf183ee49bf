// SPDX-License-Identifier: Apache-2.0
/// @file
/// The warnings of a figure's runs by kind, for a list that stays short over hundreds of runs.
///
/// Model:   Two warnings are of one kind if they differ only in numbers.
/// Exact:   Kinds stand in the order of their first warnings.
/// Errors:  None.
/// Threads: None.
/// Tests:   tests/lab/report/warning_kinds_test.cc
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace tributary::lab {

struct WarningKind {
  std::string first;   ///< The first run's label and warning: "window=16: 1 of 6 workers …".
  uint64_t count = 0;  ///< Warnings of this kind.
};

class WarningKinds {
 public:
  /// Adds the warnings of one run; none if the run has none.
  void add_run(const std::string& label, std::span<const std::string> warnings);

  [[nodiscard]] uint64_t runs() const { return runs_; }  ///< With a warning.
  [[nodiscard]] const std::vector<WarningKind>& kinds() const { return kinds_; }

 private:
  uint64_t runs_ = 0;
  std::vector<WarningKind> kinds_;
  std::vector<std::string> texts_;  ///< By kind: the warning without its numbers.
};

}  // namespace tributary::lab
