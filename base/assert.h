// SPDX-License-Identifier: Apache-2.0
/// @file
/// The assertion for broken caller contracts. It is checked in every build: a bug stops the process
/// with file, line and the failed condition. Never assert a condition that a packet or a
/// configuration can break: count it or return an Error.
#pragma once

#include <source_location>

namespace tributary {

/// Prints the failed condition to standard error and aborts.
/// @param rule The broken rule, for people; null: the condition says enough.
[[noreturn]] void assertion_failed(const char* condition, const char* file, int line,
                                   const char* rule = nullptr) noexcept;

/// As assertion_failed(), for a rule that a packet program broke. Names the program that the thread
/// runs and its last instruction (base/running_program.h).
/// @param place The program's line.
[[noreturn]] void rule_broken(const char* condition, const char* file, int line, const char* rule,
                              std::source_location place) noexcept;

}  // namespace tributary

#define TRIB_ASSERT(condition)                                       \
  do {                                                               \
    if (!(condition)) [[unlikely]] {                                 \
      ::tributary::assertion_failed(#condition, __FILE__, __LINE__); \
    }                                                                \
  } while (false)

/// Asserts a condition, and prints the rule that a caller outside this project broke.
#define TRIB_REQUIRE(condition, rule)                                      \
  do {                                                                     \
    if (!(condition)) [[unlikely]] {                                       \
      ::tributary::assertion_failed(#condition, __FILE__, __LINE__, rule); \
    }                                                                      \
  } while (false)

/// Asserts a condition about a packet program, and prints the broken rule and `place`, the
/// program's line: a std::source_location.
#define TRIB_REQUIRE_AT(condition, rule, place)                              \
  do {                                                                       \
    if (!(condition)) [[unlikely]] {                                         \
      ::tributary::rule_broken(#condition, __FILE__, __LINE__, rule, place); \
    }                                                                        \
  } while (false)
