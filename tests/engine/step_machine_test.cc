// SPDX-License-Identifier: Apache-2.0
// Method: programs of a few lines that would fail, or be detected, if the machine broke the
// contract in its header.
#include "tests/engine/step_machine.h"

#include <gtest/gtest.h>

#include <set>
#include <vector>

#include "base/byte_order.h"
#include "memory/xtxn.h"
#include "tests/support/seed.h"

namespace tributary::testing {
namespace {

using microcode::Subroutine;
using microcode::Thread;
using microcode::Xtxn;
using microcode::XtxnKind;

const Endpoint kSource = Endpoint::ipv4(0x7f000001, 1000);

constexpr microcode::Instruction kStep{"step", {.register_reads = 1}};

/// Adds one with a fetch-and-add: correct under any interleaving.
template <class M>
Thread add_one_whole(M& m, uint64_t& word) {
  m.instruction(kStep);
  co_await memory::xtxn_fetch_and_add<M, uint64_t>(m, word, 1);
}

/// Adds one with a read and a write: loses updates when threads interleave.
template <class M>
Thread add_one_torn(M& m, uint64_t& word) {
  const uint64_t before =
      co_await m.issue(Xtxn{XtxnKind::kRead, &word, 8}, [&word] { return word; });
  co_await m.issue(Xtxn{XtxnKind::kWrite, &word, 8}, [&word, before] { word = before + 1; });
}

TEST(StepMachine, InterleavesThreads) {
  const uint64_t seed = seed_from_env();
  SCOPED_TRACE(replay_hint(seed));
  StepMachine m({.seed = seed});
  uint64_t whole = 0;
  uint64_t torn = 0;
  for (int i = 0; i < 100; i++) {
    m.start_timer([&](StepMachine& machine) { add_one_whole(machine, whole); });
    m.start_timer([&](StepMachine& machine) { add_one_torn(machine, torn); });
  }
  m.run();
  EXPECT_EQ(whole, 100U);
  EXPECT_LT(torn, 100U);  // Every order except strictly one after another loses some.
  EXPECT_EQ(m.instructions("step"), 100U);
  EXPECT_EQ(m.instructions("unknown"), 0U);
  EXPECT_EQ(m.xtxns(XtxnKind::kFetchAndAdd), 100U);
  EXPECT_EQ(m.xtxns(XtxnKind::kRead), 100U);
  EXPECT_EQ(m.xtxns(XtxnKind::kWrite), 100U);
  EXPECT_EQ(m.threads_active_max(), 200U);
  EXPECT_EQ(m.frame_pool().free_count(), 256U * 9U);
}

template <class M>
Thread append_number(M& m, std::vector<int>& to, int number) {
  co_await m.issue(Xtxn{XtxnKind::kWrite, &to, 8}, [&to, number] { to.push_back(number); });
}

std::vector<int> order_of(uint64_t seed) {
  StepMachine m({.seed = seed});
  std::vector<int> order;
  for (int i = 0; i < 20; i++) {
    m.start_timer([&](StepMachine& machine) { append_number(machine, order, i); });
  }
  m.run();
  return order;
}

TEST(StepMachine, SeedDeterminesTheOrder) {
  EXPECT_EQ(order_of(1), order_of(1));
  EXPECT_NE(order_of(1), order_of(2));
}

template <class M>
Thread post_then_read(M& m, uint64_t& word, uint64_t& seen) {
  for (uint64_t value = 1; value <= 5; value++) {
    m.post(Xtxn{XtxnKind::kWrite, &word, 8}, [&word, value] { word = value; });
  }
  seen = co_await m.issue(Xtxn{XtxnKind::kRead, &word, 8}, [&word] { return word; });
}

TEST(StepMachine, RequestsOfAThreadToOneTargetStayInOrder) {
  for (uint64_t seed = 0; seed < 50; seed++) {
    StepMachine m({.seed = seed});
    uint64_t word = 0;
    uint64_t seen = 0;
    m.start_timer([&](StepMachine& machine) { post_then_read(machine, word, seen); });
    m.run();
    ASSERT_EQ(seen, 5U) << "seed " << seed;
  }
}

template <class M>
Thread two_at_once(M& m, std::vector<int>& served, std::vector<int>& joined) {
  auto first = m.issue(Xtxn{XtxnKind::kRead, &served, 8}, [&served] {
    served.push_back(1);
    return 1;
  });
  auto second = m.issue(Xtxn{XtxnKind::kRead, &joined, 8}, [&served] {
    served.push_back(2);
    return 2;
  });
  const int second_reply = co_await second;
  const int first_reply = co_await first;
  joined = {first_reply, second_reply};
}

TEST(StepMachine, AsynchronousTransactionsMayBeServedInAnyOrder) {
  std::set<std::vector<int>> orders;
  for (uint64_t seed = 0; seed < 50; seed++) {
    StepMachine m({.seed = seed});
    std::vector<int> served;
    std::vector<int> joined;
    m.start_timer([&](StepMachine& machine) { two_at_once(machine, served, joined); });
    m.run();
    ASSERT_EQ(joined, (std::vector<int>{1, 2})) << "seed " << seed;
    orders.insert(served);
  }
  EXPECT_EQ(orders.size(), 2U);
}

// --- Leaf loops ----------------------------------------------------------------------------------

std::vector<std::byte> packet_of(uint32_t head_room, uint32_t count, Prng& prng) {
  std::vector<std::byte> packet(head_room + count * 4);
  for (std::byte& byte : packet) byte = static_cast<std::byte>(prng.any_u32());
  return packet;
}

template <class M>
Thread sum_up(M& m, std::vector<int32_t>& lanes, uint32_t offset_bytes) {
  const auto count = static_cast<uint32_t>(lanes.size());
  co_await m.accumulate(lanes.data(), offset_bytes, count, microcode::Accumulate::kAdd);
  m.drop(3);
}

TEST(StepMachine, ConcurrentLeafLoopsAddEveryGradientOnce) {
  const uint64_t seed = seed_from_env();
  SCOPED_TRACE(replay_hint(seed));
  Prng prng(seed);
  // Gradients that begin at the packet's start, at an odd byte, across the head's end, and past it.
  for (const uint32_t offset_bytes : {0U, 12U, 54U, 189U, 190U, 192U, 300U}) {
    const uint32_t count = prng.below(300);
    StepMachine m({.seed = prng.any_u64()});
    std::vector<int32_t> lanes(count);
    std::vector<uint32_t> expected(count);
    for (int i = 0; i < 10; i++) {
      const auto packet = packet_of(offset_bytes, count, prng);
      for (uint32_t k = 0; k < count; k++) {
        expected[k] += load_be<uint32_t>(packet.data() + offset_bytes + 4 * k);
      }
      m.start(packet, kSource, [&](StepMachine& machine) { sum_up(machine, lanes, offset_bytes); });
    }
    m.run();
    for (uint32_t k = 0; k < count; k++) {
      ASSERT_EQ(static_cast<uint32_t>(lanes[k]), expected[k]) << offset_bytes << ' ' << k;
    }
    EXPECT_EQ(m.dropped(3), 10U);
    EXPECT_EQ(m.consumed(), 0U);
  }
}

TEST(StepMachine, LeafLoopMatchesThePapersChunkLoop) {
  Prng prng(1);
  StepMachine m({.seed = 1});
  // 12 + 245 * 4 = 992 bytes: 45 gradients in the head, then 800 bytes of tail.
  std::vector<int32_t> lanes(245);
  const auto packet = packet_of(12, 245, prng);
  m.start(packet, kSource, [&](StepMachine& machine) { sum_up(machine, lanes, 12); });
  m.run();
  EXPECT_EQ(m.xtxns(XtxnKind::kTailRead), 13U);         // 800 / 64, rounded up.
  EXPECT_EQ(m.xtxns(XtxnKind::kFetchAndOp), 1U + 13U);  // The head, then each chunk.
}

template <class M>
Thread finish(M& m, std::vector<int32_t>& lanes) {
  co_await m.finish_lanes(lanes.data(), static_cast<uint32_t>(lanes.size()));
}

TEST(StepMachine, FinishedLanesAreInNetworkOrder) {
  StepMachine m({.seed = 1});
  std::vector<int32_t> lanes(100);
  for (int32_t i = 0; i < 100; i++) lanes[static_cast<size_t>(i)] = i - 50;
  m.start_timer([&](StepMachine& machine) { finish(machine, lanes); });
  m.run();
  for (int32_t i = 0; i < 100; i++) {
    const auto* bytes = reinterpret_cast<const std::byte*>(lanes.data() + i);
    EXPECT_EQ(static_cast<int32_t>(load_be<uint32_t>(bytes)), i - 50);
  }
  EXPECT_EQ(m.xtxns(XtxnKind::kWrite), 2U);  // 400 bytes in chunks of 256.
}

// --- Packets and messages ------------------------------------------------------------------------

template <class M>
Thread look_at_packet(M& m, std::vector<uint32_t>& sizes) {
  const uint32_t size_before = m.packet_size();
  co_await m.issue(Xtxn{XtxnKind::kRead, &m, 8}, [] {});
  EXPECT_EQ(m.packet_size(), size_before);
  EXPECT_EQ(m.head().size(), std::min(size_before, engine::kHeadBytes));
  EXPECT_EQ(m.head().read(0, 1)[0], static_cast<std::byte>(size_before));
  EXPECT_EQ(m.source().port, size_before);
  EXPECT_EQ(m.arrived_as_frame(), size_before % 2 == 0);
  sizes.push_back(size_before);
  if (size_before % 3 == 0) m.forward();
}

TEST(StepMachine, EachThreadHasItsOwnPacket) {
  StepMachine m({.seed = 3});
  std::vector<uint32_t> sizes;
  for (uint16_t size = 100; size < 250; size++) {
    const std::vector<std::byte> packet(size, static_cast<std::byte>(size));
    m.start(
        packet, Endpoint::ipv4(1, size),
        [&](StepMachine& machine) { look_at_packet(machine, sizes); },
        size % 2 == 0 ? engine::PacketLayer::kFrame : engine::PacketLayer::kUdpPayload);
  }
  EXPECT_EQ(m.threads_active(), 150U);
  m.run();
  EXPECT_EQ(sizes.size(), 150U);
  EXPECT_EQ(std::set<uint32_t>(sizes.begin(), sizes.end()).size(), 150U);
  EXPECT_EQ(m.forwarded().size(), 50U);
  EXPECT_EQ(m.consumed(), 100U);
  EXPECT_EQ(m.threads_active(), 0U);
}

/// Turns the bytes of the packet's tail into their complement, chunk by chunk.
template <class M>
Thread complement_tail(M& m) {
  std::array<std::byte, microcode::kTailChunkBytes> chunk;
  for (uint32_t at = 0;; at += microcode::kTailChunkBytes) {
    const uint32_t count = co_await m.read_tail(at, chunk);
    if (count == 0) break;
    for (std::byte& byte : chunk) byte = ~byte;
    co_await m.write_tail(at, std::span(chunk).first(count));
  }
  m.forward();
}

TEST(StepMachine, ThreadsReadAndWriteTheirOwnTails) {
  StepMachine m({.seed = 5});
  std::vector<std::vector<std::byte>> expected;
  for (uint16_t size = 150; size < 350; size++) {
    std::vector<std::byte> packet(size, static_cast<std::byte>(size));
    m.start(
        packet, Endpoint(), [&](StepMachine& machine) { complement_tail(machine); },
        engine::PacketLayer::kFrame);
    for (uint32_t i = engine::kHeadBytes; i < size; i++) packet[i] = ~packet[i];
    expected.push_back(std::move(packet));
  }
  m.run();
  auto forwarded = m.forwarded();
  std::sort(forwarded.begin(), forwarded.end());
  std::sort(expected.begin(), expected.end());
  EXPECT_EQ(forwarded, expected);
  EXPECT_GT(m.xtxns(XtxnKind::kTailRead), m.xtxns(XtxnKind::kTailWrite));
}

template <class M>
Subroutine<int, M> nested(M& m, int depth) {
  if (depth == 1) co_return 1;
  const int below = co_await nested(m, depth - 1);
  co_return below + 1;
}

template <class M>
Thread start_nested(M& m, int depth) {
  co_await nested(m, depth);
}

TEST(StepMachine, RecordsTheDeepestCall) {
  StepMachine m({.seed = 1});
  m.start_timer([](StepMachine& machine) { start_nested(machine, 2); });
  m.run();
  EXPECT_EQ(m.call_depth_max(), 2U);
  m.start_timer([](StepMachine& machine) { start_nested(machine, 8); });
  m.run();
  EXPECT_EQ(m.call_depth_max(), 8U);
}

TEST(StepMachine, OneCallMayStartSeveralTimers) {
  StepMachine m({.seed = 1});
  uint64_t word = 0;
  m.start_timer([&](StepMachine& machine) {
    for (int i = 0; i < 3; i++) add_one_whole(machine, word);
  });
  EXPECT_EQ(m.threads_active(), 3U);
  m.start_timer([](StepMachine&) {});
  m.run();
  EXPECT_EQ(word, 3U);
}

template <class M>
Thread send_then_change(M& m, std::vector<std::byte>& payload, bool release) {
  const std::array<Endpoint, 2> destinations{kSource, Endpoint::ipv4(2, 2)};
  m.send(payload, destinations);
  m.send_small(std::span(payload).first(2), kSource);
  if (release) m.release_payload(payload);
  co_await m.issue(Xtxn{XtxnKind::kWrite, payload.data(), 8},
                   [&payload] { payload[1] = std::byte{9}; });
}

TEST(StepMachine, RecordsSentPayloadsUnchanged) {
  StepMachine m({.seed = 1});
  std::vector<std::byte> payload(4, std::byte{1});
  m.start_timer([&](StepMachine& machine) { send_then_change(machine, payload, true); });
  m.run();
  ASSERT_EQ(m.sent().size(), 2U);
  EXPECT_EQ(m.sent()[0].bytes, std::vector<std::byte>(4, std::byte{1}));
  EXPECT_EQ(m.sent()[0].destinations.size(), 2U);
  EXPECT_FALSE(m.sent()[0].small);
  EXPECT_EQ(m.sent()[1].bytes.size(), 2U);
  EXPECT_TRUE(m.sent()[1].small);
}

TEST(StepMachineDeathTest, RejectsChangingASentPayload) {
  const auto change = [] {
    StepMachine m({.seed = 1});
    std::vector<std::byte> payload(4, std::byte{1});
    m.start_timer([&](StepMachine& machine) { send_then_change(machine, payload, false); });
    m.run();
  };
  EXPECT_DEATH(change(), "memcmp");
}

template <class M>
Thread drop_twice(M& m) {
  m.drop(1);
  m.drop(1);
  co_return;
}

template <class M>
Thread give_up_transaction(M& m) {
  auto unanswered = m.issue(Xtxn{XtxnKind::kRead, &m, 8}, [] { return 1; });
  co_return;
}

TEST(StepMachineDeathTest, RejectsWrongPrograms) {
  const auto drop = [] {
    StepMachine m({.seed = 1});
    m.start(std::vector<std::byte>(1), kSource, [](StepMachine& machine) { drop_twice(machine); });
    m.run();
  };
  EXPECT_DEATH(drop(), "packet_ended");
  const auto give_up = [] {
    StepMachine m({.seed = 1});
    m.start_timer([](StepMachine& machine) { give_up_transaction(machine); });
    m.run();
  };
  EXPECT_DEATH(give_up(), "served_");
  const auto no_packet = [] {
    StepMachine m({.seed = 1});
    std::vector<uint32_t> sizes;
    m.start_timer([&](StepMachine& machine) { look_at_packet(machine, sizes); });
    m.run();
  };
  EXPECT_DEATH(no_packet(), "slots_.size");
}

}  // namespace
}  // namespace tributary::testing
