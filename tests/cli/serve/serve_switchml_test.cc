// SPDX-License-Identifier: Apache-2.0
// Method:  flags as a person writes them, against the resulting configuration.
#include "cli/serve/serve_switchml.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tributary::cli {
namespace {

using ::testing::HasSubstr;

Result<server::SwitchmlConfig> config_of(const std::vector<std::string>& sessions,
                                         const std::vector<std::string>& control = {}) {
  SwitchmlFlags flags;
  for (const std::string& text : sessions) {
    auto row = session_keys().parse(text);
    if (!row) return tl::unexpected(row.error());
    flags.sessions.push_back(*std::move(row));
  }
  flags.control = control;
  flags.slots_max = 512;
  return with_switchml_flags({.listen = Endpoint::ipv4(0, wire::kSwitchmlPort)}, flags);
}

std::string error_of(const std::vector<std::string>& sessions,
                     const std::vector<std::string>& control = {}) {
  const auto config = config_of(sessions, control);
  return config ? "allowed" : config.error().text;
}

TEST(ServeSwitchml, ParsesSessions) {
  const auto config =
      config_of({"workers=10.0.0.1+10.0.0.2", "workers=10.0.0.3,elements=64,slots=8"});
  ASSERT_TRUE(config.has_value()) << config.error().text;
  ASSERT_EQ(config->sessions.size(), 2U);
  EXPECT_EQ(config->sessions[0].config.workers, 2U);
  EXPECT_EQ(config->sessions[0].config.elements, 256U);
  EXPECT_EQ(config->sessions[0].config.slots, 512U);
  EXPECT_EQ(config->sessions[0].workers[1].address, Endpoint::ipv4(0x0a000002, 1).address);
  EXPECT_EQ(config->sessions[1].config.elements, 64U);
  EXPECT_EQ(config->sessions[1].config.slots, 8U);
  EXPECT_TRUE(config->control.addresses.empty());
}

TEST(ServeSwitchml, ParsesControlPoints) {
  const auto config = config_of({}, {"10.0.0.254", "10.0.0.254:50100"});
  ASSERT_TRUE(config.has_value()) << config.error().text;
  EXPECT_EQ(config->control.addresses,
            (std::vector{Endpoint::ipv4(0x0a0000fe, 50'099), Endpoint::ipv4(0x0a0000fe, 50'100)}));
}

TEST(ServeSwitchml, DefaultsToOneControlPointOnLoopback) {
  const auto config = config_of({});
  if (!server::ControlServer::available()) {
    EXPECT_THAT(config.error().text, HasSubstr("built without gRPC"));
    return;
  }
  EXPECT_EQ(config->control.addresses, (std::vector{Endpoint::ipv4(0x7f000001, 50'099)}));
}

// Nothing in SwitchML is authenticated. A switch that only this machine can reach is the default,
// and workers elsewhere need a decision.
TEST(ServeSwitchml, ServesOtherMachinesOnlyIfListenSaysSo) {
  EXPECT_EQ(server::SwitchmlConfig{}.listen, Endpoint::ipv4(0x7f000001, wire::kSwitchmlPort));
  const auto refusal = [](const SwitchmlFlags& flags, const server::SwitchmlConfig& config = {}) {
    const auto completed = with_switchml_flags(config, flags);
    return completed ? "allowed" : completed.error().text;
  };
  SwitchmlFlags flags;
  flags.control = {"127.0.0.1", "10.0.0.254"};
  EXPECT_THAT(refusal(flags), HasSubstr("--control 10.0.0.254:50099 names other machines, but "
                                        "--listen 127.0.0.1:48864 serves this one only"));
  EXPECT_EQ(refusal(flags, {.listen = Endpoint::ipv4(0x0a0000fe, wire::kSwitchmlPort)}), "allowed");
  server::SwitchmlConfig over_device;
  ASSERT_TRUE(io::add_device("packet:eth0,ip=10.0.0.9/24", over_device.devices).has_value());
  EXPECT_EQ(refusal(flags, over_device), "allowed");
  flags.control = {"127.0.0.1"};
  EXPECT_EQ(refusal(flags), "allowed");
  flags.sessions.push_back(*session_keys().parse("workers=127.0.0.11+10.0.0.2"));
  EXPECT_THAT(refusal(flags), HasSubstr("--session names other machines"));
}

TEST(ServeSwitchml, RefusesIpv6ControlPoints) {
  server::SwitchmlConfig config;
  config.listen.address.fill(0x20);
  SwitchmlFlags flags;
  flags.control = {"127.0.0.1"};
  const auto refused = with_switchml_flags(config, flags);
  ASSERT_FALSE(refused.has_value());
  EXPECT_THAT(refused.error().text, HasSubstr("allowed with --control: an IPv4 address"));
  config.listen.address.fill(0);  // The wildcard address.
  EXPECT_TRUE(with_switchml_flags(config, flags).has_value());
}

TEST(ServeSwitchml, RefusesSettingsThatAreNotAllowed) {
  EXPECT_THAT(error_of({"elements=64"}), HasSubstr("workers"));
  EXPECT_THAT(error_of({"workers=10.0.0.1,elements=128"}),
              HasSubstr("elements=128; allowed: 64 or 256"));
  EXPECT_THAT(error_of({"workers=10.0.0.1,slots=513"}), HasSubstr("slots=513; allowed: 1 to 512"));
  EXPECT_THAT(error_of({"workers=10.0.0.1++10.0.0.2"}), HasSubstr("workers"));
  EXPECT_THAT(error_of({}, {"10.0.0.1:nonsense"}), HasSubstr("--control"));
}

}  // namespace
}  // namespace tributary::cli
