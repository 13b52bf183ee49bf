// SPDX-License-Identifier: Apache-2.0
#include "bench/race/systems.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <iterator>

namespace tributary::race {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

const Programs kAll{.tributary = "/bin/tributary",
                    .gloo = "/bin/tributary-race-gloo",
                    .mpi = "/bin/tributary-race-mpi",
                    .mpirun = "/bin/mpirun"};
constexpr std::array<uint16_t, kPsServers> kPorts{7000, 7005};
const RaceCase kCase{.net = "lo", .workers = 3, .bytes = 4000};

ClientConfig common() {
  ClientConfig config;
  config.control = "/c";
  return config;
}

RaceNetwork loopback() { return *RaceNetwork::make(*find_net_kind("lo"), 3); }

TEST(Systems, FindsSystemsByName) {
  for (const System& system : systems()) EXPECT_EQ(find_system(system.name), &system);
  EXPECT_EQ(find_system("nccl"), nullptr);
}

TEST(Systems, TcpPeersHaveNoServer) {
  EXPECT_TRUE(find_system("gloo-ring")->is_tcp_peer());
  EXPECT_TRUE(find_system("ompi-tcp")->is_tcp_peer());
  EXPECT_FALSE(find_system("ompi-shm")->is_tcp_peer());
  EXPECT_FALSE(find_system("ps")->is_tcp_peer());
  EXPECT_FALSE(find_system("tributary")->is_tcp_peer());
}

TEST(Systems, RefusedSystemStatesTheReason) {
  const NetKind& lo = *find_net_kind("lo");
  EXPECT_THAT(refusal(*find_system("gloo-ring"), lo, kCase, kAll), IsEmpty());
  Programs none{.tributary = "/bin/tributary", .gloo = {}, .mpi = {}, .mpirun = {}};
  EXPECT_THAT(refusal(*find_system("gloo-ring"), lo, kCase, none), HasSubstr("libgloo-dev"));
  EXPECT_THAT(refusal(*find_system("ompi-tcp"), lo, kCase, none), HasSubstr("libopenmpi-dev"));
  EXPECT_THAT(refusal(*find_system("tributary"), lo, kCase, none), IsEmpty());

  RaceCase lossy = kCase;
  lossy.loss = 0.01;
  EXPECT_THAT(refusal(*find_system("ps"), lo, lossy, kAll), HasSubstr("real packets"));
  EXPECT_THAT(refusal(*find_system("tributary"), lo, lossy, kAll), IsEmpty());
  EXPECT_THAT(refusal(*find_system("ps"), *find_net_kind("netns-pkt1500"), lossy, kAll), IsEmpty());
}

TEST(Systems, GroupRunsOnEveryIpNetworkAndWithLoss) {
  const System& group = *find_system("tributary-group");
  EXPECT_THAT(refusal(group, *find_net_kind("lo"), kCase, kAll), IsEmpty());
  EXPECT_THAT(refusal(group, *find_net_kind("netns"), kCase, kAll), IsEmpty());
  EXPECT_THAT(refusal(group, *find_net_kind("shm"), kCase, kAll), HasSubstr("wire"));
  RaceCase lossy = kCase;
  lossy.loss = 0.01;
  EXPECT_THAT(refusal(group, *find_net_kind("lo"), lossy, kAll), HasSubstr("real packets"));
  EXPECT_THAT(refusal(group, *find_net_kind("netns-pkt1500"), lossy, kAll), IsEmpty());
  const auto servers = server_commands(group, loopback(), kCase, kAll, kPorts, "/s");
  ASSERT_EQ(servers.size(), 1U);
  EXPECT_THAT(servers[0].words, Contains("id=1,sources=3,group=239.192.77.1:7005"));
}

TEST(Systems, StartsOneWorkerProcessPerRank) {
  const auto commands =
      worker_commands(*find_system("gloo-ring"), loopback(), kCase, kAll, kPorts, common());
  ASSERT_EQ(commands.size(), 3U);
  EXPECT_EQ(commands[2].words.front(), kAll.gloo);
  EXPECT_THAT(commands[2].words, Contains("ring"));
  EXPECT_EQ(*(std::find(commands[2].words.begin(), commands[2].words.end(), "--rank") + 1), "2");
}

TEST(Systems, MpirunStartsItsRanks) {
  const auto commands =
      worker_commands(*find_system("ompi-tcp-ring"), loopback(), kCase, kAll, kPorts, common());
  ASSERT_EQ(commands.size(), 1U);
  EXPECT_EQ(commands[0].words.front(), kAll.mpirun);
  EXPECT_THAT(commands[0].words, Contains("coll_tuned_allreduce_algorithm"));
  EXPECT_THAT(commands[0].words, Not(Contains("--rank")));
  const auto shared =
      worker_commands(*find_system("ompi-shm"), loopback(), kCase, kAll, kPorts, common());
  EXPECT_THAT(shared[0].words, Contains("vader,self"));
}

TEST(Systems, ServersAndWorkersAgreeWhereServersListen) {
  const System& ps = *find_system("ps");
  const auto servers = server_commands(ps, loopback(), kCase, kAll, kPorts, "/s");
  const auto workers = worker_commands(ps, loopback(), kCase, kAll, kPorts, common());
  ASSERT_EQ(servers.size(), kPsServers);
  for (uint32_t i = 0; i < kPsServers; i++) {
    const std::string address = "127.0.0.1:" + std::to_string(kPorts[i]);
    EXPECT_THAT(servers[i].words, Contains(address));
    EXPECT_THAT(workers[0].words, Contains(address));
  }
  EXPECT_TRUE(
      server_commands(*find_system("gloo-ring"), loopback(), kCase, kAll, kPorts, "/s").empty());
}

TEST(Systems, ParameterServersShareOneMachine) {
  const NetKind& equal = *find_net_kind("netns-1gbit-equal");
  const NetKind& shaped = *find_net_kind("netns-1gbit");
  const RaceCase three{.net = "netns-1gbit-equal", .workers = 4, .servers = 3};
  EXPECT_EQ(server_machines(*find_system("tributary"), equal, three), 3U);
  EXPECT_EQ(server_machines(*find_system("tributary"), shaped, three), 1U);
  EXPECT_EQ(server_machines(*find_system("ps"), equal, three), 1U);
  EXPECT_EQ(server_machines(*find_system("gloo-ring"), equal, three), 0U);
  EXPECT_EQ(server_machines(*find_system("ps"), *find_net_kind("lo"), three), 0U);
}

TEST(Systems, EqualLinksRefuseAGroup) {
  const NetKind& equal = *find_net_kind("netns-1gbit-equal");
  EXPECT_THAT(refusal(*find_system("tributary"), equal, kCase, kAll), IsEmpty());
  EXPECT_THAT(refusal(*find_system("tributary-group"), equal, kCase, kAll),
              HasSubstr("one server"));
}

TEST(Systems, AggregatorsRunOnTheirMachinesAndAllWorkersGetOneList) {
  if (!namespaces_refusal().empty()) GTEST_SKIP() << namespaces_refusal();
  const auto network = RaceNetwork::make(*find_net_kind("netns-1gbit-equal"), 2, 1);
  ASSERT_TRUE(network) << network.error().text;
  const System& tributary = *find_system("tributary");
  const RaceCase race{.net = "netns-1gbit-equal", .workers = 2, .bytes = 4000, .servers = 1};
  const auto servers = server_commands(tributary, *network, race, kAll, kPorts, "/s");
  ASSERT_EQ(servers.size(), 3U) << "one spare machine, two workers";
  const std::array<std::vector<std::string>, 3> where{network->at_spare(0), network->at_worker(0),
                                                      network->at_worker(1)};
  const std::array addresses{"10.231.0.254:7000", "10.231.0.1:7000", "10.231.0.2:7000"};
  for (size_t i = 0; i < servers.size(); i++) {
    EXPECT_EQ(servers[i].colocated, i > 0);
    EXPECT_EQ(servers[i].words[3], where[i][3]);
    EXPECT_THAT(servers[i].words, Contains(addresses[i]));
    EXPECT_THAT(servers[i].words, Contains("id=1,sources=2"));
  }
  const auto workers = worker_commands(tributary, *network, race, kAll, kPorts, common());
  for (size_t rank = 0; rank < workers.size(); rank++) {
    const auto& words = workers[rank].words;
    EXPECT_THAT(words, Contains("10.231.0.254:7000=2,10.231.0.1:7000=1,10.231.0.2:7000=1"));
    const auto flag = std::find(words.begin(), words.end(), "--local-server");
    ASSERT_NE(flag, words.end());
    EXPECT_EQ(*std::next(flag), addresses[rank + 1]) << "through shared memory";
  }
}

TEST(Systems, OnlyTheAggregatorMitigatesALateWorker) {
  RaceCase late = kCase;
  late.straggler = true;
  const auto servers =
      server_commands(*find_system("tributary"), loopback(), late, kAll, kPorts, "/s");
  ASSERT_EQ(servers.size(), 1U);
  EXPECT_THAT(servers[0].words, Contains(HasSubstr("mitigation=on")));
  for (const Command& worker :
       worker_commands(*find_system("tributary"), loopback(), late, kAll, kPorts, common())) {
    EXPECT_THAT(worker.words, Not(Contains("--local-server"))) << "the aggregator is elsewhere";
  }
}

TEST(Systems, SharedMemoryHasOneWirePerWorker) {
  RaceCase shared = kCase;
  shared.net = "shm";
  const RaceNetwork network = *RaceNetwork::make(*find_net_kind("shm"), 3);
  const System& tributary = *find_system("tributary");
  ClientConfig config = common();
  config.scratch = "/s";
  const auto servers = server_commands(tributary, network, shared, kAll, kPorts, config.scratch);
  const auto workers = worker_commands(tributary, network, shared, kAll, kPorts, config);
  EXPECT_THAT(servers[0].words, Contains("dpdk:vhost,iface=/s/wire0,ip=10.231.0.254/24"));
  EXPECT_THAT(servers[0].words, Contains("dpdk:vhost,iface=/s/wire2"));
  EXPECT_THAT(workers[2].words, Contains("dpdk:virtio_user,path=/s/wire2,ip=10.231.0.3/24"));
  EXPECT_THAT(refusal(*find_system("ps"), network.kind(), shared, kAll), HasSubstr("shared"));
}

TEST(Programs, FindsProgramsBesideTheNamedOne) {
  EXPECT_TRUE(find_programs("/no-such-folder/tributary").gloo.empty());
  EXPECT_FALSE(find_programs().tributary.empty());
}

}  // namespace
}  // namespace tributary::race
