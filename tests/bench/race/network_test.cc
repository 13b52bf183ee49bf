// SPDX-License-Identifier: Apache-2.0
// Method:  creates real namespaces if the test may (root with iproute2); otherwise skips.
#include "bench/race/network.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench/race/command.h"

namespace tributary::race {
namespace {

using ::testing::HasSubstr;

uint32_t namespaces_with(const std::string& prefix) {
  const auto listed = run_command({"ip", "netns", "list"});
  uint32_t found = 0;
  size_t at = 0;
  while (listed && (at = listed->find(prefix, at)) != std::string::npos) {
    found++;
    at++;
  }
  return found;
}

TEST(Command, ReturnsOutputAndFailures) {
  EXPECT_EQ(run_command({"echo", "a b"}).value(), "a b\n");
  const auto missing = run_command({"tributary-no-such-program"});
  ASSERT_FALSE(missing);
  EXPECT_NE(missing.error().text.find("not installed"), std::string::npos);
  const auto failed = run_command({"ls", "/no-such-folder"});
  ASSERT_FALSE(failed);
  EXPECT_NE(failed.error().text.find("ls /no-such-folder"), std::string::npos);
  EXPECT_NE(failed.error().text.find("No such file"), std::string::npos);
}

TEST(NetKinds, FindsNetKindsByName) {
  for (const NetKind& kind : net_kinds()) EXPECT_EQ(find_net_kind(kind.name), &kind);
  EXPECT_EQ(find_net_kind("token-ring"), nullptr);
  EXPECT_FALSE(find_net_kind("lo")->may_lose());
  EXPECT_TRUE(find_net_kind("netns-pkt1500")->may_lose());
  EXPECT_TRUE(find_net_kind("netns-1gbit-equal-pkt1500")->may_lose());
}

TEST(NetKinds, SpareMachinesHaveTheCablesThatTheNameSays) {
  EXPECT_EQ(find_net_kind("netns-1gbit")->spare_mbit(0), 0U) << "unlimited";
  EXPECT_EQ(find_net_kind("netns-1gbit-equal")->spare_mbit(0), 1000U);
  EXPECT_EQ(find_net_kind("netns-1gbit-equal")->spare_mbit(7), 1000U);
  EXPECT_EQ(find_net_kind("netns-1gbit-half")->spare_mbit(0), 500U);
  EXPECT_EQ(find_net_kind("netns-1gbit-half")->spare_mbit(1), 1000U);
}

TEST(RaceNetwork, LoopbackNeedsNoPreparation) {
  auto network = RaceNetwork::make(*find_net_kind("lo"), 4);
  ASSERT_TRUE(network);
  EXPECT_TRUE(network->at_worker(1).empty());
  EXPECT_EQ(network->spare_address(0), "127.0.0.1");
  EXPECT_EQ(network->interface(), "lo");
  EXPECT_FALSE(network->set_loss(0.1)) << "whole segments cross it";
}

class Namespaces : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const std::string refusal = namespaces_refusal(); !refusal.empty()) GTEST_SKIP() << refusal;
  }
  const std::string own_ = "trib-race-" + std::to_string(getpid()) + "-";
};

TEST_F(Namespaces, NetworkCreatesAndRemovesNamespaces) {
  for (const char* name : {"netns", "netns-1gbit", "netns-pkt1500", "netns-1gbit-equal"}) {
    {
      auto network = RaceNetwork::make(*find_net_kind(name), 2);
      ASSERT_TRUE(network) << network.error().text;
      EXPECT_EQ(namespaces_with(own_), 4U) << "two workers, a spare machine, the bridge";
      const RaceNetwork moved = std::move(*network);
      EXPECT_EQ(moved.worker_prefix().substr(0, own_.size()), own_);
    }
    EXPECT_EQ(namespaces_with(own_), 0U) << name;
  }
}

/// Returns the rates of the shapers in a namespace, as `tc` prints them.
std::string shapers_in(const std::string& prefix, const std::string& machine) {
  const auto shown = run_command({"tc", "-n", prefix + machine, "qdisc", "show"});
  return shown.value_or("");
}

TEST_F(Namespaces, ShapesTheCablesOfSpareMachines) {
  auto network = RaceNetwork::make(*find_net_kind("netns-1gbit-half"), 2, 2);
  ASSERT_TRUE(network) << network.error().text;
  EXPECT_EQ(namespaces_with(own_), 5U) << "two workers, two spare machines, the bridge";
  std::string prefix = network->worker_prefix();
  prefix.pop_back();  // The "w".
  EXPECT_THAT(shapers_in(prefix, "w1"), HasSubstr("rate 1Gbit"));
  EXPECT_THAT(shapers_in(prefix, "s0"), HasSubstr("rate 500Mbit"));
  EXPECT_THAT(shapers_in(prefix, "s1"), HasSubstr("rate 1Gbit"));
  EXPECT_EQ(network->spare_address(1), "10.231.0.253");
  EXPECT_EQ(network->at_spare(1).back(), prefix + "s1");
  EXPECT_EQ(network->at_worker(1).back(), prefix + "w1");
}

TEST_F(Namespaces, WorkersReachTheServersUnlessLossIsTotal) {
  auto network = RaceNetwork::make(*find_net_kind("netns-pkt1500"), 2);
  ASSERT_TRUE(network) << network.error().text;
  const auto server_answers = [&] {
    // No server listens there, so the server's kernel refuses the connection if the request
    // arrives.
    std::vector<std::string> words = network->at_worker(0);
    words.front() = "ip";
    words.insert(words.end(), {"timeout", "0.5", "bash", "-c", "</dev/tcp/10.231.0.254/9"});
    const auto asked = run_command(words);
    return !asked && asked.error().text.find("refused") != std::string::npos;
  };
  EXPECT_TRUE(server_answers());
  ASSERT_TRUE(network->set_loss(1.0));
  EXPECT_FALSE(server_answers());
  ASSERT_TRUE(network->set_loss(0.0)) << "the rate can be changed";
  EXPECT_TRUE(server_answers());
}

TEST_F(Namespaces, RemovesNamespacesOfAKilledRace) {
  // The process id of an ended child is free.
  const pid_t gone = fork();
  if (gone == 0) _exit(0);
  waitpid(gone, nullptr, 0);
  const std::string stale = "trib-race-" + std::to_string(gone) + "-0-w0";
  const std::string running = own_ + "9-w0";
  ASSERT_TRUE(run_command({"ip", "netns", "add", stale}));
  ASSERT_TRUE(run_command({"ip", "netns", "add", running}));
  EXPECT_GE(remove_stale_namespaces(), 1U);
  EXPECT_EQ(namespaces_with(stale), 0U);
  EXPECT_EQ(namespaces_with(running), 1U) << "its process still runs";
  EXPECT_TRUE(run_command({"ip", "netns", "del", running}));
  remove_stale_namespaces();  // A second call has nothing to do.
}

}  // namespace
}  // namespace tributary::race
