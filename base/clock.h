// SPDX-License-Identifier: Apache-2.0
/// @file
/// The live clock: monotonic time since the process's start. Whoever runs a loop over real packets
/// (the live engine, the worker's driver, cli/) reads it once per burst and passes the time down;
/// nothing else looks at a clock, so everything else runs in virtual time too.
#pragma once

#include "base/time.h"

namespace tributary {

/// Time since the first call in this process. Any thread.
[[nodiscard]] Instant monotonic_now();

}  // namespace tributary
