// SPDX-License-Identifier: Apache-2.0
#include "tests/support/seed.h"

#include <cstdlib>
#include <random>

namespace tributary::testing {

uint64_t seed_from_env() {
  if (const char* text = std::getenv("TRIB_TEST_SEED")) return std::strtoull(text, nullptr, 10);
  std::random_device device;
  return (static_cast<uint64_t>(device()) << 32) | device();
}

std::string replay_hint(uint64_t seed) {
  return "replay with TRIB_TEST_SEED=" + std::to_string(seed);
}

}  // namespace tributary::testing
