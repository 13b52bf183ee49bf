// SPDX-License-Identifier: Apache-2.0
/// @file
/// The text of a system call's error.
///
/// Threads: any; unlike std::strerror().
#pragma once

#include <string>
#include <system_error>

namespace tributary {

/// Returns the text of an errno value, as in "Permission denied".
[[nodiscard]] inline std::string errno_text(int error) {
  return std::system_category().message(error);
}

}  // namespace tributary
