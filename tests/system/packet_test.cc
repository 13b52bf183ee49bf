// SPDX-License-Identifier: Apache-2.0
// Method:  a server on a packet socket at one end of a veth pair. First kernel sockets at the other
//          end, then this project's workers on packet sockets of their own. Needs root.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>

#include "tests/system/network.h"
#include "tests/system/workers.h"

namespace tributary::system_test {
namespace {

using ::testing::HasSubstr;

using OverPacketSockets = VethTest;

const std::string kServerPort = "packet:wire,ip=10.77.0.1/24";

TEST_F(OverPacketSockets, SourcesWithKernelSocketsGetExactSums) {
  expect_trio_ml_sums(ours_, theirs_, kServerPort, 1024);
}

TEST_F(OverPacketSockets, WorkersGetExactSums) {
  const std::string json = scratch("packet_sockets.json");
  std::unique_ptr<Process> server;
  {
    const Inside inside(ours_);
    server = std::make_unique<Process>(
        std::vector<std::string>{"serve", "--job", "id=1,sources=2,block_grad_max=1000", "--port",
                                 kServerPort, "--cores", "2", "--json", json});
  }
  ASSERT_TRUE(server->wait_for_line("ready")) << server->errors();
  const Inside inside(theirs_);
  Workers workers;
  for (const std::string rank : {"0", "1"}) {
    workers.push_back(std::make_unique<Process>(std::vector<std::string>{
        "worker", "--server", "10.77.0.1", "--world", "2", "--rank", rank, "--verify", "--elements",
        "50000", "--iterations", "3", "--port", "packet:wire,ip=10.77.0.1" + rank + "/24"}));
  }
  for (const auto& worker : workers) EXPECT_EQ(worker->wait_for_end(), 0) << worker->errors();
  server->signal(SIGTERM);
  EXPECT_EQ(server->wait_for_end(), 0);
  std::ifstream file(json);
  const auto stats = nlohmann::json::parse(file, nullptr, /*allow_exceptions=*/false);
  // Both workers hear the answer to either of them, so one question may be enough.
  EXPECT_GE(stats["ports"][0]["frames"]["arp_answered"], 1);
  EXPECT_LE(stats["ports"][0]["frames"]["arp_answered"], 2);
  for (const auto& core : stats["cores"]) EXPECT_GT(core["packets"], 0);  // Core 0 hands over.
}

TEST_F(OverPacketSockets, RefusalsNameCauseAndRemedy) {
  const auto refusal = [this](const std::string& port, const std::vector<std::string>& more = {}) {
    const Inside inside(theirs_);
    std::vector<std::string> words{"serve", "--port", port};
    words.insert(words.end(), more.begin(), more.end());
    Process process(words);
    EXPECT_EQ(process.wait_for_end(), 2) << process.errors();
    return process.errors();
  };
  const std::vector<std::string> job{"--job", "id=1,sources=2"};
  EXPECT_THAT(refusal("packet:wire,ip=10.77.0.2/24", job), HasSubstr("the kernel has this ip too"));
  EXPECT_THAT(refusal("packet:wire,ip=10.77.0.9/24", job),
              HasSubstr("give the job block_grad_max=1027"));
  const std::vector<std::string> switchml{"--protocol", "switchml", "--control", "10.77.0.2"};
  EXPECT_THAT(refusal("packet:wire,ip=fd00::1/64", switchml), HasSubstr("an IPv4 address"));
}

}  // namespace
}  // namespace tributary::system_test
