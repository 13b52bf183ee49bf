// SPDX-License-Identifier: Apache-2.0
// Method: one good packet, changed in one place at a time. Each change has its own counter and no
// other effect: the slot in progress then gets its right sum. Last, packets changed at random.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "io/frames/udp_frame.h"
#include "tests/apps/switchml/bed.h"
#include "tests/support/seed.h"

namespace tributary::switchml {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

/// Slot 2 holds worker 0's part of packet 5.
class SwitchmlRefusals : public ::testing::Test {
 protected:
  SwitchmlRefusals() {
    EXPECT_THAT(bed_.exchange(0, packet(2, false, 5, 1)), IsEmpty());
    bed_.new_counts();
  }
  void expect_refused(const Bytes& payload, const Endpoint& from, const std::string& reason) {
    EXPECT_THAT(bed_.exchange(payload, from), IsEmpty()) << reason;
    EXPECT_EQ(bed_.new_counts(), (Counts{{reason, 1}}));
  }
  void expect_refused(const Packet& packet, const std::string& reason) {
    expect_refused(wire::switchml_payload(packet), worker(1), reason);
  }
  /// Expects that the refused packets changed nothing.
  void expect_unharmed() {
    const auto results = bed_.exchange(1, packet(2, false, 5, 10));
    ASSERT_EQ(results.size(), 2U);
    EXPECT_EQ(results[0].packet.elements, Values(64, 11));
  }

  Bed bed_;
};

TEST_F(SwitchmlRefusals, EachRefusalHasItsCounter) {
  const Bytes good = wire::switchml_payload(packet(2, false, 5, 10));
  expect_refused(good, stranger(), "unknown_worker");
  expect_refused(Bytes(good.begin(), good.begin() + 9), worker(1), "truncated");
  expect_refused(Bytes{}, worker(1), "truncated");
  Bytes other_type = good;
  other_type[0] = std::byte{0x21};
  expect_refused(other_type, worker(1), "not_switchml");
  Bytes shorter = good;
  shorter.pop_back();
  expect_refused(shorter, worker(1), "length_differs");
  Bytes longer = good;
  longer.push_back(std::byte{0});
  expect_refused(longer, worker(1), "length_differs");
  expect_refused(packet(2, false, 5, 10, 256), "wrong_elements");
  expect_refused(packet(2, false, 5, 10, 32), "wrong_elements");
  expect_refused(packet(8, false, 5, 10), "slot_outside_pool");
  expect_refused(packet(16'383, true, 5, 10), "slot_outside_pool");
  expect_refused(packet(2, false, 6, 10), "chunk_differs");
  Packet other_job = packet(2, false, 5, 10);
  other_job.job_number = 1;
  expect_refused(other_job, "chunk_differs");
  expect_refused(packet(2, true, 6, 10), "phase_ahead");
  expect_unharmed();
}

// The ports of a watched session tell the server that a worker has restarted. Refused packets must
// not: junk with a worker's address and ever new ports would discard every incomplete sum.
TEST(SwitchmlWatchedPorts, RefusedPacketsFromNewPortsKeepIncompleteSums) {
  Bed bed({.sessions = {{.workers = 2, .elements = 64, .slots = 8, .watches_ports = true}}});
  // Both workers use the slot once, so that their ports are known.
  bed.exchange(1, packet(2, true, 4, 3));
  bed.exchange(0, packet(2, true, 4, 3));
  ASSERT_EQ(bed.exchange(1, packet(2, true, 4, 3)).size(), 2U);
  EXPECT_THAT(bed.exchange(0, packet(2, false, 5, 1)), IsEmpty());
  bed.new_counts();
  Bytes shorter = wire::switchml_payload(packet(2, false, 5, 10));
  shorter.pop_back();
  const std::vector<Bytes> junk{shorter, wire::switchml_payload(packet(2, false, 5, 10, 256)),
                                wire::switchml_payload(packet(8, false, 5, 10)),
                                Bytes(10, std::byte{0x12})};
  for (uint16_t thread = 1; thread <= 4 * kPortsMax; thread++) {
    for (const Bytes& payload : junk) bed.inject(payload, worker(1, 0, thread));
    bed.run();
  }
  EXPECT_EQ(bed.take().size(), 0U);
  const auto results = bed.exchange(1, packet(2, false, 5, 10));
  ASSERT_EQ(results.size(), 2U);
  EXPECT_EQ(results[0].packet.elements, Values(64, 11));
  EXPECT_FALSE(bed.new_counts().contains("slot_reclaimed"));
}

TEST_F(SwitchmlRefusals, RefusesPacketsOfIncompleteSessions) {
  bed_.shard().begin_session(1, {.workers = 2, .elements = 64, .slots = 8});
  ASSERT_TRUE(bed_.shard().set_worker(1, 0, worker(0, 1)).has_value());
  expect_refused(wire::switchml_payload(packet(2, false, 5, 10)), worker(0, 1),
                 "session_incomplete");
  expect_unharmed();
}

TEST_F(SwitchmlRefusals, RefusesSessionsOutsideTheLimits) {
  const auto error_of = [this](const SessionConfig& session) {
    const auto checked = check(session, bed_.shard().config());
    return checked ? "allowed" : checked.error().text;
  };
  EXPECT_THAT(error_of({.workers = 33}), HasSubstr("workers=33; allowed: 1 to 32"));
  EXPECT_THAT(error_of({.workers = 0}), HasSubstr("workers=0; allowed: 1 to 32"));
  EXPECT_THAT(error_of({.elements = 128}), HasSubstr("elements=128; allowed: 64 or 256"));
  EXPECT_THAT(error_of({.slots = 513}), HasSubstr("slots=513; allowed: 1 to 512"));
  EXPECT_EQ(error_of({.workers = 32, .elements = 256, .slots = 512}), "allowed");
  EXPECT_THAT(check(ShardConfig{.sessions_max = 65}).error().text,
              HasSubstr("sessions=65; allowed: 1 to 64"));
  EXPECT_THAT(check(ShardConfig{.slots_max = 16'385}).error().text,
              HasSubstr("slots=16385; allowed: 1 to 16384"));
  EXPECT_THAT(bed_.shard().set_worker(0, 2, stranger()).error().text,
              HasSubstr("rank=2; allowed: 0 to 1"));
  EXPECT_THAT(bed_.shard().set_worker(0, 1, worker(0)).error().text,
              HasSubstr("rank=1: its address belongs to worker 0 of the same session"));
  bed_.shard().begin_session(1, {.workers = 1, .slots = 8});
  EXPECT_THAT(bed_.shard().set_worker(1, 0, worker(1)).error().text,
              HasSubstr("rank=0: its address belongs to worker 1 of another session"));
  // The address is free after that session's end.
  bed_.shard().end_session(0);
  EXPECT_TRUE(bed_.shard().set_worker(1, 0, worker(1)).has_value());
}

TEST(SwitchmlFrames, FramesAreReadOrRefusedByName) {
  Bed bed({.layer = engine::PacketLayer::kFrame});
  const auto framed = [](const Packet& packet, const Endpoint& from, uint16_t port) {
    const Bytes payload = wire::switchml_payload(packet);
    Bytes frame(payload.size() + io::kUdpFrameHeaderBytesIpv6);
    frame.resize(io::build_udp_frame({.source_mac = {},
                                      .destination_mac = {},
                                      .source = from,
                                      .destination = Endpoint::ipv4(0x0a0000fe, port)},
                                     payload, frame));
    return frame;
  };
  const auto give = [&bed](const Bytes& frame) {
    bed.inject_raw(frame);
    bed.run();
    return bed.take().size();
  };
  EXPECT_EQ(give(framed(packet(0, false, 1, 1), worker(0), 0xbee0)), 0U);
  EXPECT_EQ(give(framed(packet(0, false, 1, 1), worker(1), 0xbef0)), 0U);
  EXPECT_EQ(give(framed(packet(0, false, 1, 1), worker(1), 0xbeef)), 2U);  // 16 ports are served.
  Bytes frame = framed(packet(0, true, 1, 1), worker(1), 0xbee0);
  frame[12] = std::byte{0x86};  // EtherType 0x8600.
  EXPECT_EQ(give(frame), 0U);
  frame = framed(packet(0, true, 1, 1), worker(1), 0xbee0);
  frame[20] = std::byte{0x20};  // More fragments.
  EXPECT_EQ(give(frame), 0U);
  const Counts counts = bed.counts();
  EXPECT_EQ(counts.at("wrong_port"), 1U);
  EXPECT_EQ(counts.at("not_ip"), 1U);
  EXPECT_EQ(counts.at("fragment"), 1U);
  EXPECT_EQ(counts.at("aggregated"), 2U);
}

TEST_F(SwitchmlRefusals, RandomChangesNeverStopTheProgram) {
  const uint64_t seed = tributary::testing::seed_from_env();
  SCOPED_TRACE(tributary::testing::replay_hint(seed));
  tributary::testing::Prng prng(seed);
  uint64_t injected = 0;
  for (uint32_t step = 0; step < 20'000; step++) {
    Bytes payload = wire::switchml_payload(packet(prng.below(10), prng.chance(0.5), prng.below(3),
                                                  prng.any_i32(), prng.chance(0.1) ? 256 : 64));
    if (prng.chance(0.3)) payload[prng.below(10)] = static_cast<std::byte>(prng.below(256));
    if (prng.chance(0.1)) payload.resize(prng.below(static_cast<uint32_t>(payload.size()) + 9));
    bed_.inject(payload, prng.chance(0.05) ? stranger() : worker(prng.below(2)));
    injected++;
    if (prng.chance(0.1)) bed_.run();
    bed_.take();
  }
  bed_.run();
  // Every packet has one outcome.
  Counts counts = bed_.counts();
  uint64_t outcomes = 0;
  for (const auto& [name, packets] : counts) {
    const bool extra =
        name == "slot_completed" || name == "result_sent" || name == "slot_restarted";
    if (!extra) outcomes += packets;
  }
  EXPECT_EQ(outcomes, injected + 1);
}

}  // namespace
}  // namespace tributary::switchml
