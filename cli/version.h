// SPDX-License-Identifier: Apache-2.0
/// @file
/// The version and the commit of this program, and how it was built.
///
/// Threads: Any.
/// Tests:   tests/cli/version_test.cc, tests/system/lab_test.cc
#pragma once

#include <string>
#include <string_view>

namespace tributary::cli {

/// Returns the project's version: "0.1.0".
[[nodiscard]] std::string_view program_version();

/// Returns the first twelve digits of the commit of the sources, with "-modified" if tracked files
/// differed from it; "unknown" if the sources were not in a git repository. cmake/commit.cmake
/// finds it at each build.
[[nodiscard]] std::string_view program_commit();

/// Returns the output of `tributary --version`: "tributary VERSION", and a line each for the
/// commit, the compiler, its flags, and the optional parts as "+dpdk" (built in) or "-dpdk" (left
/// out).
[[nodiscard]] std::string version_text();

}  // namespace tributary::cli
