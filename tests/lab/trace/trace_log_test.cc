// SPDX-License-Identifier: Apache-2.0
// Method: a small trace with its exact text, line by line.
#include "lab/trace/trace_log.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>

namespace tributary::lab {
namespace {

TraceEvent event(int64_t at_ns, uint64_t packet, TraceKind kind, std::string what,
                 std::vector<TraceField> fields = {}) {
  return {.at = Instant(nanoseconds(at_ns)),
          .node = "switch",
          .packet = packet,
          .kind = kind,
          .what = std::move(what),
          .fields = std::move(fields)};
}

/// Two packets whose events interleave, and a timer's thread that runs twice.
void tell(TraceSink& sink) {
  sink.on_event(event(1'000, 1, TraceKind::kArrive, "contribution", {{"block", 7U}}));
  sink.on_event(event(1'010, 2, TraceKind::kArrive, "probe"));
  sink.on_event(event(1'120, 1, TraceKind::kReply, "read", {{"waited", nanoseconds(70)}}));
  sink.on_event(event(1'050, 1, TraceKind::kRequest, "read", {{"bytes", 8U}}));
  sink.on_event(event(2'000, 0, TraceKind::kThread, "timer", {{"thread", 3U}}));
  sink.on_event(event(2'005, 0, TraceKind::kEnd, "done", {{"thread", 3U}}));
  sink.on_event(event(3'000, 0, TraceKind::kThread, "timer", {{"thread", 3U}}));
}

TEST(TraceLog, PrintsEventsByPacket) {
  TraceLog log({}, 100);
  tell(log);
  EXPECT_EQ(trace_text(log), R"(switch, packet 1, at 1 us:
    +0.00 ns  arrive       contribution  block=7
   +50.00 ns  request      read          bytes=8
  +120.00 ns  reply        read          waited=70 ns

switch, packet 2, at 1.01 us:
  +0.00 ns  arrive       probe

switch, a timer's thread, at 2 us:
  +0.00 ns  thread       timer  thread=3
  +5.00 ns  end          done   thread=3

switch, a timer's thread, at 3 us:
  +0.00 ns  thread       timer  thread=3

What the lines say:
  arrive       the packet's last bit is here
  thread       a thread of a packet processing engine (PPE) begins
  request      the thread asks memory or hash unit for something (XTXN)
  reply        the reply has arrived; the fields show the parts of the wait
  end          the thread is done and free for another packet
)");
}

TEST(TraceLog, PrintsEventsByTime) {
  TraceFilter filter;
  filter.packet = 1;
  TraceLog log(filter, 100);
  tell(log);
  EXPECT_EQ(log.seen_count(), 7U);
  EXPECT_EQ(trace_text_by_time(log),
            R"(       1000.00  switch     1  arrive       contribution  block=7
       1050.00  switch     1  request      read  bytes=8
       1120.00  switch     1  reply        read  waited=70 ns
What the lines say:
  arrive       the packet's last bit is here
  request      the thread asks memory or hash unit for something (XTXN)
  reply        the reply has arrived; the fields show the parts of the wait
)");
}

TEST(TraceLog, CountsEventsBeyondTheLimit) {
  TraceLog log({}, 2);
  tell(log);
  EXPECT_EQ(log.events().size(), 2U);
  EXPECT_EQ(log.more_count(), 5U);
  const std::string text = trace_text(log);
  EXPECT_TRUE(text.ends_with("\n… 5 more\n")) << text;
}

TEST(TraceLog, PrintsJsonLines) {
  TraceLog log({}, 4);
  tell(log);
  std::istringstream lines(trace_json_lines(log));
  std::string line;
  std::vector<nlohmann::json> read;
  while (std::getline(lines, line)) read.push_back(nlohmann::json::parse(line));
  ASSERT_EQ(read.size(), 5U);
  EXPECT_EQ(read[0],
            nlohmann::json::parse(R"({"at_ns":1000.0,"node":"switch","packet":1,"kind":"arrive",)"
                                  R"("what":"contribution","fields":{"block":7}})"));
  EXPECT_EQ(read[3]["fields"]["waited_ns"], 70.0);
  EXPECT_EQ(read[3]["at_ns"], 1120.0);
  EXPECT_EQ(read[4], nlohmann::json::parse(R"({"more":3})"));
}

TEST(TraceLog, EmptyLogPrintsNoEvents) {
  const TraceLog log({}, 4);
  EXPECT_EQ(trace_text(log), "");
  EXPECT_EQ(trace_json_lines(log), "{\"more\":0}\n");
}

}  // namespace
}  // namespace tributary::lab
