// SPDX-License-Identifier: Apache-2.0
/// @file
/// A fuzzer's bytes as a file, for readers that take a path.
///
/// Memory:  The file lies in memory and has no name.
/// Threads: One.
/// Errors:  A failed system call stops the program.
/// Tests:   tests/fuzz/replay_test.cc
#pragma once

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/assert.h"
#include "tests/fuzz/fuzz_target.h"

namespace tributary::fuzz {

class InputFile {
 public:
  explicit InputFile(std::span<const uint8_t> bytes) : file_(memfd_create("input", 0)) {
    TRIB_ASSERT(file_ >= 0);
    const bool written =
        write(file_, bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size());
    TRIB_ASSERT(written);
  }
  ~InputFile() { close(file_); }
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;

  [[nodiscard]] std::string path() const { return fmt::format("/proc/self/fd/{}", file_); }

 private:
  const int file_;
};

/// Returns a text as a fuzzer's input.
[[nodiscard]] inline Bytes input_of_text(std::string_view text) {
  return {text.begin(), text.end()};
}

/// Returns a fuzzer's input as text.
[[nodiscard]] inline std::string_view text_of_input(std::span<const uint8_t> input) {
  return {reinterpret_cast<const char*>(input.data()), input.size()};
}

/// Longest error text that names a written value of at most `input_bytes`.
[[nodiscard]] inline size_t error_bytes_max(size_t input_bytes) { return 4096 + 8 * input_bytes; }

}  // namespace tributary::fuzz
