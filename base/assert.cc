// SPDX-License-Identifier: Apache-2.0
#include "base/assert.h"

#include <cstdio>
#include <cstdlib>

namespace tributary {

void assertion_failed(const char* condition, const char* file, int line,
                      const char* rule) noexcept {
  if (rule != nullptr) std::fprintf(stderr, "tributary: bug in a program: %s\n", rule);
  std::fprintf(stderr, "tributary: bug: '%s' does not hold at %s:%d\n", condition, file, line);
  std::abort();
}

}  // namespace tributary
