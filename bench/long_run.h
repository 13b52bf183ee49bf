// SPDX-License-Identifier: Apache-2.0
/// @file
/// The common parts of benchmarks that run for as long as their user likes and end with verdicts:
/// the soak and the chaos.
///
/// Threads: The hooks are called on the thread of the run.
/// Tests:   tests/bench/long_run_test.cc
#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <span>
#include <string>

namespace tributary::bench {

struct LongRunHooks {
  std::function<void(const std::string&)> progress;
  std::function<bool()> interrupted;  ///< True ends the run at the next good moment.
};

/// One verdict with its reason.
struct Verdict {
  std::string what;
  bool holds;
  std::string why;
};

[[nodiscard]] bool all_hold(std::span<const Verdict> verdicts);
/// Returns a line for each verdict.
[[nodiscard]] std::string as_text(std::span<const Verdict> verdicts);
[[nodiscard]] nlohmann::ordered_json as_json(std::span<const Verdict> verdicts);

}  // namespace tributary::bench
