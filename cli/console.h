// SPDX-License-Identifier: Apache-2.0
/// @file
/// Output to the terminal. fmt::print() throws if a disk is full; these functions go on, so that
/// the command still writes its files and ends in order. end_output() reports the failure.
///
/// Threads: Any. Reserve standard output before other threads print.
/// Errors:  A failed write to standard output is kept (ferror) until end_output(). A failed write
///          to standard error is lost, because nothing is left to report it.
/// Tests:   tests/cli/console_test.cc, tests/system/output_test.cc
#pragma once

#include <fmt/format.h>

#include <cstdio>
#include <iosfwd>
#include <string>
#include <utility>

namespace tributary::cli {

/// Prints to `stream`.
template <class... T>
void print_to(std::FILE* stream, fmt::format_string<T...> format, T&&... values) {
  const std::string text = fmt::format(format, std::forward<T>(values)...);
  static_cast<void>(std::fwrite(text.data(), 1, text.size(), stream));
}

/// Opens /dev/null for standard descriptors that are closed, the wrong way round, so that no other
/// file takes their numbers and their use still fails. Call it first in main().
void hold_standard_descriptors();

/// Leaves standard output to a result, as for `--json -`: print() then prints to standard error.
void reserve_standard_output();
/// Ends the reservation of an earlier command line of this process, as in tests.
void release_standard_output();

/// Returns the stream of print(): standard output, unless it is reserved.
[[nodiscard]] std::FILE* text_output();

/// Returns text_output() as a C++ stream.
[[nodiscard]] std::ostream& text_stream();

/// Prints to text_output().
template <class... T>
void print(fmt::format_string<T...> format, T&&... values) {
  print_to(text_output(), format, std::forward<T>(values)...);
}

/// Prints to standard error.
template <class... T>
void print_error(fmt::format_string<T...> format, T&&... values) {
  print_to(stderr, format, std::forward<T>(values)...);
}

/// Flushes `output`, and reports to `errors` if any write to it has failed.
/// @return `exit_code`, but 1 instead of 0 after a failure.
[[nodiscard]] int end_output(int exit_code, std::FILE* output = stdout, std::FILE* errors = stderr);

}  // namespace tributary::cli
