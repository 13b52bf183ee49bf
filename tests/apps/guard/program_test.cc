// SPDX-License-Identifier: Apache-2.0
// Method: each path of a packet by hand on the live machine: levels, actions, allow-list, dry run,
// recovery, timeout, expiry and full stores. Then random packets on the suspending machine, where
// threads and timers interleave: each packet must have exactly one outcome.
#include "apps/guard/program.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/apps/guard/bed.h"
#include "tests/engine/step_machine.h"
#include "tests/support/seed.h"

namespace tributary::guard {
namespace {

using apps::Counts;

TEST(GuardProgram, ForwardsQuietTraffic) {
  Bed bed;
  EXPECT_EQ(bed.send_steadily(at(Duration()), at(seconds(10)), 50, syn_from("192.0.2.1")), 500U);
  EXPECT_EQ(bed.counts(), (Counts{{"forwarded", 500}}));
  EXPECT_EQ(bed.state().suspect_count(), 0U);  // No violation, no records of sources.
}

TEST(GuardProgram, CountsMisfits) {
  Bed bed;
  const BuiltFrame good = syn_from("192.0.2.1");
  EXPECT_FALSE(bed.send(at(Duration()), good.span(), engine::PacketLayer::kUdpPayload));
  EXPECT_FALSE(bed.send(at(Duration()), good.span().first(20)));
  BuiltFrame bad = good;
  bad.bytes[14] = std::byte{0x65};  // Version 6 in IPv4.
  EXPECT_FALSE(bed.send(at(Duration()), bad));
  BuiltFrame arp = good;
  arp.bytes[13] = std::byte{6};
  EXPECT_TRUE(bed.send(at(Duration()), arp));
  EXPECT_EQ(bed.counts(),
            (Counts{{"not_frame", 1}, {"truncated", 1}, {"bad_ip_header", 1}, {"not_ip", 1}}));
}

TEST(GuardProgram, DropsACulpritSource) {
  Bed bed(tight());
  // 100 SYNs/s of one source, above all three bandwidths. The source's level acts first.
  bed.send_steadily(at(Duration()), at(seconds(6)), 100, syn_from("192.0.2.1"));
  const auto culprits = bed.state().report().culprits();
  ASSERT_EQ(culprits.size(), 1U);
  EXPECT_EQ(culprits[0].level, Level::kSource);
  EXPECT_EQ(culprits[0].source, Endpoint::parse("192.0.2.1:1")->address);
  EXPECT_EQ(culprits[0].source_bits, 128U);
  EXPECT_GE(culprits[0].detected_at, at(seconds(3)));
  EXPECT_LE(culprits[0].detected_at, at(milliseconds(3'500)));
  EXPECT_NEAR(static_cast<double>(culprits[0].pps_max), 100, 4);
  EXPECT_EQ(bed.count(Outcome::kViolation), 1U);
  EXPECT_EQ(bed.count(Outcome::kDetected), 1U);
  EXPECT_EQ(bed.count(Outcome::kDroppedSource) + bed.count(Outcome::kForwarded), 600U);
  EXPECT_GE(bed.count(Outcome::kDroppedSource), 250U);
  // A neighbour is not concerned.
  EXPECT_TRUE(bed.send(at(seconds(6)), syn_from("192.0.2.2")));
}

/// Sends UDP packets of a loud source and of a quiet one of another network to the same
/// destination.
/// @return how many of the quiet one's packets were dropped.
uint64_t quiet_drops(Bed& bed, uint32_t loud_pps, Duration length) {
  const BuiltFrame loud = udp_frame("10.0.0.1:1000", kServer);
  const BuiltFrame quiet = udp_frame("192.0.2.1:1000", kServer);
  constexpr Duration kQuietGap = milliseconds(50);
  uint64_t drops = 0;
  Instant next_quiet = at(milliseconds(7));
  for (Instant now = at(Duration()); now < at(length); now = now + seconds(1) / loud_pps) {
    for (; next_quiet <= now; next_quiet = next_quiet + kQuietGap) {
      drops += bed.send(next_quiet, quiet) ? 0 : 1;
    }
    static_cast<void>(bed.send(now, loud));
  }
  return drops;
}

TEST(GuardProgram, ASourceBarelyAboveTheDestinationsBandwidthIsTheOnlyCulprit) {
  GuardConfig config = small_config();
  for (size_t level = 0; level < kLevelCount; level++) config.levels[level].pps.fill(250U << level);
  // The policer of the destination, of 1000 pps, has a burst of 100 packets: it is violated after
  // 100 packets/(loud_pps - 1000).
  for (const uint32_t loud_pps : {1'030U, 1'050U, 1'080U, 1'120U, 1'200U, 2'000U}) {
    SCOPED_TRACE(loud_pps);
    Bed bed(config);
    EXPECT_EQ(quiet_drops(bed, loud_pps, seconds(9)), 0U);
    const auto culprits = bed.state().report().culprits();
    ASSERT_EQ(culprits.size(), 1U);
    EXPECT_EQ(culprits[0].level, Level::kSource);
    EXPECT_GT(culprits[0].dropped, 1'000U);
  }
}

TEST(GuardProgram, DropsACulpritNetwork) {
  GuardConfig config = tight();
  config.levels[2].pps.fill(60);
  Bed bed(config);
  // 100 SYNs/s of 50 sources in one /24: 2 of each, and the network's level explains all.
  flood(bed, at(Duration()), at(seconds(6)), 100, 50);
  const auto culprits = bed.state().report().culprits();
  ASSERT_EQ(culprits.size(), 1U);
  EXPECT_EQ(culprits[0].level, Level::kNetwork);
  EXPECT_EQ(culprits[0].source, Endpoint::parse("192.0.2.0:1")->address);
  EXPECT_EQ(culprits[0].source_bits, 120U);
  EXPECT_GE(bed.count(Outcome::kDroppedNetwork), 150U);
  EXPECT_TRUE(bed.send(at(seconds(6)), syn_from("192.0.3.1")));
  EXPECT_FALSE(bed.send(at(seconds(6)), syn_from("192.0.2.200")));
}

TEST(GuardProgram, DropsUnknownSourcesAtACulpritDestination) {
  GuardConfig config = tight();
  config.levels[0].pps.fill(1'000);
  config.levels[1].pps.fill(1'000);
  Bed bed(config);
  // A client completes a handshake, then a flood of SYNs begins.
  EXPECT_TRUE(bed.send(at(Duration()), syn_from("203.0.113.1")));
  EXPECT_TRUE(bed.send(at(milliseconds(50)), ack_from("203.0.113.1")));
  EXPECT_EQ(bed.count(Outcome::kSourceKnown), 1U);
  flood(bed, at(milliseconds(100)), at(seconds(6)), 100, 250);
  const auto culprits = bed.state().report().culprits();
  ASSERT_EQ(culprits.size(), 1U);
  EXPECT_EQ(culprits[0].level, Level::kDestination);
  EXPECT_EQ(culprits[0].source_bits, 0U);
  EXPECT_GE(bed.count(Outcome::kDroppedDestination), 150U);

  EXPECT_TRUE(bed.send(at(seconds(6)), syn_from("203.0.113.1")));   // Known.
  EXPECT_FALSE(bed.send(at(seconds(6)), syn_from("203.0.113.2")));  // Not known.
  EXPECT_TRUE(bed.send(at(seconds(6)), ack_from("203.0.113.2")));   // Another kind.
  EXPECT_TRUE(
      bed.send(at(seconds(6)), tcp_frame("203.0.113.2:1000", "198.18.0.2:443", wire::kTcpSyn)));
}

TEST(GuardProgram, CompletedHandshakesExplainAFlashCrowd) {
  GuardConfig config = tight();
  config.levels[2].pps.fill(40);
  Bed bed(config);
  // 200 new clients per second for 10 s, each of which completes its handshake 20 ms later.
  const auto client = [](uint32_t i) {
    return "10." + std::to_string(i % 250) + "." + std::to_string(i / 250) + ".1";
  };
  constexpr uint32_t kClients = 2'000;
  for (uint32_t i = 0; i < kClients + 4; i++) {
    const Instant now = at(milliseconds(5) * i);
    if (i < kClients) {
      EXPECT_TRUE(bed.send(now, syn_from(client(i))));
    }
    if (i >= 4) {
      EXPECT_TRUE(bed.send(now, ack_from(client(i - 4))));
    }
  }
  EXPECT_EQ(bed.count(Outcome::kSourceKnown), kClients);
  EXPECT_EQ(bed.count(Outcome::kDetected), 0U);
  EXPECT_GE(bed.count(Outcome::kViolation), 1U);
  EXPECT_EQ(bed.count(Outcome::kForwarded), 2 * kClients);
}

TEST(GuardProgram, ParallelConnectionsOfRealClientsDoNotCount) {
  GuardConfig config = tight();
  for (LevelConfig& level : config.levels) {
    level.pps[static_cast<size_t>(PacketKind::kTcp)] = 1'000;
  }
  Bed bed(config);
  // A hundred clients behind one address open a connection each, again and again: 100 SYNs/s, all
  // of which complete, some of them while the address is not known yet.
  const auto frame = [](uint32_t i, uint32_t flags) {
    const std::string source = "192.0.2.1:" + std::to_string(1'000 + i % 5'000);
    return tcp_frame(source.c_str(), kServer, flags);
  };
  constexpr uint32_t kConnections = 1'000;
  for (uint32_t i = 0; i < kConnections + 6; i++) {
    const Instant now = at(milliseconds(10) * i);
    if (i < kConnections) {
      EXPECT_TRUE(bed.send(now, frame(i, wire::kTcpSyn)));
    }
    if (i >= 6) {
      EXPECT_TRUE(bed.send(now, frame(i - 6, wire::kTcpAck)));
    }
  }
  EXPECT_EQ(bed.count(Outcome::kDetected), 0U);
  EXPECT_GE(bed.count(Outcome::kViolation), 1U);
}

TEST(GuardProgram, SixConnectionsOfEachClientDoNotMakeAFlood) {
  Bed bed(tight());
  // Like browsers: 20 new clients per second open six connections each at the same time.
  const auto frame = [](uint32_t client, uint32_t connection, uint32_t flags) {
    const std::string source =
        "10." + std::to_string(client) + ".0.1:" + std::to_string(2'000 + connection);
    return tcp_frame(source.c_str(), kServer, flags);
  };
  for (uint32_t client = 0; client < 200; client++) {
    const Instant now = at(milliseconds(50) * client);
    for (uint32_t i = 0; i < 6; i++) EXPECT_TRUE(bed.send(now, frame(client, i, wire::kTcpSyn)));
    for (uint32_t i = 0; i < 6; i++) {
      EXPECT_TRUE(bed.send(now + milliseconds(20), frame(client, i, wire::kTcpAck)));
    }
  }
  EXPECT_EQ(bed.count(Outcome::kDetected), 0U);
  EXPECT_GE(bed.count(Outcome::kViolation), 1U);
}

TEST(GuardProgram, PolicesACulprit) {
  GuardConfig config = tight();
  config.levels[0].action = Action::kPolice;
  Bed bed(config);
  const BuiltFrame syn = syn_from("192.0.2.1");
  bed.send_steadily(at(Duration()), at(seconds(4)), 100, syn);
  const uint64_t forwarded = bed.send_steadily(at(seconds(4)), at(seconds(14)), 100, syn);
  EXPECT_NEAR(static_cast<double>(forwarded), 100, 2);  // 10 s at 10 pps.
  EXPECT_GE(bed.count(Outcome::kPoliced), forwarded);
}

TEST(GuardProgram, KeepsAndReportsACulprit) {
  GuardConfig config = tight();
  for (LevelConfig& level : config.levels) level.action = Action::kKeep;
  Bed bed(config);
  EXPECT_EQ(bed.send_steadily(at(Duration()), at(seconds(6)), 100, syn_from("192.0.2.1")), 600U);
  EXPECT_GE(bed.count(Outcome::kKept), 250U);
  EXPECT_GE(bed.state().report().culprits().size(), 1U);
}

TEST(GuardProgram, DryRunForwardsAndCounts) {
  GuardConfig config = tight();
  config.dry_run = true;
  Bed bed(config);
  EXPECT_EQ(bed.send_steadily(at(Duration()), at(seconds(6)), 100, syn_from("192.0.2.1")), 600U);
  EXPECT_GE(bed.count(Outcome::kWouldDrop), 250U);
  EXPECT_EQ(bed.count(Outcome::kDroppedSource), 0U);
  const Culprit culprit = bed.state().report().culprits()[0];
  EXPECT_GE(culprit.dropped, 200U);
  EXPECT_THAT(to_text(culprit), ::testing::HasSubstr("packets would be dropped"));
}

TEST(GuardProgram, DryRunLearnsNothingFromPacketsThatItWouldDrop) {
  GuardConfig config = tight();
  config.levels[0].pps.fill(1'000);
  config.levels[1].pps.fill(1'000);
  config.dry_run = true;
  Bed bed(config);
  flood(bed, at(milliseconds(100)), at(seconds(6)), 100, 250);  // Makes the destination a culprit.
  const uint64_t would_drop = bed.count(Outcome::kWouldDrop);
  EXPECT_TRUE(bed.send(at(seconds(6)), syn_from("203.0.113.2")));
  EXPECT_EQ(bed.count(Outcome::kWouldDrop), would_drop + 1);
  // A dropped SYN would have opened no handshake that this packet completes.
  EXPECT_TRUE(bed.send(at(seconds(6) + milliseconds(50)), ack_from("203.0.113.2")));
  EXPECT_EQ(bed.count(Outcome::kSourceKnown), 0U);
}

TEST(GuardProgram, DryRunForwardsBrokenHeaders) {
  GuardConfig config = tight();
  config.dry_run = true;
  Bed bed(config);
  BuiltFrame bad = syn_from("192.0.2.1");
  EXPECT_TRUE(bed.send(at(Duration()), bad.span().first(20)));
  bad.bytes[14] = std::byte{0x65};  // Version 6 in IPv4.
  EXPECT_TRUE(bed.send(at(Duration()), bad));
  EXPECT_EQ(bed.counts(), (Counts{{"would_drop", 2}}));
}

TEST(GuardProgram, AllowedSourcesAreNeverJudged) {
  GuardConfig config = tight();
  config.allowed = {{.address = Endpoint::parse("192.0.2.0:1")->address, .bits = 120}};
  Bed bed(config);
  EXPECT_EQ(bed.send_steadily(at(Duration()), at(seconds(6)), 100, syn_from("192.0.2.1")), 600U);
  EXPECT_EQ(bed.counts(), (Counts{{"allowed", 600}}));
}

TEST(GuardProgram, RecoversAndExpires) {
  Bed bed(tight());
  const BuiltFrame syn = syn_from("192.0.2.1");
  bed.send_steadily(at(Duration()), at(seconds(5)), 100, syn);
  EXPECT_FALSE(bed.send(at(seconds(5)), syn));
  bed.advance(at(seconds(64)));
  EXPECT_FALSE(bed.send(at(seconds(64)), syn));  // A culprit until 60 s below its bandwidth.
  bed.advance(at(seconds(67)));
  EXPECT_TRUE(bed.send(at(seconds(67)), syn));
  EXPECT_EQ(bed.count(Outcome::kRecovered), 1U);
  const auto culprits = bed.state().report().culprits();
  ASSERT_EQ(culprits.size(), 1U);
  EXPECT_EQ(culprits[0].end, Change::kRecovered);
  EXPECT_GE(culprits[0].ended_at, at(seconds(65)));
  bed.advance(at(seconds(80)));
  EXPECT_EQ(bed.state().suspect_count(), 0U);
  EXPECT_EQ(bed.state().destination_count(), 0U);
  EXPECT_GE(bed.count(Outcome::kExpired), 3U);
}

TEST(GuardProgram, TimesOutIfAskedTo) {
  GuardConfig config = tight();
  config.timeout_active = true;
  config.timeout_time = seconds(5);
  Bed bed(config);
  bed.send_steadily(at(Duration()), at(seconds(10)), 100, syn_from("192.0.2.1"));
  EXPECT_EQ(bed.count(Outcome::kTimedOut), 1U);
  EXPECT_EQ(bed.state().report().culprits()[0].end, Change::kTimedOut);
}

TEST(GuardProgram, TheDestinationIsNoCulpritWhenASourceTimesOut) {
  GuardConfig config = small_config();
  config.levels[static_cast<size_t>(Level::kDestination)].pps.fill(500);
  config.timeout_active = true;
  config.timeout_time = seconds(3);
  Bed bed(config);
  EXPECT_EQ(quiet_drops(bed, 1'000, seconds(15)), 0U);
  EXPECT_EQ(bed.count(Outcome::kTimedOut), 2U);
  for (const Culprit& culprit : bed.state().report().culprits()) {
    EXPECT_EQ(culprit.level, Level::kSource);
  }
}

TEST(GuardProgram, FullStoresAreOutcomes) {
  GuardConfig config = tight();
  config.destinations_max = 64;
  config.suspects_max = 64;
  Bed bed(config);
  for (int i = 0; i < 200; i++) {
    const std::string to = "198.18.1." + std::to_string(i) + ":443";
    EXPECT_TRUE(bed.send(at(Duration()), tcp_frame("192.0.2.1:1", to.c_str(), wire::kTcpSyn)));
  }
  EXPECT_EQ(bed.count(Outcome::kDestinationUntracked), 200U - 64);
  bed.advance(at(seconds(1)));
  EXPECT_EQ(bed.state().destination_count(), 0U);
  flood(bed, at(seconds(1)), at(seconds(2)), 1'000, 250);
  EXPECT_EQ(bed.state().suspect_count(), 64U);
  EXPECT_GT(bed.count(Outcome::kSuspectUntracked), 0U);
}

TEST(GuardState, RefusesBadSettingsAndFullMemory) {
  auto memory = bed_memory();
  GuardConfig config = small_config();
  config.report_max = 0;
  EXPECT_FALSE(GuardState::create(memory, config, Instant()));
  config = small_config();
  config.known_bits_log2 = 34;
  const auto refused = GuardState::create(memory, config, Instant());
  ASSERT_FALSE(refused);
  EXPECT_FALSE(refused.error().text.empty());
}

TEST(GuardProgram, InterleavedThreadsGiveEachPacketOneOutcome) {
  const uint64_t seed = testing::seed_from_env();
  SCOPED_TRACE(testing::replay_hint(seed));
  Prng prng(seed);
  auto memory = bed_memory();
  GuardConfig config = tight();
  config.suspects_max = 64;
  config.detect_time = seconds(1);
  const auto state = *GuardState::create(memory, config, Instant());
  App app(*state);
  testing::StepMachine m({.seed = prng.any_u64(), .thread_count = 64});
  constexpr uint64_t kPackets = 20'000;
  Instant now;
  for (uint64_t i = 0; i < kPackets; i++) {
    now = now + microseconds(prng.below(1'000));
    m.set_now(now);
    while (m.threads_active() > 20) m.step();
    if (app.next_due() <= now) {
      m.run();  // Room for the timers' threads.
      m.start_timer([&](testing::StepMachine& machine) { app.run_timers(machine, now); });
    }
    const std::string host = "192.0.2." + std::to_string(prng.below(200));
    // Few segments complete a handshake; the others come from a port without a SYN.
    const BuiltFrame frame = prng.chance(0.7) ? syn_from(host)
                             : prng.chance(0.02)
                                 ? ack_from(host)
                                 : tcp_frame((host + ":2000").c_str(), kServer, wire::kTcpAck);
    m.start(
        frame.span().first(prng.chance(0.99) ? frame.size : prng.below(frame.size)), Endpoint{},
        [&](testing::StepMachine& machine) { app.process(machine); }, engine::PacketLayer::kFrame);
  }
  m.run();
  uint64_t forwarded = 0;
  uint64_t total = 0;
  for (uint32_t i = 0; i < static_cast<uint32_t>(Outcome::kViolation); i++) {
    const uint64_t packets = state->counters()[i].packets;
    total += packets;
    if (i <= static_cast<uint32_t>(Outcome::kNotIp)) forwarded += packets;
  }
  EXPECT_EQ(total, kPackets);
  EXPECT_EQ(m.forwarded().size(), forwarded);
  EXPECT_EQ(m.consumed(), 0U);
  // 10 s of 1,400 SYNs/s at a destination that allows 40: it must have been found.
  EXPECT_GT(state->counters()[static_cast<size_t>(Outcome::kDetected)].packets, 0U);
  EXPECT_LT(forwarded, kPackets * 6 / 10);
  EXPECT_LE(state->suspect_count(), 64U);
}

}  // namespace
}  // namespace tributary::guard
