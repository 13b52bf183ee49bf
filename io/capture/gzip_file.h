// SPDX-License-Identifier: Apache-2.0
/// @file
/// A file that is decompressed while it is read, and plain input that cannot seek, such as a pipe.
///
/// Model:   A read returns the bytes that are there. It waits only if there are none, so the
///          packets of a slow sender are not held back.
/// Threads: One.
/// Errors:  A read past damaged data fails; GzipProblem tells why. A read that a signal interrupts
///          fails with EINTR; no byte that came before it is lost.
/// Memory:  128 KiB for input, besides zlib's.
/// Tests:   tests/io/capture/compressed_capture_test.cc, tests/io/capture/piped_capture_test.cc
#pragma once

#include <cstdio>
#include <memory>
#include <string>

namespace tributary::io {

/// Why the compressed data is damaged; empty: it is not. The file and its reader share it.
using GzipProblem = std::shared_ptr<std::string>;

/// Returns a file that reads the decompressed bytes of `compressed`, from its present position on.
/// A file without compression is read as it is. Takes over the descriptor, also if it returns null,
/// which means that there is no memory.
[[nodiscard]] std::FILE* open_gzip(int compressed, const GzipProblem& problem);

}  // namespace tributary::io
