// SPDX-License-Identifier: Apache-2.0
// Method: a real server and workers whose results go to one rank each (`tributary worker --owner`).
// Prints the bytes that a rank receives in an all-reduce and in a reduce-scatter of the same
// tensor.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/system/server.h"
#include "tests/system/workers.h"

namespace tributary::system_test {
namespace {

constexpr uint32_t kWorld = 4;
constexpr uint64_t kElements = 400'000;

/// Runs all ranks with exact sums, and expects the same number of result bytes at each.
/// @return that number.
uint64_t result_bytes(const Server& server, const std::vector<std::string>& more) {
  Workers workers;
  std::vector<std::string> words{"--format", "exponent", "--verify"};
  words.insert(words.end(), more.begin(), more.end());
  for (uint32_t rank = 0; rank < kWorld; rank++) {
    workers.push_back(start_worker(server, rank, kWorld, words));
  }
  for (const auto& worker : workers) EXPECT_EQ(worker->wait_for_end(), 0) << worker->errors();
  const uint64_t bytes = result_of(0).value("result_bytes", uint64_t{0});
  for (uint32_t rank = 0; rank < kWorld; rank++) {
    const nlohmann::json result = result_of(rank);
    EXPECT_EQ(result["wrong"], 0) << "rank " << rank;
    EXPECT_EQ(result["result_bytes"], bytes) << "rank " << rank;
  }
  return bytes;
}

TEST(OneOwner, AReduceScatterReceivesOneRanksPart) {
  const Server server({fmt::format("id=1,sources={}", kWorld)});
  const uint64_t whole =
      result_bytes(server, {"--elements", std::to_string(kElements), "--iterations", "1"});
  const uint64_t part = result_bytes(
      server, {"--elements", std::to_string(kElements / kWorld), "--iterations",
               std::to_string(kWorld), "--inflight", std::to_string(kWorld), "--owner", "turns"});
  fmt::print(
      "{} ranks, a tensor of {} bytes: each receives {} bytes in an all-reduce, {} in a "
      "reduce-scatter\n",
      kWorld, kElements * sizeof(float), whole, part);
  EXPECT_EQ(whole, kElements * sizeof(float));
  EXPECT_EQ(part, whole / kWorld);
}

TEST(OneOwner, DrawnOwnersAloneGetExactSums) {
  const Server server({fmt::format("id=1,sources={}", kWorld)});
  for (const std::string seed : {"1", "2"}) {
    for (const std::string type : {"float32", "int32"}) {
      Workers workers;
      for (uint32_t rank = 0; rank < kWorld; rank++) {
        workers.push_back(
            start_worker(server, rank, kWorld,
                         {"--type", type, "--elements", "3000", "--iterations", "50", "--inflight",
                          "3", "--owner", "drawn", "--seed", seed, "--loss", "0.02", "--verify"}));
      }
      for (const auto& worker : workers) EXPECT_EQ(worker->wait_for_end(), 0) << worker->errors();
      for (uint32_t rank = 0; rank < kWorld; rank++) EXPECT_EQ(result_of(rank)["wrong"], 0);
    }
  }
}

TEST(OneOwner, RefusesARankOutsideTheJob) {
  for (const std::string owner : {"4", "-1", "first", ""}) {
    Process worker(
        {"worker", "--server", "127.0.0.1:1", "--world", "4", "--rank", "0", "--owner", owner});
    EXPECT_EQ(worker.wait_for_end(), 2) << owner;
    EXPECT_NE(worker.errors().find("--owner"), std::string::npos) << worker.errors();
  }
}

}  // namespace
}  // namespace tributary::system_test
