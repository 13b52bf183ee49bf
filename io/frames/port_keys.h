// SPDX-License-Identifier: Apache-2.0
/// @file
/// The keys that every `--port` text for frames has: the address of the port in its network.
///
/// Shapes:  "key=value" parts between commas: ip=10.0.0.1/24, gw=10.0.0.254.
/// Threads: Pure functions.
/// Errors:  One line with the key, the value and the allowed values.
/// Tests:   tests/io/packet/packet_spec_test.cc, tests/io/dpdk/port_spec_test.cc
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/endpoint.h"
#include "base/result.h"

namespace tributary::io {

/// A port's place in its network.
struct PortAddress {
  std::optional<Endpoint> address;  ///< Its port is unset.
  uint32_t prefix_bits = 0;
  std::optional<Endpoint> gateway;
};

[[nodiscard]] std::vector<std::string> split(std::string_view text, char separator);
/// Splits "key=value"; a part without "=" has an empty value.
[[nodiscard]] Result<std::pair<std::string, std::string>> split_key(const std::string& part);
/// Parses a whole number from `min` to `max`.
[[nodiscard]] Result<uint32_t> read_number(const std::string& key, const std::string& value,
                                           uint32_t min, uint32_t max);
/// Reads "ip" or "gw". @return true if `key` is one of them.
[[nodiscard]] Result<bool> read_address_key(const std::string& key, const std::string& value,
                                            PortAddress& port);
/// Checks that the gateway has the family of the port's address.
[[nodiscard]] Result<void> check_gateway(const std::optional<Endpoint>& gateway,
                                         const Endpoint& address);

}  // namespace tributary::io
