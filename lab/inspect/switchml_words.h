// SPDX-License-Identifier: Apache-2.0
/// @file
/// SwitchML's messages in words, for traces.
///
/// Tests:   tests/lab/run_observer_test.cc
#pragma once

#include <cstdint>
#include <span>

#include "engine/model/trace_words.h"

namespace tributary::lab {

/// Returns "contribution" toward the switch or "result" from it, with job, slot, set, packet_id and
/// elements; "malformed" for other bytes. @param payload The UDP payload, or its beginning.
[[nodiscard]] engine::TraceWord switchml_message(std::span<const std::byte> payload,
                                                 bool to_switch);

/// Returns whether a UDP port is SwitchML's.
[[nodiscard]] bool is_switchml_port(uint16_t port);

}  // namespace tributary::lab
