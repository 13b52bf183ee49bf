// SPDX-License-Identifier: Apache-2.0
// Method: a short file by hand, then each refusal with its whole line, then random files against a
// plain map.
#include "lab/workload/delay_trace.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <sstream>

#include "host/straggler_pattern.h"
#include "tests/support/seed.h"

namespace tributary::lab {
namespace {

using ::testing::HasSubstr;

const std::string kHeader = "worker,iteration,point,delay_ms\n";

Result<DelayTrace> read(const std::string& text) {
  std::istringstream lines(text);
  return DelayTrace::read(lines, "t.csv", 6);
}

std::string refusal(const std::string& rows) {
  const auto trace = read(kHeader + rows);
  return trace ? "accepted" : trace.error().text;
}

TEST(DelayTrace, ReadsRowsInAnyOrder) {
  const auto trace = read(kHeader + "4,10,2,850\r\n\"0\",\"0\",\"0\",\"0.5\"\n4,0,1,0");
  ASSERT_TRUE(trace) << trace.error().text;
  EXPECT_EQ(trace->row_count(), 3U);
  EXPECT_EQ(trace->delay_at(4, 10 * 3 + 2), milliseconds(850));
  EXPECT_EQ(trace->delay_at(0, 0), microseconds(500));
  EXPECT_EQ(trace->delay_at(4, 1), Duration());
  EXPECT_EQ(trace->delay_at(4, 0), Duration());    // No such row,
  EXPECT_EQ(trace->delay_at(3, 32), Duration());   // worker
  EXPECT_EQ(trace->delay_at(4, 999), Duration());  // or iteration.
  EXPECT_EQ(trace->total(), microseconds(850'500));
  EXPECT_TRUE(read("\xef\xbb\xbf" + kHeader + "0,0,0,1\n"));  // As some spreadsheets write it.
}

TEST(DelayTrace, RefusalsNameTheLine) {
  EXPECT_EQ(refusal("0,0,0,1\n6,0,0,1\n"),
            "t.csv:3: worker=6 is not allowed; allowed: a whole number from 0 to 5");
  EXPECT_EQ(refusal("0,1000000,0,1\n"),
            "t.csv:2: iteration=1000000 is not allowed; allowed: a whole number from 0 to 999999");
  EXPECT_EQ(refusal("0,0,3,1\n"),
            "t.csv:2: point=3 is not allowed; allowed: a whole number from 0 to 2");
  EXPECT_EQ(refusal("0,0,0,-1\n"),
            "t.csv:2: delay_ms=-1 is not allowed; allowed: a number from 0 to 1000000000");
  EXPECT_THAT(refusal("0,0,0,nan\n"), HasSubstr("t.csv:2: delay_ms=nan is not allowed"));
  EXPECT_THAT(refusal("0,0,0,1e300\n"), HasSubstr("delay_ms=1e300 is not allowed"));
  EXPECT_THAT(refusal("-1,0,0,1\n"), HasSubstr("worker=-1 is not allowed"));
  EXPECT_THAT(refusal("0,0x1,0,1\n"), HasSubstr("iteration=0x1 is not allowed"));
  EXPECT_THAT(refusal("0,0,,1\n"), HasSubstr("point= is not allowed"));
  EXPECT_EQ(refusal("0,0,1\n"),
            "t.csv:2: '0,0,1' has 3 fields; allowed: worker,iteration,point,delay_ms");
  EXPECT_THAT(refusal("0,0,0,1,5\n"), HasSubstr("has 5 fields"));
  EXPECT_THAT(refusal("\n0,0,0,1\n"), HasSubstr("t.csv:2: '' has 1 fields"));
  EXPECT_EQ(refusal("1,2,0,7\n1,2,0,7\n"),
            "t.csv:3: worker=1 has iteration=2 point=0 twice; allowed: once");
  EXPECT_EQ(refusal("0,0,0,600000000\n1,0,0,600000000\n"),
            "t.csv:3: delay_ms=600000000 is too much; allowed: delays that add up to 1000000 s");
  EXPECT_EQ(refusal(std::string(300, '1') + "\n"),
            "t.csv:2: is too long; allowed: up to 256 bytes");
}

TEST(DelayTrace, RefusesFilesThatAreNoTrace) {
  EXPECT_EQ(read("worker,delay\n").error().text,
            "t.csv:1: 'worker,delay' is not the header; allowed: worker,iteration,point,delay_ms");
  EXPECT_THAT(read("").error().text, HasSubstr("t.csv: has no row"));
  EXPECT_THAT(read(kHeader).error().text, HasSubstr("t.csv: has no row"));
  EXPECT_THAT(DelayTrace::read("/no/such.csv", 6).error().text,
              HasSubstr("/no/such.csv: cannot be read: No such file"));
  EXPECT_THAT(DelayTrace::read("/", 6).error().text, HasSubstr("/: "));
}

TEST(DelayTrace, AFolderIsNoFile) {
  const std::string folder = ::testing::TempDir();
  EXPECT_EQ(DelayTrace::read(folder, 6).error().text,
            folder + ": cannot be read to its end: Is a directory");
}

TEST(DelayTrace, RandomFilesMatchAPlainMap) {
  const uint64_t seed = testing::seed_from_env();
  SCOPED_TRACE(testing::replay_hint(seed));
  Prng prng(seed);
  for (uint32_t round = 0; round < 50; round++) {
    std::map<std::pair<uint32_t, uint64_t>, Duration> model;
    std::string text = kHeader;
    for (uint64_t row = 0; row <= prng.below(100); row++) {
      const auto worker = static_cast<uint32_t>(prng.below(6));
      const uint64_t point = prng.below(60);
      const auto ms = static_cast<int64_t>(prng.below(1000));
      if (!model.emplace(std::pair{worker, point}, milliseconds(ms)).second) continue;
      text += fmt::format("{},{},{},{}{}", worker, point / host::kDelayPoints,
                          point % host::kDelayPoints, ms, prng.chance(0.5) ? "\n" : "\r\n");
    }
    const auto trace = read(text);
    ASSERT_TRUE(trace) << trace.error().text;
    EXPECT_EQ(trace->row_count(), model.size());
    for (uint32_t worker = 0; worker < 6; worker++) {
      for (uint64_t point = 0; point < 61; point++) {
        const auto row = model.find({worker, point});
        EXPECT_EQ(trace->delay_at(worker, point), row == model.end() ? Duration() : row->second);
      }
    }
  }
}

}  // namespace
}  // namespace tributary::lab
