// SPDX-License-Identifier: Apache-2.0
// Method: packets by hand; then rings of protocols whose packets pass through a list, in an order
// and with losses chosen by the test, against plain sums.
#include "lab/peers/ring_protocol.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>
#include <limits>
#include <memory>
#include <vector>

#include "tests/support/seed.h"

namespace tributary::lab {
namespace {

using host::Status;
using host::Transfer;
using ::testing::HasSubstr;

Endpoint address_of(uint32_t rank) { return Endpoint::ipv4(0x0a00'0001 + rank, 12000); }

// --- Packets -------------------------------------------------------------------------------------

TEST(RingWire, MessagesSurviveARoundTrip) {
  std::vector<std::byte> bytes(kRingAckBytesMax);
  RingPacket data{.kind = RingKind::kData, .rank = 7, .lanes = 2, .position = 0x0102030405060708};
  EXPECT_EQ(encode(data, bytes), kRingHeadBytes);
  EXPECT_EQ(bytes[1], std::byte{7});
  EXPECT_EQ(bytes[3], std::byte{2});
  EXPECT_EQ(bytes[4], std::byte{1});
  EXPECT_EQ(bytes[11], std::byte{8});
  const auto read = decode_ring(std::span(bytes).first(kRingHeadBytes), kRingHeadBytes + 8);
  ASSERT_TRUE(read);
  EXPECT_EQ(read->position, data.position);
  EXPECT_EQ(read->lanes, 2);

  RingPacket ack{.kind = RingKind::kAck, .rank = 1};
  ack.ack = {.below = 5, .limit = 9, .words = 2, .beyond = {6, 1}};
  const uint32_t size = encode(ack, bytes);
  EXPECT_EQ(size, 12U + 8 + 16);
  const auto said = decode_ring(std::span(bytes).first(size), size);
  ASSERT_TRUE(said);
  EXPECT_EQ(said->ack.below, 5U);
  EXPECT_EQ(said->ack.limit, 9U);
  EXPECT_EQ(said->ack.words, 2U);
  EXPECT_EQ(said->ack.beyond[0], 6U);
  EXPECT_EQ(said->ack.beyond[1], 1U);
}

TEST(RingWire, RefusesOtherLengthsAndKinds) {
  std::vector<std::byte> bytes(kRingAckBytesMax);
  const auto read = [&](uint32_t stored, uint32_t size) {
    return decode_ring(std::span(bytes).first(stored), size).has_value();
  };
  encode({.kind = RingKind::kData, .lanes = 2}, bytes);
  EXPECT_TRUE(read(20, 20));
  EXPECT_TRUE(read(12, 20));   // Elided.
  EXPECT_FALSE(read(11, 20));  // Half a head.
  EXPECT_FALSE(read(12, 24));  // Count too small.
  EXPECT_FALSE(read(20, 12));  // More lanes than bytes.
  encode({.kind = RingKind::kAck, .ack = {.words = 1}}, bytes);
  EXPECT_TRUE(read(28, 28));
  EXPECT_FALSE(read(20, 28));
  EXPECT_FALSE(read(28, 36));
  encode({.kind = RingKind::kProbe}, bytes);
  EXPECT_TRUE(read(12, 12));
  EXPECT_FALSE(read(12, 16));
  bytes[0] = std::byte{9};
  EXPECT_FALSE(read(12, 12));
}

// --- Rings ---------------------------------------------------------------------------------------

struct OnTheWire {
  uint32_t from;
  Endpoint to;
  uint32_t size_bytes;
  std::vector<std::byte> stored;
};

/// Workers whose packets lie in one list.
class RingBed {
 public:
  explicit RingBed(uint32_t world, uint32_t window = 8, uint32_t gradients = 4) {
    for (uint32_t rank = 0; rank < world; rank++) {
      ring_.push_back(
          std::make_unique<RingProtocol>(RingConfig{.rank = rank,
                                                    .world = world,
                                                    .gradients = gradients,
                                                    .window = window,
                                                    .deadline = seconds(10),
                                                    .left = address_of((rank + world - 1) % world),
                                                    .right = address_of((rank + 1) % world)},
                                         now_));
    }
  }
  [[nodiscard]] RingProtocol& rank(uint32_t i) { return *ring_[i]; }
  [[nodiscard]] Instant now() const { return now_; }
  [[nodiscard]] std::deque<OnTheWire>& wire() { return wire_; }

  void submit(uint32_t rank, Transfer& transfer) { ring_[rank]->submit(transfer, now_); }

  /// Lets each protocol send its packets.
  void send_all() {
    for (uint32_t i = 0; i < ring_.size(); i++) {
      ring_[i]->on_time(now_);
      std::vector<std::byte> out(ring_[i]->packet_bytes_max());
      for (;;) {
        const host::Outgoing sent = ring_[i]->next_packet(out, now_);
        if (sent.size_bytes == 0) break;
        wire_.push_back(
            {i, sent.to, sent.size_bytes, {out.begin(), out.begin() + sent.stored_bytes}});
      }
    }
  }
  void deliver(const OnTheWire& packet) {
    const Endpoint from = address_of(packet.from);
    for (uint32_t i = 0; i < ring_.size(); i++) {
      if (address_of(i) != packet.to) continue;
      EXPECT_TRUE(ring_[i]->accepts_from(from));
      (void)ring_[i]->on_packet(
          {.from = from, .stored = packet.stored, .size_bytes = packet.size_bytes}, now_);
    }
  }
  /// Delivers in order until all protocols are silent for a while.
  void run(int rounds = 400) {
    for (int i = 0; i < rounds; i++) {
      now_ = now_ + microseconds(10);
      send_all();
      while (!wire_.empty()) {
        const OnTheWire packet = std::move(wire_.front());
        wire_.pop_front();
        deliver(packet);
      }
    }
  }
  void wait(Duration length) { now_ = now_ + length; }

 private:
  Instant now_;
  std::vector<std::unique_ptr<RingProtocol>> ring_;
  std::deque<OnTheWire> wire_;
};

/// Returns a rank's input: different everywhere, and wrapping.
std::vector<int32_t> tensor_of(uint32_t rank, uint64_t elements) {
  std::vector<int32_t> values(elements);
  for (uint64_t i = 0; i < elements; i++) {
    values[i] = static_cast<int32_t>((rank + 1) * 0x3456'789aU + i * 2'654'435'761U);
  }
  return values;
}

std::vector<int32_t> sum_of(uint32_t world, uint64_t elements) {
  std::vector<uint32_t> sums(elements);
  for (uint32_t rank = 0; rank < world; rank++) {
    const auto values = tensor_of(rank, elements);
    for (uint64_t i = 0; i < elements; i++) sums[i] += static_cast<uint32_t>(values[i]);
  }
  return {sums.begin(), sums.end()};
}

TEST(RingProtocol, FirstStepIsOwnChunk) {
  // Three ranks, six packets of four: chunks are packets {0, 1}, {2, 3} and {4, 5}.
  RingBed bed(3);
  std::vector<Transfer> transfers(3);
  std::vector<std::vector<int32_t>> tensors;
  for (uint32_t rank = 0; rank < 3; rank++) {
    tensors.push_back(tensor_of(rank, 24));
    transfers[rank].integers = tensors[rank];
    bed.submit(rank, transfers[rank]);
  }
  bed.send_all();
  ASSERT_EQ(bed.wire().size(), 6U);  // Two each; the rest wait for the left neighbour.
  for (const OnTheWire& packet : bed.wire()) {
    EXPECT_EQ(packet.to, address_of((packet.from + 1) % 3));
    EXPECT_EQ(packet.size_bytes, kRingHeadBytes + 16);
  }
  // Rank 2 begins with its chunk 2, whose first element is the 16th.
  const auto lane = std::vector<std::byte>(bed.wire()[4].stored.begin() + kRingHeadBytes,
                                           bed.wire()[4].stored.begin() + kRingHeadBytes + 4);
  const auto value = static_cast<uint32_t>(tensor_of(2, 24)[16]);
  EXPECT_EQ(lane[0], static_cast<std::byte>(value >> 24));
  EXPECT_EQ(lane[3], static_cast<std::byte>(value));
  bed.run();
  for (uint32_t rank = 0; rank < 3; rank++) {
    EXPECT_TRUE(transfers[rank].done);
    EXPECT_EQ(transfers[rank].outcome.status, Status::kOk);
    EXPECT_EQ(transfers[rank].outcome.blocks, 6U);
    EXPECT_EQ(tensors[rank], sum_of(3, 24));
    // 2 (n - 1) / n of six packets are eight; the rest are acknowledgements.
    EXPECT_GE(bed.rank(rank).counters().packets_sent, 8U);
    EXPECT_EQ(bed.rank(rank).counters().retransmitted, 0U);
    EXPECT_TRUE(bed.rank(rank).idle());
  }
}

TEST(RingProtocol, SumsAreExactForEveryShape) {
  for (const uint32_t world : {1U, 2U, 3U, 5U, 8U}) {
    for (const uint64_t elements :
         {uint64_t{1}, uint64_t{3}, uint64_t{4}, uint64_t{33}, uint64_t{517}}) {
      RingBed bed(world);
      std::vector<std::vector<int32_t>> tensors;
      std::vector<Transfer> transfers(world * 2);
      for (uint32_t rank = 0; rank < world; rank++) {
        tensors.push_back(tensor_of(rank, elements));
        transfers[rank].integers = tensors[rank];
        bed.submit(rank, transfers[rank]);
        transfers[world + rank].elided_elements = elements;
        bed.submit(rank, transfers[world + rank]);
      }
      bed.run(2000);
      for (uint32_t rank = 0; rank < world; rank++) {
        EXPECT_TRUE(transfers[rank].done && transfers[world + rank].done)
            << world << " ranks, " << elements;
        EXPECT_EQ(tensors[rank], sum_of(world, elements)) << world << " ranks, " << elements;
      }
    }
  }
}

TEST(RingProtocol, StragglerDelaysTheOthersAndLosesNothing) {
  RingBed bed(3, /*window=*/4);
  std::vector<std::vector<int32_t>> tensors;
  std::vector<Transfer> transfers(3);
  for (uint32_t rank = 0; rank < 3; rank++) {
    tensors.push_back(tensor_of(rank, 400));
    transfers[rank].integers = tensors[rank];
  }
  bed.submit(0, transfers[0]);
  bed.submit(1, transfers[1]);
  bed.run(20'000);  // 200 ms: several timeouts.
  EXPECT_FALSE(transfers[0].done || transfers[1].done);
  // Rank 1 may only fill the straggler's buffer; it probes at intervals.
  EXPECT_EQ(bed.rank(1).counters().retransmitted, 0U);
  EXPECT_GT(bed.rank(1).counters().probes, 0U);
  bed.submit(2, transfers[2]);
  bed.run();
  for (uint32_t rank = 0; rank < 3; rank++) {
    EXPECT_TRUE(transfers[rank].done);
    EXPECT_EQ(tensors[rank], sum_of(3, 400));
  }
}

TEST(RingProtocol, AddsFloatsOfAFixedScale) {
  for (const host::ReduceOp op : {host::ReduceOp::kSum, host::ReduceOp::kMean}) {
    RingBed bed(4);
    std::vector<std::vector<float>> tensors;
    std::vector<Transfer> transfers(4);
    for (uint32_t rank = 0; rank < 4; rank++) {
      tensors.emplace_back(21);
      for (uint32_t i = 0; i < 21; i++) {
        tensors[rank][i] = 0.25F * static_cast<float>(rank) - static_cast<float>(i);
      }
    }
    for (uint32_t rank = 0; rank < 4; rank++) {
      transfers[rank].floats = tensors[rank];
      transfers[rank].format = wire::ElementFormat::kFixedScale;
      transfers[rank].scale = 1024;
      transfers[rank].op = op;
      bed.submit(rank, transfers[rank]);
    }
    bed.run();
    for (uint32_t rank = 0; rank < 4; rank++) {
      EXPECT_EQ(transfers[rank].outcome.status, Status::kOk);
      for (uint32_t i = 0; i < 21; i++) {
        const float sum = 0.25F * (0 + 1 + 2 + 3) - 4 * static_cast<float>(i);
        EXPECT_EQ(tensors[rank][i], op == host::ReduceOp::kSum ? sum : sum / 4);
      }
    }
  }
}

TEST(RingProtocol, FloatThatDoesNotFitEndsIt) {
  for (const float value : {3.0F, -3.0F, std::numeric_limits<float>::quiet_NaN()}) {
    RingBed bed(2);
    std::vector<float> floats{1, value};
    Transfer transfer;
    transfer.floats = floats;
    transfer.format = wire::ElementFormat::kFixedScale;
    transfer.scale = 1 << 29;  // Two ranks may send up to 2^30 each.
    bed.submit(0, transfer);
    EXPECT_TRUE(transfer.done);
    EXPECT_EQ(transfer.outcome.status, Status::kOverflow);
    EXPECT_THAT(transfer.outcome.text, HasSubstr("does not fit the scale"));
    EXPECT_EQ(bed.rank(0).phase(), host::TensorProtocol::Phase::kEnded);
  }
}

TEST(RingProtocol, RefusesUnsupportedTensors) {
  RingBed bed(2);
  std::vector<float> floats(4);
  Transfer transfer;
  transfer.floats = floats;
  transfer.format = wire::ElementFormat::kBlockExponent;
  bed.submit(0, transfer);
  EXPECT_TRUE(transfer.done);
  EXPECT_EQ(transfer.outcome.status, Status::kRefused);
  EXPECT_THAT(transfer.outcome.text, HasSubstr("int32"));
}

TEST(RingProtocol, DifferentLengthsAreAMismatch) {
  RingBed bed(2);
  auto mine = tensor_of(0, 9);
  auto other = tensor_of(1, 11);
  Transfer a;
  a.integers = mine;
  Transfer b;
  b.integers = other;
  bed.submit(0, a);
  bed.submit(1, b);
  bed.run();
  EXPECT_TRUE(a.done);
  EXPECT_EQ(a.outcome.status, Status::kMismatch);
  EXPECT_THAT(a.outcome.text, HasSubstr("rank 1 sends 3 elements where this rank has 1"));
  EXPECT_EQ(bed.rank(0).phase(), RingProtocol::Phase::kEnded);
}

TEST(RingProtocol, ErrorNamesASilentNeighbour) {
  RingBed bed(3);
  auto values = tensor_of(0, 40);
  Transfer transfer;
  transfer.integers = values;
  bed.submit(0, transfer);
  bed.wait(seconds(9));
  bed.rank(0).on_time(bed.now());
  EXPECT_FALSE(transfer.done);
  bed.wait(seconds(1));
  EXPECT_LE(bed.rank(0).next_deadline(), bed.now());
  bed.rank(0).on_time(bed.now());
  EXPECT_TRUE(transfer.done);
  EXPECT_EQ(transfer.outcome.status, Status::kPeerMissing);
  EXPECT_THAT(transfer.outcome.text, HasSubstr("rank 2 has been silent for 10 s"));
  Transfer later;
  later.integers = values;
  bed.submit(0, later);
  EXPECT_EQ(later.outcome.status, Status::kPeerMissing);
}

TEST(RingProtocol, ForeignPacketsAreCountedAndChangeNothing) {
  RingBed bed(3);
  std::vector<std::byte> bytes(kRingAckBytesMax);
  const auto say = [&](const RingPacket& packet, uint32_t from, uint32_t size) {
    encode(packet, bytes);
    const uint64_t before = bed.rank(0).counters().invalid_packets;
    (void)bed.rank(0).on_packet(
        {.from = address_of(from), .stored = std::span(bytes).first(size), .size_bytes = size},
        bed.now());
    return bed.rank(0).counters().invalid_packets - before;
  };
  EXPECT_EQ(say({.kind = RingKind::kData, .rank = 2, .lanes = 1}, 2, 13), 1U);          // Length.
  EXPECT_EQ(say({.kind = RingKind::kData, .rank = 1, .lanes = 1}, 2, 16), 1U);          // Rank.
  EXPECT_EQ(say({.kind = RingKind::kData, .rank = 2, .lanes = 1}, 1, 16), 1U);          // Side.
  EXPECT_EQ(say({.kind = RingKind::kData, .rank = 2, .lanes = 5}, 2, 32), 1U);          // Too many.
  EXPECT_EQ(say({.kind = RingKind::kAck, .rank = 1, .ack = {.below = 1}}, 1, 20), 1U);  // Unsent.
  EXPECT_EQ(say({.kind = RingKind::kData, .rank = 2, .lanes = 1}, 2, 16), 0U);
}

TEST(RingProtocol, RandomLossAndReorderingGiveExactSums) {
  const uint64_t seed = testing::seed_from_env();
  SCOPED_TRACE(testing::replay_hint(seed));
  testing::Prng prng(seed);
  for (int round = 0; round < 10; round++) {
    const uint32_t world = 2 + prng.below(5);
    const uint64_t elements = 1 + prng.below(700);
    RingBed bed(world, 1 + prng.below(20));
    constexpr uint32_t kTensors = 3;
    std::vector<std::vector<int32_t>> tensors;
    std::vector<Transfer> transfers(world * kTensors);
    for (size_t i = 0; i < transfers.size(); i++) {
      tensors.push_back(tensor_of(static_cast<uint32_t>(i / kTensors), elements));
    }
    std::vector<uint32_t> submitted(world, 0);
    const auto all_done = [&] {
      return std::all_of(transfers.begin(), transfers.end(), [](const auto& t) { return t.done; });
    };
    for (uint32_t step = 0; !all_done(); step++) {
      ASSERT_LT(step, 500'000U) << "stuck";
      bed.wait(microseconds(100));
      const uint32_t rank = prng.below(world);
      if (submitted[rank] < kTensors && prng.chance(0.1)) {
        const size_t i = rank * kTensors + submitted[rank]++;
        transfers[i].integers = tensors[i];
        bed.submit(rank, transfers[i]);
      }
      bed.send_all();
      for (int i = 0; i < 8 && !bed.wire().empty(); i++) {
        const uint32_t which = prng.below(static_cast<uint32_t>(bed.wire().size()));
        const OnTheWire packet = bed.wire()[which];
        if (!prng.chance(0.05))
          bed.wire().erase(bed.wire().begin() + which);  // Otherwise deliver it twice.
        if (!prng.chance(0.1)) bed.deliver(packet);
      }
    }
    for (size_t i = 0; i < transfers.size(); i++) {
      ASSERT_EQ(transfers[i].outcome.status, Status::kOk) << transfers[i].outcome.text;
      ASSERT_EQ(tensors[i], sum_of(world, elements));
    }
  }
}

}  // namespace
}  // namespace tributary::lab
