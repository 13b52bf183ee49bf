// SPDX-License-Identifier: Apache-2.0
#include "base/clock.h"

#include <chrono>

namespace tributary {

Instant monotonic_now() {
  static const auto started_at = std::chrono::steady_clock::now();
  const auto since = std::chrono::steady_clock::now() - started_at;
  return Instant(nanoseconds(std::chrono::duration_cast<std::chrono::nanoseconds>(since).count()));
}

}  // namespace tributary
