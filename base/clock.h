// SPDX-License-Identifier: Apache-2.0
/// @file
/// The live clock: monotonic time since the process's start. Loops over real packets (the live
/// engine, the worker's driver, programs/live_service.h) read it once per burst and pass the time
/// down. io/, recorder/, server/ and cli/ read clocks, too. Models and protocols never do, so they
/// also run in virtual time.
#pragma once

#include "base/time.h"

namespace tributary {

/// Returns the time since the first call in this process. Any thread.
[[nodiscard]] Instant monotonic_now();

}  // namespace tributary
