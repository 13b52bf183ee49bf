// SPDX-License-Identifier: Apache-2.0
/// @file
/// Tells whether files in a folder are safe from other users.
///
/// Threads: Any.
/// Errors:  A folder that cannot be examined is not trusted.
/// Tests:   tests/base/trusted_folder_test.cc
#pragma once

#include <string>

namespace tributary {

/// Returns true if the folder belongs to this user or root, and neither its group nor others can
/// write to it. So no other user can put a file, a link or a socket there; the sticky bit does not
/// prevent that. Follows a link of this user or root: with DynamicUser=, systemd makes
/// /run/tributary a link to /run/private/tributary.
[[nodiscard]] bool is_trusted_folder(const std::string& folder);

}  // namespace tributary
