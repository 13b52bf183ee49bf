// SPDX-License-Identifier: Apache-2.0
// Method: every refusal of check(), with the key and the value in its text.
#include "lab/scenario.h"

#include <gtest/gtest.h>

#include <functional>

#include "lab/run.h"

namespace tributary::lab {
namespace {

struct Refused {
  std::function<void(Scenario&)> change;
  const char* text;  ///< Part of the message.
};

TEST(Scenario, AcceptsThePapersSetUp) { EXPECT_TRUE(check(Scenario()).has_value()); }

TEST(Scenario, DescribesEveryChoice) {
  for (const auto* choices : {&backends(), &models(), &straggler_patterns()}) {
    EXPECT_FALSE(choices->empty());
    for (const Choice& choice : *choices) {
      EXPECT_FALSE(choice.name.empty());
      EXPECT_FALSE(choice.description.empty()) << choice.name;
    }
  }
}

TEST(Scenario, RefusesWithKeyAndValue) {
  const std::vector<Refused> refusals{
      {[](Scenario& s) { s.backend = Backend{200}; }, "backend=? is not allowed; allowed: trio-ml"},
      {[](Scenario& s) { s.workers = 0; },
       "workers=0 is not allowed; allowed: a whole number from 1 to 1024"},
      {[](Scenario& s) { s.workers = 257; }, "workers=257"},
      {[](Scenario& s) { s.iterations = 0; }, "iterations=0"},
      {[](Scenario& s) { s.gradients = 4096; }, "gradients=4096"},
      {[](Scenario& s) { s.window = 4095; }, "window=4095"},
      {[](Scenario& s) { s.window = 0; }, "window=0"},
      {[](Scenario& s) { s.train = 24; }, "train=24"},
      {[](Scenario& s) { s.train = 8192; }, "train=8192"},
      // Too large without host.retransmission.
      {[](Scenario& s) { s.window = 65'536; }, "window=65536"},
      {[](Scenario& s) { s.mitigation.history = 65; }, "mitigation.history=65"},
      {[](Scenario& s) { s.mitigation.timer_threads = 0; }, "timer_threads=0"},
      {[](Scenario& s) { s.mitigation.timeout = Duration(); }, "timeout_ms=0"},
      {[](Scenario& s) { s.mitigation.timeout = microseconds(500); },
       "mitigation.timeout_ms=0.5 is not allowed; allowed: 1 to 60000 with backend=trio-ml"},
      {[](Scenario& s) { s.link.rate_bits_per_s = 0; }, "link.rate_gbps=0"},
      {[](Scenario& s) { s.fabric.faults.loss = 1.5; }, "fabric.loss=1.5"},
      {[](Scenario& s) { s.link.faults.loss = 0.01; }, "host.retransmission=false"},
      {[](Scenario& s) { s.host.nic_bits_per_s = 0; }, "host.nic_gbps=0"},
      {[](Scenario& s) { s.host.deadline = Duration(); }, "host.deadline_s=0"},
      {[](Scenario& s) { s.host.priorities = 0; },
       "host.priorities=0 is not allowed; allowed: a whole number from 1 to 4"},
      {[](Scenario& s) { s.host.priorities = 5; }, "host.priorities=5"},
      // A window for each priority does not fit into the memory.
      {[](Scenario& s) { s.host.priorities = 4; }, "not 4.2 GiB"},
      {[](Scenario& s) { s.model.kind = Model::kCustom; }, "model.bucket_bytes=[]"},
      {[](Scenario& s) {
         s.model.bucket_bytes = {4, 0};
       },
       "model.bucket_bytes=0"},
      {[](Scenario& s) { s.model.forward = Duration() - seconds(1); }, "model.forward_ms"},
      {[](Scenario& s) {
         s.topology = Topology::kChassis;
         s.leaves = 4;
       },
       "leaves=4 is not allowed; allowed: a number that divides workers=6"},
      {[](Scenario& s) { s.backend = Backend::kLive; }, "payload=elided"},
      {[](Scenario& s) {
         s.payload = Payload::kReal;
         s.train = 2;
       },
       "train=2"},
      {[](Scenario& s) {
         s.backend = Backend::kWaitingSwitch;
         s.straggler.pattern = Straggling::kAbsent;
       },
       "straggler.pattern=absent"},
      {[](Scenario& s) { s.mitigation.quorum = 4; },
       "mitigation.quorum=4 is not allowed; allowed: 0, with backend=trio-ml"},
      {[](Scenario& s) {
         s.backend = Backend::kWaitingSwitch;
         s.mitigation.quorum = 7;
       },
       "mitigation.quorum=7 is not allowed; allowed: 0 to 6, the number of workers"},
      {[](Scenario& s) {
         s.backend = Backend::kWaitingSwitch;
         s.mitigation.quorum = 6;  // It waits for everyone.
         s.straggler.pattern = Straggling::kAbsent;
       },
       "straggler.pattern=absent"},
      {[](Scenario& s) { s.model.local_steps = 0; },
       "model.local_steps=0 is not allowed; allowed: a whole number from 1 to 1000"},
      {[](Scenario& s) { s.model.local_steps = 3; },
       "model.local_steps=3 is not allowed; allowed: a number that divides iterations=100"},
      {[](Scenario& s) {
         s.model.local_steps = 4;
         s.model.overlap_forward = true;
       },
       "model.local_steps=4 is not allowed; allowed: 1, with model.overlap_forward=true"},
      {[](Scenario& s) {
         s.model.staging_gbps = 105;
         s.model.overlap_forward = true;
       },
       "model.overlap_forward=true is not allowed; allowed: false, with model.input_ms or "
       "model.staging_gbps"},
      {[](Scenario& s) {
         s.backend = Backend::kAsynchronous;
         s.payload = Payload::kReal;
         s.model = {.kind = Model::kCustom, .bucket_bytes = {4096}, .local_steps = 4};
       },
       "model.local_steps=4 is not allowed; allowed: 1, with backend=asynchronous"},
      {[](Scenario& s) { s.straggler.worker = 6; }, "straggler.worker=6"},
      {[](Scenario& s) {
         s.straggler.workers = {1, 6};
       },
       "straggler.workers=6 is not allowed; allowed: 0 to 5"},
      {[](Scenario& s) { s.straggler.pattern = Straggling::kTrace; },
       "straggler.trace='' is not allowed; allowed: the path of a file"},
      {[](Scenario& s) { s.slow_links.workers = {6}; },
       "link.slow_workers=6 is not allowed; allowed: 0 to 5"},
      {[](Scenario& s) { s.slow_links = {.workers = {1}, .rate_bits_per_s = 200'000'000'000}; },
       "link.slow_rate_gbps=200 is not allowed; allowed: up to link.rate_gbps=100"},
      {[](Scenario& s) {
         s.topology = Topology::kFile;
         s.topology_file = "t.toml";
         s.slow_links.workers = {1};
       },
       "link.slow_workers=1 is not allowed; allowed: none with topology=file"},
      {[](Scenario& s) { s.link.faults.loss_run = 0.5; }, "link.loss_run=0.5"},
      {[](Scenario& s) { s.straggler.racks = {0}; },
       "straggler.racks=0 is not allowed; allowed: topology chassis, two-level or leaf-spine"},
      {[](Scenario& s) {
         s.topology = Topology::kTwoLevel;
         s.straggler.racks = {1, 2};
       },
       "straggler.racks=1,2 is not allowed; allowed: 0 to 1"},
      {[](Scenario& s) {
         s.backend = Backend::kRing;
         s.topology = Topology::kLeafSpine;
         s.leaves = 4;
         s.straggler.racks = {1};
       },
       "leaves=4 is not allowed; allowed: a number that divides workers=6"},
      {[](Scenario& s) {
         s.backend = Backend::kRing;
         s.topology = Topology::kTwoLevel;
       },
       "topology=two-level is not allowed; allowed: star, leaf-spine or file with backend=ring; "
       "chassis and two-level with trio-ml, trio-ml-wait, live"},
      {[](Scenario& s) {
         s.backend = Backend::kSwitchml64;
         s.topology = Topology::kChassis;
       },
       "topology=chassis is not allowed; allowed: star or file with backend=switchml-64; "},
      {[](Scenario& s) {
         s.backend = Backend::kWaitingSwitch;
         s.mitigation.quorum = 5;
         s.straggler.pattern = Straggling::kAbsent;
         s.straggler.workers = {1, 4};
       },
       "mitigation.quorum=5 is not allowed; allowed: up to 4"},
      {[](Scenario& s) {
         s.straggler.pattern = Straggling::kAbsent;
         for (uint32_t rank = 0; rank < s.workers; rank++) s.straggler.workers.push_back(rank);
       },
       "straggler.pattern=absent for all workers is not allowed; allowed: at least one"},
      {[](Scenario& s) { s.straggler.probability = 1.01; }, "straggler.probability=1.01"},
      {[](Scenario& s) { s.straggler.factor = 0.5; }, "straggler.factor=0.5"},
      {[](Scenario& s) { s.straggler.p99_over_p50 = 0; }, "straggler.p99_over_p50=0"},
      {[](Scenario& s) {
         s.straggler.pattern = Straggling::kBackgroundFlow;
         s.straggler.background_share = 0;
       },
       "straggler.background_share=0 is not allowed; allowed: a number from 0.001 to 1"},
      {[](Scenario& s) { s.straggler.background_share = 1e-12; },
       "straggler.background_share=1e-12"},
      {[](Scenario& s) { s.pfe.generation = 7; }, "pfe.generation=7"},
      {[](Scenario& s) {
         s.pfe.overrides = {{"warp_factor", 9}};
       },
       "warp_factor"},
  };
  for (const Refused& refusal : refusals) {
    Scenario scenario;
    refusal.change(scenario);
    const auto checked = check(scenario);
    ASSERT_FALSE(checked.has_value()) << refusal.text;
    EXPECT_NE(checked.error().text.find(refusal.text), std::string::npos)
        << "expected '" << refusal.text << "' in: " << checked.error().text;
    // A run is refused for the same reason.
    const auto run = run_scenario(scenario);
    ASSERT_FALSE(run.has_value());
    EXPECT_EQ(run.error().text, checked.error().text);
  }
}

}  // namespace
}  // namespace tributary::lab
