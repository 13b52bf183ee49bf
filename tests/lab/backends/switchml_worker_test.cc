// SPDX-License-Identifier: Apache-2.0
// Method: the pool by hand, then a run in which it fills the link, then refusals.
#include "lab/backends/switchml_worker.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lab/backends/backend.h"
#include "tests/lab/run_bed.h"

namespace tributary::lab {
namespace {

using ::testing::HasSubstr;
using testing::run_well;

Scenario of(Backend backend) {
  Scenario scenario;
  scenario.backend = backend;
  return scenario;
}

uint32_t pool_of(const Scenario& scenario) {
  return switchml_pool(scenario, *backend_kind(scenario.backend).switchml);
}

TEST(SwitchmlPool, DefaultPoolIsTheBandwidthDelayProduct) {
  // (88 + 450) ns both ways, eleven passes of 520 ns, 64 packets at the host, 43.75 ns each: 9.6 us
  // are 109 packets of 88 ns.
  EXPECT_EQ(pool_of(of(Backend::kSwitchml256)), 128U);
  // (26.56 + 450) x 2 + 1040 + 29.68 x 64 = 3.89 us: 147 packets of 26.56 ns.
  EXPECT_EQ(pool_of(of(Backend::kSwitchml64)), 256U);
  // (88 + 450) x 2 + 64,000 + 2800 = 67.9 us: 771 packets.
  EXPECT_EQ(pool_of(of(Backend::kSwitchmlOnTrio)), 1024U);
  // At a tenth of the rate (880 + 450) x 2 + 5720 + 2800 = 11.2 us: 12.7 packets of 880 ns.
  Scenario slow = of(Backend::kSwitchml256);
  slow.link.rate_bits_per_s = 10'000'000'000;
  EXPECT_EQ(pool_of(slow), 16U);
  slow.link.rate_bits_per_s = 100'000'000'000;
  slow.host.nic_bits_per_s = 10'000'000'000;
  EXPECT_EQ(pool_of(slow), 16U);
  // A train of 64 waits for 63 more packets: 172.
  Scenario trains = of(Backend::kSwitchml256);
  trains.train = 64;
  EXPECT_EQ(pool_of(trains), 256U);
}

TEST(SwitchmlPool, KeyAndPublishedPresetOverrideTheDefault) {
  Scenario scenario = of(Backend::kSwitchml256);
  scenario.switchml.pool = 48;
  EXPECT_EQ(pool_of(scenario), 48U);
  scenario.switchml.pool = 0;
  scenario.switchml.preset = host::SwitchmlPreset::kPublished;
  EXPECT_EQ(pool_of(scenario), 256U);
  // A link as long as to the moon: at most as many slots as the switch has.
  scenario.switchml.preset = host::SwitchmlPreset::kPaper;
  scenario.link.propagation = milliseconds(10);
  EXPECT_EQ(pool_of(scenario), 8'192U);
}

TEST(SwitchmlPool, HalfThePoolIsSlowerAndTwiceIsNoFaster) {
  for (Backend backend : {Backend::kSwitchml64, Backend::kSwitchml256, Backend::kSwitchmlOnTrio}) {
    Scenario scenario = of(backend);
    scenario.workers = 2;
    scenario.iterations = 1;
    scenario.host.gradients_cost = Duration();  // The link is then the limit.
    scenario.host.packet_cost = nanoseconds(10);
    scenario.model = {
        .kind = Model::kCustom, .bucket_bytes = {uint64_t{8} << 20}, .forward = {}, .backward = {}};
    const uint32_t pool = pool_of(scenario);
    const auto run = [&](uint32_t slots) {
      scenario.switchml.pool = slots;
      return in_seconds(run_well(scenario).mean_iteration);
    };
    const double at_pool = run(pool);
    EXPECT_GT(run(pool / 4), 1.1 * at_pool) << name_of(backend);
    EXPECT_GT(run(pool * 2), 0.95 * at_pool)
        << name_of(backend);  // A busy PFE takes a little longer.
  }
}

TEST(SwitchmlWorker, RefusesSettingsBeyondSwitchml) {
  Scenario scenario = of(Backend::kSwitchmlOnTrio);
  scenario.workers = 33;
  EXPECT_THAT(
      check(scenario).error().text,
      HasSubstr("workers=33 is not allowed; allowed with backend=switchml-on-trio: 1 to 32"));
  scenario.workers = 6;
  scenario.link.faults.reorder = 0.1;
  EXPECT_THAT(check(scenario).error().text, HasSubstr("keep their order"));
  scenario.link.faults.reorder = 0;
  scenario.switchml.pool = 100;
  scenario.train = 64;
  EXPECT_THAT(check(scenario).error().text, HasSubstr("a divisor of the pool of 100 slots"));
}

TEST(SwitchmlWorker, RefusesATimeoutBeforeTheAnswerAndEndsWithTheShortestOne) {
  Scenario scenario = of(Backend::kSwitchml256);
  scenario.iterations = 1;
  scenario.model = {
      .kind = Model::kCustom, .bucket_bytes = {100'000}, .forward = {}, .backward = {}};
  scenario.host.retransmission = true;
  scenario.switchml.timeout = nanoseconds(100);
  // 9.6 us, as for the default pool.
  EXPECT_THAT(check(scenario).error().text,
              HasSubstr("switchml.timeout_ms=0.0001 is not allowed; allowed with "
                        "backend=switchml-256: at least 0.0096, the time of a round trip"));
  scenario.switchml.timeout = nanoseconds(9'600);
  run_well(scenario);
  scenario.link.propagation = milliseconds(10);
  scenario.switchml.timeout = Duration();
  EXPECT_THAT(check(scenario).error().text, HasSubstr("switchml.timeout_ms=1 is not allowed"));
}

}  // namespace
}  // namespace tributary::lab
