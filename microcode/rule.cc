// SPDX-License-Identifier: Apache-2.0
#include "microcode/rule.h"

#include <cstdio>
#include <exception>

#include "base/assert.h"

namespace tributary::microcode {

void exception_escaped() noexcept {
  try {
    throw;
  } catch (const std::exception& exception) {
    std::fprintf(stderr, "tributary: exception: %s\n", exception.what());
  } catch (...) {
    std::fputs("tributary: exception without a text\n", stderr);
  }
  assertion_failed("no exception", __FILE__, __LINE__, rule::kNoException);
}

}  // namespace tributary::microcode
