// SPDX-License-Identifier: Apache-2.0
// Method: one packet's events by hand; then random traces against the simplest filter, which
// searches all events for the packet's arrival.
#include "lab/trace/trace_filter.h"

#include <gtest/gtest.h>

#include "tests/support/seed.h"

namespace tributary::lab {
namespace {

TraceEvent arrival(uint64_t packet, uint64_t block, const char* node = "switch") {
  return {.at = Instant(nanoseconds(10)),
          .node = node,
          .packet = packet,
          .kind = TraceKind::kArrive,
          .what = "contribution",
          .fields = {{"job", 1}, {"block", block}, {"source", 0U}}};
}

TraceEvent instruction(uint64_t packet, const char* node = "switch") {
  return {.at = Instant(nanoseconds(20)),
          .node = node,
          .packet = packet,
          .kind = TraceKind::kInstruction,
          .what = "parse_header"};
}

TEST(TraceFilter, EmptyFilterSelectsEverything) {
  TraceSelector selector({});
  EXPECT_TRUE(selector.wants(arrival(1, 7)));
  EXPECT_TRUE(selector.wants(instruction(0)));
}

TEST(TraceFilter, LaterEventsKeepThePacketsBlock) {
  TraceFilter filter;
  filter.block = 7;
  TraceSelector selector(filter);
  EXPECT_TRUE(selector.wants(arrival(1, 7)));
  EXPECT_FALSE(selector.wants(arrival(2, 8)));
  EXPECT_FALSE(selector.wants(arrival(1, 8, "other")));
  EXPECT_TRUE(selector.wants(instruction(1)));
  EXPECT_FALSE(selector.wants(instruction(2)));
  EXPECT_FALSE(selector.wants(instruction(1, "other")));
  EXPECT_FALSE(selector.wants(instruction(0)));
  // An event may concern another block than its packet: a timer that sends a result.
  TraceEvent sent = arrival(0, 7);
  sent.kind = TraceKind::kSend;
  EXPECT_TRUE(selector.wants(sent));
  EXPECT_EQ(selector.values_seen_text(), "block=7 was asked for, there were 7 to 8; ");
}

TEST(TraceFilter, TofinoHeadersSelectThePacket) {
  TraceFilter filter;
  filter.slot = 3;
  TraceSelector selector(filter);
  TraceEvent header = instruction(5);
  EXPECT_FALSE(selector.wants(header));
  header.kind = TraceKind::kHeader;
  header.fields = {{"slot", uint16_t{3}}};
  EXPECT_TRUE(selector.wants(header));
  EXPECT_TRUE(selector.wants(instruction(5)));
}

TEST(TraceFilter, AppliesEveryCondition) {
  const auto wants = [](TraceFilter filter) {
    TraceSelector selector(std::move(filter));
    return selector.wants(arrival(4, 7));
  };
  TraceFilter filter;
  filter.node = "switch";
  filter.packet = 4;
  filter.job = 1;
  filter.block = 7;
  filter.source = 0;
  filter.from = Instant(nanoseconds(10));
  filter.to = Instant(nanoseconds(10));
  filter.kinds = {TraceKind::kArrive};
  EXPECT_TRUE(wants(filter));
  const auto without = [&](auto&& change) {
    TraceFilter other = filter;
    change(other);
    return wants(other);
  };
  EXPECT_FALSE(without([](TraceFilter& f) { f.node = "leaf"; }));
  EXPECT_FALSE(without([](TraceFilter& f) { f.packet = 5; }));
  EXPECT_FALSE(without([](TraceFilter& f) { f.job = 2; }));
  EXPECT_FALSE(without([](TraceFilter& f) { f.block = 8; }));
  EXPECT_FALSE(without([](TraceFilter& f) { f.source = 1; }));
  EXPECT_FALSE(without([](TraceFilter& f) { f.slot = 0; }));
  EXPECT_FALSE(without([](TraceFilter& f) { f.port = 0; }));
  EXPECT_FALSE(without([](TraceFilter& f) { f.from = Instant(nanoseconds(11)); }));
  EXPECT_FALSE(without([](TraceFilter& f) { f.to = Instant(nanoseconds(9)); }));
  EXPECT_FALSE(without([](TraceFilter& f) { f.kinds = {TraceKind::kSend}; }));
}

TEST(TraceFilter, ParsesKindsByName) {
  EXPECT_EQ(parse_trace_kinds("request,reply").value(),
            (std::set{TraceKind::kRequest, TraceKind::kReply}));
  EXPECT_TRUE(parse_trace_kinds("").value().empty());
  const auto unknown = parse_trace_kinds("request,replay");
  ASSERT_FALSE(unknown);
  EXPECT_NE(unknown.error().text.find("unknown kind 'replay' (did you mean 'reply'?); allowed: "),
            std::string::npos)
      << unknown.error().text;
}

TEST(TraceFilter, ForgetsOldPackets) {
  TraceFilter filter;
  filter.block = 7;
  TraceSelector selector(filter);
  EXPECT_TRUE(selector.wants(arrival(1, 7)));
  for (uint64_t i = 0; i < TraceSelector::kPacketsKnown; i++)
    (void)selector.wants(arrival(2 + i, 7));
  EXPECT_FALSE(selector.wants(instruction(1)));
  EXPECT_TRUE(selector.wants(instruction(2)));
}

TEST(TraceFilter, RandomTracesMatchALinearSearch) {
  const uint64_t seed = testing::seed_from_env();
  SCOPED_TRACE(::testing::Message() << "replay with TRIB_TEST_SEED=" << seed);
  Prng prng(seed);
  for (uint32_t run = 0; run < 200; run++) {
    TraceFilter filter;
    filter.block = prng.below(3);
    if (prng.below(2) == 0) filter.node = prng.below(2) == 0 ? "a" : "b";
    TraceSelector selector(filter);
    std::map<std::pair<std::string, uint64_t>, uint64_t> block_of;
    for (uint32_t i = 0; i < 100; i++) {
      const char* const node = prng.below(2) == 0 ? "a" : "b";
      const uint64_t packet = 1 + prng.below(10);
      const bool arrives = !block_of.contains({node, packet});
      const uint64_t block = prng.below(3);
      if (arrives) block_of[{node, packet}] = block;
      const TraceEvent event = arrives ? arrival(packet, block, node) : instruction(packet, node);
      const bool expected =
          block_of[{node, packet}] == *filter.block && (filter.node.empty() || filter.node == node);
      ASSERT_EQ(selector.wants(event), expected) << "run " << run << " event " << i;
    }
  }
}

}  // namespace
}  // namespace tributary::lab
