// SPDX-License-Identifier: Apache-2.0
/// @file
/// Reads files that only their owner may read: secrets and tokens.
///
/// Threads: Any.
/// Errors:  One line that names the file and the remedy; never its contents.
/// Tests:   tests/auth/secret_test.cc
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "base/result.h"

namespace tributary::auth {

/// Returns the file's contents. Refuses a file that is empty, that other users can read, or that
/// has more than `bytes_max` bytes.
/// @param what           Name of the setting, which begins each error.
/// @param group_may_read For a file that systemd provides: an ACL lets the service's user read it,
///                       and the ACL's mask shows as the group's bits.
[[nodiscard]] Result<std::string> read_private_file(std::string_view what, const std::string& path,
                                                    size_t bytes_max, bool group_may_read = false);

}  // namespace tributary::auth
