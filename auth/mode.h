// SPDX-License-Identifier: Apache-2.0
/// @file
/// The authentication modes of a job (docs/security.md).
///
/// Threads: Pure functions.
/// Errors:  parse_mode() returns nothing for an unknown name.
/// Tests:   tests/auth/mode_test.cc
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace tributary::auth {

enum class Mode : uint8_t {
  kNone = 0,    ///< Session keys in every message; parties that read the traffic can forge it.
  kHeader = 1,  ///< Also a keyed MAC over the header of every message, and over control messages.
  kFull = 2,    ///< Also a keyed MAC over the gradients.
};
inline constexpr uint32_t kModeCount = 3;

/// Returns "none", "header" or "full".
[[nodiscard]] constexpr const char* to_string(Mode mode) {
  constexpr const char* kNames[kModeCount] = {"none", "header", "full"};
  return kNames[static_cast<uint32_t>(mode)];
}

/// Returns the mode with this name.
[[nodiscard]] constexpr std::optional<Mode> parse_mode(std::string_view name) {
  for (uint32_t i = 0; i < kModeCount; i++) {
    const auto mode = static_cast<Mode>(i);
    if (name == to_string(mode)) return mode;
  }
  return {};
}

inline constexpr uint32_t kSequenceBytes = 8;
inline constexpr uint32_t kHeaderTagBytes = 8;
inline constexpr uint32_t kGmacTagBytes = 16;

/// Returns the bytes of a message's seal (auth/seal.h).
[[nodiscard]] constexpr uint32_t seal_bytes(Mode mode) {
  if (mode == Mode::kNone) return 0;
  return kSequenceBytes + (mode == Mode::kHeader ? kHeaderTagBytes : kGmacTagBytes);
}
inline constexpr uint32_t kSealBytesMax = seal_bytes(Mode::kFull);

}  // namespace tributary::auth
