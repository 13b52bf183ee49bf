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
       "workers=0 is not allowed; allowed: a whole number from 1 to 256"},
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
      {[](Scenario& s) { s.link.rate_bits_per_s = 0; }, "link.rate_gbps=0"},
      {[](Scenario& s) { s.fabric.faults.loss = 1.5; }, "fabric.loss=1.5"},
      {[](Scenario& s) { s.link.faults.loss = 0.01; }, "host.retransmission=false"},
      {[](Scenario& s) { s.host.nic_bits_per_s = 0; }, "host.nic_gbps=0"},
      {[](Scenario& s) { s.host.deadline = Duration(); }, "host.deadline_s=0"},
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
      {[](Scenario& s) { s.straggler.worker = 6; }, "straggler.worker=6"},
      {[](Scenario& s) { s.straggler.probability = 1.01; }, "straggler.probability=1.01"},
      {[](Scenario& s) { s.straggler.factor = 0.5; }, "straggler.factor=0.5"},
      {[](Scenario& s) { s.straggler.p99_over_p50 = 0; }, "straggler.p99_over_p50=0"},
      {[](Scenario& s) {
         s.straggler.pattern = Straggling::kBackgroundFlow;
         s.straggler.background_share = 0;
       },
       "straggler.background_share=0"},
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
