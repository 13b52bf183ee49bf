// SPDX-License-Identifier: Apache-2.0
/// @file
/// The protocols that workers may speak, as flags, results and reports name them. Their messages
/// are in trio_ml_wire.h and switchml_wire.h.
///
/// Tests: tests/cli/settings_test.cc
#pragma once

#include <array>
#include <cstdint>

namespace tributary::wire {

enum class Protocol : uint8_t { kTrioMl, kSwitchml };

/// By Protocol.
inline constexpr std::array kProtocolNames{"trio-ml", "switchml"};

[[nodiscard]] constexpr const char* to_string(Protocol protocol) {
  return kProtocolNames[static_cast<uint32_t>(protocol)];
}

}  // namespace tributary::wire
