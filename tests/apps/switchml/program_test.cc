// SPDX-License-Identifier: Apache-2.0
// Method: one slot by hand, byte for byte. Then the server's additions to the published switch: old
// packets, separate sessions, and results that stay unchanged while they are sent.
#include "apps/switchml/program.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/byte_order.h"
#include "tests/apps/switchml/bed.h"

namespace tributary::switchml {
namespace {

using ::testing::IsEmpty;

Bytes bytes_of(std::initializer_list<int> values) {
  Bytes bytes;
  for (const int value : values) bytes.push_back(static_cast<std::byte>(value));
  return bytes;
}

/// `head`, then 64 big-endian elements of `value`.
Bytes with_elements(Bytes head, int32_t value) {
  for (uint32_t i = 0; i < 64; i++) {
    head.resize(head.size() + 4);
    store_be(head.data() + head.size() - 4, static_cast<uint32_t>(value));
  }
  return head;
}

TEST(SwitchmlProgram, OneSlotOfTwoWorkersMatchesHandWrittenBytes) {
  Bed bed;
  // Type 1 and size 1 (64 elements); job 9; packet id, as a little-endian client writes 77; set 1
  // and slot 3; exponents -4 and 9.
  const Bytes one = with_elements(bytes_of({0x11, 9, 77, 0, 0, 0, 0x80, 3, 0xfc, 9}), 5);
  const Bytes two = with_elements(bytes_of({0x11, 9, 77, 0, 0, 0, 0x80, 3, 0xfd, 0xff}), -7);
  EXPECT_THAT(bed.exchange(one, worker(0)), IsEmpty());
  EXPECT_THAT(bed.exchange(one, worker(0)), IsEmpty());  // Once more: known, not complete.
  const auto results = bed.exchange(two, worker(1));
  ASSERT_EQ(results.size(), 2U);
  // The sum is -2, the exponents are the larger ones: -3 and 9.
  const Bytes expected = with_elements(bytes_of({0x11, 9, 77, 0, 0, 0, 0x80, 3, 0xfd, 9}), -2);
  for (uint32_t rank = 0; rank < 2; rank++) {
    EXPECT_EQ(results[rank].to, worker(rank));
    EXPECT_EQ(results[rank].bytes, expected);
  }
  // Worker 0's copy was lost: it retransmits, and the result goes to it only.
  const auto again = bed.exchange(one, worker(0));
  ASSERT_EQ(again.size(), 1U);
  EXPECT_EQ(again[0].to, worker(0));
  EXPECT_EQ(again[0].bytes, expected);
  EXPECT_EQ(bed.counts(), (Counts{{"aggregated", 2},
                                  {"duplicate", 1},
                                  {"slot_completed", 1},
                                  {"result_sent", 2},
                                  {"retransmitted", 1}}));
}

TEST(SwitchmlProgram, ResultsGoToEachWorkersSourcePort) {
  Bed bed;
  const Bytes payload = wire::switchml_payload(packet(0, false, 1, 1));
  EXPECT_THAT(bed.exchange(payload, worker(0, 0, 2)), IsEmpty());
  const auto results = bed.exchange(payload, worker(1, 0, 7));
  ASSERT_EQ(results.size(), 2U);
  EXPECT_EQ(results[0].to, worker(0, 0, 2));
  EXPECT_EQ(results[1].to, worker(1, 0, 7));
}

TEST(SwitchmlProgram, SlotSetsAlternate) {
  Bed bed({.sessions = {{.workers = 2, .elements = 256, .slots = 1}}});
  for (uint32_t use = 0; use < 6; use++) {
    const auto value = static_cast<int32_t>(use);
    const bool set = use % 2 == 1;
    EXPECT_THAT(bed.exchange(0, packet(0, set, use, value, 256)), IsEmpty());
    const auto results = bed.exchange(1, packet(0, set, use, 10 * value, 256));
    ASSERT_EQ(results.size(), 2U) << use;
    EXPECT_EQ(results[0].packet.elements, Values(256, 11 * value));
    EXPECT_EQ(results[1].packet.packet_id, use);
  }
}

TEST(SwitchmlProgram, LateWorkerGetsThePreviousResult) {
  Bed bed;
  bed.exchange(0, packet(0, false, 1, 1));
  bed.exchange(1, packet(0, false, 1, 2));
  bed.exchange(0, packet(0, true, 2, 5));  // Worker 0 has the result; worker 1 does not.
  const auto again = bed.exchange(1, packet(0, false, 1, 2));
  ASSERT_EQ(again.size(), 1U);
  EXPECT_EQ(again[0].packet.elements, Values(64, 3));
}

TEST(SwitchmlProgram, OldPacketOfTheKeptUseGetsTheKeptResult) {
  Bed bed;
  bed.exchange(0, packet(0, false, 1, 1));
  bed.exchange(1, packet(0, false, 1, 2));
  bed.exchange(0, packet(0, true, 2, 5));
  // A late packet of worker 0's previous use; the published switch would take it for the next.
  const auto again = bed.exchange(0, packet(0, false, 1, 1));
  ASSERT_EQ(again.size(), 1U);
  EXPECT_EQ(again[0].packet.elements, Values(64, 3));
  EXPECT_EQ(bed.exchange(1, packet(0, true, 2, 6)).size(), 2U);
}

TEST(SwitchmlProgram, UseStartedByAnOldPacketRestarts) {
  Bed bed;
  bed.exchange(0, packet(0, false, 1, 1));
  bed.exchange(1, packet(0, false, 1, 2));
  bed.exchange(0, packet(0, true, 2, 5));
  bed.exchange(1, packet(0, true, 2, 6));
  // Both uses are complete. Worker 0's old packet is taken for a new one at first.
  EXPECT_THAT(bed.exchange(0, packet(0, false, 1, 1)), IsEmpty());
  // Worker 0 has lost the second use's result. Its repeat is not mistaken for a new use either.
  const auto kept = bed.exchange(0, packet(0, true, 2, 5));
  ASSERT_EQ(kept.size(), 1U);
  EXPECT_EQ(kept[0].packet.elements, Values(64, 11));
  bed.new_counts();
  EXPECT_THAT(bed.exchange(1, packet(0, false, 3, 20)), IsEmpty());
  EXPECT_EQ(bed.new_counts(), (Counts{{"chunk_differs", 1}}));
  EXPECT_THAT(bed.exchange(0, packet(0, false, 3, 10)), IsEmpty());
  EXPECT_EQ(bed.new_counts(), (Counts{{"aggregated", 1}, {"slot_restarted", 1}}));
  const auto results = bed.exchange(1, packet(0, false, 3, 20));
  ASSERT_EQ(results.size(), 2U);
  EXPECT_EQ(results[0].packet.elements, Values(64, 30));
}

TEST(SwitchmlProgram, RepeatedPacketNamesAreSummed) {
  // One-packet tensors whose job numbers have wrapped: legal, and summed as such.
  Bed bed;
  for (uint32_t use = 0; use < 4; use++) {
    EXPECT_THAT(bed.exchange(0, packet(0, use % 2 == 1, 0, 1)), IsEmpty());
    const auto results = bed.exchange(1, packet(0, use % 2 == 1, 0, 2));
    ASSERT_EQ(results.size(), 2U) << use;
    EXPECT_EQ(results[0].packet.elements, Values(64, 3));
  }
}

TEST(SwitchmlProgram, SessionsAreIndependent) {
  Bed bed({.sessions = {{.workers = 2, .slots = 4}, {.workers = 1, .elements = 256, .slots = 4}}});
  EXPECT_THAT(bed.exchange(0, packet(1, false, 7, 3), 0), IsEmpty());
  const auto other = bed.exchange(0, packet(1, false, 9, 100, 256), 1);
  ASSERT_EQ(other.size(), 1U);
  EXPECT_EQ(other[0].to, worker(0, 1));
  EXPECT_EQ(other[0].packet.elements, Values(256, 100));
  const auto results = bed.exchange(1, packet(1, false, 7, 4), 0);
  ASSERT_EQ(results.size(), 2U);
  EXPECT_EQ(results[0].packet.elements, Values(64, 7));
}

TEST(SwitchmlProgram, NewSessionStartsWithEmptySlots) {
  Bed bed;
  bed.exchange(0, packet(0, false, 1, 1));
  bed.shard().begin_session(0, {.workers = 1, .elements = 64, .slots = 8});
  ASSERT_TRUE(bed.shard().set_worker(0, 0, worker(0)).has_value());
  const auto results = bed.exchange(0, packet(0, false, 1, 40));
  ASSERT_EQ(results.size(), 1U);
  EXPECT_EQ(results[0].packet.elements, Values(64, 40));
  bed.new_counts();
  EXPECT_THAT(bed.exchange(1, packet(0, false, 1, 40)), IsEmpty());
  EXPECT_EQ(bed.new_counts(), (Counts{{"unknown_worker", 1}}));
}

TEST(SwitchmlProgram, RestartedWorkersGetFreshSums) {
  Bed bed({.sessions = {{.workers = 2, .elements = 64, .slots = 8, .watches_ports = true}}});
  const auto send = [&bed](uint32_t rank, uint16_t process, bool set, uint32_t id, int32_t value) {
    return bed.exchange(wire::switchml_payload(packet(0, set, id, value)),
                        worker(rank, 0, process));
  };
  EXPECT_THAT(send(0, 0, false, 0, 10), IsEmpty());
  EXPECT_THAT(send(1, 0, false, 0, 20), IsEmpty());  // Worker 1 appears: worker 0 must restart.
  EXPECT_EQ(send(0, 0, false, 0, 10).size(), 2U);
  EXPECT_THAT(send(0, 0, true, 1, 11), IsEmpty());
  // Both workers are killed. Their successors begin with the same names from other ports.
  EXPECT_THAT(send(0, 1, false, 0, 1), IsEmpty());
  EXPECT_THAT(send(1, 1, false, 0, 2), IsEmpty());  // Worker 0's part is of an earlier session.
  const auto results = send(0, 1, false, 0, 1);
  ASSERT_EQ(results.size(), 2U);
  for (uint32_t rank = 0; rank < 2; rank++) {
    EXPECT_EQ(results[rank].to, worker(rank, 0, 1));
    EXPECT_EQ(results[rank].packet.elements, Values(64, 3));
  }
  EXPECT_EQ(bed.counts().at("slot_reclaimed"), 3U);
}

TEST(SwitchmlProgram, ResultSurvivesReuseOfItsSlotInTheSameBurst) {
  Bed bed({.sessions = {{.workers = 1, .slots = 1}}});
  // All in one burst: each use overwrites the lanes of the use two before it, whose result has not
  // left yet.
  for (uint32_t use = 0; use < 10; use++) {
    bed.inject(
        wire::switchml_payload(packet(0, use % 2 == 1, use, static_cast<int32_t>(100 + use))),
        worker(0));
  }
  bed.run();
  const auto results = bed.take();
  ASSERT_EQ(results.size(), 10U);
  for (uint32_t use = 0; use < 10; use++) {
    EXPECT_EQ(results[use].packet.elements, Values(64, static_cast<int32_t>(100 + use)));
  }
}

TEST(SwitchmlProgram, SlotsAreDistributedOverTheCores) {
  static_assert(owner_of(0, 4) == 0 && owner_of(31, 4) == 0 && owner_of(32, 4) == 1);
  static_assert(owner_of(127, 4) == 3 && owner_of(128, 4) == 0);
  const Bytes payload = wire::switchml_payload(packet(97, true, 1, 1));
  EXPECT_EQ(App::owner(payload, false, 4), 3U);
  EXPECT_EQ(App::owner(payload, false, 1), 0U);
  EXPECT_EQ(App::owner(std::span(payload).first(9), false, 4), 0U);
  // Core 3 of 4 has room for its slots and finds each of them.
  Bed bed({.sessions = {{.workers = 1, .slots = 512}}, .shard_index = 3, .shard_count = 4});
  for (uint32_t slot = 96; slot < 512; slot++) {
    if (owner_of(slot, 4) != 3) continue;
    const auto results = bed.exchange(0, packet(slot, false, slot, static_cast<int32_t>(slot)));
    ASSERT_EQ(results.size(), 1U);
  }
  for (uint32_t slot = 96; slot < 512; slot++) {
    if (owner_of(slot, 4) != 3) continue;
    const auto again = bed.exchange(0, packet(slot, false, slot, 0));
    ASSERT_EQ(again.size(), 1U);
    EXPECT_EQ(again[0].packet.elements, Values(64, static_cast<int32_t>(slot)));
  }
}

}  // namespace
}  // namespace tributary::switchml
