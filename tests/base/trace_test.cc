// SPDX-License-Identifier: Apache-2.0
#include "base/trace.h"

#include <gtest/gtest.h>

#include <set>

namespace tributary {
namespace {

class Kept final : public TraceSink {
 public:
  void on_event(const TraceEvent& event) override { events.push_back(event); }
  std::vector<TraceEvent> events;
};

TEST(Trace, KindNamesAreUnique) {
  std::set<std::string> names;
  for (uint32_t i = 0; i < kTraceKindCount; i++) {
    const auto kind = static_cast<TraceKind>(i);
    names.insert(to_string(kind));
    EXPECT_EQ(trace_kind(to_string(kind)), kind);
  }
  EXPECT_EQ(names.size(), kTraceKindCount);
  EXPECT_EQ(static_cast<uint32_t>(TraceKind::kTraffic), kTraceKindCount - 1);
  EXPECT_STREQ(to_string(TraceKind::kTraffic), "traffic");
  EXPECT_EQ(trace_kind("Table"), std::nullopt);
  EXPECT_EQ(trace_kind(""), std::nullopt);
}

TEST(Trace, FormatsValuesAsText) {
  EXPECT_EQ(trace_value_text(uint64_t{7}), "7");
  EXPECT_EQ(trace_value_text(int64_t{-7}), "-7");
  EXPECT_EQ(trace_value_text(true), "yes");
  EXPECT_EQ(trace_value_text(TraceHex{0x2f}), "0x2f");
  EXPECT_EQ(trace_value_text(nanoseconds(12) + picoseconds(500)), "12.5 ns");
  EXPECT_EQ(trace_value_text(nanoseconds(70)), "70 ns");
  EXPECT_EQ(trace_value_text(std::string("hit")), "hit");
}

TEST(Trace, TracerIsOffWithoutASink) {
  const Tracer off;
  EXPECT_FALSE(off.on());
  Kept kept;
  const Tracer tracer(kept, "switch");
  ASSERT_TRUE(tracer.on());
  tracer.emit(Instant(nanoseconds(3)), 5, TraceKind::kTable, "bitmap",
              {{"hit", true}, {"entry", uint16_t{2}}, {"sum", -3}, {"action", "drop"}});
  ASSERT_EQ(kept.events.size(), 1U);
  const TraceEvent& event = kept.events[0];
  EXPECT_EQ(event.at, Instant(nanoseconds(3)));
  EXPECT_EQ(event.node, "switch");
  EXPECT_EQ(event.packet, 5U);
  EXPECT_EQ(event.what, "bitmap");
  ASSERT_NE(event.find("entry"), nullptr);
  EXPECT_EQ(*event.find("entry"), TraceValue(uint64_t{2}));
  EXPECT_EQ(*event.find("hit"), TraceValue(true));
  EXPECT_EQ(*event.find("sum"), TraceValue(int64_t{-3}));
  EXPECT_EQ(*event.find("action"), TraceValue(std::string("drop")));
  EXPECT_EQ(event.find("block"), nullptr);
}

}  // namespace
}  // namespace tributary
