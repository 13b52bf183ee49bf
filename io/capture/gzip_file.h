// SPDX-License-Identifier: Apache-2.0
/// @file
/// A file that zlib decompresses while it is read.
///
/// Threads: One.
/// Errors:  A read past damaged data fails; GzipProblem tells why.
/// Tests:   tests/io/capture/compressed_capture_test.cc
#pragma once

#include <cstdio>
#include <memory>
#include <string>

namespace tributary::io {

/// Why the last read failed; empty: none has. The file and its reader share it.
using GzipProblem = std::shared_ptr<std::string>;

/// Returns a file that reads the decompressed bytes of `compressed`, from its present position on.
/// A file without compression is read as it is. Takes over the descriptor, also if it returns null,
/// which means that there is no memory.
[[nodiscard]] std::FILE* open_gzip(int compressed, const GzipProblem& problem);

}  // namespace tributary::io
