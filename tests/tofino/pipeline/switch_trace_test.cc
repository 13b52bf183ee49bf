// SPDX-License-Identifier: Apache-2.0
// Method: traces of a small program by hand, and of SwitchML. A trace must not change the results.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/support/seed.h"
#include "tests/tofino/small_program.h"
#include "tests/tofino/switchml/bed.h"

namespace tributary::tofino {
namespace {

using testing::CollectingSink;
using testing::frame_of;
using testing::session_of;
using testing::SmallProgram;
using testing::worker_port;
using wire::SwitchmlMessage;

/// Keeps events as lines: "packet kind what name=value …".
class Lines final : public TraceSink {
 public:
  void on_event(const TraceEvent& event) override {
    std::string line =
        std::to_string(event.packet) + " " + to_string(event.kind) + " " + event.what;
    for (const TraceField& field : event.fields) {
      line += " " + field.name + "=" + trace_value_text(field.value);
    }
    lines.push_back(std::move(line));
    times.push_back(event.at);
  }
  [[nodiscard]] size_t count(const std::string& part) const {
    return static_cast<size_t>(std::count_if(
        lines.begin(), lines.end(),
        [&](const std::string& line) { return line.find(part) != std::string::npos; }));
  }
  std::vector<std::string> lines;
  std::vector<Instant> times;
};

TEST(SwitchTrace, TracesEachStepOfAPassByName) {
  SmallProgram p;
  const Intrinsics& in = p.b.program.intrinsics;
  const RegisterId sums = p.b.add(Register{.name = "sums",
                                           .entries = 4,
                                           .actions = {{.name = "add",
                                                        .low = {{.op = StatefulOp::kAdd,
                                                                 .a = {StatefulSource::kLow},
                                                                 .b = {StatefulSource::kInput0}}},
                                                        .output = StatefulOutput::kLowAfter}}});
  const ActionId add = p.b.add(
      Action{.name = "add",
             .parameter_bits = {9},
             .register_calls = {{sums, 0, p.a(), {p.bb(), kNone}, p.bb()}},
             .operations = {set(in.egress_port, parameter(0)), set(in.egress_valid, constant(1)),
                            set(in.bypass_egress, constant(1))}});
  p.then(when({{.field = p.a(), .value = 2}},
              {apply(p.b.add(Table{.name = "sum",
                                   .keys = {{p.a()}},
                                   .actions = {add},
                                   .size = 1,
                                   .entries = {{{{2}}, add, {8}}}}))}));
  CollectingSink sink;
  auto made = Switch::make(std::move(p.b.program), {.pipes = 1}, sink);
  ASSERT_TRUE(made.has_value()) << made.error().text;
  Lines trace;
  (*made)->set_trace(Tracer(trace, "s1"));
  const std::vector<std::byte> bytes{std::byte{0}, std::byte{2}, std::byte{0}, std::byte{5}};
  (*made)->arrive(Instant(nanoseconds(10)), 4, {bytes, 4});
  (*made)->arrive(Instant(nanoseconds(20)), 4, {std::span(bytes).first(3), 3});
  const std::vector<std::string> expected{
      "1 arrive packet port=4 bytes=4",
      "1 pass ingress pipe=0 port=4 pass=1",
      "1 parser start",
      "1 header h a=2 b=5",
      "1 gateway h.a == 2 holds=yes",
      "1 table sum hit=yes entry=0 action=add h.a=0x2",
      "1 register sums entry=2 action=add before=0x0 after=0x5 h.b=0x5",
      "1 field egress_port before=0x0 after=0x8",
      "1 field egress_valid before=0x0 after=0x1",
      "1 field bypass_egress before=0x0 after=0x1",
      "1 traffic unicast port=8 bypass_egress=yes",
      "1 send packet port=8 bytes=4",
      "2 arrive packet port=4 bytes=3",
      "2 pass ingress pipe=0 port=4 pass=1",
      "2 parser start",
      "2 drop parser_short"};
  EXPECT_EQ(trace.lines, expected);
  EXPECT_EQ(trace.times[1], Instant(nanoseconds(10)));
  EXPECT_EQ(trace.times[11], Instant(nanoseconds(530)));  // A pass later.
  (*made)->set_trace({});
  (*made)->arrive(Instant(nanoseconds(30)), 4, {bytes, 4});
  EXPECT_EQ(trace.lines.size(), expected.size());
}

TEST(SwitchTrace, TracesASwitchmlPacketThroughItsPasses) {
  CollectingSink sink;
  auto made = SwitchmlSwitch::make({}, sink);
  ASSERT_TRUE(made->set_session(session_of(1, 4)).has_value());
  Lines trace;
  made->device().set_trace(Tracer(trace, "s1"));
  SwitchmlMessage message{.slot = 3};
  message.elements.assign(64, 7);
  const auto frame = frame_of(0, message);
  made->device().arrive(Instant{}, 0, {frame, static_cast<uint32_t>(frame.size())});
  made->device().run_until(Instant(microseconds(10)));
  ASSERT_EQ(sink.sent.size(), 1U);
  EXPECT_EQ(trace.count("1 pass ingress pipe=0 port=0 pass=1"), 1U);
  EXPECT_EQ(trace.count("1 pass ingress pipe=0 port=68 pass=2"), 1U);
  EXPECT_EQ(trace.count("1 pass egress pipe=0 port=0 pass=2"), 1U);
  EXPECT_EQ(trace.count("1 traffic recirculate port=68"), 1U);
  EXPECT_EQ(trace.count("1 traffic multicast group=1 copies=1"), 1U);
  EXPECT_EQ(trace.count("1 register bitmap entry=3 action=set0 before=0x0 after=0x1"), 1U);
  EXPECT_EQ(trace.count("1 register values31 entry=3 action=write before=0x0 after=0x7"), 1U);
  EXPECT_EQ(trace.count("1 table processor"), 2 * 32U);
  EXPECT_EQ(trace.count("header sml"), 2U);
  EXPECT_EQ(trace.count("slot=3"), 3U);  // sml in both ingress passes, md in the second.
  EXPECT_EQ(trace.count(" send packet port=0"), 1U);
}

TEST(SwitchTrace, TracingChangesNoResult) {
  const uint64_t seed = tributary::testing::seed_from_env();
  SCOPED_TRACE(tributary::testing::replay_hint(seed));
  tributary::testing::Prng prng(seed);
  for (const SwitchmlVariant& variant :
       {SwitchmlVariant{}, SwitchmlVariant{.elements = 256}, SwitchmlVariant{.timeout = true}}) {
    CollectingSink traced_sink;
    CollectingSink plain_sink;
    auto traced = SwitchmlSwitch::make(variant, traced_sink);
    auto plain = SwitchmlSwitch::make(variant, plain_sink);
    Lines trace;
    traced->device().set_trace(Tracer(trace, "s1"));
    for (SwitchmlSwitch* one : {&*traced, &*plain}) {
      ASSERT_TRUE(one->set_session(session_of(3, 2)).has_value());
      ASSERT_TRUE(one->set_loss(0.1, 0.1).has_value());
      if (variant.timeout) {
        ASSERT_TRUE(one->set_timeout({.period = microseconds(50)}).has_value());
      }
    }
    Instant now;
    for (uint32_t step = 0; step < 200; step++) {
      const uint32_t worker = prng.below(4);
      SwitchmlMessage message{.set = prng.chance(0.5),
                              .slot = static_cast<uint16_t>(prng.below(3))};
      message.elements.resize(variant.elements);
      for (int32_t& value : message.elements) value = prng.any_i32();
      auto frame = frame_of(worker, message);
      if (prng.chance(0.05)) frame.resize(prng.below(100));
      now = now + nanoseconds(prng.below(3'000));
      for (SwitchmlSwitch* one : {&*traced, &*plain}) {
        one->device().arrive(now, worker_port(worker),
                             {frame, static_cast<uint32_t>(frame.size())});
      }
    }
    for (SwitchmlSwitch* one : {&*traced, &*plain}) {
      one->device().run_until(now + microseconds(200));
      one->device().stop_generator(0, 0);
    }
    ASSERT_EQ(traced_sink.sent.size(), plain_sink.sent.size());
    for (size_t i = 0; i < plain_sink.sent.size(); i++) {
      ASSERT_EQ(traced_sink.sent[i].at, plain_sink.sent[i].at);
      ASSERT_EQ(traced_sink.sent[i].stored, plain_sink.sent[i].stored);
    }
    EXPECT_EQ(traced->device().counters().dropped, plain->device().counters().dropped);
    EXPECT_EQ(traced->device().counters().passes, trace.count("pass ingress"));
  }
}

}  // namespace
}  // namespace tributary::tofino
