// SPDX-License-Identifier: Apache-2.0
/// @file
/// `tributary worker` processes, one per rank, and their results.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/system/server.h"

namespace tributary::system_test {

using Workers = std::vector<std::unique_ptr<Process>>;

/// Returns the path of a rank's result file.
inline std::string result_path(uint32_t rank) {
  const auto* const test = ::testing::UnitTest::GetInstance()->current_test_info();
  return scratch(std::string(test->name()) + "_" + std::to_string(rank) + ".json");
}

inline nlohmann::json result_of(uint32_t rank) {
  std::ifstream file(result_path(rank));
  return nlohmann::json::parse(file, nullptr, /*allow_exceptions=*/false);
}

/// Starts rank `rank` of `world`.
/// @param more Further words of its command line.
inline std::unique_ptr<Process> start_worker(const Server& server, uint32_t rank, uint32_t world,
                                             const std::vector<std::string>& more) {
  std::vector<std::string> words{"worker", "--server", server.address()};
  words.insert(words.end(), {"--world", std::to_string(world), "--rank", std::to_string(rank),
                             "--json", result_path(rank)});
  words.insert(words.end(), more.begin(), more.end());
  return std::make_unique<Process>(words);
}

}  // namespace tributary::system_test
