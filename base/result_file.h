// SPDX-License-Identifier: Apache-2.0
/// @file
/// Writes the file of a result: the targets of --json, --csv, --svg and --output.
///
/// Model:   A regular file, or one that does not exist, is replaced in one step, so a reader sees
///          the old content or the new one. A symbolic link stays, and its target is replaced. A
///          device, a pipe, and a file that is this process's standard output are written to.
///          The path `-` is standard output.
/// Threads: Any.
/// Errors:  One line with the path, the cause and the remedy. A regular file is unchanged then.
/// Tests:   tests/base/result_file_test.cc
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "base/time.h"

namespace tributary {

/// The path that stands for standard output.
inline constexpr std::string_view kStandardOutput = "-";

/// The longest wait for the reader of a full pipe.
inline constexpr Duration kPipeWaitMax = seconds(10);

/// Writes `content` to the file at `path`. Refuses folders, sockets, a file without permission to
/// write, and a named pipe without a reader.
[[nodiscard]] Result<void> write_result_file(const std::string& path, std::string_view content);

/// Writes a file that only its owner may read, and replaces any file or link of this name in one
/// step. Never follows a link, and opens no pipe.
[[nodiscard]] Result<void> write_private_file(const std::string& path, std::string_view content);

/// Checks before a long run that write_result_file() will be able to write there, as far as the
/// file system tells: the file, or else its folder. Changes nothing and opens no pipe.
[[nodiscard]] Result<void> check_result_file(const std::string& path);

/// Returns whether two paths name one regular file. Neither needs to exist. Devices such as
/// /dev/null may serve several outputs.
[[nodiscard]] bool is_same_file(const std::string& a, const std::string& b);

}  // namespace tributary
