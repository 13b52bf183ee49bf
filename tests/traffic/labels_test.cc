// SPDX-License-Identifier: Apache-2.0
// Method: the first and the last address of each prefix by hand, then every kind of source.
#include "traffic/labels.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace tributary::traffic {
namespace {

std::optional<Label> label_at(const char* address_and_port) {
  return label_of(*Endpoint::parse(address_and_port));
}

TEST(Labels, PrefixesByHand) {
  EXPECT_EQ(label_at("10.0.0.0:1"), Label::kInnocent);
  EXPECT_EQ(label_at("10.127.255.255:1"), Label::kInnocent);
  EXPECT_EQ(label_at("10.128.0.0:1"), Label::kFlashCrowd);
  EXPECT_EQ(label_at("10.255.255.255:1"), Label::kFlashCrowd);
  EXPECT_EQ(label_at("240.0.0.0:1"), Label::kFlood);
  EXPECT_EQ(label_at("240.255.255.255:1"), Label::kFlood);
  EXPECT_EQ(label_at("[2001:db8:1::1]:1"), Label::kInnocent);
  EXPECT_EQ(label_at("[2001:db8:1:ffff::1]:1"), Label::kInnocent);
}

TEST(Labels, OtherAddressesHaveNone) {
  EXPECT_EQ(label_at("9.255.255.255:1"), std::nullopt);
  EXPECT_EQ(label_at("11.0.0.0:1"), std::nullopt);
  EXPECT_EQ(label_at("241.0.0.0:1"), std::nullopt);
  EXPECT_EQ(label_at("198.18.0.1:1"), std::nullopt);
  EXPECT_EQ(label_at("[2001:db8:2::1]:1"), std::nullopt);
}

TEST(Labels, ServersLieInTheirPrefixes) {
  const auto is_server_at = [](const char* text) { return is_server(*Endpoint::parse(text)); };
  EXPECT_TRUE(is_server_at("198.18.0.0:1"));
  EXPECT_TRUE(is_server_at("198.18.255.255:1"));
  EXPECT_FALSE(is_server_at("198.17.255.255:1"));
  EXPECT_FALSE(is_server_at("198.19.0.0:1"));
  EXPECT_FALSE(is_server_at("10.9.9.9:1"));
  EXPECT_TRUE(is_server_at("[2001:db8:2::ffff]:1"));
  EXPECT_FALSE(is_server_at("[2001:db8:2::1:0]:1"));
  EXPECT_FALSE(is_server_at("[2001:db8:1::1]:1"));
  for (const uint32_t index : {0U, kServersMax - 1}) {
    EXPECT_TRUE(is_server(server_address(index, /*ipv6=*/false, 443)));
    EXPECT_TRUE(is_server(server_address(index, /*ipv6=*/true, 443)));
  }
}

TEST(Labels, TextsNameThePrefixes) {
  for (const LabelledPrefix& prefix : labelled_prefixes()) {
    const std::string text = prefix.text;
    const size_t slash = text.find('/');
    const std::string address = text.substr(0, slash);
    const bool ipv4 = address.find(':') == std::string::npos;
    const auto parsed = Endpoint::parse((ipv4 ? address : "[" + address + "]") + ":1");
    ASSERT_TRUE(parsed);
    EXPECT_EQ(parsed->address, prefix.address) << text;
    EXPECT_EQ(std::stoul(text.substr(slash + 1)) + (ipv4 ? 96 : 0), prefix.bits) << text;
  }
}

TEST(Labels, SourcesLieInTheirPrefixAndDiffer) {
  std::set<std::array<uint8_t, 16>> seen;
  for (uint32_t index = 0; index < 20'000; index++) {
    EXPECT_EQ(label_of(innocent_source(index, false)), Label::kInnocent);
    EXPECT_EQ(label_of(innocent_source(index, true)), Label::kInnocent);
    EXPECT_EQ(label_of(flash_crowd_source(index)), Label::kFlashCrowd);
    EXPECT_EQ(label_of(flood_source(index)), Label::kFlood);
    seen.insert({innocent_source(index, false).address, innocent_source(index, true).address,
                 flash_crowd_source(index).address, flood_source(index).address});
  }
  EXPECT_EQ(seen.size(), 80'000U);
  EXPECT_EQ(label_of(innocent_source(kInnocentSourcesMax - 1, false)), Label::kInnocent);
  EXPECT_EQ(label_of(flash_crowd_source(kFlashCrowdSourcesMax - 1)), Label::kFlashCrowd);
  EXPECT_EQ(label_of(flood_source(kFloodSourcesMax - 1)), Label::kFlood);
}

TEST(Labels, ServersCountUpFromOne) {
  EXPECT_EQ(server_address(0, false, 443).to_string(), "198.18.0.1:443");
  EXPECT_EQ(server_address(255, false, 53).to_string(), "198.18.1.0:53");
  EXPECT_EQ(server_address(kServersMax - 1, false, 443).to_string(), "198.18.255.254:443");
  EXPECT_EQ(server_address(0, true, 443).to_string(), "[2001:db8:2::1]:443");
}

}  // namespace
}  // namespace tributary::traffic
