// SPDX-License-Identifier: Apache-2.0
// Method: one plan with sums by hand, as text and as JSON; then what changes with limits.
#include "cli/plan/plan_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tributary::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

/// Returns a report for links of 1 Gbit/s.
PlanReport report_for(PlanFlags flags) {
  flags.link_gbit = 1;
  const auto report = make_plan_report({.flags = std::move(flags), .bytes = 125'000'000});
  EXPECT_TRUE(report) << report.error().text;
  return *report;
}

// 125 MB take 1 s on a link, and 98 bytes of headers come with each 1408.
constexpr double kTensorSeconds = 1506.0 / 1408;

// (1500 - 40 - 8 - 64) / 4 gradients; 118 bytes of headers come with their 1388.
TEST(PlanReport, PacketsHaveTheFamilyOfTheFirstAddress) {
  const PlanReport report = report_for({.workers = "[::1],[::2]"});
  EXPECT_EQ(report.gradients, 347U);
  EXPECT_DOUBLE_EQ(report.tensor.wire_ratio, 1506.0 / 1388);
  EXPECT_EQ(report_for({.workers = "10.0.0.1,10.0.0.2"}).gradients, 352U);
  EXPECT_EQ(report_for({.workers = "one,two"}).gradients, 352U);
}

TEST(PlanReport, JsonHoldsThePlan) {
  const auto json = as_json(report_for({.workers = "4", .servers = "2"}));
  EXPECT_DOUBLE_EQ(json["wire_ratio"], kTensorSeconds);
  EXPECT_EQ(json["gradients"], 352);
  EXPECT_EQ(json["workers"], 4);
  EXPECT_EQ(json["servers"], 2);
  EXPECT_DOUBLE_EQ(json["predicted_s"], 1.2 * kTensorSeconds);  // 24 / 20
  EXPECT_DOUBLE_EQ(json["optimum_s"], 1.2 * kTensorSeconds);
  EXPECT_DOUBLE_EQ(json["equation_s"], 1.2 * kTensorSeconds);
  EXPECT_DOUBLE_EQ(json["ring_s"], 1.5 * kTensorSeconds);
  EXPECT_DOUBLE_EQ(json["one_aggregator_s"], 3 * kTensorSeconds);
  ASSERT_EQ(json["machines"].size(), 6U);
  const auto& spare = json["machines"][5];
  EXPECT_EQ(spare["name"], "server1");
  EXPECT_EQ(spare["worker"], false);
  EXPECT_EQ(spare["weight"], 3);
  EXPECT_DOUBLE_EQ(spare["share"], 0.3);
  EXPECT_DOUBLE_EQ(spare["link_s"], 1.2 * kTensorSeconds);
  EXPECT_EQ(spare["sum_gbit"], nullptr);
  EXPECT_EQ(spare["bottleneck"], "link");
  EXPECT_EQ(json["server_list"],
            "worker0:12000=1,worker1:12000=1,worker2:12000=1,worker3:12000=1,server0:12000=3,"
            "server1:12000=3");
}

TEST(PlanReport, TextHoldsTheSameNumbers) {
  const std::string text = as_text(report_for({.workers = "4", .servers = "2"}));
  EXPECT_THAT(text, HasSubstr("server1  aggregator           30.0 %       3        1    100.0 %"));
  EXPECT_THAT(text, HasSubstr("this plan           1.2835 s\n"));
  EXPECT_THAT(text, HasSubstr("best ring           1.6044 s  1.25 times this plan\n"));
  EXPECT_THAT(text, HasSubstr("tributary://worker0:12000=1,"));
  EXPECT_THAT(text, HasSubstr("/job/1?world=4\n"));
  EXPECT_THAT(text, Not(HasSubstr(" \n")));
}

TEST(PlanReport, MachinesWithoutShareAreLeftOutOfTheList) {
  const PlanReport report = report_for({.workers = "2", .servers = "10.0.0.1,10.0.0.2:13000"});
  EXPECT_EQ(report.servers, "10.0.0.1:12000,10.0.0.2:13000");
  EXPECT_THAT(as_text(report), HasSubstr("worker0   worker "));
  EXPECT_EQ(as_json(report)["machines"][0]["aggregator"], false);
  EXPECT_EQ(as_json(report)["machines"][2]["aggregator"], true);
}

TEST(PlanReport, UnequalMachinesHaveNoEquation) {
  const PlanReport report =
      report_for({.workers = "4", .servers = "2", .colocated = false, .sum_gbit = 0.5});
  const auto json = as_json(report);
  EXPECT_EQ(json["equation_s"], nullptr);
  EXPECT_DOUBLE_EQ(json["predicted_s"],
                   4.0);  // 4 tensors for two CPUs of half a tensor per second.
  EXPECT_EQ(json["machines"][4]["bottleneck"], "cpu");
  EXPECT_EQ(json["machines"][4]["sum_gbit"], 0.5);
  EXPECT_THAT(as_text(report), Not(HasSubstr("equation 6")));
}

TEST(PlanReport, LoneWorkerHasNoTime) {
  const PlanReport report = report_for({.workers = "1"});
  EXPECT_EQ(report.assignment.predicted_s, 0);
  EXPECT_THAT(as_text(report), Not(HasSubstr("nan")));
}

TEST(PlanReport, RefusalsArePassedOn) {
  const auto report = make_plan_report({.flags = {.workers = "0"}});
  ASSERT_FALSE(report);
  EXPECT_TRUE(report.error().text.starts_with("--workers=0"));
}

// A worker refuses a longer list. Machines without a share do not count.
TEST(PlanReport, MoreThan64AggregatorsAreRefused) {
  const auto error_of = [](PlanFlags flags) {
    const auto report = make_plan_report({.flags = std::move(flags)});
    return report ? std::string() : report.error().text;
  };
  EXPECT_EQ(error_of({.workers = "64"}), "");
  EXPECT_EQ(error_of({.workers = "65", .servers = "64", .colocated = false}), "");
  EXPECT_EQ(error_of({.workers = "64", .servers = "64"}),
            "");  // The workers' machines get no share.
  EXPECT_THAT(error_of({.workers = "65"}),
              HasSubstr("--workers, --servers: 65 machines run an aggregator; allowed: up to 64"));
  EXPECT_THAT(error_of({.workers = "65", .servers = "65"}), HasSubstr("65 machines run"));
}

}  // namespace
}  // namespace tributary::cli
