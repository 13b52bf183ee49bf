// SPDX-License-Identifier: Apache-2.0
#include "cli/console.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <iostream>
#include <system_error>

namespace tributary::cli {

namespace {

bool standard_output_is_reserved = false;

}  // namespace

void hold_standard_descriptors() {
  for (const int standard : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (fcntl(standard, F_GETFD) >= 0) continue;
    // The lowest number is free.
    static_cast<void>(open("/dev/null", standard == STDIN_FILENO ? O_WRONLY : O_RDONLY));
  }
}

void reserve_standard_output() { standard_output_is_reserved = true; }

void release_standard_output() { standard_output_is_reserved = false; }

std::FILE* text_output() { return standard_output_is_reserved ? stderr : stdout; }

std::ostream& text_stream() { return standard_output_is_reserved ? std::cerr : std::cout; }

int end_output(int exit_code, std::FILE* output, std::FILE* errors) {
  const bool failed_before = std::ferror(output) != 0;
  if (std::fflush(output) != 0) {
    print_to(errors, "tributary: standard output cannot be written: {}\n",
             std::system_category().message(errno));
  } else if (failed_before) {
    print_to(errors, "tributary: standard output is incomplete: a write has failed\n");
  } else {
    return exit_code;
  }
  return exit_code == 0 ? 1 : exit_code;
}

}  // namespace tributary::cli
