// SPDX-License-Identifier: Apache-2.0
// Method:  a tree of servers and its workers as processes. The upper server is absent, killed or
//          restarted; the workers' errors, the lower server's log and `tributary who` name it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>

#include "tests/system/control_folder.h"
#include "tests/system/workers.h"

namespace tributary::system_test {
namespace {

using nlohmann::json;
using ::testing::AnyOf;
using ::testing::HasSubstr;

class TreeFaults : public ControlFolder {
 protected:
  /// A lower server with one rank of two.
  static std::string lower_job(const std::string& upper, uint32_t source) {
    return "id=1,sources=1,upstream=" + upper + ",upstream_source=" + std::to_string(source) +
           ",rank_base=" + std::to_string(source) + ",world=2";
  }
  static std::unique_ptr<Process> start_rank(const Server& lower, uint32_t rank,
                                             const std::string& deadline_s) {
    return start_worker(lower, rank, 2,
                        {"--source", "0", "--elements", "20000", "--iterations", "100000000",
                         "--local", "off", "--deadline-s", deadline_s});
  }
  /// Asks `who` of a server until its first row's advice has this text.
  static std::string advice_of(const Server& server, const std::string& text) {
    const auto deadline = Clock::now() + kPatience;
    std::string advice;
    while (advice.find(text) == std::string::npos && Clock::now() < deadline) {
      const json rows = json::parse(run({"who", "--json", "--name", server.address()}))["rows"];
      advice = rows.empty() ? "" : rows[0]["advice"].get<std::string>();
    }
    return advice;
  }
};

TEST_F(TreeFaults, AnAbsentUpperServerIsNamed) {
  const std::string upper = "127.0.0.1:" + std::to_string(free_port());
  Server lower({lower_job(upper, 0)});
  auto worker = start_rank(lower, 0, "12");
  const std::string fault = "upper aggregator " + upper;
  EXPECT_TRUE(lower.wait_for_error("warn event=upstream_silent job=1 silent_ms="));
  const std::string advice = advice_of(lower, fault + " has not answered");
  EXPECT_THAT(advice, HasSubstr("the upper aggregator " + upper + " has not answered for"));
  EXPECT_EQ(worker->wait_for_end(), 1);
  EXPECT_THAT(worker->errors(),
              HasSubstr(fault + " (above " + lower.address() + ") has not answered for"));
  EXPECT_EQ(lower.stop(), 0);
}

TEST_F(TreeFaults, AKilledAndARestartedUpperServerAreNamed) {
  Server upper({"id=1,sources=2,sources_are_aggregators=on,world=2"});
  Server first({lower_job(upper.address(), 0)});
  Server second({lower_job(upper.address(), 1)});
  Workers workers;
  workers.push_back(start_rank(first, 0, "12"));
  workers.push_back(start_rank(second, 1, "60"));
  first.wait_until_counted("upstream_result", 100);
  upper.kill();
  const std::string fault = "upper aggregator " + upper.address();
  EXPECT_THAT(advice_of(first, fault + " has not answered"), HasSubstr("has not answered for"));
  EXPECT_TRUE(first.wait_for_error("warn event=upstream_silent job=1 silent_ms="));
  // The first worker's deadline passes.
  EXPECT_EQ(workers[0]->wait_for_end(), 1);
  EXPECT_THAT(workers[0]->errors(),
              HasSubstr(fault + " (above " + first.address() + ") has not answered for"));
  // The second one still waits when a new process takes the upper one's place.
  upper.start_again();
  EXPECT_EQ(workers[1]->wait_for_end(), 1);
  EXPECT_THAT(workers[1]->errors(), HasSubstr(fault + " (above " + second.address() +
                                              ") was restarted or has ended this session"));
  EXPECT_TRUE(second.wait_for_error("warn event=upstream_lost job=1 address=" + upper.address()));
  EXPECT_EQ(first.stop(), 0);
  EXPECT_EQ(second.stop(), 0);
  EXPECT_EQ(upper.stop(), 0);
}

TEST_F(TreeFaults, TheSilenceOfAllRanksBelowALowerServerIsNamed) {
  Server upper({"id=1,sources=2,sources_are_aggregators=on,world=2"});
  Server first({lower_job(upper.address(), 0)});
  Server second({lower_job(upper.address(), 1)});
  Workers workers;
  workers.push_back(start_rank(first, 0, "60"));
  workers.push_back(start_rank(second, 1, "60"));
  first.wait_until_counted("upstream_result", 100);
  workers[1]->signal(SIGSTOP);
  EXPECT_EQ(workers[0]->wait_for_end(), 1);
  EXPECT_THAT(workers[0]->errors(), HasSubstr("rank 1 has sent nothing to"));
  EXPECT_TRUE(second.wait_for_error("warn event=rank_silent job=1 rank=1 "));
  workers[1]->signal(SIGKILL);
  EXPECT_EQ(first.stop(), 0);
  EXPECT_EQ(second.stop(), 0);
  EXPECT_EQ(upper.stop(), 0);
}

TEST_F(TreeFaults, AnUpperServerWithoutTheJobIsNamed) {
  Server upper({"id=2,sources=2,sources_are_aggregators=on,world=2"});
  Server lower({lower_job(upper.address(), 0)});
  auto worker = start_rank(lower, 0, "60");
  EXPECT_EQ(worker->wait_for_end(), 1);
  EXPECT_THAT(worker->errors(),
              HasSubstr("aggregator " + upper.address() + " has no job 1; " + upper.address() +
                        " is the upper aggregator of " + lower.address()));
  EXPECT_EQ(lower.stop(), 0);
  EXPECT_EQ(upper.stop(), 0);
}

// Two shards, each with a lower server for the machine's two ranks.
TEST_F(TreeFaults, AKilledUpperShardEndsTheRanksLongBeforeTheirDeadline) {
  constexpr const char* kUpperJob = "id=1,sources=1,sources_are_aggregators=on,world=2";
  const auto job_below = [](const Server& upper) {
    return "id=1,sources=2,upstream=" + upper.address() + ",upstream_source=0,world=2";
  };
  Server kept({kUpperJob}), killed({kUpperJob});
  Server first({job_below(kept)}), second({job_below(killed)});
  const std::string list = first.address() + "," + second.address();
  Workers workers;
  for (const char* rank : {"0", "1"}) {
    workers.push_back(std::make_unique<Process>(std::vector<std::string>{
        "worker", "--server", list, "--rank", rank, "--world", "2", "--elements", "200000",
        "--iterations", "100000000", "--deadline-s", "3600"}));
  }
  second.wait_until_counted("upstream_result", 100);
  killed.kill();
  // A rank may hear of the other's end before it gives up itself.
  const std::string own = "upper aggregator " + killed.address() + " (above " + second.address() +
                          ") has not answered for";
  const std::string of_the_other = "has lost aggregator " + second.address();
  uint32_t name_the_upper = 0;
  for (const auto& worker : workers) {
    EXPECT_EQ(worker->wait_for_end(), 1);
    EXPECT_THAT(worker->errors(), AnyOf(HasSubstr(own), HasSubstr(of_the_other)));
    if (worker->errors().find(own) != std::string::npos) name_the_upper++;
  }
  EXPECT_GE(name_the_upper, 1U);
}

}  // namespace
}  // namespace tributary::system_test
