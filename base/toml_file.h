// SPDX-License-Identifier: Apache-2.0
/// @file
/// The keys of a TOML file, each with its file and line, for key tables (base/key_table.h) and
/// error messages.
///
/// Errors:  An Error names the file that cannot be read, or the file and line that is not TOML or
///          beyond the limits of base/toml_limits.h.
/// Threads: Pure functions.
/// Tests:   tests/base/toml_file_test.cc
#pragma once

#include <toml++/toml.h>

#include <string>
#include <vector>

#include "base/key_table.h"
#include "base/result.h"

namespace tributary {

/// Parses a file or pipe of at most kTomlBytesMax bytes.
/// @param named The file's name in the message if it cannot be read: the path, or flag and path.
[[nodiscard]] Result<toml::table> parse_toml_file(const std::string& path,
                                                  const std::string& named);

/// Returns the place of a node: "jobs.toml:3".
[[nodiscard]] std::string place_of(const std::string& path, const toml::node& node);

[[nodiscard]] WrittenType type_of(const toml::node& node);

/// Returns a value as on a command line; "{…}", "[…]" or "(a date or time)" for other values.
[[nodiscard]] std::string text_of(const toml::node& node);

/// Returns all keys of `table` and of its nested tables, joined by dots ("link.rate_gbps"), in the
/// order of the file. A list of values becomes text with commas between them.
[[nodiscard]] std::vector<WrittenKey> keys_of(const toml::table& table, const std::string& path);

}  // namespace tributary
