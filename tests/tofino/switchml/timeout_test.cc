// SPDX-License-Identifier: Apache-2.0
// Method: SwitchML with timeouts. One slot by hand: the time bound, the answers to late workers,
// refusals. Then random workers that sometimes stay away, against the simplest model of
// contributions.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "tests/support/seed.h"
#include "tests/tofino/switchml/bed.h"

namespace tributary::tofino {
namespace {

using testing::CollectingSink;
using testing::frame_of;
using ::testing::HasSubstr;
using testing::session_of;
using testing::worker_port;
using wire::parse_switchml;
using wire::SwitchmlMessage;

constexpr Duration kPeriod = microseconds(100);

/// A result of this variant.
struct Answer {
  uint32_t worker = 0;
  Instant at;
  uint32_t id = 0;
  bool degraded = false;
  uint32_t count = 0;
  SwitchmlMessage message;
};

struct TimeoutBed {
  explicit TimeoutBed(uint32_t workers, uint32_t slots = 4, Payload payload = Payload::kCarried) {
    auto made = SwitchmlSwitch::make(SwitchmlVariant{.timeout = true}, sink, payload);
    if (!made) throw std::runtime_error(made.error().text);
    device = std::make_unique<SwitchmlSwitch>(std::move(*made));
    for (const auto& good : {device->set_session(session_of(workers, slots)),
                             device->set_timeout({.period = kPeriod, .client_port = 4000})}) {
      if (!good) throw std::runtime_error(good.error().text);
    }
  }
  /// Makes a message. The switch compares ids, so they are in network byte order.
  static SwitchmlMessage message(uint16_t slot, uint32_t id, int32_t value) {
    SwitchmlMessage m{.packet_id = __builtin_bswap32(id), .set = id % 2 == 1, .slot = slot};
    m.elements.assign(64, value);
    return m;
  }
  void send(uint32_t worker, const SwitchmlMessage& m) {
    const auto frame = frame_of(worker, m);
    device->device().arrive(now, worker_port(worker), {frame, static_cast<uint32_t>(frame.size())});
  }
  /// Advances the time. @return the packets that left the switch.
  std::vector<Answer> wait(Duration time) {
    now = now + time;
    device->device().run_until(now);
    std::vector<Answer> answers;
    for (const auto& sent : sink.sent) {
      const auto frame = parse_udp_frame(sent.stored);
      EXPECT_TRUE(frame && frame->ip_checksum_right);
      const auto m = parse_switchml(frame->payload);
      EXPECT_TRUE(m.has_value());
      answers.push_back({sent.port / 4, sent.at, __builtin_bswap32(m->packet_id),
                         (std::to_integer<uint32_t>(frame->payload[6]) & 0x40) != 0, m->job_number,
                         *m});
    }
    sink.sent.clear();
    return answers;
  }
  CollectingSink sink;
  std::unique_ptr<SwitchmlSwitch> device;
  Instant now;
};

TEST(SwitchmlTimeout, ClosesAnIncompleteSlotAndReportsTheCount) {
  TimeoutBed bed(3);
  bed.send(0, TimeoutBed::message(2, 0, 5));
  bed.send(2, TimeoutBed::message(2, 0, 7));
  EXPECT_TRUE(bed.wait(kPeriod).empty());  // One period is never enough.
  const auto answers = bed.wait(kPeriod * 2);
  ASSERT_EQ(answers.size(), 3U);  // The worker that stayed away gets it too.
  for (uint32_t worker = 0; worker < 3; worker++) {
    EXPECT_EQ(answers[worker].worker, worker);
    EXPECT_TRUE(answers[worker].degraded);
    EXPECT_EQ(answers[worker].count, 2U);
    EXPECT_EQ(answers[worker].id, 0U);
    EXPECT_EQ(answers[worker].message.slot, 2);
    EXPECT_EQ(answers[worker].message.elements, std::vector<int32_t>(64, 12));
    // Two periods, and the time for closing and reading: three passes, serialised.
    EXPECT_LE(answers[worker].at, Instant(kPeriod * 2 + microseconds(3)));
  }
  EXPECT_EQ(bed.device->count("closed"), 1U);
  EXPECT_TRUE(bed.wait(kPeriod * 10).empty());  // Only once.
}

/// A result is read in two passes. Between them, the other workers may start the set's next phase,
/// if a timeout has closed the phase in between without the worker that asks.
TEST(SwitchmlTimeout, ResultNeverMixesTwoPhases) {
  uint32_t of_the_old = 0;
  uint32_t overtaken = 0;
  for (uint32_t gap_ns = 0; gap_ns < 1500; gap_ns += 20) {
    TimeoutBed bed(2);
    bed.send(0, TimeoutBed::message(0, 0, 5));
    bed.send(1, TimeoutBed::message(0, 0, 7));
    ASSERT_EQ(bed.wait(microseconds(10)).size(), 2U);
    bed.send(0, TimeoutBed::message(0, 1, 6));
    ASSERT_EQ(bed.wait(kPeriod * 3).size(), 2U);  // Closed without worker 1.
    bed.send(1, TimeoutBed::message(0, 0, 7));    // Worker 1 has lost the result and asks for it.
    std::vector<Answer> answers = bed.wait(nanoseconds(gap_ns));
    bed.send(0, TimeoutBed::message(0, 2, 1000));
    for (Answer& answer : bed.wait(microseconds(10))) answers.push_back(std::move(answer));
    ASSERT_EQ(answers.size(), 1U) << gap_ns;
    EXPECT_EQ(answers[0].worker, 1U);
    if (answers[0].id == 0) {
      EXPECT_EQ(answers[0].message.elements, std::vector<int32_t>(64, 12)) << gap_ns;
      of_the_old++;
    } else {
      EXPECT_EQ(answers[0].id, 2U);  // Not the id that it waits for.
      overtaken++;
    }
  }
  EXPECT_GT(of_the_old, 0U);
  EXPECT_GT(overtaken, 0U);
}

TEST(SwitchmlTimeout, LateContributionGetsTheResultAndChangesNoSum) {
  TimeoutBed bed(2);
  bed.send(0, TimeoutBed::message(0, 0, 5));
  ASSERT_EQ(bed.wait(kPeriod * 3).size(), 2U);
  bed.send(1, TimeoutBed::message(0, 0, 100));
  const auto late = bed.wait(microseconds(10));
  ASSERT_EQ(late.size(), 1U);
  EXPECT_EQ(late[0].worker, 1U);
  EXPECT_TRUE(late[0].degraded);
  EXPECT_EQ(late[0].count, 1U);
  EXPECT_EQ(late[0].message.elements, std::vector<int32_t>(64, 5));
  // The next phases are complete, and their results have the sender's job number.
  for (uint32_t id = 1; id < 5; id++) {
    SwitchmlMessage m = TimeoutBed::message(0, id, 1);
    m.job_number = 9;
    bed.send(0, m);
    bed.send(1, m);
    const auto whole = bed.wait(microseconds(10));
    ASSERT_EQ(whole.size(), 2U) << id;
    EXPECT_FALSE(whole[1].degraded);
    EXPECT_EQ(whole[1].count, 9U);
    EXPECT_EQ(whole[1].message.elements, std::vector<int32_t>(64, 2));
  }
  EXPECT_EQ(bed.device->count("late"), 0U);
}

TEST(SwitchmlTimeout, WorkerAPhaseBehindGetsTheCurrentPhase) {
  TimeoutBed bed(2);
  for (uint32_t id = 0; id < 4; id++) {
    bed.send(0, TimeoutBed::message(1, id, 3));
    ASSERT_EQ(bed.wait(kPeriod * 3).size(), 2U) << id;
  }
  bed.send(1, TimeoutBed::message(1, 0, 100));  // Set 0 is in phase 2.
  const auto told = bed.wait(microseconds(10));
  ASSERT_EQ(told.size(), 1U);
  EXPECT_EQ(told[0].worker, 1U);
  EXPECT_TRUE(told[0].degraded);
  EXPECT_EQ(told[0].count, 0U);
  EXPECT_EQ(told[0].id, 2U);
  EXPECT_EQ(bed.device->count("late"), 1U);
  // The result of phase 2 is still there, unchanged.
  bed.send(1, TimeoutBed::message(1, 2, 100));
  const auto kept = bed.wait(microseconds(10));
  ASSERT_EQ(kept.size(), 1U);
  EXPECT_EQ(kept[0].count, 1U);
  EXPECT_EQ(kept[0].message.elements, std::vector<int32_t>(64, 3));
}

TEST(SwitchmlTimeout, OnlyNewContributionsKeepASlotOpen) {
  TimeoutBed bed(3);
  bed.send(0, TimeoutBed::message(0, 0, 5));
  uint32_t answered = 0;
  for (uint32_t step = 0; step < 30; step++) {  // Once every tenth of a period.
    bed.send(0, TimeoutBed::message(0, 0, 5));
    answered += static_cast<uint32_t>(bed.wait(kPeriod / 10).size());
  }
  EXPECT_GE(answered, 3U);
  EXPECT_EQ(bed.device->count("closed"), 1U);
  // Contributions 0.9 periods apart.
  bed.wait(kPeriod);
  for (uint32_t worker = 0; worker < 3; worker++) {
    bed.send(worker, TimeoutBed::message(0, 1, 5));
    const auto answers = bed.wait(kPeriod * 9 / 10);
    EXPECT_EQ(answers.size(), worker == 2 ? 3U : 0U);
    for (const Answer& one : answers) EXPECT_FALSE(one.degraded);
  }
}

TEST(SwitchmlTimeout, SweepsCostOnePassPerSlot) {
  TimeoutBed bed(2, 8);
  bed.wait(kPeriod * 10 - nanoseconds(1));
  // Both sets of eight slots, ten times. Each packet makes one pass and ends there.
  EXPECT_EQ(bed.device->device().counters().generated, 160U);
  EXPECT_EQ(bed.device->device().counters().passes, 160U);
  EXPECT_EQ(bed.device->device().counters().recirculated, 0U);
  EXPECT_EQ(bed.device->device().counters()[SwitchDrop::kIngressProgram], 160U);
  bed.send(0, TimeoutBed::message(0, 0, 5));
  bed.wait(kPeriod * 3);
  // One pass for the contribution, one for closing it, one for reading the low words.
  EXPECT_EQ(bed.device->device().counters().recirculated, 2U);
  // A new session ends the sweeps.
  ASSERT_TRUE(bed.device->set_session(session_of(2, 8)).has_value());
  EXPECT_EQ(bed.device->device().next_due(), Instant::never());
}

TEST(SwitchmlTimeout, RefusesWrongTimeoutSettings) {
  CollectingSink sink;
  EXPECT_THAT(SwitchmlSwitch::make({.elements = 256, .timeout = true}, sink).error().text,
              HasSubstr("elements=256 with timeouts; allowed: 64"));
  auto plain = SwitchmlSwitch::make({}, sink);
  ASSERT_TRUE(plain->set_session(session_of(2, 8)).has_value());
  EXPECT_THAT(plain->set_timeout({.period = kPeriod}).error().text,
              HasSubstr("the program has none"));
  auto with = SwitchmlSwitch::make(SwitchmlVariant{.timeout = true}, sink);
  ASSERT_TRUE(with->set_session(session_of(2, 8'192)).has_value());
  // 16,384 packets of 6 + 308 + 24 bytes at 100 Gbit/s take 443 us.
  EXPECT_THAT(with->set_timeout({.period = microseconds(443)}).error().text,
              HasSubstr("period 443000 ns; its 16384 packets take 443024 ns of the port"));
  EXPECT_TRUE(with->set_timeout({.period = microseconds(444)}).has_value());
}

/// The model's knowledge of a slot's phase.
struct Phase {
  std::set<uint32_t> workers;
  int32_t sum = 0;
  bool over = false;
  bool degraded = false;
  Instant touched_at;
};

TEST(SwitchmlTimeout, RandomAbsenceMatchesModel) {
  const uint64_t seed = tributary::testing::seed_from_env();
  SCOPED_TRACE(tributary::testing::replay_hint(seed));
  tributary::testing::Prng prng(seed);
  constexpr uint32_t kSlots = 3;
  const uint32_t workers = 2 + prng.below(4);
  TimeoutBed bed(workers, kSlots);
  std::map<std::pair<uint32_t, uint32_t>, Phase> phases;  // By slot and id.
  std::vector<std::vector<uint32_t>> at(workers, std::vector<uint32_t>(kSlots));
  uint32_t closed = 0;
  uint32_t whole = 0;
  for (uint32_t step = 0; step < 3'000; step++) {
    const uint32_t worker = prng.below(workers);
    const auto slot = static_cast<uint16_t>(prng.below(kSlots));
    const uint32_t id = at[worker][slot];
    // A worker with a higher number stays away more often.
    if (!prng.chance(0.7 * worker / workers)) {
      const auto value = static_cast<int32_t>(prng.below(1'000));
      const auto newer = phases.find({slot, id + 2});
      Phase& phase = phases[{slot, id}];
      const bool superseded = newer != phases.end() && !newer->second.workers.empty();
      if (!superseded && !phase.over && phase.workers.insert(worker).second) {
        phase.sum += value;
        phase.touched_at = bed.now;
      }
      bed.send(worker, TimeoutBed::message(slot, id, value));
    }
    // No worker sends while slots are closed: such a contribution may or may not be included.
    Duration pause = nanoseconds(5'000 + prng.below(20'000));
    const int64_t into_period = (bed.now + pause).since_start().ticks() % kPeriod.ticks();
    if (into_period < microseconds(3).ticks()) pause = pause + microseconds(3);
    for (const Answer& one : bed.wait(pause)) {
      const uint32_t of_slot = one.message.slot;
      uint32_t& mine = at[one.worker][of_slot];
      if (one.degraded && one.count == 0) {
        ASSERT_GT(one.id, mine) << "step " << step;
        mine = one.id;
        continue;
      }
      Phase& phase = phases[{of_slot, one.id}];
      ASSERT_EQ(one.message.elements, std::vector<int32_t>(64, phase.sum)) << "step " << step;
      ASSERT_EQ(one.degraded, phase.workers.size() < workers) << "step " << step;
      if (one.degraded) {
        ASSERT_EQ(one.count, phase.workers.size()) << "step " << step;
      }
      if (!phase.over && one.degraded) {
        closed++;
        ASSERT_GE(one.at - phase.touched_at, kPeriod - microseconds(1)) << "step " << step;
        ASSERT_LE(one.at - phase.touched_at, kPeriod * 2 + microseconds(3)) << "step " << step;
      }
      if (!phase.over && !one.degraded) whole++;
      phase.over = true;
      if (mine == one.id && prng.chance(0.9)) mine++;  // Otherwise its copy was lost.
    }
  }
  EXPECT_GT(closed, 5U);
  EXPECT_GT(whole, 5U);
}

TEST(SwitchmlTimeout, ElidedPayloadChangesOnlyTheValues) {
  TimeoutBed whole(3);
  TimeoutBed elided(3, 4, Payload::kElided);
  for (uint32_t worker = 0; worker < 2; worker++) {
    auto frame = frame_of(worker, TimeoutBed::message(1, 7, 5));
    const auto size = static_cast<uint32_t>(frame.size());
    whole.device->device().arrive(Instant{}, worker_port(worker), {frame, size});
    frame.resize(kUdpFrameHeaderBytes + wire::SwitchmlHeader::kBytes);
    elided.device->device().arrive(Instant{}, worker_port(worker), {frame, size});
  }
  whole.device->device().run_until(Instant(kPeriod * 3));
  elided.device->device().run_until(Instant(kPeriod * 3));
  ASSERT_EQ(whole.sink.sent.size(), 3U);
  ASSERT_EQ(elided.sink.sent.size(), 3U);
  for (uint32_t i = 0; i < 3; i++) {
    const auto& a = whole.sink.sent[i];
    const auto& b = elided.sink.sent[i];
    EXPECT_EQ(a.at, b.at);
    EXPECT_EQ(a.size_bytes, b.size_bytes);
    EXPECT_TRUE(std::equal(b.stored.begin(), b.stored.end(), a.stored.begin()));
  }
}

}  // namespace
}  // namespace tributary::tofino
