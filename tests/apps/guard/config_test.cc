// SPDX-License-Identifier: Apache-2.0
// Method: SCFD's defaults by hand, then each value just outside its range, then the allow-list.
#include "apps/guard/config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "base/endpoint.h"

namespace tributary::guard {
namespace {

using ::testing::StartsWith;

std::string refusal(const std::function<void(GuardConfig&)>& change) {
  GuardConfig config;
  change(config);
  const auto checked = check(config);
  return checked ? "accepted" : checked.error().text;
}

TEST(GuardConfig, DefaultsAreScfds) {
  const GuardConfig config;
  EXPECT_TRUE(check(config));
  EXPECT_EQ(config.pps(Level::kSource, PacketKind::kTcpSyn), 100U);
  EXPECT_EQ(config.pps(Level::kNetwork, PacketKind::kUdp), 200U);
  EXPECT_EQ(config.pps(Level::kDestination, PacketKind::kIcmp), 20'000U);
  EXPECT_EQ(config.pps(Level::kSource, PacketKind::kTcp), 1'000U);
  EXPECT_EQ(config.detect_time, seconds(3));
  EXPECT_EQ(config.recover_time, seconds(60));
  EXPECT_EQ(config.timeout_time, seconds(300));
  EXPECT_FALSE(config.timeout_active);
}

TEST(GuardConfig, NamesTheFirstValueOutOfRange) {
  EXPECT_EQ(refusal([](GuardConfig& c) { c.levels[0].pps[0] = 0; }),
            "bandwidth=0 is out of range; allowed: from 1 to 1000000000");
  EXPECT_EQ(refusal([](GuardConfig& c) { c.detect_time = milliseconds(500); }),
            "detect time=0.5 s is out of range; allowed: from 1 s to 60 s");
  EXPECT_THAT(refusal([](GuardConfig& c) { c.recover_time = Duration(); }),
              StartsWith("recover time=0"));
  EXPECT_THAT(refusal([](GuardConfig& c) { c.timeout_time = seconds(7'201); }),
              StartsWith("timeout time=7201"));
  EXPECT_THAT(refusal([](GuardConfig& c) { c.timer_period = seconds(2); }),
              StartsWith("timer period=2"));
  EXPECT_THAT(refusal([](GuardConfig& c) { c.timer_threads = 0; }), StartsWith("timer threads=0"));
  EXPECT_THAT(refusal([](GuardConfig& c) { c.destinations_max = 63; }),
              StartsWith("destinations=63"));
  EXPECT_THAT(refusal([](GuardConfig& c) { c.suspects_max = kRecordsMax + 1; }),
              StartsWith("suspects="));
  EXPECT_THAT(refusal([](GuardConfig& c) { c.report_max = 0; }), StartsWith("report=0"));
  EXPECT_THAT(refusal([](GuardConfig& c) { c.handshakes_log2 = 29; }), StartsWith("handshakes"));
  EXPECT_THAT(refusal([](GuardConfig& c) { c.handshake_time = Duration(); }),
              StartsWith("handshake time=0"));
  EXPECT_THAT(refusal([](GuardConfig& c) { c.known_bits_log2 = 15; }), StartsWith("known bits"));
  EXPECT_THAT(refusal([](GuardConfig& c) { c.known_time = Duration(); }),
              StartsWith("known time=0"));
  EXPECT_THAT(refusal([](GuardConfig& c) { c.settle_time = Duration(); }),
              StartsWith("settle time=0"));
  EXPECT_THAT(refusal([](GuardConfig& c) { c.allowed.resize(65); }),
              StartsWith("allowed prefixes=65"));
  EXPECT_THAT(refusal([](GuardConfig& c) { c.allowed = {{.bits = 129}}; }),
              StartsWith("allowed prefix bits=129"));
}

TEST(GuardConfig, AllowListMatchesPrefixesOfTheSameIpVersion) {
  const auto address = [](const char* text) { return Endpoint::parse(text)->address; };
  GuardConfig config;
  const auto is_allowed_from = [&](const char* text) {
    const Endpoint source = *Endpoint::parse(text);
    return is_allowed(config, source.address, source.is_ipv4() ? 4 : 6);
  };
  EXPECT_FALSE(is_allowed_from("192.0.2.1:1"));
  config.allowed = {{.address = address("192.0.2.64:1"), .bits = 96 + 26},
                    {.address = address("[2001:db8::]:1"), .bits = 32}};
  EXPECT_TRUE(is_allowed_from("192.0.2.64:1"));
  EXPECT_TRUE(is_allowed_from("192.0.2.127:1"));
  EXPECT_FALSE(is_allowed_from("192.0.2.128:1"));
  EXPECT_FALSE(is_allowed_from("192.0.2.63:1"));
  EXPECT_TRUE(is_allowed_from("[2001:db8:ffff::1]:1"));
  EXPECT_FALSE(is_allowed_from("[2001:db9::1]:1"));
  // An IPv6 packet from ::ffff:192.0.2.64, which an attacker may send.
  EXPECT_FALSE(is_allowed(config, address("192.0.2.64:1"), 6));
  config.allowed = *parse_allowed("::/0");
  EXPECT_FALSE(is_allowed_from("198.51.100.1:1"));
  EXPECT_TRUE(is_allowed_from("[2001:db9::1]:1"));
  config.allowed = *parse_allowed("0.0.0.0/0");
  EXPECT_TRUE(is_allowed_from("198.51.100.1:1"));
  EXPECT_FALSE(is_allowed_from("[2001:db9::1]:1"));
}

TEST(GuardConfig, NamesAreStable) {
  EXPECT_STREQ(to_string(Level::kNetwork), "network");
  EXPECT_STREQ(to_string(Action::kPolice), "police");
  EXPECT_STREQ(to_string(PacketKind::kTcpSyn), "tcp_syn");
}

TEST(GuardConfig, ParsesTheAllowList) {
  const auto allowed = parse_allowed("10.0.0.0/8+192.0.2.1/32+fd00::/8+::/0");
  ASSERT_TRUE(allowed);
  ASSERT_EQ(allowed->size(), 4U);
  EXPECT_EQ((*allowed)[0].bits, 96U + 8U);
  EXPECT_EQ((*allowed)[1].address, Endpoint::parse("192.0.2.1:1")->address);
  EXPECT_EQ((*allowed)[2].bits, 8U);
  EXPECT_EQ((*allowed)[3].bits, 0U);
  for (const char* wrong :
       {"", "10.0.0.0", "10.0.0.0/33", "10.0.0.0/8+", "+10.0.0.0/8", "fd00::/129", "10.0.0.0/-1",
        "10.0.0.0/8x", "[::1]/8", "10.0.0.0:1/8"}) {
    const auto refused = parse_allowed(wrong);
    ASSERT_FALSE(refused) << wrong;
    EXPECT_THAT(refused.error().text, ::testing::HasSubstr("ADDRESS/BITS")) << wrong;
  }
}

TEST(GuardConfig, RefusesAHostsAddressAsANetwork) {
  EXPECT_TRUE(parse_allowed("10.32.0.0/11+fe00::/7"));
  const auto ipv4 = parse_allowed("10.48.0.1/11");
  ASSERT_FALSE(ipv4);
  EXPECT_EQ(ipv4.error().text,
            "'10.48.0.1/11' has bits behind its first 11; allowed: 10.32.0.0/11");
  const auto ipv6 = parse_allowed("10.0.0.0/8+fd00::1/8");
  ASSERT_FALSE(ipv6);
  EXPECT_EQ(ipv6.error().text, "'fd00::1/8' has bits behind its first 8; allowed: fd00::/8");
}

}  // namespace
}  // namespace tributary::guard
