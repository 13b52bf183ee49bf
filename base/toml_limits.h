// SPDX-License-Identifier: Apache-2.0
/// @file
/// Limits of a TOML text, checked before a parser sees it. The parser and all code that reads
/// tables recurse once for each level, so a deep text would overflow the stack.
///
/// Model:   A scan that knows strings and comments, but does not check the syntax: it stops nothing
///          that lies within these limits. The parser refuses texts that are not TOML.
/// Threads: Pure functions.
/// Tests:   tests/base/toml_limits_test.cc
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"

namespace tributary {

/// Largest TOML file. Assumed: a hundred times the largest that people write.
inline constexpr size_t kTomlBytesMax = size_t{1} << 20;
/// Most parts of a key such as a.b.c, and most brackets open at once. Together they allow
/// 32 + 32 * 32 levels.
inline constexpr uint32_t kTomlPartsMax = 32;
inline constexpr uint32_t kTomlBracketsMax = 32;

/// Refuses a text beyond the limits. @param path Path of the file, for the error.
[[nodiscard]] Result<void> check_toml_limits(std::string_view text, const std::string& path);

}  // namespace tributary
