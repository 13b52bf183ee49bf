// SPDX-License-Identifier: Apache-2.0
// Method:  a server and workers as processes. The commands of an operator change its jobs; workers
//          of another job reduce meanwhile.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <functional>
#include <string>
#include <vector>

#include "server/control/http_client.h"
#include "tests/support/sanitized.h"
#include "tests/system/control_folder.h"
#include "tests/system/workers.h"

namespace tributary::system_test {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

/// Jobs that are added and removed. A sanitizer makes each ten times slower.
constexpr uint32_t kJobs = testing::kIsSanitized ? 100 : 1000;
constexpr uint32_t kFirstJobs = 100;
/// A leak of the smallest part of a job, its session, would take 60 MB.
constexpr uint64_t kGrowthBytesMax = uint64_t{8} << 20;

/// The other job's share of its rate while jobs come and go without a pause. tools/job-churn.py
/// measures it at a given rate; this bound holds on a loaded machine, too.
constexpr double kRateShareMin = 0.5;

class JobCommand : public ControlFolder {
 protected:
  /// Sends a request to the server named "box".
  json ask(const std::string& method, const std::string& path, const json& body = nullptr) {
    const auto answer = control::ask(folder_ + "/box.sock", method, path, body);
    EXPECT_TRUE(answer.has_value()) << method << " " << path << ": " << answer.error().text;
    return answer.value_or(json::object());
  }
  /// Adds and removes job 200 once.
  void add_and_remove() {
    ask("POST", "/v1/jobs", {{"id", 200}, {"sources", 2}, {"window", 256}});
    ask("DELETE", "/v1/jobs/200");
  }
  /// Adds and removes `count` jobs, and then asks as many questions that change nothing.
  /// @return the rate of results in the first time over that in the second.
  double rate_share_of_churn(uint32_t count) {
    const auto rate_of = [this](const std::function<void()>& work, uint32_t repeats) {
      const auto began = Clock::now();
      const uint64_t before = ask("GET", "/v1/status")["blocks_completed"];
      for (uint32_t i = 0; i < repeats; i++) work();
      const uint64_t after = ask("GET", "/v1/status")["blocks_completed"];
      return static_cast<double>(after - before) /
             std::chrono::duration<double>(Clock::now() - began).count();
    };
    const double churned = rate_of([this] { add_and_remove(); }, count);
    return churned / rate_of([this] { ask("GET", "/v1/jobs/1"); }, 2 * count);
  }
};

TEST_F(JobCommand, ChangesTheJobsOfARunningServer) {
  Server server({"id=1,sources=2"}, {"--name", "box"});
  EXPECT_EQ(run({"job", "add", "2", "--sources", "3", "--mitigation", "on", "--window", "64"}),
            "added job 2\n");
  json jobs = json::parse(run({"job", "list", "--json"}))["jobs"];
  ASSERT_EQ(jobs.size(), 2U);
  EXPECT_EQ(jobs[1]["id"], 2);
  EXPECT_EQ(jobs[1]["sources"], 3);
  EXPECT_THAT(run({"job", "list"}), HasSubstr("0/3"));
  EXPECT_THAT(run({"job", "add", "2", "--sources", "3"}, 1),
              HasSubstr("tributary job: job 2 exists already"));
  EXPECT_THAT(run({"job", "add", "3", "--sources", "3", "--timeout_ms", "5"}, 1),
              HasSubstr("timeout_ms needs mitigation=on"));
  EXPECT_EQ(run({"job", "set", "2", "--timeout-ms", "40"}), "job 2: timeout_ms=40\n");
  json config = ask("GET", "/v1/config");
  EXPECT_EQ(config["jobs"][1]["timeout_ms"], 40);
  EXPECT_EQ(config["linger_s"], 0);
  EXPECT_TRUE(config.contains("http"));
  EXPECT_EQ(config["http"], nullptr);
  EXPECT_THAT(run({"job", "set", "1", "--timeout_ms", "40"}, 1), HasSubstr("needs mitigation=on"));
  EXPECT_THAT(run({"job", "set", "1"}, 2), HasSubstr("give --timeout-ms or --silence"));
  EXPECT_EQ(run({"job", "set", "1", "--silence", "wait"}), "job 1: silence=wait\n");
  EXPECT_EQ(ask("GET", "/v1/config")["jobs"][0]["silence"], "wait");
  EXPECT_THAT(run({"job", "set", "2", "--silence", "wait"}, 1), HasSubstr("mitigation=on"));
  EXPECT_EQ(run({"job", "remove", "2"}), "removed job 2\n");
  EXPECT_THAT(run({"job", "remove", "2"}, 1), HasSubstr("job 2 does not exist; jobs: 1"));
  EXPECT_THAT(run({"job", "evict", "1", "0"}, 1), HasSubstr("has not joined, or has left"));
  EXPECT_EQ(run({"job", "drain", "1"}), "job 1 goes when its workers have left\n");
  EXPECT_TRUE(server.wait_for_error("info event=job_removed job=1 drained=true"));
  EXPECT_EQ(run({"job", "list"}), "no jobs\n");
  EXPECT_THAT(run({"job", "add", "3"}, 2), HasSubstr("--sources"));
  EXPECT_EQ(server.stop(), 0);
  EXPECT_THAT(run({"job", "list"}, 1), HasSubstr("no server of this machine"));
}

TEST_F(JobCommand, WorkersOfARemovedJobAndAnEvictedRankLearnIt) {
  Server server({"id=1,sources=2", "id=2,sources=1"}, {"--name", "box"});
  const std::vector<std::string> endless{"--elements", "5000", "--iterations", "10000000"};
  Workers workers;
  for (uint32_t rank = 0; rank < 2; rank++) {
    workers.push_back(start_worker(server, rank, 2, endless));
  }
  server.wait_until_counted("block_completed", 100);
  EXPECT_THAT(run({"job", "remove", "1"}, 1), HasSubstr("job 1 is in use"));
  EXPECT_EQ(run({"job", "evict", "1", "1"}), "evicted source 1 of job 1\n");
  EXPECT_EQ(workers[1]->wait_for_end(), 1);
  EXPECT_THAT(workers[1]->errors(), HasSubstr("rank 1 was removed from job 1 by the operator"));
  EXPECT_EQ(workers[0]->wait_for_end(), 1);
  EXPECT_THAT(workers[0]->errors(), HasSubstr("rank 1 has left job 1"));

  std::vector<std::string> other = endless;
  other.insert(other.end(), {"--job", "2"});
  const auto alone = start_worker(server, 0, 1, other);
  server.wait_until_counted("session_started", 2);
  EXPECT_EQ(run({"job", "remove", "2", "--force"}), "removed job 2\n");
  EXPECT_EQ(alone->wait_for_end(), 1);
  EXPECT_THAT(alone->errors(), HasSubstr("job 2 was removed from aggregator"));
  EXPECT_EQ(server.stop(), 0);
}

TEST_F(JobCommand, ThousandOtherJobsLeaveSumsExactAndMemoryFlat) {
  Server server({"id=1,sources=2,window=256,block_grad_max=352"}, {"--name", "box"});
  Workers workers;
  for (uint32_t rank = 0; rank < 2; rank++) {
    workers.push_back(start_worker(server, rank, 2,
                                   {"--elements", "20000", "--iterations", "10000000", "--verify",
                                    "--local", "off", "--deadline-s", "60"}));
  }
  server.wait_until_counted("block_completed", 1000);
  for (uint32_t i = 0; i < kFirstJobs && i < kJobs; i++) add_and_remove();
  const uint64_t first_bytes = server.resident_bytes();
  const uint64_t first_blocks = ask("GET", "/v1/status")["blocks_completed"];
  std::vector<double> shares;
  for (uint32_t done = kFirstJobs; done < kJobs; done += kFirstJobs) {
    shares.push_back(rate_share_of_churn(kFirstJobs));
  }
  // A sanitizer keeps freed memory.
  if (!testing::kIsSanitized) {
    EXPECT_LE(server.resident_bytes(), first_bytes + kGrowthBytesMax);
  }
  if (!shares.empty()) {
    std::ranges::sort(shares);
    RecordProperty("median_share_of_the_rate", std::to_string(shares[shares.size() / 2]));
    EXPECT_GT(shares[shares.size() / 2], kRateShareMin);
  }
  server.wait_until_counted("block_completed", first_blocks + 1000);
  EXPECT_EQ(ask("GET", "/v1/jobs")["jobs"].size(), 1U);

  for (auto& worker : workers) worker->signal(SIGINT);
  for (auto& worker : workers) static_cast<void>(worker->wait_for_end());
  for (uint32_t rank = 0; rank < 2; rank++) {
    const json result = result_of(rank);
    EXPECT_GT(result.value("iterations", 0), 10) << result;
    EXPECT_GT(result.value("checked", 0), 0) << result;
    EXPECT_EQ(result.value("wrong", -1), 0) << result;
  }
  EXPECT_EQ(server.stop(), 0);
}

/// Sessions before memory is measured, and after. Each has two ranks with a window of 4096.
constexpr uint32_t kFirstSessions = 5;
constexpr uint32_t kSessions = 50;
/// A leak of a session's smallest part for each rank, its socket's buffers, would take more.
constexpr uint64_t kSessionGrowthBytesMax = uint64_t{4} << 20;

TEST_F(JobCommand, FinishedSessionsLeaveNoMemoryBehind) {
  Server server({"id=1,sources=2"}, {"--name", "box"});
  uint64_t first_bytes = 0;
  // Under a sanitizer memory is not compared, and processes start slowly.
  const uint32_t sessions = testing::kIsSanitized ? kFirstSessions : kSessions;
  for (uint32_t session = 0; session < sessions; session++) {
    Workers workers;
    for (uint32_t rank = 0; rank < 2; rank++) {
      workers.push_back(
          start_worker(server, rank, 2, {"--elements", "100000", "--iterations", "2"}));
    }
    for (auto& worker : workers) ASSERT_EQ(worker->wait_for_end(), 0) << worker->errors();
    if (session + 1 == kFirstSessions) first_bytes = server.resident_bytes();
  }
  const uint64_t last_bytes = server.resident_bytes();
  RecordProperty("first_bytes", std::to_string(first_bytes));
  RecordProperty("last_bytes", std::to_string(last_bytes));
  // A sanitizer keeps freed memory.
  if (!testing::kIsSanitized) {
    EXPECT_LE(last_bytes, first_bytes + kSessionGrowthBytesMax);
  }
  EXPECT_EQ(server.stop(), 0);
}

TEST_F(JobCommand, FinishedJobsReturnTheirMemory) {
  constexpr uint32_t kFinishedJobs = testing::kIsSanitized ? 2 : 10;
  // A session of this length touches more than 20 MB of the job's buffers.
  constexpr uint64_t kTouchedBytesMin = uint64_t{10} << 20;
  constexpr uint64_t kLeftBytesMax = uint64_t{2} << 20;
  std::vector<std::string> jobs;
  for (uint32_t id = 1; id <= kFinishedJobs; id++) {
    jobs.push_back("id=" + std::to_string(id) + ",sources=2");
  }
  Server server(jobs, {"--name", "box", "--cores", "2"});
  const uint64_t first_bytes = server.resident_bytes();
  uint64_t most_bytes = 0;
  for (uint32_t id = 1; id <= kFinishedJobs; id++) {
    Workers workers;
    for (uint32_t rank = 0; rank < 2; rank++) {
      workers.push_back(start_worker(
          server, rank, 2,
          {"--job", std::to_string(id), "--elements", "3000000", "--iterations", "1"}));
    }
    for (auto& worker : workers) ASSERT_EQ(worker->wait_for_end(), 0) << worker->errors();
    most_bytes = std::max(most_bytes, server.resident_bytes());
  }
  if (!testing::kIsSanitized) {
    EXPECT_GE(most_bytes, first_bytes + kTouchedBytesMin);
    server.wait_until_resident_below(first_bytes + kFinishedJobs * kLeftBytesMax);
  }
  EXPECT_EQ(server.stop(), 0);
}

}  // namespace
}  // namespace tributary::system_test
