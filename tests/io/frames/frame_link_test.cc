// SPDX-License-Identifier: Apache-2.0
// Method: two links exchange frames without a wire, in the test's own time. Then floods and
// refusals. Then random and damaged frames, which must be counted and have no other effect.
#include "io/frames/frame_link.h"

#include <gtest/gtest.h>

#include "io/frames/link_headers.h"
#include "tests/io/frames/link_bed.h"
#include "tests/support/seed.h"

namespace tributary::io {
namespace {

const Instant kStart(seconds(100));
const Bytes kPayload = from_hex("01 02 03");

FrameLinkConfig config_of(const Endpoint& local, const MacAddress& mac, uint32_t devices = 1) {
  FrameLinkConfig config;
  config.local = local;
  config.prefix_bits = local.is_ipv4() ? 24 : 64;
  for (uint32_t i = 0; i < devices; i++) {
    config.devices.push_back({.mac = mac});
    config.devices.back().mac[4] = static_cast<uint8_t>(i);
  }
  return config;
}

/// A link with its table and a reply buffer.
struct Host {
  explicit Host(const FrameLinkConfig& config) : table(100), link(config, table), reply(2000) {}
  /// Makes a second queue of `other`'s port.
  Host(const FrameLinkConfig& config, Host& other)
      : table(1), link(config, other.table), reply(2000) {}

  Arrival take(const Bytes& frame, Instant now = kStart, uint32_t device = 0) {
    const Arrival arrival = link.receive(frame, device, {}, now, reply);
    answer.assign(reply.begin(), reply.begin() + arrival.reply_bytes);
    return arrival;
  }
  /// Returns the link's next own frame; empty for none.
  Bytes own(Instant now, uint32_t* device = nullptr) {
    Bytes out(kLinkFrameBytesMax);
    const OwnFrame frame = link.next_frame(out, now);
    out.resize(frame.bytes);
    if (device != nullptr) *device = frame.device;
    return out;
  }

  NeighbourTable table;
  FrameLink link;
  Bytes reply;
  Bytes answer;
};

void two_hosts_find_each_other(const Endpoint& here, const Endpoint& there) {
  Host asker(config_of(here, kOurMac));
  Host asked(config_of(there, kTheirMac));
  EXPECT_FALSE(asker.link.route(there, kStart).has_value());
  EXPECT_EQ(asker.link.unresolved(), 1U);
  EXPECT_EQ(asker.link.next_due(), kStart);

  const Bytes question = asker.own(kStart);
  EXPECT_EQ(asked.take(question).outcome,
            here.is_ipv4() ? FrameOutcome::kArpAnswered : FrameOutcome::kNeighbourAnswered);
  EXPECT_EQ(asked.table.size(), 0U);  // A question teaches nothing.
  EXPECT_EQ(asker.take(asked.answer).outcome, FrameOutcome::kNeighbourLearned);
  EXPECT_EQ(asker.link.next_due(), Instant::never());
  const auto hop = asker.link.route(there, kStart);
  ASSERT_TRUE(hop.has_value());
  EXPECT_EQ(hop->mac, kTheirMac);

  Bytes frame(200);
  frame.resize(build_udp_frame(asker.link.addresses(*hop, there), kPayload, frame));
  const Arrival arrival = asked.take(frame);
  EXPECT_EQ(arrival.outcome, FrameOutcome::kDelivered);
  EXPECT_EQ(arrival.source, here);
  EXPECT_EQ(Bytes(frame.begin() + arrival.offset, frame.end()), kPayload);
  EXPECT_EQ(asked.link.route(here, kStart)->mac, kOurMac);  // A datagram does.
}

TEST(FrameLink, TwoHostsFindEachOther) { two_hosts_find_each_other(kOurs, kTheirs); }
TEST(FrameLink, TwoHostsFindEachOtherOverIpv6) { two_hosts_find_each_other(kOurs6, kTheirs6); }

TEST(FrameLink, DoesNotAskForAddressesOfTheOtherFamily) {
  // The host's prefix is longer than 32 bits, and its first 32 bits equal the IPv4 address.
  Host host(config_of(*Endpoint::parse("[fd00::a00:1]:12000"), kOurMac));
  EXPECT_FALSE(host.link.route(kOurs, kStart).has_value());
  EXPECT_EQ(host.link.unresolved(), 1U);
  EXPECT_EQ(host.link.next_due(), Instant::never());
}

TEST(FrameLink, UnansweredQuestionIsRepeatedThenDropped) {
  Host host(config_of(kOurs, kOurMac));
  EXPECT_FALSE(host.link.route(kTheirs, kStart).has_value());
  for (uint32_t i = 0; i < kQuestionsPerAddress; i++) {
    const Instant due = kStart + kQuestionEvery * i;
    EXPECT_EQ(host.link.next_due(), due);
    EXPECT_TRUE(host.own(due - nanoseconds(1)).empty());
    EXPECT_FALSE(host.own(due).empty());
    EXPECT_TRUE(host.own(due).empty());
    EXPECT_EQ(host.link.unanswered(), 0U);
  }
  // The link accepts an answer to the last question until this time.
  const Instant end = kStart + kQuestionEvery * kQuestionsPerAddress;
  EXPECT_EQ(host.link.next_due(), end);
  EXPECT_TRUE(host.own(end).empty());
  EXPECT_EQ(host.link.unanswered(), 1U);
  EXPECT_EQ(host.link.neighbours_lost(), 0U);
  EXPECT_EQ(host.link.next_due(), Instant::never());
  EXPECT_FALSE(host.link.route(kTheirs, end).has_value());
  EXPECT_NE(host.link.next_due(), Instant::never());  // The next packet starts over.
}

TEST(FrameLink, AnotherQueueMayReceiveTheAnswer) {
  const FrameLinkConfig config = config_of(kOurs, kOurMac);
  Host asker(config);
  Host beside(config, asker);
  Host asked(config_of(kTheirs, kTheirMac));
  EXPECT_FALSE(asker.link.route(kTheirs, kStart).has_value());
  EXPECT_FALSE(beside.link.route(kTheirs, kStart).has_value());
  EXPECT_EQ(beside.link.next_due(), Instant::never());  // Another queue asks already.
  static_cast<void>(asked.take(asker.own(kStart)));
  EXPECT_EQ(beside.take(asked.answer).outcome, FrameOutcome::kNeighbourLearned);
  EXPECT_TRUE(asker.link.route(kTheirs, kStart).has_value());
  EXPECT_TRUE(beside.link.route(kTheirs, kStart).has_value());
  // The asker learns of the answer when it is about to ask again; no question stays open.
  EXPECT_TRUE(asker.own(kStart + kQuestionEvery).empty());
  EXPECT_EQ(asker.link.next_due(), Instant::never());
  EXPECT_EQ(asker.link.unanswered(), 0U);
  EXPECT_EQ(beside.take(asked.answer).outcome, FrameOutcome::kNotOurs);
}

/// Lets the host receive a datagram from `there` at kStart.
void hear(Host& host, const Endpoint& there, const Endpoint& here) {
  EXPECT_EQ(host.take(datagram(there, here, kPayload)).outcome, FrameOutcome::kDelivered);
}

void silent_neighbour_gets_a_unicast_question(const Endpoint& here, const Endpoint& there) {
  Host host(config_of(here, kOurMac));
  Host asked(config_of(there, kTheirMac));
  hear(host, there, here);
  const Instant later = kStart + kReachableFor;
  EXPECT_TRUE(host.link.route(there, later - nanoseconds(1)).has_value());
  EXPECT_EQ(host.link.next_due(), Instant::never());
  EXPECT_TRUE(host.link.route(there, later).has_value());  // Packets still go to the neighbour.
  EXPECT_EQ(host.link.unresolved(), 0U);
  const Bytes probe = host.own(later);
  ASSERT_GT(probe.size(), 6U);
  EXPECT_TRUE(std::equal(probe.begin(), probe.begin() + 6,
                         std::as_bytes(std::span(kTheirMac)).begin()));  // To this host only.
  EXPECT_GT(asked.take(probe, later).reply_bytes, 0U);
  EXPECT_EQ(host.take(asked.answer, later).outcome, FrameOutcome::kNeighbourLearned);
  EXPECT_TRUE(host.link.route(there, later + kReachableFor - nanoseconds(1)).has_value());
  EXPECT_EQ(host.link.next_due(), Instant::never());
}

TEST(FrameLink, SilentNeighbourGetsAUnicastQuestion) {
  silent_neighbour_gets_a_unicast_question(kOurs, kTheirs);
}
TEST(FrameLink, SilentNeighbourGetsAUnicastQuestionOverIpv6) {
  silent_neighbour_gets_a_unicast_question(kOurs6, kTheirs6);
}

TEST(FrameLink, NeighbourWithoutAnAnswerIsForgottenAndCounted) {
  Host host(config_of(kOurs, kOurMac, 2));
  hear(host, kTheirs, kOurs);
  Instant now = kStart + kReachableFor;
  EXPECT_TRUE(host.link.route(kTheirs, now).has_value());
  for (uint32_t i = 0; i < kQuestionsPerAddress; i++, now = now + kQuestionEvery) {
    uint32_t device = 9;
    EXPECT_FALSE(host.own(now, &device).empty());
    EXPECT_EQ(device, 0U);  // The device of the neighbour, and no other.
    EXPECT_TRUE(host.own(now).empty());
    EXPECT_TRUE(host.link.route(kTheirs, now).has_value());
  }
  EXPECT_TRUE(host.own(now).empty());
  EXPECT_EQ(host.link.neighbours_lost(), 1U);
  EXPECT_EQ(host.link.unanswered(), 0U);
  EXPECT_EQ(host.table.size(), 0U);
  EXPECT_FALSE(host.link.route(kTheirs, now).has_value());  // The link asks all hosts.
  EXPECT_EQ(host.own(now)[0], std::byte{0xff});
}

TEST(FrameLink, PacketFromTheNeighbourEndsTheQuestion) {
  Host host(config_of(kOurs, kOurMac));
  hear(host, kTheirs, kOurs);
  const Instant later = kStart + kReachableFor;
  EXPECT_TRUE(host.link.route(kTheirs, later).has_value());
  EXPECT_FALSE(host.own(later).empty());
  EXPECT_EQ(host.take(datagram(kTheirs, kOurs, kPayload), later).outcome, FrameOutcome::kDelivered);
  EXPECT_TRUE(host.own(later + kQuestionEvery).empty());
  EXPECT_EQ(host.link.next_due(), Instant::never());
  EXPECT_EQ(host.link.neighbours_lost(), 0U);
}

TEST(FrameLink, EveryDeviceSendsTheQuestion) {
  Host host(config_of(kOurs, kOurMac, 3));
  EXPECT_FALSE(host.link.route(kTheirs, kStart).has_value());
  for (uint32_t i = 0; i < 3; i++) {
    uint32_t device = 9;
    const Bytes frame = host.own(kStart, &device);
    EXPECT_EQ(device, i);
    ASSERT_GE(frame.size(), 11U);
    EXPECT_EQ(frame[10], static_cast<std::byte>(i));  // With that device's MAC address.
  }
  EXPECT_TRUE(host.own(kStart).empty());
}

TEST(FrameLink, RoutesOtherNetworksThroughTheGateway) {
  FrameLinkConfig config = config_of(kOurs, kOurMac);
  config.gateway = Endpoint::ipv4(0x0a0000fe, 0);
  Host host(config);
  const Endpoint far = Endpoint::ipv4(0x0a000102, 5000);  // 10.0.1.2 is not in 10.0.0.0/24.
  EXPECT_FALSE(host.link.route(far, kStart).has_value());
  const Bytes question = host.own(kStart);
  EXPECT_EQ(ArpHeader::TargetAddress::load(question.data() + 14), 0x0a0000feU);
  // A reply takes the way that the datagram came.
  EXPECT_EQ(host.take(datagram(far, kOurs, kPayload)).outcome, FrameOutcome::kDelivered);
  EXPECT_EQ(host.link.route(far, kStart)->mac, kTheirMac);

  Host alone(config_of(kOurs, kOurMac));
  EXPECT_FALSE(alone.link.route(far, kStart).has_value());
  EXPECT_EQ(alone.link.next_due(), Instant::never());  // Nobody to ask.
}

TEST(FrameLink, StaleRemoteHostFallsBackToTheGateway) {
  constexpr MacAddress kGatewayMac{2, 0, 0, 0, 0, 0xfe};
  const Endpoint gateway = Endpoint::ipv4(0x0a0000fe, 5000);
  const Endpoint far = Endpoint::ipv4(0x0a000102, 5000);
  FrameLinkConfig config = config_of(kOurs, kOurMac);
  config.gateway = gateway;
  Host host(config);
  Host router(config_of(gateway, kGatewayMac));
  hear(host, far, kOurs);
  const Instant later = kStart + kReachableFor;
  EXPECT_EQ(host.link.route(far, later)->mac, kTheirMac);  // Until the gateway is found.
  EXPECT_GT(router.take(host.own(later), later).reply_bytes, 0U);
  EXPECT_EQ(host.take(router.answer, later).outcome, FrameOutcome::kNeighbourLearned);
  EXPECT_EQ(host.link.route(far, later + kStaleReportEvery)->mac, kGatewayMac);
  EXPECT_EQ(host.link.next_due(), Instant::never());
  // The gateway's time expires too, and it does not answer.
  Instant now = later + kStaleReportEvery + kReachableFor;
  EXPECT_TRUE(host.link.route(far, now).has_value());
  for (; host.link.next_due() != Instant::never(); now = host.link.next_due()) {
    static_cast<void>(host.own(now));
  }
  EXPECT_EQ(host.link.neighbours_lost(), 1U);

  Host alone(config_of(kOurs, kOurMac));  // Without a gateway there is no host to ask.
  hear(alone, far, kOurs);
  EXPECT_EQ(alone.link.route(far, kStart + kReachableFor * 100)->mac, kTheirMac);
  EXPECT_EQ(alone.link.next_due(), Instant::never());
}

TEST(FrameLink, UnsolicitedAnswersAreNotLearned) {
  Host host(config_of(kOurs, kOurMac));
  Bytes reply = from_hex(kArpRequest);
  reply[21] = std::byte{2};
  EXPECT_EQ(host.take(reply).outcome, FrameOutcome::kNotOurs);
  EXPECT_EQ(host.table.size(), 0U);
}

TEST(FrameLink, LinkWithAPeerDropsDatagramsFromOthers) {
  FrameLinkConfig config = config_of(kOurs, kOurMac);
  config.peer = kTheirs;
  Host host(config);
  EXPECT_EQ(host.take(datagram(kTheirs, kOurs, kPayload)).outcome, FrameOutcome::kDelivered);
  Endpoint other = kTheirs;
  other.port++;
  EXPECT_EQ(host.take(datagram(other, kOurs, kPayload)).outcome, FrameOutcome::kNotPeer);
  const Endpoint group = Endpoint::ipv4(0xef010203, 7000);
  ASSERT_TRUE(host.link.join(group, kStart));
  EXPECT_EQ(host.take(datagram(other, group, kPayload)).outcome, FrameOutcome::kDelivered);
}

TEST(FrameLink, AnswersAFloodOfArpUpToALimit) {
  Host host(config_of(kOurs, kOurMac));
  const Bytes request = from_hex(kArpRequest);
  for (uint32_t i = 0; i < 10'000; i++) static_cast<void>(host.take(request));
  EXPECT_EQ(host.link.counted(FrameOutcome::kArpAnswered), kAnswersAtOnce);
  EXPECT_EQ(host.link.counted(FrameOutcome::kLimited), 10'000 - kAnswersAtOnce);
  EXPECT_EQ(host.table.size(), 0U);
  // A quarter of a second later, 4096 / 4 answers are allowed, but not more than the limit.
  static_cast<void>(host.take(request, kStart + milliseconds(250)));
  EXPECT_EQ(host.link.counted(FrameOutcome::kArpAnswered), kAnswersAtOnce + 1);
  // Datagrams are not limited meanwhile.
  EXPECT_EQ(host.take(datagram(kTheirs, kOurs, kPayload)).outcome, FrameOutcome::kDelivered);
}

TEST(FrameLink, PingIsAnsweredAndCounted) {
  Host host(config_of(kOurs, kOurMac));
  EXPECT_EQ(host.take(from_hex(kPing)).outcome, FrameOutcome::kEchoAnswered);
  EXPECT_EQ(host.answer.size(), 44U);
  EXPECT_EQ(host.link.counted(FrameOutcome::kEchoAnswered), 1U);
}

TEST(FrameLink, ReportsGroupsTwiceAndUponQueries) {
  Host host(config_of(kOurs, kOurMac));
  const Endpoint group = Endpoint::ipv4(0xef010203, 7000);
  ASSERT_TRUE(host.link.join(group, kStart));
  ASSERT_TRUE(host.link.join(group, kStart));  // No error, and no second report.
  EXPECT_EQ(host.own(kStart).size(), 46U);
  EXPECT_TRUE(host.own(kStart).empty());
  EXPECT_EQ(host.own(kStart + kReportAgainAfter).size(), 46U);
  EXPECT_EQ(host.link.next_due(), Instant::never());

  const Instant later = kStart + seconds(60);
  EXPECT_EQ(host.take(from_hex(kIgmpQueryFrame), later).outcome, FrameOutcome::kGroupQuery);
  EXPECT_LE(host.link.next_due(), later + kReportAgainAfter);
  EXPECT_EQ(host.own(later + kReportAgainAfter).size(), 46U);
  EXPECT_EQ(host.take(datagram(kTheirs, group, kPayload)).outcome, FrameOutcome::kDelivered);

  host.link.leave_all(later);
  const Bytes leave = host.own(later);
  ASSERT_EQ(leave.size(), 46U);
  EXPECT_EQ(leave[38], std::byte{kIgmpLeave});
  EXPECT_EQ(host.take(datagram(kTheirs, group, kPayload)).outcome, FrameOutcome::kNotOurs);
}

TEST(FrameLink, RefusesBadAndTooManyGroups) {
  Host host(config_of(kOurs, kOurMac));
  EXPECT_FALSE(host.link.join(kTheirs, kStart));
  EXPECT_FALSE(host.link.join(Endpoint::ipv4(0xef010203, 0), kStart));
  EXPECT_FALSE(host.link.join(*Endpoint::parse("[ff05::1]:7000"), kStart));
  for (uint32_t i = 0; i < kGroupsMax; i++) {
    EXPECT_TRUE(host.link.join(Endpoint::ipv4(0xef010203 + i, 7000), kStart));
  }
  EXPECT_FALSE(host.link.join(Endpoint::ipv4(0xef020000, 7000), kStart));
}

/// Returns one of the good frames of link_bed.h.
Bytes good_frame(uint32_t which) {
  switch (which) {
    case 0:
      return datagram(kTheirs, kOurs, kPayload);
    case 1:
      return from_hex(kArpRequest);
    case 2:
      return from_hex(kPing);
    case 3:
      return from_hex(kIgmpQueryFrame);
    case 4:
      return from_hex(kSolicitation);
    default:
      return datagram(kTheirs6, kOurs6, kPayload);
  }
}

TEST(FrameLink, RandomFramesAreCountedOnceAndChangeNothing) {
  const uint64_t seed = testing::seed_from_env();
  SCOPED_TRACE(testing::replay_hint(seed));
  Prng prng(seed);
  Host four(config_of(kOurs, kOurMac));
  Host six(config_of(kOurs6, kOurMac));
  ASSERT_TRUE(four.link.join(Endpoint::ipv4(0xef010203, 7000), kStart));
  constexpr uint32_t kSteps = 40'000;
  for (uint32_t step = 0; step < kSteps; step++) {
    Bytes frame = good_frame(prng.below(6));
    for (uint32_t changes = prng.below(4); changes > 0; changes--) {
      frame[prng.below(static_cast<uint32_t>(frame.size()))] =
          static_cast<std::byte>(prng.any_u32());
    }
    // Shorter or longer, in memory of exactly that size, so that a sanitizer detects an overrun.
    if (prng.chance(0.3)) frame.resize(prng.below(120));
    const Bytes exact(frame);
    Host& host = prng.chance(0.5) ? four : six;
    const Instant now = kStart + milliseconds(step);
    const Arrival arrival = host.take(exact, now);
    ASSERT_LT(arrival.outcome, FrameOutcome::kCount);
    ASSERT_LE(arrival.reply_bytes, host.reply.size());
    if (arrival.outcome == FrameOutcome::kDelivered) {
      ASSERT_LE(arrival.offset + arrival.size, exact.size());
    }
    static_cast<void>(host.own(now));
  }
  uint64_t counted = 0;
  for (size_t i = 0; i < static_cast<size_t>(FrameOutcome::kCount); i++) {
    counted += four.link.counted(static_cast<FrameOutcome>(i));
    counted += six.link.counted(static_cast<FrameOutcome>(i));
  }
  EXPECT_EQ(counted, kSteps);
  EXPECT_LE(four.table.size(), 100U);
  EXPECT_GT(four.link.counted(FrameOutcome::kDelivered), 100U);
  EXPECT_GT(four.link.counted(FrameOutcome::kBadIpChecksum), 100U);
}

// The published SwitchML client sends reused packets with IPv4 checksum 0, and with a UDP checksum
// of the pseudo header alone, because it expects a network card to complete both.
TEST(FrameLink, LaxLinkTakesFramesWithUnfinishedChecksums) {
  FrameLinkConfig config = config_of(kOurs, kOurMac);
  Host strict(config);
  config.lax_checksums = true;
  Host lax(config);
  Bytes frame = datagram(kTheirs, kOurs, kPayload);
  store_be<uint16_t>(&frame[24], uint16_t{0});
  store_be<uint16_t>(&frame[40], uint16_t{0x1234});
  EXPECT_EQ(strict.take(frame).outcome, FrameOutcome::kBadIpChecksum);
  EXPECT_EQ(lax.take(frame).outcome, FrameOutcome::kDelivered);
  store_be<uint16_t>(&frame[24], uint16_t{0x1234});  // Damaged rather than absent.
  EXPECT_EQ(lax.take(frame).outcome, FrameOutcome::kBadIpChecksum);
}

TEST(FrameLink, PinsNeighboursOfItsNetworkOnly) {
  const FrameLinkConfig config = config_of(kOurs, kOurMac);
  Host host(config);
  const Endpoint far = Endpoint::ipv4(0x0a000102, 5000);
  pin_neighbour(host.table, config, kTheirs, number_of(kTheirMac));
  pin_neighbour(host.table, config, far, number_of(kTheirMac));
  pin_neighbour(host.table, config, Endpoint::ipv4(0x0a000003, 1), 0);
  pin_neighbour(host.table, config, Endpoint::ipv4(0x0a000004, 1), 0x0100'5e00'0001);
  EXPECT_EQ(host.table.size(), 1U);
  const auto hop = host.link.route(kTheirs, kStart + kReachableFor * 2);
  ASSERT_TRUE(hop.has_value());
  EXPECT_EQ(hop->mac, kTheirMac);
  EXPECT_TRUE(host.own(kStart + kReachableFor * 3).empty());  // It never asks.
}

}  // namespace
}  // namespace tributary::io
