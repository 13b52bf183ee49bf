// SPDX-License-Identifier: Apache-2.0
/// @file
/// A directory's state of the aggregators of its jobs, and the JSON of `serve --json` and
/// `tributary status --json`.
///
/// Threads: Plain values.
/// Errors:  None.
/// Tests:   tests/server/directory_test.cc
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace tributary::server {

struct DirectoryAggregator {
  std::string name;
  bool answers = false;
  uint32_t weight = 0;  ///< In the current plan; 0: the plan leaves it out.
  std::string fault;    ///< Empty if it answers.
};

struct DirectoryJob {
  uint32_t job_id = 0;
  uint64_t changes = 0;  ///< Plans so far.
  double predicted_s = 0;
  std::vector<DirectoryAggregator> aggregators;  ///< Shape [machines that may run an aggregator].
};

[[nodiscard]] nlohmann::json directory_json(const std::vector<DirectoryJob>& jobs);

}  // namespace tributary::server
