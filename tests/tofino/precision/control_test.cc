// SPDX-License-Identifier: Apache-2.0
// Method: a trace by hand in two rows of two slots; the program's resources and refusals; then
// random packets against PRECISION in plain code, with the same hashes and random draws.
#include "tofino/precision/control.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <optional>
#include <vector>

#include "tests/support/seed.h"
#include "tests/tofino/small_program.h"
#include "tests/tofino/switchml/bed.h"
#include "tofino/pipeline/udp_frame.h"

namespace tributary::tofino {
namespace {

using testing::CollectingSink;
using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;

constexpr uint8_t kUdp = 17;
constexpr uint32_t kInPort = 0;
/// Longer than both passes of a packet, so that the packets pass one after the other.
constexpr Duration kGap = microseconds(5);

/// A UDP flow from `number` to 198.18.0.1.
PrecisionFlow flow_of(uint32_t number, uint32_t count = 0) {
  return {.from = 0x0a000000 + number,
          .to = 0xc6120001,
          .port_from = 1024,
          .port_to = 443,
          .protocol = kUdp,
          .count = count};
}

std::vector<std::byte> frame_of(const PrecisionFlow& flow) {
  return udp_frame({.mac = 2, .ip = flow.from, .port = flow.port_from},
                   {.mac = 1, .ip = flow.to, .port = flow.port_to}, {});
}

/// CRC-32 of IEEE 802.3, bit by bit.
uint32_t crc_of(std::initializer_list<std::pair<uint32_t, uint32_t>> words_and_bytes) {
  uint32_t crc = 0xffffffff;
  for (const auto& [word, bytes] : words_and_bytes) {
    for (uint32_t i = bytes; i-- > 0;) {
      crc ^= (word >> (8 * i)) & 0xff;
      for (int bit = 0; bit < 8; bit++) crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0xedb88320 : 0);
    }
  }
  return ~crc;
}

uint32_t slot_of(const PrecisionFlow& flow, uint32_t row, uint32_t slots) {
  const uint32_t ports = (uint32_t{flow.port_from} << 16) | flow.port_to;
  const uint32_t crc = row == 0
                           ? crc_of({{flow.from, 4}, {flow.to, 4}, {ports, 4}, {flow.protocol, 1}})
                           : crc_of({{ports, 4}, {flow.protocol, 1}, {flow.to, 4}, {flow.from, 4}});
  return crc & (slots - 1);
}

/// The sketch, and the packets that have passed.
struct Bed {
  explicit Bed(uint32_t slots, uint64_t seed = 1)
      : device(*PrecisionSwitch::make({.slots = slots}, sink, seed)) {}

  /// Sends a packet. @return its passes.
  uint64_t send(const PrecisionFlow& flow) {
    const uint64_t before = device.device().counters().passes;
    const auto frame = frame_of(flow);
    device.device().arrive(now, kInPort, {frame, static_cast<uint32_t>(frame.size())});
    now = now + kGap;
    device.device().run_until(now);
    return device.device().counters().passes - before;
  }

  CollectingSink sink;
  PrecisionSwitch device;
  Instant now;
};

/// Returns the first `count` flows that have these slots in rows of two.
std::vector<PrecisionFlow> flows_at(uint32_t slot0, uint32_t slot1, size_t count) {
  std::vector<PrecisionFlow> found;
  for (uint32_t number = 1; found.size() < count; number++) {
    const PrecisionFlow flow = flow_of(number);
    if (slot_of(flow, 0, 2) == slot0 && slot_of(flow, 1, 2) == slot1) found.push_back(flow);
  }
  return found;
}

PrecisionFlow counted(PrecisionFlow flow, uint32_t count) {
  flow.count = count;
  return flow;
}

TEST(Precision, CountsByHandInTwoRowsOfTwoSlots) {
  Bed bed(2);
  // All three flows share both slots.
  const auto flows = flows_at(1, 0, 3);
  const PrecisionFlow a = flows[0], b = flows[1], c = flows[2];

  // Empty slots have the count 0, so a packet takes one with certainty: 1 / (0 + 1).
  EXPECT_EQ(bed.send(a), 2U);  // Equal counts: row 0.
  EXPECT_EQ(bed.send(a), 1U);
  EXPECT_EQ(bed.send(a), 1U);
  EXPECT_EQ(bed.send(b), 2U);  // Row 1, which is empty.
  EXPECT_THAT(bed.device.read(), UnorderedElementsAre(counted(a, 3), counted(b, 1)));

  // Now c loses or takes b's slot with a probability of 1/2; its count is then 1 + 1.
  uint32_t tries = 0;
  while (bed.send(c) == 1) {
    ASSERT_LT(++tries, 100U);
    EXPECT_THAT(bed.device.read(), UnorderedElementsAre(counted(a, 3), counted(b, 1)));
  }
  EXPECT_THAT(bed.device.read(), UnorderedElementsAre(counted(a, 3), counted(c, 2)));
  EXPECT_EQ(bed.send(c), 1U);
  EXPECT_EQ(bed.send(a), 1U);
  EXPECT_THAT(bed.device.read(), UnorderedElementsAre(counted(a, 4), counted(c, 3)));

  // A flow with another slot in row 0 finds that one empty.
  const PrecisionFlow d = flows_at(0, 0, 1)[0];
  EXPECT_EQ(bed.send(d), 2U);
  EXPECT_THAT(bed.device.read(), UnorderedElementsAre(counted(d, 1), counted(a, 4), counted(c, 3)));
}

TEST(Precision, ForwardsEveryPacketUnchanged) {
  Bed bed(2);
  const PrecisionFlow flow = flow_of(1);
  auto arp = frame_of(flow);
  arp[12] = std::byte{0x08};
  arp[13] = std::byte{0x06};
  auto fragment = frame_of(flow);
  fragment[21] = std::byte{1};  // Offset 8 bytes: no ports.
  for (const auto& frame : {frame_of(flow), arp, fragment}) {
    bed.device.device().arrive(bed.now, kInPort, {frame, static_cast<uint32_t>(frame.size())});
    bed.now = bed.now + kGap;
    bed.device.device().run_until(bed.now);
    ASSERT_FALSE(bed.sink.sent.empty());
    EXPECT_EQ(bed.sink.sent.back().stored, frame);
    EXPECT_EQ(bed.sink.sent.back().port, PrecisionVariant().out_port);
  }
  EXPECT_EQ(bed.device.not_measured(), 2U);
  EXPECT_THAT(bed.device.read(), UnorderedElementsAre(counted(flow, 1)));
}

// Two packets of one flow recirculate at the same time: both write the same slot.
TEST(Precision, PacketsOfOneFlowInTheLoopTakeOneSlot) {
  Bed bed(2);
  const auto frame = frame_of(flow_of(1));
  for (int i = 0; i < 2; i++) {
    bed.device.device().arrive(bed.now, kInPort, {frame, static_cast<uint32_t>(frame.size())});
  }
  bed.device.device().run_until(Instant(kGap));
  EXPECT_EQ(bed.device.device().counters().recirculated, 2U);
  EXPECT_THAT(bed.device.read(), UnorderedElementsAre(flow_of(1, 1)));
}

TEST(Precision, FitsFromTheSmallestToTheLargestRows) {
  for (uint32_t slots = kPrecisionSlotsMin; slots <= kPrecisionSlotsMax; slots *= 2) {
    const auto placed = place(precision_program({.slots = slots}));
    ASSERT_TRUE(placed.has_value()) << slots << ": " << placed.error().text;
    // For each row: addresses, ports, count.
    EXPECT_EQ(placed->total(Resource::kStatefulAlus), 6U);
  }
  // Twice as many slots: a register of 64-bit entries would take 65 SRAM blocks.
  EXPECT_THAT(testing::refusal(precision_program({.slots = 2 * kPrecisionSlotsMax})),
              HasSubstr("takes 65 SRAM blocks; one ALU spans 36"));
}

TEST(Precision, RefusesAWrongNumberOfSlots) {
  CollectingSink sink;
  for (const uint32_t slots : {0U, 1U, 3U, 2 * kPrecisionSlotsMax}) {
    const auto made = PrecisionSwitch::make({.slots = slots}, sink, 1);
    ASSERT_FALSE(made.has_value());
    EXPECT_THAT(made.error().text, HasSubstr("allowed: a power of two from 2 to 65536"));
  }
}

/// PRECISION in plain code.
class PlainPrecision {
 public:
  PlainPrecision(uint32_t slots, uint64_t seed)
      : slots_(slots), prng_(Prng(seed).any_u64()), rows_{Row(slots), Row(slots)} {}

  /// @return whether the packet recirculates.
  bool add(const PrecisionFlow& flow) {
    const uint32_t drawn = prng_.any_u32();
    std::array<PrecisionFlow*, kPrecisionRows> at{};
    for (uint32_t row = 0; row < kPrecisionRows; row++) {
      at[row] = &rows_[row][slot_of(flow, row, slots_)];
      PrecisionFlow held = *at[row];
      held.count = flow.count;
      if (held == flow) {
        at[row]->count++;
        return false;
      }
    }
    PrecisionFlow& loser = at[1]->count < at[0]->count ? *at[1] : *at[0];
    uint64_t odds = 1;
    while (odds < uint64_t{loser.count} + 1) odds *= 2;
    if (drawn % odds != 0) return false;
    prng_.any_u32();  // The second pass draws as well.
    loser = counted(flow, loser.count + 1);
    return true;
  }
  [[nodiscard]] std::vector<PrecisionFlow> read() const {
    std::vector<PrecisionFlow> flows;
    for (const Row& row : rows_) {
      for (const PrecisionFlow& slot : row) {
        if (slot.count > 0) flows.push_back(slot);
      }
    }
    return flows;
  }

 private:
  using Row = std::vector<PrecisionFlow>;
  uint32_t slots_;
  Prng prng_;
  std::array<Row, kPrecisionRows> rows_;
};

TEST(Precision, RandomPacketsMatchPlainCode) {
  const uint64_t seed = ::tributary::testing::seed_from_env();
  SCOPED_TRACE(::tributary::testing::replay_hint(seed));
  Prng prng(seed);
  for (const uint32_t slots : {2U, 16U, 256U}) {
    Bed bed(slots, seed);
    PlainPrecision plain(slots, seed);
    uint64_t recirculated = 0;
    for (uint32_t step = 0; step < 5'000; step++) {
      // The smaller of two draws: some flows are larger than others.
      const uint32_t number = std::min(prng.below(4 * slots), prng.below(4 * slots));
      const PrecisionFlow flow = flow_of(number);
      const bool recirculates = plain.add(flow);
      recirculated += recirculates ? 1 : 0;
      ASSERT_EQ(bed.send(flow), recirculates ? 2U : 1U) << "step " << step;
    }
    EXPECT_EQ(bed.device.read(), plain.read());
    EXPECT_EQ(bed.device.device().counters().recirculated, recirculated);
    EXPECT_EQ(bed.sink.sent.size(), 5'000U);
  }
}

}  // namespace
}  // namespace tributary::tofino
