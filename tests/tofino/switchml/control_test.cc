// SPDX-License-Identifier: Apache-2.0
// Method: one slot of SwitchML by hand: receivers, contents, times and passes. Then refusals. Then
// every packet against Algorithm 3 of the paper, and elided mode against full packets.
#include "tofino/switchml/control.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "tests/support/seed.h"
#include "tests/tofino/switchml/bed.h"
#include "tofino/limits.h"

namespace tributary::tofino {
namespace {

using testing::CollectingSink;
using testing::frame_of;
using ::testing::HasSubstr;
using testing::session_of;
using testing::worker_address;
using testing::worker_port;

struct Bed {
  Bed(uint32_t elements_each, uint32_t workers, uint32_t slots, Payload payload = Payload::kCarried)
      : elements(elements_each) {
    auto made = SwitchmlSwitch::make({.elements = elements}, sink, payload);
    if (!made) throw std::runtime_error(made.error().text);
    device = std::make_unique<SwitchmlSwitch>(std::move(*made));
    const auto good = device->set_session(session_of(workers, slots));
    if (!good) throw std::runtime_error(good.error().text);
  }
  [[nodiscard]] SwitchmlMessage message(int32_t value, uint16_t slot, bool set) const {
    SwitchmlMessage m{.set = set, .slot = slot};
    m.elements.assign(elements, value);
    return m;
  }
  /// Sends one packet and runs the switch until it is idle. @return the packets that left it.
  std::vector<CollectingSink::Sent> exchange(uint32_t worker, const SwitchmlMessage& m) {
    return exchange_through(worker_port(worker), worker, m);
  }
  std::vector<CollectingSink::Sent> exchange_through(uint32_t port, uint32_t worker,
                                                     const SwitchmlMessage& m) {
    sink.sent.clear();
    now = now + microseconds(20);
    const auto frame = frame_of(worker, m);
    device->device().arrive(now, port, {frame, static_cast<uint32_t>(frame.size())});
    device->device().run_until(now + microseconds(15));
    return std::move(sink.sent);
  }
  static SwitchmlMessage message_in(const CollectingSink::Sent& sent) {
    const auto frame = parse_udp_frame(sent.stored);
    return frame ? parse_switchml(frame->payload).value_or(SwitchmlMessage{}) : SwitchmlMessage{};
  }
  const uint32_t elements;
  CollectingSink sink;
  std::unique_ptr<SwitchmlSwitch> device;
  Instant now;
};

TEST(SwitchmlSwitch, OneSlotOfTwoWorkersMatchesHandWorkedSums) {
  Bed bed(64, 2, 8);
  SwitchmlMessage one = bed.message(5, 3, true);
  one.exponent0 = -4;
  one.exponent1 = 9;
  one.packet_id = 77;
  SwitchmlMessage two = bed.message(-7, 3, true);
  two.exponent0 = -3;
  two.exponent1 = -1;
  two.packet_id = 78;
  EXPECT_TRUE(bed.exchange(0, one).empty());
  EXPECT_TRUE(bed.exchange(0, one).empty());  // A repetition: known, but the slot is not complete.
  const auto results = bed.exchange(1, two);
  ASSERT_EQ(results.size(), 2U);
  for (uint32_t worker = 0; worker < 2; worker++) {
    EXPECT_EQ(results[worker].port, worker_port(worker));
    const auto frame = parse_udp_frame(results[worker].stored);
    ASSERT_TRUE(frame.has_value());
    EXPECT_EQ(frame->to, worker_address(worker));
    EXPECT_EQ(frame->from, (FrameAddress{testing::kSwitchMac, testing::kSwitchIp, kSwitchmlPort}));
    EXPECT_EQ(frame->time_to_live, 64);
    EXPECT_EQ(frame->udp_checksum, 0);
    EXPECT_TRUE(frame->ip_checksum_right);
    SwitchmlMessage expected = bed.message(-2, 3, true);
    expected.exponent0 = -3;
    expected.exponent1 = 9;
    expected.packet_id = 78;  // As published: the id of the last packet.
    EXPECT_EQ(parse_switchml(frame->payload), expected);
  }
  // Worker 0 has lost the result. It sends again and is the only one to get the result.
  const auto again = bed.exchange(0, one);
  ASSERT_EQ(again.size(), 1U);
  EXPECT_EQ(again[0].port, worker_port(0));
  EXPECT_EQ(Bed::message_in(again[0]).elements, bed.message(-2, 3, true).elements);
  const auto counters = bed.device->slot_counters(3, true);
  EXPECT_EQ(counters.broadcast, 1U);
  EXPECT_EQ(counters.retransmit, 1U);
  EXPECT_EQ(counters.recirculate, 2U);
  EXPECT_EQ(counters.drop, 2U);
}

TEST(SwitchmlSwitch, PassesTakeTheModelledTimes) {
  // 64 elements: 520 ns; 17 + 42 + 10 + 128 bytes and 24 more at 80 ps are 17.68 ns; 520 ns.
  Bed small(64, 1, 1);
  auto sent = small.exchange(0, small.message(1, 0, false));
  ASSERT_EQ(sent.size(), 1U);
  EXPECT_EQ(sent[0].at - small.now, picoseconds(1'057'680));
  EXPECT_EQ(small.device->device().counters().passes, 2U);
  // 256 elements: eleven passes, and ten loops with 5120 bytes of values in all, 69 + 24 bytes
  // each.
  Bed large(256, 1, 1);
  sent = large.exchange(0, large.message(1, 0, false));
  ASSERT_EQ(sent.size(), 1U);
  EXPECT_EQ(sent[0].at - large.now, nanoseconds(11 * 520) + picoseconds(80) * (5'120 + 930));
  EXPECT_EQ(large.device->device().counters().passes, 11U);
  // A contribution that does not complete the slot ends after the fourth pipe.
  Bed waiting(256, 2, 1);
  EXPECT_TRUE(waiting.exchange(0, waiting.message(1, 0, false)).empty());
  EXPECT_EQ(waiting.device->device().counters().passes, 4U);
}

// The published controller installs an entry that ignores the ingress port (udp_receiver.py). A
// repeated request is answered through the port that it came from.
TEST(SwitchmlSwitch, WorkerMaySendThroughAnyPortOfItsPipe) {
  for (const uint32_t elements : {64U, 256U}) {
    Bed bed(elements, 2, 8);
    EXPECT_TRUE(bed.exchange_through(40, 0, bed.message(1, 0, false)).empty());
    const auto results = bed.exchange_through(44, 1, bed.message(2, 0, false));
    ASSERT_EQ(results.size(), 2U);
    for (uint32_t worker = 0; worker < 2; worker++) {
      EXPECT_EQ(results[worker].port, worker_port(worker));
      EXPECT_EQ(Bed::message_in(results[worker]).elements, bed.message(3, 0, false).elements);
    }
    const auto repeated = bed.exchange_through(40, 0, bed.message(1, 0, false));
    ASSERT_EQ(repeated.size(), 1U);
    EXPECT_EQ(repeated[0].port, 40U);
    EXPECT_EQ(bed.device->count("unknown_worker"), 0U);
  }
  // The registers of another pipe do not hold the slot; with 64 elements its ports are not looped.
  Bed bed(64, 1, 8);
  EXPECT_TRUE(bed.exchange_through(kPortsPerPipe, 0, bed.message(1, 0, false)).empty());
  EXPECT_EQ(bed.device->count("unknown_worker"), 1U);
  // A port without counterparts in the other pipes.
  Bed large(256, 1, 8);
  EXPECT_TRUE(large.exchange_through(2, 0, large.message(1, 0, false)).empty());
  EXPECT_EQ(large.device->count("unknown_worker"), 1U);
}

// As published (next_step_selector.py): pipe 0 drops a repeated packet of an incomplete slot, and
// sends it through all pipes when the slot is complete.
TEST(SwitchmlSwitch, RepeatedPacketOfAnIncompleteSlotTakesOnePass) {
  Bed bed(256, 2, 1);
  const auto passes = [&bed] { return bed.device->device().counters().passes; };
  EXPECT_TRUE(bed.exchange(0, bed.message(1, 0, false)).empty());
  EXPECT_EQ(passes(), 4U);
  EXPECT_TRUE(bed.exchange(0, bed.message(1, 0, false)).empty());
  EXPECT_EQ(passes(), 5U);
  EXPECT_EQ(bed.exchange(1, bed.message(2, 0, false)).size(), 2U);
  EXPECT_EQ(passes(), 16U);
  EXPECT_EQ(bed.exchange(0, bed.message(1, 0, false)).size(), 1U);
  EXPECT_EQ(passes(), 27U);
}

TEST(SwitchmlSwitch, DropsAndCountsUnservedPackets) {
  Bed bed(64, 2, 8);
  EXPECT_TRUE(bed.exchange(2, bed.message(1, 0, false)).empty());
  EXPECT_EQ(bed.device->count("unknown_worker"), 1U);
  EXPECT_TRUE(bed.exchange(0, bed.message(1, 8, false)).empty());
  EXPECT_EQ(bed.device->count("slot_outside_pool"), 1U);
  EXPECT_TRUE(bed.exchange(0, bed.message(1, 16'383, false)).empty());
  EXPECT_EQ(bed.device->count("slot_outside_pool"), 2U);
  SwitchmlMessage large{};
  large.elements.assign(256, 1);
  EXPECT_TRUE(bed.exchange(0, large).empty());
  EXPECT_EQ(bed.device->device().counters()[SwitchDrop::kParserReject], 1U);
  auto frame = frame_of(0, bed.message(1, 0, false));
  frame.resize(200);
  bed.device->device().arrive(bed.now + microseconds(20), 0, {frame, 200});
  EXPECT_EQ(bed.device->device().counters()[SwitchDrop::kParserShort], 1U);
  EXPECT_EQ(bed.device->device().pipe(0).bad_index_count(), 0U);
  // None of these packets has left a mark.
  EXPECT_TRUE(bed.exchange(0, bed.message(1, 0, false)).empty());
  EXPECT_EQ(bed.exchange(1, bed.message(1, 0, false)).size(), 2U);
}

TEST(SwitchmlSwitch, ForwardsOtherTraffic) {
  Bed bed(64, 1, 1);
  Tables& tables = bed.device->device().tables();
  ASSERT_TRUE(tables
                  .add_entry(*tables.find("forward"), {.keys = {{0x0200'0000}, {0x0102}},
                                                       .action = *tables.find_action("forward"),
                                                       .parameters = {12}})
                  .has_value());
  const auto frame = udp_frame(worker_address(0), worker_address(2), {});
  bed.device->device().arrive(Instant{}, 0, {frame, static_cast<uint32_t>(frame.size())});
  ASSERT_EQ(bed.sink.sent.size(), 1U);
  EXPECT_EQ(bed.sink.sent[0].port, 12U);
  EXPECT_EQ(bed.sink.sent[0].stored, frame);
}

TEST(SwitchmlSwitch, RefusesSessionsBeyondTheProgram) {
  CollectingSink sink;
  auto small = SwitchmlSwitch::make({}, sink);
  auto large = SwitchmlSwitch::make({.elements = 256}, sink);
  ASSERT_TRUE(small.has_value());
  ASSERT_TRUE(large.has_value());
  EXPECT_TRUE(small->set_session(session_of(16, 8'192)).has_value());
  EXPECT_TRUE(large->set_session(session_of(16, 8'192)).has_value());
  EXPECT_THAT(small->set_session(session_of(16, 8'193)).error().text,
              HasSubstr("pool_slots=8193; allowed: 1 to 8192"));
  EXPECT_THAT(large->set_session(session_of(17, 1)).error().text,
              HasSubstr("workers=17; allowed: 1 to 16 with 256 elements"));
  EXPECT_THAT(small->set_session(session_of(33, 1)).error().text,
              HasSubstr("workers=33; allowed: 1 to 32"));
  EXPECT_THAT(small->set_session(session_of(17, 1)).error().text,
              HasSubstr("worker 16: port 64; allowed: front-panel ports of pipe 0, 0 to 63"));
  EXPECT_THAT(large->set_session({.workers = {{.port = 2}}, .pool_slots = 1}).error().text,
              HasSubstr("multiples of 4"));
  EXPECT_THAT(
      small->set_session({.workers = {{.port = 4}, {.port = 8}}, .pool_slots = 1}).error().text,
      HasSubstr("workers 0 and 1 have the same address"));
  EXPECT_THAT(small->set_loss(1.5, 0).error().text, HasSubstr("ingress_loss=1.5; allowed: 0 to 1"));
  EXPECT_THAT(SwitchmlSwitch::make({.elements = 128}, sink).error().text,
              HasSubstr("elements=128; allowed: 64 or 256"));
}

TEST(SwitchmlSwitch, LossHasTheConfiguredRate) {
  for (const uint32_t threshold : {0U, 1U, 5U, 655U, 32'768U, 65'535U, 65'536U}) {
    uint32_t below = 0;
    for (uint32_t value = 0; value < 65'536; value++) {
      bool any = false;
      for (const Match& match : matches_below(threshold)) {
        any = any || (value & match.mask) == match.value;
      }
      EXPECT_EQ(any, value < threshold);
      below += any ? 1 : 0;
    }
    EXPECT_EQ(below, threshold);
  }
  Bed bed(64, 1, 1);
  ASSERT_TRUE(bed.device->set_loss(0, 1).has_value());
  EXPECT_TRUE(bed.exchange(0, bed.message(1, 0, false)).empty());
  EXPECT_EQ(bed.device->count("simulated_egress_loss"), 1U);
  ASSERT_TRUE(bed.device->set_loss(1, 0).has_value());
  EXPECT_TRUE(bed.exchange(0, bed.message(1, 0, true)).empty());
  EXPECT_EQ(bed.device->count("simulated_loss"), 1U);
  ASSERT_TRUE(bed.device->set_loss(0, 0).has_value());
  EXPECT_EQ(bed.exchange(0, bed.message(1, 0, true)).size(), 1U);
}

/// Algorithm 3 of the paper, line by line.
struct Algorithm3 {
  Algorithm3(uint32_t workers, uint32_t slots, uint32_t elements_each)
      : n(workers),
        elements(elements_each),
        pool(2 * slots, std::vector<uint32_t>(elements_each)),
        count(2 * slots),
        seen(2 * slots) {}
  enum class Answer : uint8_t { kNone, kMulticast, kUnicast };
  Answer receive(uint32_t worker, uint32_t version, uint32_t slot, std::vector<uint32_t>& vector) {
    const uint32_t here = 2 * slot + version;
    const uint32_t other = 2 * slot + (version + 1) % 2;
    if (!seen[here].contains(worker)) {
      seen[here].insert(worker);
      seen[other].erase(worker);
      count[here] = (count[here] + 1) % n;
      for (uint32_t i = 0; i < elements; i++) {
        pool[here][i] = (count[here] == 1 || n == 1 ? 0 : pool[here][i]) + vector[i];
      }
      vector = pool[here];
      return count[here] == 0 ? Answer::kMulticast : Answer::kNone;
    }
    vector = pool[here];
    return count[here] == 0 ? Answer::kUnicast : Answer::kNone;
  }
  uint32_t n;
  uint32_t elements;
  std::vector<std::vector<uint32_t>> pool;
  std::vector<uint32_t> count;
  std::vector<std::set<uint32_t>> seen;
};

class SwitchmlWalk : public ::testing::TestWithParam<uint32_t> {};

TEST_P(SwitchmlWalk, EveryPacketFollowsAlgorithm3) {
  const uint64_t seed = tributary::testing::seed_from_env();
  SCOPED_TRACE(tributary::testing::replay_hint(seed));
  tributary::testing::Prng prng(seed);
  for (uint32_t round = 0; round < 4; round++) {
    const uint32_t workers = 1 + prng.below(5);
    const uint32_t slots = 1 + prng.below(4);
    Bed bed(GetParam(), workers, slots);
    Algorithm3 model(workers, slots, GetParam());
    // A worker repeats its phase of a slot any number of times, and continues once it has the
    // result.
    std::vector<std::vector<uint32_t>> phase(workers, std::vector<uint32_t>(slots));
    for (uint32_t step = 0; step < 400; step++) {
      const uint32_t worker = prng.below(workers);
      const uint32_t slot = prng.below(slots);
      SwitchmlMessage m = bed.message(0, static_cast<uint16_t>(slot), phase[worker][slot] % 2 == 1);
      for (int32_t& element : m.elements) element = prng.any_i32();
      std::vector<uint32_t> vector(m.elements.begin(), m.elements.end());
      const auto answer = model.receive(worker, phase[worker][slot] % 2, slot, vector);
      const auto sent = bed.exchange(worker, m);
      const size_t copies = answer == Algorithm3::Answer::kMulticast ? workers
                            : answer == Algorithm3::Answer::kUnicast ? 1
                                                                     : 0;
      ASSERT_EQ(sent.size(), copies) << "step " << step;
      for (const auto& one : sent) {
        const auto got = Bed::message_in(one);
        ASSERT_EQ(std::vector<uint32_t>(got.elements.begin(), got.elements.end()), vector);
        const uint32_t to = one.port / 4;
        const bool current = phase[to][slot] == phase[worker][slot];
        if (current && prng.chance(0.7)) phase[to][slot]++;  // Otherwise its copy was lost.
      }
    }
  }
}

TEST_P(SwitchmlWalk, ElidedPayloadChangesOnlyTheValues) {
  const uint64_t seed = tributary::testing::seed_from_env();
  SCOPED_TRACE(tributary::testing::replay_hint(seed));
  tributary::testing::Prng prng(seed);
  Bed whole(GetParam(), 3, 2);
  Bed elided(GetParam(), 3, 2, Payload::kElided);
  for (uint32_t step = 0; step < 300; step++) {
    const uint32_t worker = prng.below(3);
    const SwitchmlMessage m =
        whole.message(1, static_cast<uint16_t>(prng.below(3)), prng.chance(0.5));
    const auto expected = whole.exchange(worker, m);
    auto frame = frame_of(worker, m);
    const auto size = static_cast<uint32_t>(frame.size());
    constexpr size_t kHeadBytes = kUdpFrameHeaderBytes + SwitchmlHeader::kBytes;
    // In the other half, the frame has values, which the switch ignores.
    if (prng.chance(0.5)) frame.resize(kHeadBytes);
    elided.device->device().arrive(whole.now, worker_port(worker), {frame, size});
    elided.device->device().run_until(whole.now + microseconds(15));
    ASSERT_EQ(elided.sink.sent.size(), expected.size()) << "step " << step;
    for (size_t i = 0; i < expected.size(); i++) {
      const auto& got = elided.sink.sent[i];
      EXPECT_EQ(got.at, expected[i].at);
      EXPECT_EQ(got.port, expected[i].port);
      EXPECT_EQ(got.size_bytes, expected[i].size_bytes);
      ASSERT_EQ(got.stored.size(), kHeadBytes);
      EXPECT_TRUE(std::equal(got.stored.begin(), got.stored.end(), expected[i].stored.begin()));
    }
    elided.sink.sent.clear();
  }
}

// A packet stores only its beginning, so no bytes can follow elided values.
TEST(SwitchmlSwitch, ElidedSwitchStoresNoBytesBehindTheValues) {
  Bed bed(64, 1, 1, Payload::kElided);
  auto frame = frame_of(0, bed.message(1, 0, false));
  frame.resize(frame.size() + 6, std::byte{0xee});
  const auto size = static_cast<uint32_t>(frame.size());
  bed.device->device().arrive(bed.now, worker_port(0), {frame, size});
  bed.device->device().run_until(bed.now + microseconds(15));
  ASSERT_EQ(bed.sink.sent.size(), 1U);
  EXPECT_EQ(bed.sink.sent[0].stored.size(), kUdpFrameHeaderBytes + SwitchmlHeader::kBytes);
  EXPECT_EQ(bed.sink.sent[0].size_bytes, size);
}

INSTANTIATE_TEST_SUITE_P(Variants, SwitchmlWalk, ::testing::Values(64, 256));

}  // namespace
}  // namespace tributary::tofino
