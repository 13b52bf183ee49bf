// SPDX-License-Identifier: Apache-2.0
// Method: the traffic manager and its times by hand: unicast, multicast, mirror, resubmit,
// recirculation, drops. Then tables against the simplest look-up.
#include "tofino/pipeline/switch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/seed.h"
#include "tests/tofino/small_program.h"
#include "tests/tofino/switchml/bed.h"

namespace tributary::tofino {
namespace {

using testing::CollectingSink;
using ::testing::HasSubstr;
using testing::SmallProgram;

std::vector<std::byte> bytes_of(std::initializer_list<uint32_t> values) {
  std::vector<std::byte> bytes;
  for (const uint32_t value : values) bytes.push_back(static_cast<std::byte>(value));
  return bytes;
}

/// A switch whose program applies `operations` to every packet.
struct Bed {
  explicit Bed(std::vector<Operation> (*operations)(const SmallProgram&),
               const SwitchConfig& config = {}) {
    SmallProgram p;
    p.then(apply(p.always("all", operations(p))));
    auto made = Switch::make(std::move(p.b.program), config, sink);
    if (!made) throw std::runtime_error(made.error().text);
    device = std::move(*made);
  }
  void arrive(Instant at, uint32_t port, const std::vector<std::byte>& packet) {
    device->arrive(at, port, {packet, static_cast<uint32_t>(packet.size())});
  }
  CollectingSink sink;
  std::unique_ptr<Switch> device;
};

const std::vector<std::byte> kPacket = bytes_of({0, 1, 0, 2, 7, 8, 9});

std::vector<Operation> to_port_of_b(const SmallProgram& p) {
  const Intrinsics& in = p.b.program.intrinsics;
  return {set(in.egress_port, field(p.bb())), set(in.egress_valid, constant(1)),
          set(p.a(), constant(0xbeef))};
}

TEST(Switch, UnicastTakesOnePassAndOneClockPerPacket) {
  Bed bed(to_port_of_b);
  bed.arrive(Instant{}, 0, kPacket);
  bed.arrive(Instant{}, 4, kPacket);
  ASSERT_EQ(bed.sink.sent.size(), 2U);
  EXPECT_EQ(bed.sink.sent[0].at, Instant(nanoseconds(520)));
  EXPECT_EQ(bed.sink.sent[1].at, Instant(nanoseconds(520) + picoseconds(800)));
  EXPECT_EQ(bed.sink.sent[0].port, 2U);
  // The header has changed; the bytes that the parser did not read have not.
  EXPECT_EQ(bed.sink.sent[0].stored, bytes_of({0xbe, 0xef, 0, 2, 7, 8, 9}));
}

// A packet is the last of its train. On an idle switch the others passed before it arrived.
TEST(Switch, TrainOccupiesThePipeForAllItsPackets) {
  Bed bed(to_port_of_b, {.train = 64});
  bed.arrive(Instant(microseconds(1)), 0, kPacket);
  bed.arrive(Instant(microseconds(1)), 4, kPacket);
  ASSERT_EQ(bed.sink.sent.size(), 2U);
  EXPECT_EQ(bed.sink.sent[0].at, Instant(nanoseconds(1520)));
  EXPECT_EQ(bed.sink.sent[1].at, Instant(nanoseconds(1520) + picoseconds(800) * 64));
}

TEST(Switch, PipesRunIndependently) {
  Bed bed(to_port_of_b);
  bed.arrive(Instant{}, 0, kPacket);
  bed.arrive(Instant{}, 128, kPacket);
  EXPECT_EQ(bed.sink.sent[1].at, Instant(nanoseconds(520)));
}

TEST(Switch, DropsAreCountedByReason) {
  Bed bed(to_port_of_b, {.pipes = 1});
  bed.arrive(Instant{}, 0, bytes_of({0, 1, 0}));
  bed.arrive(Instant{}, 128, kPacket);               // A port of pipe 1.
  bed.arrive(Instant{}, 0, bytes_of({0, 1, 1, 0}));  // To port 256, of pipe 2.
  const SwitchCounters& counters = bed.device->counters();
  EXPECT_EQ(counters[SwitchDrop::kParserShort], 1U);
  EXPECT_EQ(counters[SwitchDrop::kUnknownPort], 2U);
  EXPECT_EQ(counters.arrived, 3U);
  EXPECT_EQ(counters.left, 0U);
  Bed nowhere([](const SmallProgram& p) { return std::vector{set(p.a(), constant(1))}; });
  nowhere.arrive(Instant{}, 0, kPacket);
  EXPECT_EQ(nowhere.device->counters()[SwitchDrop::kNoDestination], 1U);
  Bed dropping([](const SmallProgram& p) {
    return std::vector{set(p.b.program.intrinsics.drop, constant(1))};
  });
  dropping.arrive(Instant{}, 0, kPacket);
  EXPECT_EQ(dropping.device->counters()[SwitchDrop::kIngressProgram], 1U);
}

TEST(Switch, MulticastSendsACopyToEachPort) {
  Bed bed([](const SmallProgram& p) {
    return std::vector{set(p.b.program.intrinsics.multicast_group, field(p.a()))};
  });
  ASSERT_TRUE(bed.device->set_multicast_group(1, {{4, 1}, {8, 2}, {132, 3}}).has_value());
  bed.arrive(Instant{}, 0, kPacket);
  std::vector<uint32_t> ports;
  for (const auto& sent : bed.sink.sent) ports.push_back(sent.port);
  EXPECT_EQ(ports, (std::vector<uint32_t>{4, 8, 132}));
  bed.arrive(Instant(microseconds(1)), 0, bytes_of({0, 9, 0, 0}));
  EXPECT_EQ(bed.device->counters()[SwitchDrop::kUnknownGroup], 1U);
  EXPECT_THAT(bed.device->set_multicast_group(0, {}).error().text, HasSubstr("1 to 32767"));
  EXPECT_THAT(bed.device->set_multicast_group(2, {{600, 0}}).error().text,
              HasSubstr("port 600 does not exist"));
}

TEST(Switch, MirrorCopiesTheOriginalPacket) {
  Bed bed([](const SmallProgram& p) {
    auto operations = to_port_of_b(p);
    operations.push_back(set(p.b.program.intrinsics.mirror_session, constant(5)));
    return operations;
  });
  ASSERT_TRUE(bed.device->set_mirror_session(5, 16, 6).has_value());
  bed.arrive(Instant{}, 0, kPacket);
  ASSERT_EQ(bed.sink.sent.size(), 2U);
  EXPECT_EQ(bed.sink.sent[0].port, 16U);
  EXPECT_EQ(bed.sink.sent[0].stored, bytes_of({0, 1, 0, 2, 7, 8}));  // Only truncated.
  EXPECT_THAT(bed.device->set_mirror_session(1024, 0, 0).error().text, HasSubstr("1 to 1023"));
}

TEST(Switch, ResubmittedPacketIsParsedTwice) {
  // The first pass resubmits the packet; the second one sends it to its port.
  SmallProgram p;
  const Intrinsics& in = p.b.program.intrinsics;
  const TableId again = p.always("again", {set(in.resubmit, constant(1))});
  const TableId go = p.always("go", to_port_of_b(p));
  p.then(when({{.field = in.resubmitted, .value = 0}}, {apply(again)}, {apply(go)}));
  CollectingSink sink;
  auto device = Switch::make(std::move(p.b.program), {}, sink);
  ASSERT_TRUE(device.has_value()) << device.error().text;
  (*device)->arrive(Instant{}, 0, {kPacket, 7});
  EXPECT_EQ((*device)->next_due(), Instant(kResubmitLatency));
  (*device)->run_until(Instant(microseconds(1)));
  ASSERT_EQ(sink.sent.size(), 1U);
  EXPECT_EQ(sink.sent[0].at, Instant(kResubmitLatency + nanoseconds(520)));
  Bed twice([](const SmallProgram& q) {
    return std::vector{set(q.b.program.intrinsics.resubmit, constant(1))};
  });
  twice.arrive(Instant{}, 0, kPacket);
  twice.device->run_until(Instant(microseconds(1)));
  EXPECT_EQ(twice.device->counters()[SwitchDrop::kResubmittedTwice], 1U);
}

std::vector<Operation> to_inner_loop(const SmallProgram& p) {
  const Intrinsics& in = p.b.program.intrinsics;
  return {set(in.egress_port, constant(68)), set(in.egress_valid, constant(1)),
          set(in.bypass_egress, constant(1))};
}

TEST(Switch, LoopSerialisesPacketsAndBoundsItsBuffer) {
  Bed bed(to_inner_loop);
  bed.arrive(Instant{}, 0, kPacket);
  bed.arrive(Instant{}, 4, kPacket);
  // 520 ns, then (7 + 24) bytes at 80 ps: back at 522.48 ns; the second follows right behind it.
  EXPECT_EQ(bed.device->next_due(), Instant(picoseconds(522'480)));
  bed.device->run_until(Instant(picoseconds(522'480)));
  EXPECT_EQ(bed.device->next_due(), Instant(picoseconds(524'960)));
  // Packets that recirculate for ever fill the modelled buffer and are dropped there.
  const std::vector<std::byte> large(9'000, std::byte{1});
  for (uint32_t i = 0; i < 4'000; i++) bed.arrive(Instant(microseconds(1)), 0, large);
  EXPECT_GT(bed.device->counters()[SwitchDrop::kBufferFull],
            4'000 - kPacketBufferBytes / 9'000 - 1);
}

TEST(Switch, RefusesWrongConfigurations) {
  const auto error_of = [](const SwitchConfig& config) {
    CollectingSink sink;
    SmallProgram p;
    const auto made = Switch::make(std::move(p.b.program), config, sink);
    return made ? std::string() : made.error().text;
  };
  EXPECT_EQ(error_of({.loopback_ports = {128, 60}}), "");
  EXPECT_THAT(error_of({.pipes = 5}), HasSubstr("pipes=5; allowed: 1 to 4"));
  EXPECT_THAT(error_of({.pipes = 1, .loopback_ports = {128}}), HasSubstr("loopback port 128"));
  EXPECT_THAT(error_of({.loopback_ports = {2}}), HasSubstr("loopback port 2"));
}

TEST(Tables, LookUpsMatchALinearSearch) {
  const uint64_t seed = tributary::testing::seed_from_env();
  SCOPED_TRACE(tributary::testing::replay_hint(seed));
  tributary::testing::Prng prng(seed);
  for (uint32_t round = 0; round < 60; round++) {
    ProgramBuilder b("lookup");
    Table table{.name = "t", .size = 64};
    const bool ternary = prng.chance(0.6);
    for (uint32_t i = 0; i < 1 + prng.below(3); i++) {
      const uint32_t bits = 1 + prng.below(prng.chance(0.5) ? 8 : 32);
      table.keys.push_back({b.metadata("k", bits),
                            ternary && prng.chance(0.7) ? MatchKind::kTernary : MatchKind::kExact});
    }
    std::vector<Entry> entries(prng.below(40));
    const auto value_of = [&](size_t key) {
      const uint32_t bits = b.program.fields[table.keys[key].field].bits;
      return (prng.chance(0.7) ? prng.below(3) : prng.any_u32()) >> (bits >= 2 ? 0 : 1) &
             (bits == 32 ? 0xffffffff : (1U << bits) - 1);
    };
    for (Entry& entry : entries) {
      for (size_t i = 0; i < table.keys.size(); i++) {
        const uint32_t mask = table.keys[i].kind == MatchKind::kExact
                                  ? 0xffffffff
                                  : (prng.chance(0.5) ? 0xffffffff : prng.below(4));
        entry.keys.push_back({value_of(i) & mask, mask});
      }
    }
    const MatchTable fast(b.program, table, entries);
    for (uint32_t step = 0; step < 300; step++) {
      std::vector<uint32_t> phv(b.program.fields.size());
      for (size_t i = 0; i < table.keys.size(); i++) phv[table.keys[i].field] = value_of(i);
      uint32_t expected = MatchTable::kMiss;
      for (uint32_t e = 0; e < entries.size() && expected == MatchTable::kMiss; e++) {
        bool all = true;
        for (size_t i = 0; i < table.keys.size(); i++) {
          const Match& match = entries[e].keys[i];
          all = all && (phv[table.keys[i].field] & match.mask) == match.value;
        }
        if (all) expected = e;
      }
      ASSERT_EQ(fast.lookup(phv.data()), expected) << "round " << round << " step " << step;
    }
  }
}

TEST(Switch, HashIsCrc32) {
  SmallProgram p;
  const FieldId crc = p.b.metadata("crc", 32);
  const ActionId hash = p.b.add(Action{.name = "hash", .hashes = {{crc, {p.a(), p.bb()}}}});
  p.then(apply(p.b.add(Table{.name = "hash", .default_action = hash})));
  const auto executable = Executable::load(std::move(p.b.program));
  ASSERT_TRUE(executable.has_value()) << executable.error().text;
  const Tables tables(executable->program);
  Pipe pipe(*executable, tables, 1);
  PacketBuffer out;
  pipe.begin();
  const auto packet = bytes_of({'1', '2', '3', '4'});
  EXPECT_EQ(pipe.run_ingress({packet, 4}, out), Verdict::kPassed);
  EXPECT_EQ(pipe.get(crc), 0x9be3e0a3U);  // CRC-32 of "1234".
}

}  // namespace
}  // namespace tributary::tofino
