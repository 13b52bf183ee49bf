// SPDX-License-Identifier: Apache-2.0
/// @file
/// Checks the files that a sweep reads on its own: kept outcomes, traces and topologies. A device
/// would have no end, and a named pipe would wait for a writer.
///
/// Threads: Any.
/// Tests:   tests/lab/sweep/runner_test.cc
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <system_error>

#include "base/result.h"

namespace tributary::lab {

/// Refuses anything but a regular file of at most `bytes_max` bytes, or a path without a file.
/// Follows symbolic links.
[[nodiscard]] inline Result<void> check_plain_file(const std::string& path, uint64_t bytes_max) {
  std::error_code error;
  const std::filesystem::file_status status = std::filesystem::status(path, error);
  if (status.type() == std::filesystem::file_type::not_found) return {};
  if (!error && !std::filesystem::is_regular_file(status)) {
    return failure(fmt::format("{}: is not a regular file; allowed: a regular file", path));
  }
  const uint64_t bytes = error ? 0 : std::filesystem::file_size(path, error);
  if (error) return failure(fmt::format("{}: cannot be read: {}", path, error.message()));
  if (bytes <= bytes_max) return {};
  return failure(fmt::format("{}: has {} bytes; allowed: up to {}", path, bytes, bytes_max));
}

}  // namespace tributary::lab
