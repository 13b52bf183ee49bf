// SPDX-License-Identifier: Apache-2.0
// Method: hand-worked configurations of channels to one, two and three aggregators.
#include "host/join_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "host/auto_terms.h"

namespace tributary::host {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Aggregator at(uint8_t host, uint32_t weight) {
  const Endpoint address = Endpoint::ipv4(0x0a000000U | host, 12000);
  return {.name = address.to_string(), .weight = weight, .address = address};
}

CommunicatorConfig on(std::vector<Aggregator> list) {
  CommunicatorConfig config;
  config.aggregators = std::move(list);
  config.job_id = 5;
  config.world = 4;
  return config;
}

TEST(JoinPlan, WithoutAListThereIsOneChannelToTheServer) {
  CommunicatorConfig config;
  config.server = Endpoint::ipv4(0x0a000001, 12000);
  JoinPlan plan(config);
  ASSERT_EQ(plan.aggregators().size(), 1U);
  EXPECT_EQ(plan.first_channel(0).server, config.server);
  EXPECT_EQ(plan.first_channel(0).list_digest, 0U);
  EXPECT_EQ(plan.place(0, 0).text, "");
  EXPECT_EQ(plan.place(0, 0).aggregator, 0U);
}

// An aggregator with weight 0 has no channel, but counts for the comparison of lists.
TEST(JoinPlan, AggregatorsWithoutWeightAreOnlyCompared) {
  const std::vector<Aggregator> list{at(1, 0), at(2, 1), at(3, 2)};
  const JoinPlan plan(on(list));
  ASSERT_EQ(plan.aggregators().size(), 2U);
  EXPECT_EQ(plan.first_channel(0).server, list[1].address);
  EXPECT_EQ(plan.first_channel(1).server, list[2].address);
  EXPECT_EQ(plan.first_channel(0).list_digest, list_digest(list));
  EXPECT_EQ(plan.place(1, 0).aggregator, 2U);
  EXPECT_EQ(plan.place(1, 0).text, " (aggregator 2 of 2, 10.0.0.3:12000)");
  EXPECT_EQ(plan.place(1, 3).text, " (aggregator 2 of 2, 10.0.0.3:12000) (channel 3 of job 5)");
}

TEST(JoinPlan, AThreadHasAChannelToEachAggregator) {
  CommunicatorConfig config = on({at(1, 1), at(2, 3)});
  config.threads = 3;
  config.priorities = 2;
  JoinPlan plan(config);
  for (size_t aggregator = 0; aggregator < 2; aggregator++) {  // Before the terms are known.
    EXPECT_EQ(plan.place(aggregator, 0).thread, 0U);
    EXPECT_EQ(plan.place(aggregator, 0).priority, 0U);
  }
  const std::vector<JoinPlan::Terms> terms(2, {.gradients = 100, .channels = 6});
  ASSERT_TRUE(plan.agree(terms).has_value());
  for (size_t aggregator = 0; aggregator < 2; aggregator++) {
    for (uint32_t channel = 0; channel < 6; channel++) {
      EXPECT_EQ(plan.place(aggregator, channel).thread, channel);
      EXPECT_EQ(plan.place(aggregator, channel).priority, channel % 2);
    }
  }
}

TEST(JoinPlan, ChannelsHaveTheSmallestNumberAndTheSameBlocks) {
  JoinPlan plan(on({at(1, 1), at(2, 3)}));
  const std::vector<JoinPlan::Terms> terms{{.gradients = 100, .channels = 3},
                                           {.gradients = 100, .channels = 2}};
  ASSERT_TRUE(plan.agree(terms).has_value());
  EXPECT_EQ(plan.channels(), 2U);
  EXPECT_EQ(plan.gradients(), 100U);
  EXPECT_THAT(plan.weights(), ElementsAre(1, 3, 1, 3));
  const CommunicatorConfig further = plan.further_channel(1, 1);
  EXPECT_EQ(further.job_id, 6);
  EXPECT_EQ(further.gradients, 100U);
  EXPECT_EQ(further.threads, 1U);
  EXPECT_EQ(further.server, at(2, 3).address);
}

TEST(JoinPlan, DifferentBlocksAreRefusedByName) {
  JoinPlan plan(on({at(1, 1), at(2, 1)}));
  const std::vector<JoinPlan::Terms> terms{{.gradients = 100}, {.gradients = 64}};
  const auto agreed = plan.agree(terms);
  ASSERT_FALSE(agreed.has_value());
  EXPECT_THAT(agreed.error().text,
              HasSubstr("aggregator 10.0.0.1:12000 takes 100 gradients a packet, and "
                        "10.0.0.2:12000 takes 64"));
  EXPECT_THAT(agreed.error().text, HasSubstr("gradients=64"));
}

/// Returns the refusal of two aggregators with these terms; empty: they agree.
std::string refusal(const JoinPlan::Terms& first, const JoinPlan::Terms& second) {
  JoinPlan plan(on({at(1, 1), at(2, 1)}));
  const auto agreed = plan.agree(std::vector{first, second});
  return agreed ? "" : agreed.error().text;
}

TEST(JoinPlan, DifferentWindowsAreRefusedByName) {
  EXPECT_EQ(refusal({.job_window = 4096}, {.job_window = 16}),
            "job 5 has a window of 4096 blocks at aggregator 10.0.0.1:12000, and of 16 at "
            "10.0.0.2:12000; give the jobs the same window");
  EXPECT_EQ(refusal({.job_window = 16}, {.job_window = 16}), "");
  EXPECT_EQ(refusal({.job_window = 4096}, {.job_window = 0}), "");  // An older aggregator.
}

TEST(JoinPlan, MitigationAtOneAggregatorOnlyIsRefusedByName) {
  const JoinPlan::Terms on{.straggler_timeout = milliseconds(10)};
  const JoinPlan::Terms slower{.straggler_timeout = milliseconds(20)};
  const JoinPlan::Terms off{};
  EXPECT_EQ(refusal(off, on),
            "job 5 has straggler mitigation at aggregator 10.0.0.2:12000, but not at "
            "10.0.0.1:12000; give the jobs the same mitigation, on or off");
  EXPECT_THAT(refusal(on, off), HasSubstr("at aggregator 10.0.0.1:12000, but not at 10.0.0.2"));
  EXPECT_EQ(refusal(on, slower),
            "job 5 has a straggler timeout of 10 ms at aggregator 10.0.0.1:12000, and of 20 ms at "
            "10.0.0.2:12000; give the jobs the same timeout_ms");
  EXPECT_EQ(refusal(on, on), "");
}

TEST(JoinPlan, AutomaticWindowsFollowTheWeights) {
  CommunicatorConfig config = on({at(1, 1), at(2, 3)});
  config.window = 0;
  const JoinPlan plan(config);
  const uint32_t whole = auto_window(config.gradients, config.world);
  EXPECT_EQ(plan.first_channel(0).window, weighted_window(whole, 1, 4));
  EXPECT_EQ(plan.first_channel(1).window, weighted_window(whole, 3, 4));
}

// A caller that has one address cannot know whether a directory will name several aggregators.
TEST(JoinPlan, WindowsByWeightsNeedSeveralAggregators) {
  CommunicatorConfig config = on({at(1, 1), at(2, 3)});
  config.window_by_weights = true;
  const uint32_t whole = auto_window(config.gradients, config.world);
  EXPECT_EQ(JoinPlan(config).first_channel(0).window, weighted_window(whole, 1, 4));
  EXPECT_EQ(JoinPlan(config).first_channel(1).window, weighted_window(whole, 3, 4));
  config.aggregators = {at(1, 0), at(2, 3)};
  EXPECT_EQ(JoinPlan(config).first_channel(0).window, 256U);
  config.aggregators = {};
  EXPECT_EQ(JoinPlan(config).first_channel(0).window, 256U);
}

TEST(JoinPlan, PacketsThatFitAllPathsMayShrink) {
  JoinPlan plan(on({at(1, 1), at(2, 1)}));
  plan.set_gradients(77);
  EXPECT_EQ(plan.first_channel(1).gradients, 77U);
  EXPECT_TRUE(plan.first_channel(1).gradients_flexible);
}

TEST(JoinPlan, AggregatorsOfAnAsynchronousJobKnowTheirShares) {
  CommunicatorConfig config = on({at(1, 2), at(2, 0), at(3, 3)});
  config.asynchronous = true;
  const JoinPlan plan(config);
  EXPECT_EQ(plan.first_channel(0).share, (wire::ParameterShare{.before = 0, .own = 2, .all = 5}));
  EXPECT_EQ(plan.first_channel(1).share, (wire::ParameterShare{.before = 2, .own = 3, .all = 5}));
  EXPECT_THAT(plan.shares(), ElementsAre(plan.first_channel(0).share, plan.first_channel(1).share));
  // The weight of a single aggregator has no meaning.
  config.aggregators = {at(1, 7)};
  EXPECT_EQ(JoinPlan(config).first_channel(0).share, wire::ParameterShare{});
}

}  // namespace
}  // namespace tributary::host
