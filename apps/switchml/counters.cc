// SPDX-License-Identifier: Apache-2.0
#include "apps/switchml/counters.h"

namespace tributary::switchml {
namespace {

constexpr std::array<const char*, kOutcomeCount> kNames{
    "aggregated",         "slot_completed", "result_sent",    "retransmitted",
    "duplicate",          "slot_restarted", "slot_reclaimed", "not_ip",
    "bad_ip_header",      "ip_options",     "fragment",       "not_udp",
    "wrong_port",         "truncated",      "not_switchml",   "unknown_worker",
    "session_incomplete", "wrong_elements", "length_differs", "slot_outside_pool",
    "phase_ahead",        "chunk_differs",  "slot_busy",
};
static_assert(kNames.back() != nullptr, "every Outcome has a name");

}  // namespace

const char* to_string(Outcome outcome) { return kNames[static_cast<uint32_t>(outcome)]; }

}  // namespace tributary::switchml
