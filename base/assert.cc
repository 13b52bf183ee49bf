// SPDX-License-Identifier: Apache-2.0
#include "base/assert.h"

#include <cstdio>
#include <cstdlib>

#include "base/running_program.h"

namespace tributary {
namespace {

/// Prints the rule, the program that broke it, and the place: `place`, or that of the program's
/// last instruction.
void print_rule(const char* rule, std::source_location place) noexcept {
  const RunningProgram* const running = running_program();
  std::fputs("tributary: bug in ", stderr);
  if (running != nullptr && !running->program.empty()) {
    std::fprintf(stderr, "program '%.*s'", static_cast<int>(running->program.size()),
                 running->program.data());
  } else {
    std::fputs("a program", stderr);
  }
  if (place.line() != 0) std::fprintf(stderr, " at %s:%u", place.file_name(), place.line());
  if (running != nullptr && running->instruction != nullptr) {
    std::fprintf(stderr, ", instruction '%s'", running->instruction);
    if (place.line() == 0) {
      std::fprintf(stderr, " at %s:%u", running->place.file_name(), running->place.line());
    }
  }
  std::fprintf(stderr, ": %s\n", rule);
}

}  // namespace

void assertion_failed(const char* condition, const char* file, int line,
                      const char* rule) noexcept {
  if (rule != nullptr) print_rule(rule, {});
  std::fprintf(stderr, "tributary: bug: '%s' does not hold at %s:%d\n", condition, file, line);
  std::abort();
}

void rule_broken(const char* condition, const char* file, int line, const char* rule,
                 std::source_location place) noexcept {
  print_rule(rule, place);
  assertion_failed(condition, file, line);
}

}  // namespace tributary
