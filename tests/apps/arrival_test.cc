// SPDX-License-Identifier: Apache-2.0
// Method: one good frame, changed in one place at a time. Each change has its own counter and no
// other effect: the block in progress then gets its right sum. Last, frames changed at random.
#include "apps/arrival.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

#include "io/frames/udp_frame.h"
#include "tests/apps/trio_ml/bed.h"
#include "tests/engine/step_machine.h"
#include "tests/support/seed.h"

namespace tributary::trio_ml {
namespace {

using engine::PacketLayer;

constexpr uint32_t kEthernetAt = 0;
constexpr uint32_t kIpAt = io::kEthernetHeaderBytes;
constexpr uint32_t kUdpAtIpv4 = kIpAt + io::kIpv4HeaderBytes;
constexpr uint32_t kUdpAtIpv6 = kIpAt + io::kIpv6HeaderBytes;

const Endpoint kWorkerIpv6 = Endpoint::parse("[fd00::1]:40001").value();
const Endpoint kServerIpv6 = Endpoint::parse("[fd00::64]:12000").value();

Bytes framed(const Bytes& payload, const Endpoint& from, const Endpoint& to) {
  Bytes frame(payload.size() + io::kUdpFrameHeaderBytesIpv6);
  frame.resize(io::build_udp_frame(
      {.source_mac = {}, .destination_mac = {}, .source = from, .destination = to}, payload,
      frame));
  return frame;
}
/// Source 1's contribution {10, 20} to block 3.
Bytes frame(const Endpoint& from, const Endpoint& to) {
  return framed(plain_bytes(1, 3, 0, {10, 20}), from, to);
}
Bytes frame_ipv4() { return frame(worker(1), BedConfig{}.local); }
Bytes frame_ipv6() { return frame(kWorkerIpv6, kServerIpv6); }

/// `frame` with the 16 bits at `offset` set to `value`.
Bytes with_u16(Bytes frame, uint32_t offset, uint16_t value) {
  store_be(frame.data() + offset, value);
  return frame;
}
Bytes with_u8(Bytes frame, uint32_t offset, uint8_t value) {
  frame[offset] = std::byte{value};
  return frame;
}
Bytes cut(Bytes frame, size_t size) {
  frame.resize(size);
  return frame;
}

/// A job of two sources whose block 3 holds source 0's {1, 2}.
class Arrivals : public ::testing::Test {
 protected:
  explicit Arrivals(const Endpoint& local = BedConfig{}.local)
      : bed_({.jobs = {{.id = 1, .sources = 2, .block_grad_max = 64}},
              .layer = PacketLayer::kFrame,
              .local = local}) {
    bed_.deliver(plain_bytes(0, 3, 0, {1, 2}), local.is_ipv4() ? worker(0) : kWorkerIpv6);
  }
  void refused(const Bytes& frame, Outcome reason) {
    SCOPED_TRACE(to_string(reason));
    expect_refused(
        bed_, [&] { bed_.inject_raw(frame); }, reason);
  }
  /// Expects that the good frame is accepted and the sum is right.
  void expect_sum(const Bytes& good) {
    bed_.inject_raw(good);
    bed_.run();
    const auto sent = bed_.take();
    ASSERT_EQ(sent.size(), 2U);
    EXPECT_EQ(sent[1].gradients, (Values{11, 22}));
  }
  Bed bed_;
};

class ArrivalsIpv6 : public Arrivals {
 protected:
  ArrivalsIpv6() : Arrivals(kServerIpv6) {}
};

TEST_F(Arrivals, AcceptsAGoodFrameAndAnswersItsSender) {
  bed_.inject_raw(frame_ipv4());
  bed_.run();
  const auto sent = bed_.take();
  ASSERT_EQ(sent.size(), 2U);
  EXPECT_EQ(sent[0].to, worker(0));
  EXPECT_EQ(sent[1].to, worker(1));
  EXPECT_EQ(sent[1].gradients, (Values{11, 22}));
}

TEST_F(Arrivals, IgnoresPaddingBehindTheIpPacket) {
  // Ethernet pads to 60 bytes; the UDP length gives the end of the message.
  Bytes padded = frame_ipv4();
  padded.resize(padded.size() + 9, std::byte{0xee});
  expect_sum(padded);
}

TEST_F(Arrivals, RefusesNonIpFrames) {
  refused(with_u16(frame_ipv4(), kEthernetAt + 12, 0x0806), Outcome::kNotIp);  // ARP.
  refused(with_u16(frame_ipv4(), kEthernetAt + 12, 0x8100), Outcome::kNotIp);  // VLAN tag.
  expect_sum(frame_ipv4());
}

TEST_F(Arrivals, RefusesAnyTruncatedFrame) {
  const Bytes good = frame_ipv4();
  for (size_t size = 0; size < good.size(); size++) {
    SCOPED_TRACE(size);
    // A cut within the headers makes them unreadable; a later cut contradicts the IP length.
    refused(cut(good, size), size < kUdpAtIpv4 ? Outcome::kTruncated : Outcome::kBadIpHeader);
  }
  expect_sum(good);
}

TEST_F(Arrivals, RefusesBadIpHeaders) {
  const auto total = static_cast<uint16_t>(frame_ipv4().size() - kIpAt);
  refused(with_u8(frame_ipv4(), kIpAt, 0x65), Outcome::kBadIpHeader);     // Version 6.
  refused(with_u8(frame_ipv4(), kIpAt, 0x44), Outcome::kBadIpHeader);     // Four words long.
  refused(with_u16(frame_ipv4(), kIpAt + 2, 19), Outcome::kBadIpHeader);  // Shorter than itself.
  refused(with_u16(frame_ipv4(), kIpAt + 2, total + 1), Outcome::kBadIpHeader);
  expect_sum(frame_ipv4());
}

TEST_F(Arrivals, RefusesIpOptions) {
  refused(with_u8(frame_ipv4(), kIpAt, 0x46), Outcome::kIpOptions);
  refused(with_u8(frame_ipv4(), kIpAt, 0x4f), Outcome::kIpOptions);
  expect_sum(frame_ipv4());
}

TEST_F(Arrivals, RefusesFragments) {
  refused(with_u16(frame_ipv4(), kIpAt + 6, 0x2000), Outcome::kFragment);  // More to come.
  refused(with_u16(frame_ipv4(), kIpAt + 6, 0x0001), Outcome::kFragment);  // At 8 bytes.
  refused(with_u16(frame_ipv4(), kIpAt + 6, 0x3fff), Outcome::kFragment);
  expect_sum(with_u16(frame_ipv4(), kIpAt + 6, 0x4000));  // Do not fragment.
}

TEST_F(Arrivals, RefusesProtocolsOtherThanUdp) {
  refused(with_u8(frame_ipv4(), kIpAt + 9, 6), Outcome::kNotUdp);
  expect_sum(frame_ipv4());
}

TEST_F(Arrivals, RefusesOtherUdpPorts) {
  refused(with_u16(frame_ipv4(), kUdpAtIpv4 + 2, 12001), Outcome::kWrongPort);
  refused(with_u16(frame_ipv4(), kUdpAtIpv4 + 2, 0), Outcome::kWrongPort);
  expect_sum(frame_ipv4());
}

TEST_F(Arrivals, RefusesWrongUdpLengths) {
  const auto udp = static_cast<uint16_t>(frame_ipv4().size() - kUdpAtIpv4);
  for (const uint16_t length : {uint16_t{0}, uint16_t{7}, static_cast<uint16_t>(udp + 1)}) {
    refused(with_u16(frame_ipv4(), kUdpAtIpv4 + 4, length), Outcome::kTruncated);
  }
  // An IP packet that ends inside the UDP header.
  refused(with_u16(cut(frame_ipv4(), kUdpAtIpv4 + 7), kIpAt + 2, 27), Outcome::kTruncated);
  // A UDP packet may be shorter than its IP packet; its own length counts.
  refused(with_u16(frame_ipv4(), kUdpAtIpv4 + 4, udp - 1), Outcome::kLengthBelowGradCnt);
  expect_sum(frame_ipv4());
}

TEST_F(ArrivalsIpv6, AcceptsAGoodFrame) { expect_sum(frame_ipv6()); }

TEST_F(ArrivalsIpv6, EachFaultHasItsCounter) {
  const auto payload = static_cast<uint16_t>(frame_ipv6().size() - kUdpAtIpv6);
  refused(with_u8(frame_ipv6(), kIpAt, 0x40), Outcome::kBadIpHeader);
  refused(with_u16(frame_ipv6(), kIpAt + 4, payload + 1), Outcome::kBadIpHeader);
  refused(with_u8(frame_ipv6(), kIpAt + 6, 6), Outcome::kNotUdp);
  refused(with_u8(frame_ipv6(), kIpAt + 6, 44), Outcome::kNotUdp);  // A fragment header.
  refused(with_u16(frame_ipv6(), kUdpAtIpv6 + 2, 1), Outcome::kWrongPort);
  refused(with_u16(frame_ipv6(), kUdpAtIpv6 + 4, 7), Outcome::kTruncated);
  refused(with_u16(frame_ipv6(), kUdpAtIpv6 + 4, payload + 1), Outcome::kTruncated);
  for (size_t size = 0; size < frame_ipv6().size(); size++) {
    refused(cut(frame_ipv6(), size),
            size < kUdpAtIpv6 ? Outcome::kTruncated : Outcome::kBadIpHeader);
  }
  expect_sum(frame_ipv6());
}

/// Expects that every packet has one outcome and that the core continues.
void throw_at(Bed& bed, const std::vector<Bytes>& seeds, Prng& prng) {
  constexpr uint32_t kPackets = 20'000;
  bed.run();
  const uint64_t before = bed.core().counters().packets;
  for (uint32_t step = 0; step < kPackets; step++) {
    Bytes bytes = seeds[prng.below(static_cast<uint32_t>(seeds.size()))];
    const uint32_t changes = prng.below(6);
    for (uint32_t i = 0; i < changes && !bytes.empty(); i++) {
      // Changes the headers more often than the rest.
      const uint32_t range = prng.chance(0.7) ? 70 : 100'000;
      const uint32_t at = prng.below(std::min(range, static_cast<uint32_t>(bytes.size())));
      bytes[at] = static_cast<std::byte>(prng.any_u32());
    }
    if (prng.chance(0.2)) bytes.resize(prng.below(static_cast<uint32_t>(bytes.size()) + 9));
    bed.inject_raw(bytes);
    if (prng.chance(0.3)) bed.run();
    if (prng.chance(0.01)) bed.advance(milliseconds(prng.below(2000)));
    if (step % 100 == 0) {
      bed.run();
      static_cast<void>(bed.port().take_sent(0));
    }
  }
  bed.run();
  EXPECT_LE(bed.job().record.block_curr_cnt, bed.job().window.place_count());
  EXPECT_EQ(bed.core().counters().packets, before + kPackets);
}

/// A plain contribution, one of a member, and every control message.
std::vector<Bytes> good_payloads(const Member& member) {
  std::vector<Bytes> payloads{plain_bytes(1, 3, 0, {10, 20}),
                              member.contribution_bytes(3, {10, 20}),
                              encoded(join_message(member.source, 5, 2))};
  for (uint8_t type = 2; type <= wire::kMessageTypeLast; type++) {
    Message message = member.message(static_cast<MessageType>(type), 3);
    payloads.push_back(encoded(message));
    message.extension.flags = wire::kFlagSourceMask;
    payloads.push_back(encoded(message));
  }
  return payloads;
}

TEST_F(Arrivals, RandomFramesAreHarmless) {
  const uint64_t seed = testing::seed_from_env();
  SCOPED_TRACE(testing::replay_hint(seed));
  Prng prng(seed);
  std::vector<Bytes> seeds{{}, frame_ipv6()};
  for (const Bytes& payload : good_payloads({.source = 1, .key = 9})) {
    seeds.push_back(framed(payload, worker(1), bed_.local()));
  }
  throw_at(bed_, seeds, prng);
}

TEST(ArrivalsUdpPayload, RandomPayloadsAreHarmless) {
  const uint64_t seed = testing::seed_from_env();
  SCOPED_TRACE(testing::replay_hint(seed));
  Prng prng(seed);
  for (const bool mitigation : {false, true}) {
    Bed bed({.id = 1, .sources = 2, .block_cnt_max = 8, .mitigation = mitigation});
    bed.inject_raw(good_payloads({})[0]);
    throw_at(bed, good_payloads({.source = 1, .key = 9}), prng);
  }
}

TEST(ArrivalsUdpPayload, RandomPayloadsAreHarmlessInASession) {
  const uint64_t seed = testing::seed_from_env();
  SCOPED_TRACE(testing::replay_hint(seed));
  Prng prng(seed);
  Bed bed({.id = 1, .sources = 1, .block_cnt_max = 8, .mitigation = true});
  const Member member = join_all(bed)[0];
  throw_at(bed, good_payloads(member), prng);
}

/// Locates the payload and ends.
template <microcode::Machine M>
microcode::Thread locate(M& m, apps::Arrival& arrival) {
  EXPECT_EQ(apps::locate_udp_payload(m, 12000, arrival), apps::Fit::kFits);
  m.drop(0);
  co_return;
}

/// The reads of local memory of each instruction that locates the payload of `frame`, by name.
std::map<std::string, uint32_t> reads_of(const Bytes& frame) {
  testing::StepMachine machine({});
  apps::Arrival arrival;
  machine.start(
      frame, Endpoint(), [&](auto& m) { locate(m, arrival); }, PacketLayer::kFrame);
  machine.run();
  EXPECT_TRUE(machine.access_meter().unpriced().empty());
  std::map<std::string, uint32_t> reads;
  for (const auto& row : machine.access_meter().instructions()) {
    reads[row.name] = row.most.lmem_reads;
  }
  return reads;
}

TEST(ArrivalInstructions, ReadWhatTheHeadersHold) {
  // IPv4: bytes 0 to 7, and 9 to 15. IPv6: bytes 0 to 6, then a source address of 16.
  EXPECT_EQ(reads_of(frame_ipv4()), (std::map<std::string, uint32_t>{
                                        {"parse_ethernet", 1}, {"parse_ip", 2}, {"parse_udp", 1}}));
  EXPECT_EQ(reads_of(frame_ipv6()),
            (std::map<std::string, uint32_t>{
                {"parse_ethernet", 1}, {"parse_ip", 1}, {"parse_source", 2}, {"parse_udp", 1}}));
}

}  // namespace
}  // namespace tributary::trio_ml
