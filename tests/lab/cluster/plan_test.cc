// SPDX-License-Identifier: Apache-2.0
// Method: the tree of Trio's Figure 11(b) by hand, then topology files, good and bad ones.
#include "lab/cluster/plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "lab/run.h"

namespace tributary::lab {
namespace {

using ::testing::HasSubstr;

ClusterPlan plan_of(const Scenario& scenario) {
  auto plan = plan_cluster(scenario, backend_kind(scenario.backend), {});
  if (!plan) {
    ADD_FAILURE() << plan.error().text;
    return {};
  }
  return *std::move(plan);
}

TEST(Plan, ChassisOfThePaperHasThreePfes) {
  Scenario scenario;
  scenario.topology = Topology::kChassis;
  const ClusterPlan plan = plan_of(scenario);
  ASSERT_EQ(plan.aggregators.size(), 3U);
  const trio_ml::JobConfig& first = plan.aggregators[0].job;
  const trio_ml::JobConfig& second = plan.aggregators[1].job;
  const trio_ml::JobConfig& top = plan.aggregators[2].job;
  EXPECT_EQ(first.sources, 3U);
  EXPECT_EQ(first.rank_base, 0U);
  EXPECT_EQ(second.rank_base, 3U);
  EXPECT_EQ(second.upstream_source, 1U);
  EXPECT_EQ(first.upstream, plan.aggregators[2].address);
  EXPECT_EQ(first.world, 6U);
  EXPECT_EQ(top.sources, 2U);
  EXPECT_TRUE(top.sources_are_aggregators);
  EXPECT_EQ(top.timeout, first.timeout * kTopTimeoutFactor);
  for (const AggregatorSpec& spec : plan.aggregators) {
    EXPECT_TRUE(trio_ml::check(spec.job).has_value()) << spec.name;
  }
  ASSERT_EQ(plan.workers.size(), 6U);
  EXPECT_EQ(plan.workers[4].communicator.server, plan.aggregators[1].address);
  EXPECT_EQ(plan.workers[4].communicator.source, 1U);
  EXPECT_EQ(plan.workers[4].communicator.rank, 4U);
}

TEST(Plan, BackEndWithoutATreeHasOneAggregator) {
  Scenario scenario;
  scenario.topology = Topology::kChassis;
  scenario.backend = Backend::kWaitingSwitch;
  const ClusterPlan plan = plan_of(scenario);
  ASSERT_EQ(plan.aggregators.size(), 1U);
  EXPECT_EQ(plan.aggregators[0].job.sources, 6U);
  EXPECT_TRUE(plan.aggregators[0].job.group.is_multicast());
}

TEST(Plan, TrainsDivideTheWindow) {
  Scenario scenario;
  scenario.train = 32;
  const ClusterPlan plan = plan_of(scenario);
  EXPECT_EQ(plan.aggregators[0].job.block_cnt_max, 128U);
  EXPECT_EQ(plan.workers[0].communicator.window, 128U);
}

TEST(Plan, SmallerPacketsCostTheHostLess) {
  const auto cost = [](Backend backend, uint32_t gradients) {
    Scenario scenario;
    scenario.backend = backend;
    scenario.gradients = gradients;
    return plan_of(scenario).workers[0].packet_cost;
  };
  // 25 ns for each packet, and 75 ns for each 1024 gradients.
  EXPECT_EQ(cost(Backend::kTrioMl, 1024), nanoseconds(100));
  EXPECT_EQ(cost(Backend::kRing, 512), picoseconds(62'500));
  // SwitchML's packets have their own size.
  EXPECT_EQ(cost(Backend::kSwitchml256, 1024), picoseconds(43'750));
  EXPECT_EQ(cost(Backend::kSwitchml64, 1024), picoseconds(29'680));  // 29.6875, in ticks of 10 ps.
}

TEST(Plan, JobTakesTheWorkersWindowAndItsBuffers) {
  Scenario scenario;
  const auto job = [&scenario] { return plan_of(scenario).aggregators[0].job; };
  EXPECT_EQ(plan_of(scenario).workers[0].communicator.window, 4096U);
  EXPECT_EQ(job().block_cnt_max, 4096U);
  EXPECT_EQ(job().history, 64U);
  EXPECT_FALSE(job().shared_buffers);
  EXPECT_EQ(trio_ml::buffer_count(job(), 1), 4096U * (1 + 64));
  scenario.host.retransmission = true;
  EXPECT_EQ(job().block_cnt_max, 4096U);
  EXPECT_TRUE(job().shared_buffers);
}

TEST(Plan, HostsSendAtTheSlowerOfNicAndLink) {
  Scenario scenario;
  scenario.host.nic_bits_per_s = 25'000'000'000;
  const ClusterPlan plan = plan_of(scenario);
  EXPECT_EQ(plan.workers[3].nic_bits_per_s, 25'000'000'000U);
  uint32_t out = 0;
  for (const net::CableSpec& cable : plan.topology.cables) {
    out += cable.forth.rate_bits_per_s == 25'000'000'000U ? 1 : 0;
    EXPECT_EQ(cable.back.rate_bits_per_s, 100'000'000'000U);
  }
  EXPECT_EQ(out, 6U);
  EXPECT_EQ(plan.slowest_bits_per_s, 25'000'000'000U);
}

TEST(Plan, SlowCablesAreSlowInBothDirections) {
  Scenario scenario;
  scenario.slow_links = {.workers = {1, 4}, .rate_bits_per_s = 25'000'000'000};
  const ClusterPlan plan = plan_of(scenario);
  for (uint32_t rank = 0; rank < 6; rank++) {
    const uint64_t rate = rank == 1 || rank == 4 ? 25'000'000'000U : 100'000'000'000U;
    EXPECT_EQ(plan.nic_bits_per_s[rank], rate);
    const std::string& name = plan.workers[rank].name;
    for (const net::CableSpec& cable : plan.topology.cables) {
      if (cable.a.node != name && cable.b.node != name) continue;
      EXPECT_EQ(cable.forth.rate_bits_per_s, rate) << name;
      EXPECT_EQ(cable.back.rate_bits_per_s, rate) << name;
    }
  }
}

TEST(Plan, SlowRacksHaveSlowUplinks) {
  for (const Topology topology : {Topology::kLeafSpine, Topology::kTwoLevel, Topology::kChassis}) {
    Scenario scenario;
    scenario.topology = topology;
    scenario.leaves = 3;
    scenario.slow_uplinks = {.racks = {1}, .rate_bits_per_s = 10'000'000'000};
    const std::string leaf = topology == Topology::kChassis ? "pfe-1" : "leaf-1";
    uint32_t slow = 0;
    for (const net::CableSpec& cable : plan_of(scenario).topology.cables) {
      const bool is_slow = cable.forth.rate_bits_per_s == 10'000'000'000;
      EXPECT_EQ(cable.back.rate_bits_per_s == 10'000'000'000, is_slow);
      if (!is_slow) continue;
      slow++;
      EXPECT_EQ(cable.a.node, leaf);
      EXPECT_TRUE(cable.b.node == "top" || cable.b.node.starts_with("spine-")) << cable.b.node;
    }
    EXPECT_EQ(slow, topology == Topology::kLeafSpine ? 2U : 1U);
  }
}

TEST(Plan, LargeTreeNumbersTheWorkersOfEachLeaf) {
  Scenario scenario;
  scenario.topology = Topology::kTwoLevel;
  scenario.leaves = 2;
  scenario.workers = 300;
  const ClusterPlan plan = plan_of(scenario);
  ASSERT_EQ(plan.aggregators.size(), 3U);
  for (const AggregatorSpec& spec : plan.aggregators) {
    EXPECT_TRUE(trio_ml::check(spec.job).has_value()) << spec.name;
    EXPECT_EQ(spec.job.world, 150U);
    EXPECT_EQ(spec.job.rank_base, 0U);
  }
  EXPECT_EQ(plan.aggregators[1].job.sources, 150U);
  EXPECT_EQ(plan.aggregators[2].job.sources, 2U);
  EXPECT_EQ(plan.workers[299].communicator.source, 149U);
  EXPECT_EQ(plan.workers[299].communicator.rank, 149U);
  EXPECT_EQ(plan.workers[299].communicator.world, 150U);
}

// --- Topology files ------------------------------------------------------------------------------

class PlanOfFile : public ::testing::Test {
 protected:
  void SetUp() override {
    directory_ = std::filesystem::path(::testing::TempDir()) /
                 ::testing::UnitTest::GetInstance()->current_test_info()->name();
    std::filesystem::create_directories(directory_);
    scenario_.topology = Topology::kFile;
    scenario_.topology_file = (directory_ / "topology.toml").string();
    scenario_.backend = Backend::kLive;
    scenario_.payload = Payload::kReal;
    scenario_.iterations = 2;
    scenario_.window = 16;
    scenario_.mitigation.history = 4;
    scenario_.model.kind = Model::kCustom;
    scenario_.model.bucket_bytes = {50'000};
  }
  void TearDown() override { std::filesystem::remove_all(directory_); }

  void write(const std::string& text) { std::ofstream(scenario_.topology_file) << text; }
  std::string refusal() {
    const auto run = run_scenario(scenario_);
    return run ? "" : run.error().text;
  }

  std::filesystem::path directory_;
  Scenario scenario_;
};

std::string node(const std::string& name, const std::string& kind, const std::string& address) {
  return "[[node]]\nname = \"" + name + "\"\nkind = \"" + kind + "\"\naddress = \"" + address +
         ":12000\"\n";
}
std::string cable(const std::string& a, const std::string& b) {
  return "[[cable]]\na = \"" + a + "\"\nb = \"" + b + "\"\n";
}

/// Two workers at one leaf and one at another, below a top.
std::string uneven_tree() {
  return node("w0", "worker", "10.0.0.1") + node("w1", "worker", "10.0.0.2") +
         node("w2", "worker", "10.0.0.3") + node("left", "aggregator", "10.1.0.1") +
         node("right", "aggregator", "10.1.0.2") + node("top", "top-aggregator", "10.1.0.3") +
         cable("w0", "left") + cable("left", "w1") + cable("w2", "right") + cable("left", "top") +
         cable("right", "top");
}

TEST_F(PlanOfFile, AFaultOfTheFileIsKnownBeforeTheRun) {
  scenario_.workers = 3;
  write(uneven_tree());
  EXPECT_TRUE(check_files(scenario_));
  write(uneven_tree() + cable("left", "nobody"));
  const auto files = check_files(scenario_);
  ASSERT_FALSE(files);
  EXPECT_EQ(files.error().text, refusal());
}

TEST_F(PlanOfFile, UnevenTreeGivesExactSums) {
  write(uneven_tree());
  scenario_.workers = 3;
  for (Backend backend : {Backend::kLive, Backend::kTrioMl}) {
    scenario_.backend = backend;
    const auto result = run_scenario(scenario_);
    ASSERT_TRUE(result.has_value()) << result.error().text;
    EXPECT_EQ(result->wrong_sums, 0U);
    EXPECT_EQ(result->checked_sums, 12'500U * 2 * 3);
    EXPECT_EQ(result->aggregators.size(), 3U);
  }
}

TEST_F(PlanOfFile, AcceptsPlainSwitchesOnThePath) {
  write(node("w0", "worker", "10.0.0.1") + node("w1", "worker", "10.0.0.2") +
        "[[node]]\nname = \"rack\"\nkind = \"switch\"\n" + node("box", "aggregator", "10.1.0.1") +
        cable("w0", "rack") + cable("w1", "rack") + cable("rack", "box"));
  scenario_.workers = 2;
  const auto result = run_scenario(scenario_);
  ASSERT_TRUE(result.has_value()) << result.error().text;
  EXPECT_EQ(result->wrong_sums, 0U);
}

TEST_F(PlanOfFile, RefusesInconsistentTopologies) {
  scenario_.workers = 3;
  EXPECT_THAT(refusal(), HasSubstr("topology.toml"));  // The file does not exist.
  write(uneven_tree());
  scenario_.workers = 4;
  EXPECT_THAT(refusal(), HasSubstr("3 nodes of kind worker are not allowed; allowed: 4"));
  scenario_.workers = 3;
  scenario_.backend = Backend::kWaitingSwitch;
  EXPECT_THAT(refusal(), HasSubstr("1 nodes of kind top-aggregator"));
  scenario_.backend = Backend::kLive;
  write(uneven_tree() + node("odd", "toaster", "10.2.0.1") + cable("odd", "top"));
  EXPECT_THAT(refusal(), HasSubstr("topology.toml:40: node odd: unknown kind 'toaster'; allowed: "
                                   "switch, worker, aggregator, top-aggregator"));
  // A misspelt kind is named before the numbers that it makes wrong.
  write(node("w0", "worker", "10.0.0.1") + node("box", "agregator", "10.1.0.1"));
  EXPECT_THAT(refusal(), HasSubstr("topology.toml:5: node box: unknown kind 'agregator' (did you "
                                   "mean 'aggregator'?)"));
  write(uneven_tree() + "loss = 0.01\n");
  EXPECT_THAT(refusal(), HasSubstr("the cable loses packets"));
  // w0 and w2 are at the left leaf, w1 at the right one, so the left leaf's ranks are not
  // consecutive.
  write(node("w0", "worker", "10.0.0.1") + node("w1", "worker", "10.0.0.2") +
        node("w2", "worker", "10.0.0.3") + node("left", "aggregator", "10.1.0.1") +
        node("right", "aggregator", "10.1.0.2") + node("top", "top-aggregator", "10.1.0.3") +
        cable("w0", "left") + cable("w1", "right") + cable("w2", "left") + cable("left", "top") +
        cable("right", "top"));
  EXPECT_THAT(refusal(), HasSubstr("ranks do not follow each other"));
  scenario_.topology_file.clear();
  EXPECT_THAT(refusal(), HasSubstr("topology_file=''"));
}

TEST_F(PlanOfFile, BackgroundTakesItsShareOfTheWorkersCable) {
  write(node("w0", "worker", "10.0.0.1") + node("w1", "worker", "10.0.0.2") +
        node("box", "aggregator", "10.1.0.1") + cable("w0", "box") + cable("box", "w1") +
        "rate_gbps = 10\n[cable.back]\nrate_gbps = 2\n");
  scenario_.workers = 2;
  scenario_.backend = Backend::kWaitingSwitch;
  scenario_.straggler.background_share = 0.5;
  const auto plan = plan_cluster(scenario_, backend_kind(scenario_.backend), {1, 0});
  ASSERT_TRUE(plan) << plan.error().text;
  EXPECT_EQ(plan->background_bits_per_s, (std::vector<uint64_t>{5'000'000'000, 50'000'000'000}));
  EXPECT_EQ(plan->slowest_bits_per_s, 2'000'000'000U);
  const net::CableSpec& source = plan->topology.cables.at(2);
  EXPECT_EQ(source.a.node, background_name(plan->place, 0));
  EXPECT_EQ(source.b.node, "box");
  EXPECT_EQ(source.forth.rate_bits_per_s, 10'000'000'000U);
}

TEST_F(PlanOfFile, CapturesALink) {
  scenario_.topology = Topology::kStar;
  scenario_.workers = 2;
  const std::string path = (directory_ / "link.pcap").string();
  scenario_.captures = {{"worker-0.0>switch.0", path}};
  const auto result = run_scenario(scenario_);
  ASSERT_TRUE(result.has_value()) << result.error().text;
  // A file header of 24 bytes. 13 packets an iteration, each with a record header of 16 bytes, 42
  // bytes of headers and a head of 32 bytes. 50,000 bytes of gradients, and some control messages.
  EXPECT_GT(std::filesystem::file_size(path), 24U + 2 * (13 * (16 + 42 + 32) + 50'000));
  scenario_.captures = {{"worker-9.0>switch.0", path}};
  EXPECT_THAT(refusal(), HasSubstr("worker-9.0>switch.0"));
  scenario_.captures = {{"worker-0.0>switch.0", (directory_ / "no" / "such").string()}};
  EXPECT_THAT(refusal(), HasSubstr("capture: "));
}

}  // namespace
}  // namespace tributary::lab
