// SPDX-License-Identifier: Apache-2.0
/// @file
/// Writes texts and numbers to standard error from a signal handler.
///
/// Threads: Any, also in a signal handler: nothing here allocates or locks. May change errno.
/// Errors:  None: a text that cannot be written is lost.
/// Tests:   tests/base/signal_safe_text_test.cc
#pragma once

#include <unistd.h>

#include <array>
#include <charconv>
#include <cstdint>
#include <string_view>

namespace tributary {

inline void write_error_text(std::string_view text) {
  static_cast<void>(!::write(STDERR_FILENO, text.data(), text.size()));
}

inline void write_error_number(int64_t number) {
  std::array<char, 20> digits;  // INT64_MIN has a sign and 19 digits.
  const char* const end = std::to_chars(digits.data(), digits.data() + digits.size(), number).ptr;
  write_error_text({digits.data(), static_cast<size_t>(end - digits.data())});
}

}  // namespace tributary
