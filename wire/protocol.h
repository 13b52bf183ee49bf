// SPDX-License-Identifier: Apache-2.0
/// @file
/// The names of the worker protocols in flags, results and reports. wire/trio_ml.h and
/// wire/switchml.h have their messages.
///
/// Tests: tests/cli/settings_test.cc
#pragma once

#include <array>
#include <cstdint>

namespace tributary::wire {

enum class Protocol : uint8_t { kTrioMl, kSwitchml };

/// Indexed by Protocol.
inline constexpr std::array kProtocolNames{"trio-ml", "switchml"};

[[nodiscard]] constexpr const char* to_string(Protocol protocol) {
  return kProtocolNames[static_cast<uint32_t>(protocol)];
}

}  // namespace tributary::wire
