// SPDX-License-Identifier: Apache-2.0
#include "cli/demo/demo_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <CLI/CLI.hpp>

namespace tributary::demo {
namespace {

using ::testing::HasSubstr;

/// Returns the configuration for these arguments, which do not include the program.
DemoWorkerConfig parsed(std::vector<std::string> arguments) {
  CLI::App app;
  DemoWorkerConfig config;
  add_demo_worker_options(*app.add_subcommand("demo-worker"), config);
  std::reverse(arguments.begin(), arguments.end());  // CLI11 takes them in reverse order.
  app.parse(arguments);
  return config;
}

TEST(DemoConfig, WorkerReadsTheDemosConfiguration) {
  const DemoWorkerConfig sent{.server = "127.0.0.1:4242",
                              .corpus = "/some where/else",
                              .ledger = "/proc/self/fd/9",
                              .job_id = 9,
                              .rank = 3,
                              .world = 5,
                              .gradients = 352,
                              .window = 17,
                              .iterations = 7,
                              .batch = 32,
                              .seed = 0xffff'ffff'ffff,
                              .loss = 0.01,
                              .slow_probability = 0.125,
                              .slow_typical_ms = 77,
                              .deadline_s = 11};
  const DemoWorkerConfig received = parsed(to_arguments(sent));
  EXPECT_EQ(to_arguments(received), to_arguments(sent));
  EXPECT_EQ(received.corpus, sent.corpus);
  EXPECT_EQ(received.seed, sent.seed);
  EXPECT_EQ(received.slow_probability, sent.slow_probability);
  // No value equals its default, so a flag missing on one side would show.
  const auto defaults = to_arguments(DemoWorkerConfig{});
  const auto others = to_arguments(sent);
  for (size_t i = 2; i < others.size(); i += 2) EXPECT_NE(others[i], defaults[i]) << others[i - 1];
}

TEST(DemoConfig, WorkerRefusesValuesOutOfRange) {
  EXPECT_THROW(parsed({"demo-worker"}), CLI::RequiredError);
  EXPECT_THROW(parsed({"demo-worker", "--ledger", "x", "--rank", "256"}), CLI::ParseError);
  EXPECT_THROW(parsed({"demo-worker", "--ledger", "x", "--loss", "0.9"}), CLI::ParseError);
}

TEST(DemoConfig, QuickRunsFewerAndSmallerIterations) {
  const auto quick = checked({.quick = true});
  ASSERT_TRUE(quick);
  EXPECT_EQ(quick->iterations, kQuickIterations);
  EXPECT_EQ(quick->batch, kQuickBatch);
  const auto quicker = checked({.iterations = 3, .quick = true});
  ASSERT_TRUE(quicker);
  EXPECT_EQ(quicker->iterations, 3);
}

TEST(DemoConfig, RefusalsNameTheFlag) {
  const auto odd = checked({.batch = 33});
  ASSERT_FALSE(odd);
  EXPECT_THAT(odd.error().text, HasSubstr("--batch 33"));
  const auto nowhere = checked({.output_directory = "/nowhere/at/all"});
  ASSERT_FALSE(nowhere);
  EXPECT_THAT(nowhere.error().text, HasSubstr("--output '/nowhere/at/all'"));
}

}  // namespace
}  // namespace tributary::demo
