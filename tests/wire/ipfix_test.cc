// SPDX-License-Identifier: Apache-2.0
// Method: the bytes of a message by hand from RFC 7011, then times by hand, then messages of other
// exporters and malformed ones, then random flows and random damage.
#include "wire/ipfix.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/byte_order.h"
#include "base/endpoint.h"
#include "tests/support/hex.h"
#include "tests/support/seed.h"

namespace tributary::wire {
namespace {

constexpr int64_t kSecond = 1'000'000'000;

IpfixFlow web_flow() {
  return {.source = Endpoint::ipv4(0xc0000201, 0).address,
          .destination = Endpoint::ipv4(0xc6336407, 0).address,
          .protocol = 6,
          .source_port = 40000,
          .destination_port = 443,
          .vlan = 100,
          .customer_vlan = 7,
          .tcp_flags = 0x1b,
          .end_reason = FlowEndReason::kIdle,
          .packets = 3,
          .octets = 1540,
          .start_ns = 1'600'000'000 * kSecond + 500'000'000,
          .end_ns = 1'600'000'002 * kSecond};
}

struct Room {
  explicit Room(uint32_t size) : bytes(size), writer(bytes) { writer.begin(); }
  Bytes bytes;
  IpfixWriter writer;
};

// --- By hand -------------------------------------------------------------------------------------

TEST(Ipfix, MessageHasTheBytesOfRfc7011) {
  Room room(1400);
  ASSERT_TRUE(room.writer.fits(false));
  room.writer.append(web_flow());
  room.writer.finish(/*export_time_s=*/1'600'000'062, /*sequence=*/9, /*domain=*/2);

  // Header: version 10, 16 + 132 + 72 = 220 bytes, export time 0x5f5e103e, sequence, domain.
  // Set 2 of 4 + 2 * 64 bytes: templates 256 and 257 of 15 fields, each an element and a length.
  // Set 256 of 4 + 68 bytes: one record.
  const Bytes expected = from_hex(
      "00 0a 00 dc 5f 5e 10 3e 00 00 00 09 00 00 00 02 "
      "00 02 00 84 "
      "01 00 00 0f 00 08 00 04 00 0c 00 04 00 07 00 02 00 0b 00 02 00 04 00 01 00 06 00 02 "
      "00 3a 00 02 00 f5 00 02 00 02 00 08 00 01 00 08 00 98 00 08 00 99 00 08 00 9c 00 08 "
      "00 9d 00 08 00 88 00 01 "
      "01 01 00 0f 00 1b 00 10 00 1c 00 10 00 07 00 02 00 0b 00 02 00 04 00 01 00 06 00 02 "
      "00 3a 00 02 00 f5 00 02 00 02 00 08 00 01 00 08 00 98 00 08 00 99 00 08 00 9c 00 08 "
      "00 9d 00 08 00 88 00 01 "
      "01 00 00 48 "
      "c0 00 02 01 c6 33 64 07 9c 40 01 bb 06 00 1b 00 64 00 07 "
      "00 00 00 00 00 00 00 03 00 00 00 00 00 00 06 04 "
      // 1,600,000,000,500 and 1,600,000,002,000 ms.
      "00 00 01 74 87 6e 81 f4 00 00 01 74 87 6e 87 d0 "
      // 1,600,000,000 + 2,208,988,800 = 0xe3 08 8e 80 seconds, and half of 2^32.
      "e3 08 8e 80 80 00 00 00 e3 08 8e 82 00 00 00 00 "
      "01");
  const auto message = room.writer.message();
  EXPECT_EQ(Bytes(message.begin(), message.end()), expected);

  const auto decoded = decode_ipfix(message);
  ASSERT_TRUE(decoded.has_value()) << decoded.error().text;
  EXPECT_EQ(decoded->sequence, 9U);
  EXPECT_EQ(decoded->domain, 2U);
  EXPECT_EQ(decoded->templates, 2U);
  ASSERT_EQ(decoded->flows.size(), 1U);
  EXPECT_EQ(decoded->flows[0], web_flow());
}

TEST(Ipfix, TemplatesAloneAreAMessage) {
  Room room(kIpfixMessageBytesMin);
  room.writer.finish(1, 2, 3);
  EXPECT_EQ(room.writer.message().size(), kIpfixPrefixBytes);
  const auto decoded = decode_ipfix(room.writer.message());
  ASSERT_TRUE(decoded.has_value());
  EXPECT_TRUE(decoded->flows.empty());
}

TEST(Ipfix, FitsCountsTheHeaderOfANewSet) {
  // 148 + (4 + 68) + 68 + (4 + 92) = 384 bytes hold IPv4, IPv4, IPv6.
  for (const uint32_t bytes : {383U, 384U}) {
    Room room(bytes);
    room.writer.append(web_flow());
    room.writer.append(web_flow());
    IpfixFlow six = web_flow();
    six.is_ipv6 = true;
    EXPECT_EQ(room.writer.fits(true), bytes == 384);
    EXPECT_TRUE(room.writer.fits(false));
    if (bytes < 384) continue;
    room.writer.append(six);
    EXPECT_FALSE(room.writer.fits(false));
    room.writer.finish(0, 0, 0);
    const auto decoded = decode_ipfix(room.writer.message());
    ASSERT_TRUE(decoded.has_value());
    EXPECT_EQ(decoded->flows, (std::vector{web_flow(), web_flow(), six}));
  }
}

TEST(Ipfix, NtpTimesKeepWholeNanoseconds) {
  EXPECT_EQ(ntp_timestamp(0), uint64_t{2'208'988'800} << 32);
  EXPECT_EQ(ntp_timestamp(kSecond / 2) & UINT32_MAX, uint64_t{1} << 31);
  EXPECT_EQ(ntp_timestamp(1) & UINT32_MAX, 5U);  // 2^32 / 10^9 = 4.29 units, rounded up.
  // 2036-02-07 06:28:16: the seconds wrap to 0.
  constexpr int64_t kWrap = ((int64_t{1} << 32) - 2'208'988'800) * kSecond;
  EXPECT_EQ(ntp_timestamp(kWrap), 0U);
  for (const int64_t ns : {int64_t{0}, int64_t{1}, kSecond - 1, kSecond, kWrap - 1, kWrap,
                           kIpfixTimeMaxNs - 1, kIpfixTimeMaxNs}) {
    EXPECT_EQ(ntp_time_ns(ntp_timestamp(ns)), ns);
    // A collector that rounds down.
    EXPECT_EQ((ntp_timestamp(ns) & UINT32_MAX) * kSecond >> 32, ns % kSecond);
  }
}

TEST(Ipfix, EndReasonsHaveNames) {
  EXPECT_STREQ(to_string(FlowEndReason::kIdle), "idle");
  EXPECT_STREQ(to_string(FlowEndReason::kActive), "active");
  EXPECT_STREQ(to_string(FlowEndReason::kEndOfFlow), "end_of_flow");
  EXPECT_STREQ(to_string(FlowEndReason::kForcedEnd), "forced_end");
  EXPECT_STREQ(to_string(static_cast<FlowEndReason>(200)), "none");
}

// --- Other exporters and malformed messages ------------------------------------------------------

/// Puts a header of the right length in front of sets.
Bytes with_header(std::string_view sets) {
  Bytes message = from_hex("00 0a 00 00 00 00 00 01 00 00 00 02 00 00 00 03 ");
  const Bytes rest = from_hex(sets);
  message.insert(message.end(), rest.begin(), rest.end());
  store_be<uint16_t>(message.data() + 2, static_cast<uint16_t>(message.size()));
  return message;
}

TEST(Ipfix, ReadsOtherExportersTemplates) {
  // Template 300: an enterprise's field, a string of variable length, a packet count of one byte,
  // the end in nanoseconds before the end in milliseconds. Two bytes of padding end the set.
  const auto decoded = decode_ipfix(with_header(
      "00 02 00 20 01 2c 00 05 80 01 00 02 00 00 12 34 00 52 ff ff 00 02 00 01 00 9d 00 08 "
      "00 99 00 08 "
      "01 2c 00 1d ab cd 03 65 74 68 05 83 aa 7e 80 80 00 00 00 00 00 00 00 00 00 00 07 00 00 "));
  ASSERT_TRUE(decoded.has_value()) << decoded.error().text;
  ASSERT_EQ(decoded->flows.size(), 1U);
  EXPECT_EQ(decoded->flows[0].packets, 5U);
  EXPECT_EQ(decoded->flows[0].end_ns, kSecond / 2);
  EXPECT_EQ(decoded->flows[0].octets, 0U);
}

TEST(Ipfix, CountsSetsWithoutTemplateAndSkipsOptionTemplates) {
  const auto decoded = decode_ipfix(with_header("00 03 00 06 12 34 01 00 00 05 99 01 01 00 04 "));
  ASSERT_TRUE(decoded.has_value()) << decoded.error().text;
  EXPECT_EQ(decoded->sets_without_template, 2U);
  EXPECT_TRUE(decoded->flows.empty());
}

TEST(Ipfix, TemplateWithoutFieldsIsAWithdrawal) {
  const auto decoded = decode_ipfix(
      with_header("00 02 00 0c 01 00 00 01 00 02 00 08 00 02 00 08 01 00 00 00 01 00 00 08 "
                  "00 00 00 00 "));
  ASSERT_TRUE(decoded.has_value()) << decoded.error().text;
  EXPECT_EQ(decoded->sets_without_template, 1U);
}

TEST(Ipfix, RefusesMalformedMessages) {
  const auto refuses = [](const Bytes& message) { return !decode_ipfix(message).has_value(); };
  EXPECT_TRUE(refuses({}));
  EXPECT_TRUE(refuses(Bytes(15)));
  EXPECT_TRUE(refuses(Bytes(16)));  // Version 0.
  EXPECT_FALSE(refuses(with_header("")));
  Bytes longer = with_header("");
  longer.push_back({});
  EXPECT_TRUE(refuses(longer));                 // States 16 bytes.
  EXPECT_TRUE(refuses(with_header("01 00 ")));  // Half a set header.
  EXPECT_TRUE(refuses(with_header("01 00 00 03 ")));
  EXPECT_TRUE(refuses(with_header("01 00 00 05 ")));
  EXPECT_TRUE(refuses(with_header("00 01 00 04 ")));                          // Set id 1.
  EXPECT_TRUE(refuses(with_header("00 02 00 08 00 ff 00 01 ")));              // Template id 255.
  EXPECT_TRUE(refuses(with_header("00 02 00 08 01 00 ff ff ")));              // No fields follow.
  EXPECT_TRUE(refuses(with_header("00 02 00 0c 01 00 00 01 80 02 00 04 ")));  // No enterprise.
  EXPECT_TRUE(refuses(with_header("00 02 00 0c 01 00 00 01 00 02 00 00 ")));  // No length.
  // A string that its set cuts off: one byte of length, and a longer length in two bytes.
  const std::string string_template = "00 02 00 0c 01 00 00 01 00 52 ff ff ";
  EXPECT_FALSE(refuses(with_header(string_template + "01 00 00 06 01 41 ")));
  EXPECT_TRUE(refuses(with_header(string_template + "01 00 00 06 02 41 ")));
  EXPECT_TRUE(refuses(with_header(string_template + "01 00 00 06 ff 41 ")));
}

TEST(Ipfix, RefusesManyTemplates) {
  Bytes message = with_header("");
  const auto add = [&](std::string_view text) {
    const Bytes part = from_hex(text);
    message.insert(message.end(), part.begin(), part.end());
  };
  for (uint32_t i = 0; i < 65; i++) {
    add("00 02 00 0c 01 00 00 01 00 02 00 08 ");
    store_be<uint16_t>(message.data() + message.size() - 8, static_cast<uint16_t>(256 + i));
    store_be<uint16_t>(message.data() + 2, static_cast<uint16_t>(message.size()));
    EXPECT_EQ(decode_ipfix(message).has_value(), i < 64) << i;
  }
}

// --- Random --------------------------------------------------------------------------------------

IpfixFlow random_flow(Prng& prng) {
  IpfixFlow flow = web_flow();
  flow.is_ipv6 = prng.chance(0.5);
  for (uint32_t i = flow.is_ipv6 ? 0 : 12; i < 16; i++) {
    flow.source[i] = static_cast<uint8_t>(prng.any_u32());
    flow.destination[i] = static_cast<uint8_t>(prng.any_u32());
  }
  flow.source_port = static_cast<uint16_t>(prng.any_u32());
  flow.protocol = static_cast<uint8_t>(prng.any_u32());
  flow.tcp_flags = static_cast<uint16_t>(prng.any_u32());
  flow.end_reason = static_cast<FlowEndReason>(prng.below(kFlowEndReasonCount));
  flow.packets = prng.any_u64() >> prng.below(64);
  flow.octets = prng.any_u64() >> prng.below(64);
  const auto time = [&] {
    return static_cast<int64_t>(prng.any_u64() % (static_cast<uint64_t>(kIpfixTimeMaxNs) + 1));
  };
  flow.start_ns = time();
  flow.end_ns = time();
  return flow;
}

TEST(Ipfix, RandomMessagesSurviveARoundTripAndDamage) {
  const uint64_t seed = testing::seed_from_env();
  SCOPED_TRACE(testing::replay_hint(seed));
  Prng prng(seed);
  for (uint32_t round = 0; round < 2'000; round++) {
    Room room(kIpfixMessageBytesMin + prng.below(2000));
    std::vector<IpfixFlow> flows;
    for (IpfixFlow next = random_flow(prng); room.writer.fits(next.is_ipv6);
         next = random_flow(prng)) {
      room.writer.append(next);
      flows.push_back(next);
    }
    ASSERT_EQ(room.writer.record_count(), flows.size());
    room.writer.finish(prng.any_u32(), prng.any_u32(), prng.any_u32());
    auto decoded = decode_ipfix(room.writer.message());
    ASSERT_TRUE(decoded.has_value()) << decoded.error().text;
    ASSERT_EQ(decoded->flows, flows);

    Bytes damaged(room.writer.message().begin(), room.writer.message().end());
    for (uint32_t i = 0; i < 3; i++) {
      damaged[prng.below(static_cast<uint32_t>(damaged.size()))] ^= std::byte{1} << prng.below(8);
    }
    decoded = decode_ipfix(damaged);  // Must end; sanitizers check the reads.
    if (decoded) {
      ASSERT_LE(decoded->flows.size(), damaged.size());
    }
  }
}

}  // namespace
}  // namespace tributary::wire
