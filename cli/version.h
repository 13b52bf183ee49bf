// SPDX-License-Identifier: Apache-2.0
/// @file
/// The version and the commit of this program.
///
/// Threads: Any.
/// Tests:   tests/system/lab_test.cc
#pragma once

#include <string_view>

namespace tributary::cli {

/// Returns the project's version: "0.1.0".
[[nodiscard]] std::string_view program_version();

/// Returns the first twelve digits of the commit of the sources, with "-modified" if tracked files
/// differed from it; "unknown" if the sources were not in a git repository. cmake/commit.cmake finds it
/// at each build.
[[nodiscard]] std::string_view program_commit();

}  // namespace tributary::cli
