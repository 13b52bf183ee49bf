// SPDX-License-Identifier: Apache-2.0
// Method: two machines with a cable of 4200 bytes. The ranks reach the lower aggregator on their
//         own machine, where packets may be larger. The kernel counts the fragments that it makes.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "tests/system/network.h"
#include "tests/system/process.h"

namespace tributary::system_test {
namespace {

std::unique_ptr<Process> start_server(const std::string& network, const std::string& job) {
  const Inside inside(network);
  return std::make_unique<Process>(
      std::vector<std::string>{"serve", "--listen", "0.0.0.0:12000", "--api", "off", "--job", job});
}

using TreePath = VethTest;

TEST_F(TreePath, SumsForTheUpperAggregatorTravelInWholePackets) {
  ASSERT_TRUE(run("ip -n " + ours_ + " address add 10.77.0.1/24 dev wire"));
  ASSERT_TRUE(run("ip -n " + theirs_ + " link set lo up"));
  const auto upper = start_server(ours_, "id=1,sources=1,sources_are_aggregators=on,world=2");
  const auto lower = start_server(theirs_, "id=1,sources=2,upstream=10.77.0.1:12000,world=2");
  ASSERT_TRUE(upper->wait_for_line("ready")) << upper->errors();
  ASSERT_TRUE(lower->wait_for_line("ready")) << lower->errors();

  const Inside inside(theirs_);
  std::vector<std::unique_ptr<Process>> workers;
  for (const char* rank : {"0", "1"}) {
    workers.push_back(std::make_unique<Process>(
        std::vector<std::string>{"worker", "--server", "127.0.0.1:12000", "--rank", rank, "--world",
                                 "2", "--elements", "100000", "--iterations", "5", "--verify"}));
  }
  for (const auto& worker : workers) EXPECT_EQ(worker->wait_for_end(), 0) << worker->errors();
  EXPECT_TRUE(
      run("test 0 -eq $(awk '$1 == \"Ip:\" { if (!column) for (i = 1; i <= NF; i++) "
          "{ if ($i == \"FragCreates\") column = i } else print $column }' /proc/net/snmp)"))
      << "the kernel made fragments";
}

}  // namespace
}  // namespace tributary::system_test
