// SPDX-License-Identifier: Apache-2.0
/// @file
/// TOML files as the keys that were written in them, each with its file and line, for key tables
/// (base/key_table.h) and error messages.
///
/// Errors:  A file that cannot be read or is not TOML is refused with its name, and its line.
/// Threads: None; pure functions.
/// Tests:   tests/base/toml_file_test.cc
#pragma once

#include <toml++/toml.h>

#include <string>
#include <vector>

#include "base/key_table.h"
#include "base/result.h"

namespace tributary {

/// @param named How a message calls a file that cannot be read: the path, or a flag and the path.
[[nodiscard]] Result<toml::table> parse_toml_file(const std::string& path,
                                                  const std::string& named);

/// "jobs.toml:3".
[[nodiscard]] std::string place_of(const std::string& path, const toml::node& node);

[[nodiscard]] WrittenType type_of(const toml::node& node);

/// A value as it would stand on a command line; "{…}", "[…]" or "(a date or time)" for what cannot.
[[nodiscard]] std::string text_of(const toml::node& node);

/// All keys of `table` and of the tables in it, which are joined by dots ("link.rate_gbps"), in the
/// order of the file. A list of values counts as text with commas between them.
[[nodiscard]] std::vector<WrittenKey> keys_of(const toml::table& table, const std::string& path);

}  // namespace tributary
