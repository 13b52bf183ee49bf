// SPDX-License-Identifier: Apache-2.0
/// @file
/// A communicator's configuration as one line of text:
///
///   tributary://HOST[:PORT][/job/ID][?KEY=VALUE[&KEY=VALUE]…]
///
/// The keys, with defaults and what is allowed, are at tributary_join() in
/// host/include/tributary.h; this is the one place that reads them.
///
/// Threads: Pure but for the environment, which is an argument.
/// Errors:  One line that names the key, the value and what is allowed. Host names are not looked
/// up
///          here.
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

/// Port of an aggregator that is given without one. Source: Trio paper §4 (UDP port 12000).
inline constexpr uint16_t kDefaultPort = 12000;

/// Value of an environment variable; empty if there is none.
using Environment = std::function<std::string(const char* name)>;
/// This process's.
[[nodiscard]] std::string process_environment(const char* name);

struct CommunicatorUrl {
  std::string server;         ///< "HOST:PORT", IPv6 in brackets, for io::resolve().
  CommunicatorConfig config;  ///< All but its server. gradients, window: 0 unless given.
  AllReduceOptions reduction{.op = ReduceOp::kSum, .format = FloatFormat::kBlockExponent};
  double loss = 0;  ///< Packets lost on purpose, both ways: a probability, for experiments.
};

/// @param url Empty: the variable TRIBUTARY_URL. What it lacks of rank and world comes from the
///            environment; world=1 needs no rank.
[[nodiscard]] Result<CommunicatorUrl> parse_communicator_url(std::string_view url,
                                                             const Environment& environment);

}  // namespace tributary::host
