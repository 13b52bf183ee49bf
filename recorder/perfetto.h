// SPDX-License-Identifier: Apache-2.0
/// @file
/// A timeline as Chrome trace JSON, which ui.perfetto.dev and chrome://tracing open.
///
/// Model:   A process for each recording, a thread for each core or channel, an instant for each
///          event. A block is an asynchronous span: at the server from its first contribution to
///          its result, at a worker from its first packet to its result.
/// Units:   Microseconds with three decimals, from the first event on.
/// Bounds:  The latest kSpansMax spans, some 50 MB; `spans_left_out` in `otherData` counts the
///          others. At most kSpansMax spans are open at a time. A block that is forgotten and then
///          gets a further contribution counts as another span.
/// Source:  Chrome's "Trace Event Format".
/// Tests:   tests/recorder/perfetto_test.cc
#pragma once

#include <span>
#include <string>

#include "recorder/timeline.h"

namespace tributary::recorder {

inline constexpr uint64_t kSpansMax = 200'000;

struct PerfettoTrace {
  std::string json;
  uint64_t spans_left_out = 0;
};

[[nodiscard]] PerfettoTrace as_perfetto(std::span<const Recording> recordings,
                                        std::span<const TimedEvent> events,
                                        uint64_t spans_max = kSpansMax);

}  // namespace tributary::recorder
