// SPDX-License-Identifier: Apache-2.0
// Method: whole URLs by hand, then refusals of each key. The tests supply the environment.
#include "host/communicator_url.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>

namespace tributary::host {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

Environment environment(std::map<std::string, std::string> variables) {
  return [variables = std::move(variables)](const char* name) {
    const auto found = variables.find(name);
    return found == variables.end() ? std::string() : found->second;
  };
}

std::string error_of(std::string_view url, const Environment& variables = environment({})) {
  const auto parsed = parse_communicator_url(url, variables);
  return parsed ? "parsed" : parsed.error().text;
}

TEST(CommunicatorUrl, EveryKeyHasADefault) {
  const auto parsed = parse_communicator_url("tributary://box?rank=0&world=2", environment({}));
  ASSERT_TRUE(parsed.has_value()) << parsed.error().text;
  EXPECT_EQ(parsed->config.aggregators.at(0).name, "box:12000");
  EXPECT_EQ(parsed->config.job_id, 1);
  EXPECT_EQ(parsed->config.rank, 0U);
  EXPECT_EQ(parsed->config.world, 2U);
  EXPECT_EQ(parsed->config.gradients, 0U);
  EXPECT_EQ(parsed->config.window, 0U);
  EXPECT_EQ(parsed->config.threads, 1U);
  EXPECT_FALSE(parsed->config.source.has_value());
  EXPECT_EQ(parsed->config.deadline, seconds(60));
  EXPECT_EQ(parsed->reduction.format, FloatFormat::kBlockExponent);
  EXPECT_EQ(parsed->reduction.scale, 1e8F);
}

TEST(CommunicatorUrl, EveryKeyCanBeGiven) {
  const auto parsed = parse_communicator_url(
      "tributary://[::1]:7000/job/9?rank=3&world=4&source=1&deadline_ms=1500&gradients=1024&"
      "window=64&threads=3&format=fixed&scale=2.5e6",
      environment({{"RANK", "0"}, {"WORLD_SIZE", "8"}}));
  ASSERT_TRUE(parsed.has_value()) << parsed.error().text;
  EXPECT_EQ(parsed->config.aggregators.at(0).name, "[::1]:7000");
  EXPECT_EQ(parsed->config.job_id, 9);
  EXPECT_EQ(parsed->config.rank, 3U);
  EXPECT_EQ(parsed->config.world, 4U);
  EXPECT_EQ(parsed->config.source, 1U);
  EXPECT_EQ(parsed->config.deadline, milliseconds(1500));
  EXPECT_EQ(parsed->config.gradients, 1024U);
  EXPECT_EQ(parsed->config.window, 64U);
  EXPECT_EQ(parsed->config.threads, 3U);
  EXPECT_EQ(parsed->reduction.format, FloatFormat::kFixedScale);
  EXPECT_EQ(parsed->reduction.scale, 2.5e6F);
}

TEST(CommunicatorUrl, AsynchronousIsOnOrOff) {
  const auto parsed =
      parse_communicator_url("tributary://box/?world=1&asynchronous=on", environment({}));
  ASSERT_TRUE(parsed.has_value()) << parsed.error().text;
  EXPECT_TRUE(parsed->config.asynchronous);
  const auto refused =
      parse_communicator_url("tributary://box/?world=1&asynchronous=1", environment({}));
  ASSERT_FALSE(refused.has_value());
  EXPECT_THAT(refused.error().text, StartsWith("asynchronous='1' is not allowed"));
}

TEST(CommunicatorUrl, AcceptsAutoForNumbers) {
  const auto parsed = parse_communicator_url(
      "tributary://box/?gradients=auto&window=auto&format=exponent&world=1", environment({}));
  ASSERT_TRUE(parsed.has_value()) << parsed.error().text;
  EXPECT_EQ(parsed->config.gradients, 0U);
  EXPECT_EQ(parsed->config.window, 0U);
  EXPECT_EQ(parsed->config.rank, 0U);  // The only rank.
}

TEST(CommunicatorUrl, ReadsTheUseOfSharedMemory) {
  const auto use_of = [](const std::string& more) {
    return parse_communicator_url("tributary://box/?world=1" + more, environment({}))->config.local;
  };
  EXPECT_EQ(use_of(""), LocalUse::kAuto);
  EXPECT_EQ(use_of("&local=auto"), LocalUse::kAuto);
  EXPECT_EQ(use_of("&local=on"), LocalUse::kOn);
  EXPECT_EQ(use_of("&local=off"), LocalUse::kOff);
}

TEST(CommunicatorUrl, AcceptsHostsInEveryForm) {
  struct Case {
    const char* host;
    const char* server;
  };
  for (const Case& host :
       {Case{"box:1", "box:1"}, Case{"10.0.0.1", "10.0.0.1:12000"},
        Case{"[fe80::1%25eth0]", "[fe80::1%25eth0]:12000"}, Case{"[::]:65535", "[::]:65535"}}) {
    const auto parsed = parse_communicator_url(
        std::string("tributary://") + host.host + "/job/0?world=1", environment({}));
    ASSERT_TRUE(parsed.has_value()) << parsed.error().text;
    EXPECT_EQ(parsed->config.aggregators.at(0).name, host.server);
    EXPECT_EQ(parsed->config.job_id, 0);
  }
}

TEST(CommunicatorUrl, AcceptsSeveralAggregatorsWithWeights) {
  const auto parsed = parse_communicator_url(
      "tributary://10.0.0.1:9=3,[::1]=65535,box=0/job/2?rank=0&world=1", environment({}));
  ASSERT_TRUE(parsed.has_value()) << parsed.error().text;
  const auto& aggregators = parsed->config.aggregators;
  ASSERT_EQ(aggregators.size(), 3U);
  EXPECT_EQ(aggregators[0].name, "10.0.0.1:9");
  EXPECT_EQ(aggregators[0].weight, 3U);
  EXPECT_EQ(aggregators[1].name, "[::1]:12000");
  EXPECT_EQ(aggregators[1].weight, 65535U);
  EXPECT_EQ(aggregators[2].weight, 0U);
  EXPECT_EQ(parsed->config.job_id, 2);
}

TEST(CommunicatorUrl, EnvironmentSuppliesMissingKeys) {
  struct Case {
    std::map<std::string, std::string> variables;
    const char* query;
    uint32_t rank;
    uint32_t world;
  };
  const std::map<std::string, std::string> open_mpi{{"OMPI_COMM_WORLD_RANK", "2"},
                                                    {"OMPI_COMM_WORLD_SIZE", "5"}};
  auto both = open_mpi;
  both["RANK"] = "1";
  both["WORLD_SIZE"] = "3";
  auto half = open_mpi;
  half["RANK"] = "1";  // RANK without WORLD_SIZE is not a pair.
  for (const Case& given :
       {Case{open_mpi, "", 2, 5}, Case{both, "", 1, 3}, Case{half, "", 2, 5},
        Case{{{"PMI_RANK", "6"}, {"PMI_SIZE", "7"}}, "", 6, 7}, Case{both, "?rank=0", 0, 3},
        Case{both, "?world=2", 1, 2}, Case{both, "?rank=8&world=9", 8, 9}}) {
    const auto parsed = parse_communicator_url(std::string("tributary://box/job/1") + given.query,
                                               environment(given.variables));
    ASSERT_TRUE(parsed.has_value()) << parsed.error().text;
    EXPECT_EQ(parsed->config.rank, given.rank);
    EXPECT_EQ(parsed->config.world, given.world);
  }
}

TEST(CommunicatorUrl, MissingUrlIsReadFromTheEnvironment) {
  const auto parsed = parse_communicator_url(
      "", environment({{"TRIBUTARY_URL", "tributary://box:9/job/2?rank=0&world=1"}}));
  ASSERT_TRUE(parsed.has_value()) << parsed.error().text;
  EXPECT_EQ(parsed->config.aggregators.at(0).name, "box:9");
  EXPECT_THAT(error_of(""), StartsWith("no URL given and TRIBUTARY_URL is not set; allowed: "));
}

TEST(CommunicatorUrl, RefusalsNameKeyValueAndAllowedValues) {
  const auto query = [](const std::string& keys) {
    return error_of("tributary://box/job/1?rank=0&world=4&" + keys);
  };
  EXPECT_THAT(
      query("colour=red"),
      StartsWith("unknown key 'colour'; allowed: rank, world, deadline_ms, server_wait_ms, "
                 "server_silent_ms, gradients, window, threads, priorities, format, wire, scale, "
                 "source, local, auth, "
                 "secret_file, asynchronous, record and loss"));
  EXPECT_THAT(query("colour=red"), HasSubstr("(in 'tributary://box/job/1?rank=0&world=4&colour"));
  EXPECT_THAT(query("rank=1"), StartsWith("key 'rank' is given twice"));
  EXPECT_THAT(query("wire=8"), StartsWith("wire='8' is not allowed; allowed: auto, 16 or 32"));
  EXPECT_THAT(query("local=yes"),
              StartsWith("local='yes' is not allowed; allowed: auto, on or off"));
  EXPECT_THAT(query("scale"), StartsWith("'scale' is not KEY=VALUE"));
  EXPECT_THAT(query("&scale=1"), StartsWith("'' is not KEY=VALUE"));
  EXPECT_THAT(query("gradients=0"),
              StartsWith("gradients='0' is not allowed; allowed: auto, or a whole number from 1 "
                         "to 4095"));
  EXPECT_THAT(query("gradients=4096"), StartsWith("gradients='4096' is not allowed"));
  EXPECT_THAT(query("window=65537"), StartsWith("window='65537' is not allowed"));
  EXPECT_THAT(query("threads=17"), StartsWith("threads='17' is not allowed"));
  EXPECT_THAT(query("threads=0"), StartsWith("threads='0' is not allowed"));
  EXPECT_THAT(query("window=-1"), StartsWith("window='-1' is not allowed"));
  EXPECT_THAT(query("deadline_ms=0"), StartsWith("deadline_ms='0' is not allowed; allowed: a "
                                                 "whole number from 1 to 86400000"));
  EXPECT_THAT(query("deadline_ms=5s"), StartsWith("deadline_ms='5s' is not allowed"));
  EXPECT_THAT(query("server_wait_ms=0"), StartsWith("server_wait_ms='0' is not allowed"));
  EXPECT_THAT(query("server_silent_ms=99"),
              StartsWith("server_silent_ms='99' is not allowed; allowed: a whole number from "
                         "100 to 86400000"));
  EXPECT_THAT(query("format=float"),
              StartsWith("format='float' is not allowed; allowed: exponent or fixed"));
  for (const char* scale : {"0", "-1", "inf", "nan", "1e99", "", "1x"}) {
    EXPECT_THAT(query(std::string("scale=") + scale),
                StartsWith("scale='" + std::string(scale) + "' is not allowed; allowed: a"));
  }
  EXPECT_THAT(query("source=256"), StartsWith("source='256' is not allowed"));
}

TEST(CommunicatorUrl, RefusesMalformedUrls) {
  EXPECT_THAT(error_of("http://box/"), StartsWith("'http://box/' is not tributary://HOST"));
  EXPECT_THAT(error_of("tributary:///job/1"), StartsWith("no host; allowed: "));
  EXPECT_THAT(error_of("tributary://[::1/job/1"), StartsWith("host '[::1' has no closing bracket"));
  EXPECT_THAT(error_of("tributary://::1/job/1"), StartsWith("'::1' is not HOST:PORT"));
  EXPECT_THAT(error_of("tributary://a:1:2"), StartsWith("'a:1:2' is not HOST:PORT"));
  EXPECT_THAT(error_of("tributary://[::1]x"), StartsWith("'[::1]x' is not HOST:PORT"));
  EXPECT_THAT(error_of("tributary://a:0"), StartsWith("port='0' is not allowed"));
  EXPECT_THAT(error_of("tributary://a:65536"), StartsWith("port='65536' is not allowed"));
  EXPECT_THAT(error_of("tributary://a:"), StartsWith("port='' is not allowed"));
  EXPECT_THAT(error_of("tributary://a/task/1"), StartsWith("path '/task/1' is not allowed"));
  EXPECT_THAT(error_of("tributary://a/job/256"), StartsWith("job='256' is not allowed"));
  EXPECT_THAT(error_of("tributary://a/job/"), StartsWith("job='' is not allowed"));
  EXPECT_THAT(error_of("tributary://a"), StartsWith("no rank: neither rank=… in the URL nor"));
  EXPECT_THAT(error_of("tributary://a?rank=0"), StartsWith("no world: neither world=…"));
  EXPECT_THAT(error_of("tributary://a?rank=2&world=2"),
              StartsWith("rank=2 is not allowed; allowed: 0 to 1"));
  EXPECT_THAT(error_of("tributary://a", environment({{"RANK", "x"}, {"WORLD_SIZE", "2"}})),
              StartsWith("RANK='x' is not allowed"));
}

}  // namespace
}  // namespace tributary::host
