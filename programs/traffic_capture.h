// SPDX-License-Identifier: Apache-2.0
/// @file
/// Writes generated traffic to a capture file.
///
/// Threads: Any.
/// Errors:  One line if the file cannot be written.
/// Tests:   tests/programs/guard_program_test.cc, tests/cli/programs/traffic_command_test.cc
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "base/result.h"
#include "io/capture/capture_reader.h"
#include "traffic/generator.h"

namespace tributary::programs {

/// Writes all packets that `generator` has left.
/// @param start    The time of day of the generator's Instant 0.
/// @param progress Called before each packet with the number written so far.
[[nodiscard]] Result<void> write_traffic(
    traffic::Generator& generator, const std::string& path, io::CaptureTime start = {},
    const std::function<void(uint64_t written)>& progress = [](uint64_t) {});

}  // namespace tributary::programs
