// SPDX-License-Identifier: Apache-2.0
// Method: JSON as a server answers it, made by hand, and the texts that it gives.
#include "cli/operate/status_command.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tributary::cli {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

json status_at(double uptime_s, uint64_t count) {
  return {{"name", "box"},
          {"version", "1.2"},
          {"service", "trio-ml"},
          {"listen", "127.0.0.1:12000"},
          {"uptime_s", uptime_s},
          {"rx_packets", count},
          {"rx_bytes", count * 125'000'000},
          {"tx_packets", count},
          {"tx_bytes", count},
          {"blocks_in_progress", 3},
          {"blocks_completed", 75},
          {"blocks_degraded", 25},
          {"degraded_share", 0.25},
          {"jobs",
           {{{"id", 7},
             {"session", 99},
             {"members", 3},
             {"sources", 4},
             {"blocks_in_progress", 3},
             {"blocks_total", count},
             {"degraded_share", 0.125}}}},
          {"cores", {{{"cpu_s", uptime_s / 2}}}},
          {"drops", {{"wrong_key", 5}}},
          {"waits", 1}};
}

TEST(StatusCommand, RatesAreDifferencesOverTime) {
  json status = status_at(12, 50);
  add_rates(status, status_at(10, 10));
  EXPECT_EQ(status["rx_packets_per_s"], 20.0);
  EXPECT_EQ(status["rx_bytes_per_s"], 20.0 * 125'000'000);
  EXPECT_EQ(status["jobs"][0]["blocks_per_s"], 20.0);
  EXPECT_EQ(status["cores"][0]["cpu_share"], 0.5);
  add_rates(status, status);  // No time has passed.
  EXPECT_EQ(status["rx_packets_per_s"], 0.0);
}

TEST(StatusCommand, JobThatWasAddedOrReplacedHasNoNegativeRate) {
  json status = status_at(12, 50);
  json earlier = status_at(10, 10);
  earlier["jobs"] = json::array();
  add_rates(status, earlier);
  EXPECT_EQ(status["jobs"][0]["blocks_per_s"], 0.0);
  earlier = status_at(10, 90);
  add_rates(status, earlier);
  EXPECT_EQ(status["jobs"][0]["blocks_per_s"], 0.0);
}

TEST(StatusCommand, TextShowsEverythingOnOneScreen) {
  json status = status_at(12, 50);
  add_rates(status, status_at(10, 10));
  const std::string text = status_text(status);
  for (const char* part :
       {"box (version 1.2), trio-ml at 127.0.0.1:12000, up 12 s", "in 20 packets/s, 20.000 Gbit/s",
        "3 in flight", "25 degraded (25.00 %)", "3/4", "12.50 %\n", "0: 50 % CPU",
        "drops: wrong_key 5", "waits: 1; see tributary who"}) {
    EXPECT_THAT(text, HasSubstr(part));
  }
  status["drops"] = json::object();
  status["waits"] = 0;
  EXPECT_THAT(status_text(status), HasSubstr("drops: none"));
  EXPECT_THAT(status_text(status), HasSubstr("no job waits for a rank"));
}

TEST(StatusCommand, NarrowTextHasTheMainColumnsOfAJob) {
  json status = status_at(12, 50);
  add_rates(status, status_at(10, 10));
  const std::string text = status_text(status, 40);
  EXPECT_THAT(text, HasSubstr("\n  job   members     blocks/s   degraded\n"
                              "    7       3/4           20    12.50 %\n"));
  EXPECT_THAT(text, StartsWith("box (version 1.2), trio-ml at\n  127.0.0.1:12000, up 12 s\n"));
}

TEST(StatusCommand, TextNamesTheAggregatorsThatTheDirectoryMisses) {
  json status = status_at(12, 50);
  add_rates(status, status_at(10, 10));
  EXPECT_THAT(status_text(status), Not(HasSubstr("directory")));  // Of an earlier release.
  status["directory"] = json::array();
  EXPECT_THAT(status_text(status), Not(HasSubstr("directory")));
  status["directory"].push_back(
      {{"id", 7},
       {"plans", 3},
       {"aggregators",
        {{{"address", "a:1"}, {"answers", true}, {"fault", ""}},
         {{"address", "b:1"}, {"answers", false}, {"fault", "no answer for 1.0 s"}}}}});
  EXPECT_THAT(status_text(status),
              HasSubstr("\ndirectory of job 7: plan 3, 1 of 2 aggregators answer; without b:1 (no "
                        "answer for 1.0 s)\n"));
}

TEST(StatusCommand, TextOfASwitchmlServerShowsItsSessions) {
  json status = status_at(12, 50);
  status["service"] = "switchml";
  status["jobs"] = json::array();
  status["events"] = {{"aggregated", 9}};
  status["sessions"] = {{{"id", "0x7"},
                         {"workers", {"10.0.0.1", ""}},
                         {"silent_s", {1.5, nullptr}},
                         {"packets", 30},
                         {"slots_completed", 15}}};
  add_rates(status, status);
  const std::string text = status_text(status);
  for (const char* part : {"switchml at 127.0.0.1:12000", "0x7       1/2", "30", "15  1.5 s - \n",
                           "drops: wrong_key 5\n", "events: aggregated 9\n"}) {
    EXPECT_THAT(text, HasSubstr(part));
  }
  EXPECT_THAT(text, Not(HasSubstr("blocks:")));
  status["sessions"] = json::array();
  EXPECT_THAT(status_text(status), HasSubstr("no session\n"));
}

TEST(StatusCommand, TextOfAPacketProgramShowsItsEvents) {
  json status = status_at(12, 50);
  status["service"] = "filter";
  status["listen"] = "eth0 and eth1";
  status["events"] = {{"packets_forwarded", 9}};
  add_rates(status, status);
  const std::string text = status_text(status);
  EXPECT_THAT(text, HasSubstr("filter at eth0 and eth1"));
  EXPECT_THAT(text, HasSubstr("events: packets_forwarded 9\n"));
  EXPECT_THAT(text, Not(HasSubstr("session")));
}

// Job 1 has the channels 1 and 2. Only channel 2 lacks a rank.
TEST(WhoCommand, JobCoversItsChannels) {
  const json row{{"job", 2},           {"channel_of", 1},       {"block", 40},
                 {"missing", {1}},     {"since_ms", 900},       {"last_heard_ms", nullptr},
                 {"address", nullptr}, {"advice", "look there"}};
  json other = row;
  other["job"] = 9;
  other.erase("channel_of");  // Of an earlier release.
  const json rows{row, other};
  EXPECT_EQ(who_rows(rows, std::nullopt), rows);
  EXPECT_EQ(who_rows(rows, 1), json::array({row}));
  EXPECT_EQ(who_rows(rows, 2), json::array({row}));
  EXPECT_EQ(who_rows(rows, 9), json::array({other}));
  EXPECT_EQ(who_rows(rows, 3), json::array());
  EXPECT_THAT(who_text(rows), HasSubstr("\n     channel 1 of job 1: look there\n"));
  EXPECT_THAT(who_text(rows), HasSubstr("\n     look there\n"));
}

TEST(StatusCommand, TableTellsChannelsFromJobs) {
  json status = status_at(12, 50);
  add_rates(status, status_at(10, 10));
  EXPECT_THAT(status_text(status), Not(HasSubstr("channel of")));
  json channel = status["jobs"][0];
  channel["id"] = 8;
  channel["channel_of"] = 7;
  status["jobs"].push_back(channel);
  const std::string text = status_text(status);
  EXPECT_THAT(text, HasSubstr("   degraded  channel of\n"));
  EXPECT_THAT(text, HasSubstr("    12.50 %           -\n"));
  EXPECT_THAT(text, HasSubstr("    12.50 %           7\n"));
  EXPECT_THAT(status_text(status, 80), HasSubstr("channel of"));
}

TEST(WhoCommand, TextNamesRanksOrSaysThatThereAreNone) {
  EXPECT_EQ(who_text(json::array()), "no job waits for a rank\n");
  const std::string text = who_text({{{"job", 1},
                                      {"block", 40},
                                      {"missing", {2, 3}},
                                      {"since_ms", 900},
                                      {"last_heard_ms", nullptr},
                                      {"address", nullptr},
                                      {"advice", "look there"}}});
  EXPECT_THAT(text, HasSubstr("2,3"));
  EXPECT_THAT(text, HasSubstr("900 ms"));
  EXPECT_THAT(text, HasSubstr("-  -\n     look there\n"));
}

}  // namespace
}  // namespace tributary::cli
