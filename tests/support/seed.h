// SPDX-License-Identifier: Apache-2.0
/// @file
/// The seed of a random test: new in each run, or taken from TRIB_TEST_SEED to replay one. A test
/// prints it on failure with SCOPED_TRACE(testing::replay_hint(seed)).
#pragma once

#include <cstdint>
#include <string>

#include "base/prng.h"

namespace tributary::testing {

using tributary::Prng;

/// Returns TRIB_TEST_SEED if it is set, else a seed from the operating system.
uint64_t seed_from_env();

/// Returns "replay with TRIB_TEST_SEED=…".
std::string replay_hint(uint64_t seed);

}  // namespace tributary::testing
