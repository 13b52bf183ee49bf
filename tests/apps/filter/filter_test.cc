// SPDX-License-Identifier: Apache-2.0
// Method: the paper's three kinds of packets and each truncation by hand. Then random packets run
// through the live machine and through many interleaved threads of the suspending machine. Both
// must forward the same packets and leave the same counters as the paper's rule in three lines.
#include "apps/filter/filter.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <map>
#include <string>
#include <vector>

#include "engine/live/live_machine.h"
#include "engine/port.h"
#include "tests/engine/step_machine.h"
#include "tests/support/seed.h"

namespace tributary::filter {
namespace {

using Bytes = std::vector<std::byte>;
using testing::StepMachine;
using wire::EthernetHeader;
using wire::Ipv4Header;

const Endpoint kNobody{};

/// Returns a frame truncated to `size` bytes.
Bytes frame(uint32_t size, uint32_t ether_type, uint32_t version, uint32_t header_words) {
  Bytes bytes(std::max(size, EthernetHeader::kBytes + Ipv4Header::kBytes));
  wire::MutableView<EthernetHeader>(bytes.data()).set<EthernetHeader::EtherType>(ether_type);
  wire::MutableView<Ipv4Header> ip(bytes.data() + EthernetHeader::kBytes);
  ip.set<Ipv4Header::Version>(version);
  ip.set<Ipv4Header::HeaderWords>(header_words);
  bytes.resize(size);
  return bytes;
}

memory::SharedMemory small_memory() {
  return *memory::SharedMemory::create({.sram_size_bytes = 4096, .dram_size_bytes = 4096});
}

using Dropped = std::array<memory::PacketByteCounter, kDropCount>;
Dropped dropped(const FilterState& state) {
  return {state.dropped(Drop::kNonIp), state.dropped(Drop::kIpOptions),
          state.dropped(Drop::kNoHeader)};
}

/// The filter on the suspending machine, one packet at a time.
class FilterTest : public ::testing::Test {
 protected:
  /// @return whether the packet was forwarded.
  bool filter(const Bytes& packet, engine::PacketLayer layer = engine::PacketLayer::kFrame) {
    const size_t before = m_.forwarded().size();
    m_.start(
        packet, kNobody, [&](StepMachine& m) { filter_packet(m, state_); }, layer);
    m_.run();
    return m_.forwarded().size() > before;
  }

  memory::SharedMemory memory_ = small_memory();
  FilterState state_ = *FilterState::create(memory_);
  StepMachine m_{{.seed = 1}};
};

// --- By hand -------------------------------------------------------------------------------------

TEST_F(FilterTest, ForwardsIpWithoutOptionsUnchanged) {
  const Bytes packet = frame(1000, 0x0800, 4, 5);
  EXPECT_TRUE(filter(packet));
  EXPECT_EQ(m_.forwarded().back(), packet);
  EXPECT_EQ(dropped(state_), (Dropped{}));
  // process_ether, process_ip, forward_packet.
  EXPECT_EQ(m_.instructions_total(), 3U);
  EXPECT_EQ(m_.xtxns(microcode::XtxnKind::kCounterIncrement), 0U);
}

TEST_F(FilterTest, DropsAndCountsNonIp) {
  EXPECT_FALSE(filter(frame(60, 0x0806, 4, 5)));
  EXPECT_FALSE(filter(frame(100, 0x86dd, 6, 0)));  // "Equal to 0x0800" (§3.2): IPv6 is not.
  EXPECT_EQ(state_.dropped(Drop::kNonIp), (memory::PacketByteCounter{2, 160}));
  EXPECT_EQ(m_.dropped(0), 2U);
  EXPECT_EQ(m_.instructions("process_ether"), 2U);
  EXPECT_EQ(m_.instructions("process_ip"), 0U);
  EXPECT_EQ(m_.instructions("count_dropped"), 2U);
  EXPECT_EQ(m_.instructions("drop_packet"), 2U);
}

TEST_F(FilterTest, InstructionsTouchWhatThePaperSays) {
  EXPECT_FALSE(filter(frame(1000, 0x0800, 4, 6)));
  using microcode::AccessCount;
  std::map<std::string, AccessCount> used;
  for (const auto& row : m_.access_meter().instructions()) used[row.name] = row.most;
  // The EtherType; Version and IHL in one byte; ir0; the counter's transaction (§3.2).
  EXPECT_EQ(used["process_ether"],
            (AccessCount{.head_bytes = 2, .lmem_reads = 1, .register_writes = 1}));
  EXPECT_EQ(used["process_ip"],
            (AccessCount{.head_bytes = 1, .lmem_reads = 1, .register_writes = 1}));
  EXPECT_EQ(used["count_dropped"], (AccessCount{.register_reads = 1, .xtxns = 1}));
  EXPECT_EQ(used["drop_packet"], (AccessCount{.register_reads = 1}));
  EXPECT_TRUE(m_.access_meter().unpriced().empty());
}

TEST_F(FilterTest, DropsAndCountsIpWithOptions) {
  EXPECT_FALSE(filter(frame(80, 0x0800, 4, 6)));
  EXPECT_FALSE(filter(frame(81, 0x0800, 4, 15)));
  EXPECT_FALSE(filter(frame(82, 0x0800, 5, 5)));  // As in the paper: version 5 is not "4 and 5".
  EXPECT_EQ(state_.dropped(Drop::kIpOptions), (memory::PacketByteCounter{3, 80 + 81 + 82}));
  EXPECT_EQ(m_.dropped(1), 3U);
}

TEST_F(FilterTest, CountsTruncatedHeadersSeparately) {
  EXPECT_FALSE(filter({}));
  EXPECT_FALSE(filter(frame(13, 0x0800, 4, 5)));
  EXPECT_FALSE(filter(frame(14, 0x0800, 4, 5)));
  EXPECT_FALSE(filter(frame(33, 0x0800, 4, 5)));
  EXPECT_EQ(state_.dropped(Drop::kNoHeader), (memory::PacketByteCounter{4, 13 + 14 + 33}));
  EXPECT_TRUE(filter(frame(34, 0x0800, 4, 5)));
  EXPECT_FALSE(filter(frame(14, 0x0806, 0, 0)));  // Not IP, and long enough to show it.
  EXPECT_EQ(state_.dropped(Drop::kNonIp).packets, 1U);
}

TEST_F(FilterTest, DropsPayloadsWithoutHeaders) {
  EXPECT_FALSE(filter(frame(100, 0x0800, 4, 5), engine::PacketLayer::kUdpPayload));
  EXPECT_EQ(state_.dropped(Drop::kNoHeader), (memory::PacketByteCounter{1, 100}));
}

TEST_F(FilterTest, CounterLayoutMatchesFigure6) {
  const uint64_t base = state_.drop_cnt_base_words();
  EXPECT_EQ(&state_.counter_at(base), &state_.dropped(Drop::kNonIp));
  EXPECT_EQ(&state_.counter_at(base + 2), &state_.dropped(Drop::kIpOptions));
  // 16 bytes: packets, then bytes.
  EXPECT_FALSE(filter(frame(80, 0x0800, 4, 6)));
  const auto* words = reinterpret_cast<const uint64_t*>(&state_.counter_at(base));
  EXPECT_EQ(words[2], 1U);
  EXPECT_EQ(words[3], 80U);
}

TEST(FilterState, RefusesIfSharedMemoryIsFull) {
  auto memory = small_memory();
  ASSERT_TRUE(memory.allocate(memory::Range::kSram, 4096, 8).has_value());
  const auto state = FilterState::create(memory);
  ASSERT_FALSE(state.has_value());
  EXPECT_FALSE(state.error().text.empty());
}

TEST(Drop, ReasonsHaveNames) {
  EXPECT_STREQ(to_string(Drop::kNonIp), "non_ip");
  EXPECT_STREQ(to_string(Drop::kIpOptions), "ip_options");
  EXPECT_STREQ(to_string(Drop::kNoHeader), "no_header");
}

// --- Both machines -------------------------------------------------------------------------------

Bytes random_frame(Prng& prng) {
  const uint32_t size = prng.chance(0.2) ? prng.below(40) : 34 + prng.below(1400);
  const uint32_t type = prng.chance(0.7) ? 0x0800 : prng.below(0x10000);
  const uint32_t version = prng.chance(0.9) ? 4 : prng.below(16);
  const uint32_t header_words = prng.chance(0.6) ? 5 : prng.below(16);
  return frame(size, type, version, header_words);
}

/// The paper's rule (§3.2) over plain bytes.
std::optional<Drop> rule(const Bytes& packet) {
  if (packet.size() < 14) return Drop::kNoHeader;
  if (packet[12] != std::byte{0x08} || packet[13] != std::byte{0x00}) return Drop::kNonIp;
  if (packet.size() < 34) return Drop::kNoHeader;
  if (packet[14] != std::byte{0x45}) return Drop::kIpOptions;
  return std::nullopt;
}

struct Outcome {
  std::vector<Bytes> forwarded;  ///< Sorted: the suspending machine forwards in any order.
  Dropped dropped{};
};

Outcome expected(const std::vector<Bytes>& packets) {
  Outcome outcome;
  for (const Bytes& packet : packets) {
    const auto reason = rule(packet);
    if (!reason) {
      outcome.forwarded.push_back(packet);
    } else {
      memory::count_packet(outcome.dropped[static_cast<size_t>(*reason)], packet.size());
    }
  }
  std::ranges::sort(outcome.forwarded);
  return outcome;
}

/// A port that keeps the frames that the machine sends.
class KeepingQueue final : public engine::PortQueue {
 public:
  uint32_t receive(std::span<engine::Packet>) override { return 0; }
  void transmit(std::span<const engine::TxPacket> packets) override {
    for (const engine::TxPacket& packet : packets) {
      EXPECT_EQ(packet.layer, engine::PacketLayer::kFrame);
      kept.emplace_back(packet.data, packet.data + packet.size);
    }
  }
  void wait(Duration) override {}
  void wake() override {}
  [[nodiscard]] engine::PortCounters counters() const override { return {}; }

  std::vector<Bytes> kept;
};

Outcome on_live_machine(std::vector<Bytes> packets) {
  auto memory = small_memory();
  FilterState state = *FilterState::create(memory);
  KeepingQueue queue;
  engine::LiveMachine m(queue);
  m.begin_burst(Instant{});
  for (Bytes& bytes : packets) {
    engine::Packet packet{.data = bytes.data(),
                          .size = static_cast<uint32_t>(bytes.size()),
                          .layer = engine::PacketLayer::kFrame,
                          .source = {}};
    m.begin_packet(packet);
    filter_packet(m, state);
  }
  m.flush();
  EXPECT_EQ(m.counters().forwarded, queue.kept.size());
  EXPECT_EQ(m.counters().forwarded + m.counters().dropped, packets.size());
  Outcome outcome{.forwarded = std::move(queue.kept), .dropped = dropped(state)};
  std::ranges::sort(outcome.forwarded);
  return outcome;
}

Outcome on_step_machine(const std::vector<Bytes>& packets, uint64_t seed) {
  auto memory = small_memory();
  FilterState state = *FilterState::create(memory);
  StepMachine m({.seed = seed});
  for (const Bytes& packet : packets) {
    while (!m.has_free_thread()) m.step();
    m.start(
        packet, kNobody, [&](StepMachine& machine) { filter_packet(machine, state); },
        engine::PacketLayer::kFrame);
  }
  m.run();
  Outcome outcome{.forwarded = m.forwarded(), .dropped = dropped(state)};
  std::ranges::sort(outcome.forwarded);
  EXPECT_EQ(m.call_depth_max(), 0U);
  return outcome;
}

TEST(Filter, BothMachinesMatchTheModel) {
  const uint64_t seed = testing::seed_from_env();
  SCOPED_TRACE(testing::replay_hint(seed));
  Prng prng(seed);
  std::vector<Bytes> packets;
  for (int i = 0; i < 2000; i++) packets.push_back(random_frame(prng));

  const Outcome wanted = expected(packets);
  for (const memory::PacketByteCounter& counter : wanted.dropped) EXPECT_GT(counter.packets, 0U);
  const Outcome live = on_live_machine(packets);
  EXPECT_TRUE(live.forwarded == wanted.forwarded);
  EXPECT_EQ(live.dropped, wanted.dropped);
  const Outcome stepped = on_step_machine(packets, prng.any_u64());
  EXPECT_TRUE(stepped.forwarded == wanted.forwarded);
  EXPECT_EQ(stepped.dropped, wanted.dropped);
}

}  // namespace
}  // namespace tributary::filter
