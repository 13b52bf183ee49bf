// SPDX-License-Identifier: Apache-2.0
// Method: the log writes into a pipe; the test reads the pipe, or leaves it full.
#include "server/log/log.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>

#include "io/file_descriptor.h"

namespace tributary::server {
namespace {

using nlohmann::ordered_json;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;

class LogTest : public ::testing::Test {
 protected:
  LogTest() {
    std::array<int, 2> ends{};
    EXPECT_EQ(pipe2(ends.data(), O_CLOEXEC), 0);
    EXPECT_EQ(fcntl(ends[0], F_SETFL, O_NONBLOCK), 0);  // Writes wait, as on most terminals.
    reader_ = io::FileDescriptor(ends[0]);
    writer_ = io::FileDescriptor(ends[1]);
  }

  LogConfig config(LogFormat format = LogFormat::kText, LogLevel level = LogLevel::kInfo) {
    return {
        .format = format, .level = level, .file = writer_.get(), .clock = [this] { return now_; }};
  }
  /// Returns what the log has written since the last call.
  std::string written() {
    std::string text(65'536, '\0');
    const ssize_t size = ::read(reader_.get(), text.data(), text.size());
    text.resize(size < 0 ? 0 : static_cast<size_t>(size));
    return text;
  }

  Instant now_{seconds(1000)};
  io::FileDescriptor reader_;
  io::FileDescriptor writer_;
};

TEST_F(LogTest, LineIsGreppable) {
  Log log(config());
  log.write(LogLevel::kInfo, "rank_joined",
            {{"job", 1}, {"rank", 3}, {"address", "10.0.0.3:40112"}});
  EXPECT_THAT(written(), MatchesRegex("[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:]{8}\\.[0-9]{3}Z info "
                                      "event=rank_joined job=1 rank=3 address=10.0.0.3:40112\n"));
}

// The names and values of a line may come from a packet or from another server.
TEST_F(LogTest, LineIsHarmlessToATerminal) {
  const std::string evil = "\x1b[2J\u009b\x7f\u202e";
  const std::string shown = "\\u001b[2J\\u009b\\u007f\\u202e";
  EXPECT_EQ(log_text({{"time", evil}, {"level", evil}, {evil, evil}}),
            shown + " " + shown + " " + shown + "=\"" + shown + "\"");
}

TEST_F(LogTest, LineWithoutAReaderIsLostAndCounted) {
  Log log(config());
  reader_ = io::FileDescriptor();
  log.write(LogLevel::kInfo, "rank_joined");
  EXPECT_EQ(log.stats()["lines_lost"], 1);
  EXPECT_EQ(log.recent().size(), 1U);
}

TEST_F(LogTest, TextThatCouldMisleadIsQuoted) {
  Log log(config());
  log.write(LogLevel::kWarn, "x", {{"a", "two words"}, {"b", "c=d"}, {"e", "f\ng"}, {"h", ""}});
  EXPECT_THAT(written(), HasSubstr(R"(warn event=x a="two words" b="c=d" e="f\ng" h="")"));
}

TEST_F(LogTest, JsonLineIsOneObject) {
  Log log(config(LogFormat::kJson));
  log.write(LogLevel::kError, "x", {{"job", 1}, {"text", "\xff\n"}});
  const std::string text = written();
  EXPECT_EQ(std::ranges::count(text, '\n'), 1);
  const auto line = ordered_json::parse(text);
  EXPECT_EQ(line["level"], "error");
  EXPECT_EQ(line["event"], "x");
  EXPECT_EQ(line["job"], 1);
}

TEST_F(LogTest, LinesBelowTheLevelLeaveNoTrace) {
  Log log(config(LogFormat::kText, LogLevel::kWarn));
  log.write(LogLevel::kInfo, "a");
  log.write(LogLevel::kDebug, "b");
  EXPECT_EQ(written(), "");
  EXPECT_TRUE(log.recent().empty());
  log.write(LogLevel::kWarn, "c");
  EXPECT_THAT(written(), HasSubstr("warn event=c\n"));
}

TEST_F(LogTest, RepeatedLineIsSuppressedByJobAndRankWhateverItsAddress) {
  Log log(config());
  for (uint32_t i = 0; i < 20; i++) {
    log.write(LogLevel::kInfo, "rank_joined", {{"job", 1}, {"rank", 0}, {"address", i}});
  }
  log.write(LogLevel::kInfo, "rank_joined", {{"job", 1}, {"rank", 1}});
  const std::string before = written();
  EXPECT_EQ(std::ranges::count(before, '\n'), kLogLinesPerKey + 1);
  now_ = now_ + kLogWindow;
  log.end_windows();
  EXPECT_THAT(written(),
              HasSubstr(R"(event=log_suppressed lines=15 key="rank_joined job=1 rank=0")"));
  EXPECT_EQ(log.stats()["lines_suppressed"], 15);
}

TEST_F(LogTest, FullPipeLosesLinesButNeverStopsTheCaller) {
  Log log(config());
  const std::string text(1000, 'x');
  for (uint32_t i = 0; i < kLogLinesPerSecond; i++) {
    log.write(LogLevel::kInfo, "x", {{"job", i}, {"text", text}});
  }
  const auto lost = log.stats()["lines_lost"].get<uint64_t>();
  EXPECT_GT(lost, 0U);
  EXPECT_EQ(log.stats()["lines"].get<uint64_t>() + lost, kLogLinesPerSecond);
  EXPECT_EQ(log.recent().size(), kLogLinesPerSecond);  // The memory has them all.
}

TEST_F(LogTest, RecentLinesAreBounded) {
  Log log(config());
  for (uint32_t i = 0; i < kLogLinesKept + 10; i++) {
    if (i % 500 == 0) now_ = now_ + seconds(1);
    log.write(LogLevel::kInfo, "x", {{"job", i}});
    if (i % 100 == 0) written();
  }
  const auto recent = log.recent();
  ASSERT_EQ(recent.size(), kLogLinesKept);
  EXPECT_EQ(recent.front()["job"], 10);
  EXPECT_EQ(recent.back()["job"], kLogLinesKept + 9);
}

TEST_F(LogTest, LongJsonLineLacksItsLongestFieldsAndStaysJson) {
  Log log(config(LogFormat::kJson));
  log.write(LogLevel::kInfo, "x",
            {{"job", 1},
             {"long", std::string(3000, 'a')},
             {"longest", std::string(9000, 'b')},
             {"end", "z"}});
  auto line = ordered_json::parse(written());
  line.erase("time");
  EXPECT_EQ(line, ordered_json({{"level", "info"},
                                {"event", "x"},
                                {"job", 1},
                                {"long", std::string(3000, 'a')},
                                {"end", "z"},
                                {"cut", true}}));
  EXPECT_EQ(log.recent().back().at("longest").get<std::string>().size(), 9000U);
  log.write(LogLevel::kInfo, "x", {{"a", std::string(4000, '"')}});  // 8,000 bytes as JSON.
  line = ordered_json::parse(written());
  EXPECT_FALSE(line.contains("a"));
  EXPECT_EQ(line["cut"], true);
}

TEST_F(LogTest, LinesOfAnOperatorAreNotSuppressed) {
  Log log(config());
  for (uint32_t i = 0; i < 20; i++) log.write_always(LogLevel::kInfo, "job_added", {{"job", 1}});
  const std::string text = written();
  EXPECT_EQ(std::ranges::count(text, '\n'), 20);
  log.write_always(LogLevel::kDebug, "job_added");  // Below the level.
  EXPECT_EQ(written(), "");
}

TEST_F(LogTest, EndWritesTheSuppressedLinesOfOpenWindows) {
  Log log(config());
  for (uint32_t i = 0; i < 7; i++) log.write(LogLevel::kInfo, "x");
  written();
  log.end_windows();
  EXPECT_EQ(written(), "");
  log.end_all_windows();
  EXPECT_THAT(written(), HasSubstr("event=log_suppressed lines=2 key=x\n"));
  log.end_all_windows();
  EXPECT_EQ(written(), "");
}

TEST_F(LogTest, LongLineIsCutSoThatAPipeTakesItWhole) {
  Log log(config());
  log.write(LogLevel::kInfo, "x", {{"text", std::string(10'000, 'y')}});
  const std::string text = written();
  EXPECT_EQ(text.size(), 4096U);
  EXPECT_TRUE(text.ends_with("y\n"));
}

}  // namespace
}  // namespace tributary::server
