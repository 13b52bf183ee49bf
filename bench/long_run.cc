// SPDX-License-Identifier: Apache-2.0
#include "bench/long_run.h"

#include <fmt/format.h>

#include <algorithm>

namespace tributary::bench {

bool all_hold(std::span<const Verdict> verdicts) {
  return std::ranges::all_of(verdicts, &Verdict::holds);
}

std::string as_text(std::span<const Verdict> verdicts) {
  std::string text;
  for (const Verdict& verdict : verdicts) {
    text +=
        fmt::format("{}  {}: {}\n", verdict.holds ? "holds " : "MISSED", verdict.what, verdict.why);
  }
  return text;
}

nlohmann::ordered_json as_json(std::span<const Verdict> verdicts) {
  auto json = nlohmann::ordered_json::array();
  for (const Verdict& verdict : verdicts) {
    json.push_back({{"what", verdict.what}, {"holds", verdict.holds}, {"why", verdict.why}});
  }
  return json;
}

}  // namespace tributary::bench
