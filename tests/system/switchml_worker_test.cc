// SPDX-License-Identifier: Apache-2.0
// Method:  `tributary worker --protocol switchml` processes and a server with a configured session.
//          Each worker has its own address on the loopback interface, by which the switch
//          identifies it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <memory>

#include "tests/system/workers.h"

namespace tributary::system_test {
namespace {

using ::testing::HasSubstr;

constexpr uint32_t kWorld = 3;
constexpr const char* kAddresses[kWorld] = {"127.0.7.1", "127.0.7.2", "127.0.7.3"};

Workers start_workers(const Server& server, const std::vector<std::string>& more) {
  Workers workers;
  for (uint32_t rank = 0; rank < kWorld; rank++) {
    std::vector<std::string> words{"--protocol", "switchml", "--local", kAddresses[rank]};
    words.insert(words.end(), more.begin(), more.end());
    workers.push_back(start_worker(server, rank, kWorld, words));
  }
  return workers;
}

/// Returns a server with a session for the three workers.
Server configured(const std::vector<std::string>& more = {}) {
  std::vector<std::string> words{
      "--protocol", "switchml",  "--memory-mb",
      "256",        "--session", "workers=127.0.7.1+127.0.7.2+127.0.7.3,elements=256,slots=256"};
  words.insert(words.end(), more.begin(), more.end());
  return Server({}, words);
}

void expect_exact(const Workers& workers, uint64_t iterations, uint64_t elements) {
  for (uint32_t rank = 0; rank < kWorld; rank++) {
    EXPECT_EQ(workers[rank]->wait_for_end(), 0) << workers[rank]->errors();
    const auto result = result_of(rank);
    EXPECT_EQ(result["status"], "ok");
    EXPECT_EQ(result["iterations"], iterations);
    EXPECT_EQ(result["checked"], iterations * elements);
    EXPECT_EQ(result["wrong"], 0);
    EXPECT_EQ(result["config"]["protocol"], "switchml");
  }
}

// Two runs on one configured session, with different values. Slots still hold the previous run's
// values, which must not be returned as results.
TEST(SwitchmlWorker, ConsecutiveRunsGetExactSumsUnderFaults) {
  Server server = configured();
  const std::vector<std::vector<std::string>> runs{
      {"--type", "int32"},
      {"--type", "float32"},
      {"--type", "float32", "--format", "exponent", "--op", "mean", "--inflight", "3"}};
  for (size_t run = 0; run < runs.size(); run++) {
    std::vector<std::string> words = runs[run];
    words.insert(words.end(), {"--elements", "20000", "--iterations", "10", "--verify", "--seed",
                               std::to_string(run), "--loss", "0.01", "--duplicate", "0.02",
                               "--reorder", "0.02"});
    expect_exact(start_workers(server, words), 10, 20'000);
  }
  const auto stats = server.stats();
  EXPECT_GT(stats["counters"]["slot_reclaimed"], 0);
  ASSERT_EQ(stats["sessions"].size(), 1U);
  EXPECT_EQ(stats["sessions"][0]["workers"],
            nlohmann::json({"127.0.7.1", "127.0.7.2", "127.0.7.3"}));
  EXPECT_EQ(server.stop(), 0);
}

TEST(SwitchmlWorker, SeveralCoresAddExactly) {
  Server server = configured({"--cores", "2"});
  expect_exact(start_workers(server, {"--elements", "100000", "--iterations", "5", "--verify"}), 5,
               100'000);
  const auto cores = server.stats()["cores"];
  ASSERT_EQ(cores.size(), 2U);
  for (const auto& core : cores) EXPECT_GT(core["packets"], 0);
}

TEST(SwitchmlWorker, KilledWorkerEndsTheOthersAndIsNamed) {
  Server server = configured();
  Workers workers = start_workers(
      server, {"--elements", "20000", "--iterations", "10000000", "--deadline-s", "2"});
  server.wait_until_counted("slot_completed", 1000);
  workers[1]->signal(SIGKILL);
  EXPECT_EQ(workers[1]->wait_for_end(), 128 + SIGKILL);
  for (const uint32_t rank : {0U, 2U}) {
    EXPECT_EQ(workers[rank]->wait_for_end(), 1);
    EXPECT_THAT(lines_of(workers[rank]->errors()).back(),
                HasSubstr("one of the 3 workers has not sent this packet"));
  }
  const auto silent_s = server.stats()["sessions"][0]["silent_s"];
  ASSERT_EQ(silent_s.size(), kWorld);
  // The others have retransmitted until their deadline.
  EXPECT_GT(silent_s[1], silent_s[0]);
  EXPECT_GT(silent_s[1], silent_s[2]);
}

TEST(SwitchmlWorker, ErrorNamesAStoppedSwitch) {
  Server server = configured();
  const Workers workers = start_workers(
      server, {"--elements", "20000", "--iterations", "10000000", "--deadline-s", "1"});
  server.wait_until_counted("slot_completed", 1000);
  server.kill();
  for (const auto& worker : workers) {
    EXPECT_EQ(worker->wait_for_end(), 1);
    EXPECT_THAT(lines_of(worker->errors()).back(),
                HasSubstr("SwitchML switch " + server.address() + " has not answered packet"));
  }
}

TEST(SwitchmlWorker, RefusesFlagsOfTheOtherProtocol) {
  const auto refusal = [](std::vector<std::string> words) {
    words.insert(words.begin(), "worker");
    Process process(words);
    EXPECT_EQ(process.wait_for_end(), 2);
    return process.errors();
  };
  EXPECT_THAT(
      refusal({"--protocol", "switchml", "--server", "127.0.0.1", "--job", "3"}),
      HasSubstr("--job cannot be combined with --protocol switchml; allowed: --protocol trio-ml"));
  EXPECT_THAT(refusal({"--server", "127.0.0.1", "--control", "127.0.0.1"}),
              HasSubstr("--control cannot be combined with --protocol trio-ml"));
  EXPECT_THAT(refusal({"--protocol", "switchml"}),
              HasSubstr("--server is missing; allowed: HOST:PORT of the aggregator, or --control"));
  EXPECT_THAT(
      refusal({"--protocol", "switchml", "--server", "127.0.0.1", "--gradients", "352"}),
      HasSubstr("--gradients 352 is out of range; allowed with --protocol switchml: 64 or 256"));
  EXPECT_THAT(refusal({"--protocol", "switchml", "--server", "127.0.0.1", "--world", "33"}),
              HasSubstr("--world 33 is out of range; allowed with --protocol switchml: 1 to 32"));
}

}  // namespace
}  // namespace tributary::system_test
