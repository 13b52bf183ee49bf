// SPDX-License-Identifier: Apache-2.0
/// @file
/// Reads a communicator's configuration from one line of text:
///
///   tributary://HOST[:PORT][=WEIGHT][,HOST…][/job/ID][?KEY=VALUE[&KEY=VALUE]…]
///
/// tributary_join() in host/include/tributary.h lists the keys, defaults and allowed values.
///
/// Threads: Pure functions; the environment is an argument.
/// Errors:  One line that names the key, the value and the allowed values. Host names are not
///          resolved here.
/// Tests:   tests/host/communicator_url_test.cc
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "host/communicator.h"

namespace tributary::host {

/// The default port of an aggregator. Source: Trio paper §4 (UDP port 12000).
inline constexpr uint16_t kDefaultPort = 12000;

/// Returns the value of an environment variable; empty if it is not set.
using Environment = std::function<std::string(const char* name)>;
/// Returns the variables of this process.
[[nodiscard]] std::string process_environment(const char* name);

struct CommunicatorUrl {
  /// Without `server`; its aggregators have no addresses. gradients, window: 0 if not given.
  CommunicatorConfig config;
  AllReduceOptions reduction{.op = ReduceOp::kSum, .format = FloatFormat::kBlockExponent};
  double loss = 0;  ///< Probability of dropping a packet, both ways, for experiments.
};

/// Reads a URL. If it has no rank or world, they come from the environment; world=1 needs no rank.
/// @param url Empty: the variable TRIBUTARY_URL.
[[nodiscard]] Result<CommunicatorUrl> parse_communicator_url(std::string_view url,
                                                             const Environment& environment);

}  // namespace tributary::host
