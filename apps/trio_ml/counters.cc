// SPDX-License-Identifier: Apache-2.0
#include "apps/trio_ml/counters.h"

namespace tributary::trio_ml {
namespace {

constexpr std::array<const char*, kOutcomeCount> kNames{
    "aggregated",
    "block_completed",
    "block_degraded",
    "result_sent",
    "receipt_sent",
    "sent_upstream",
    "upstream_result",
    "duplicate",
    "late",
    "probe",
    "have_sent",
    "join",
    "welcome",
    "leave",
    "keep_alive",
    "report",
    "session_started",
    "session_ended",
    "notice_sent",
    "cookie_sent",
    "reset_sent",
    "source_quota",
    "reply_withheld",
    "block_superseded",
    "source_temporary_straggler",
    "source_permanent_straggler",
    "source_returned",
    "silence_waited",
    "silence_excluded",
    "silence_ended",
    "parameter_overflow",
    "not_ip",
    "bad_ip_header",
    "ip_options",
    "fragment",
    "not_udp",
    "wrong_port",
    "truncated",
    "length_below_grad_cnt",
    "length_above_grad_cnt",
    "bad_extension",
    "no_gradients",
    "unknown_job",
    "source_outside_job",
    "too_many_gradients",
    "grad_cnt_differs",
    "tensor_differs",
    "not_parameters",
    "stale_generation",
    "future_generation",
    "past_cache",
    "window_exceeded",
    "foreign_address",
    "wrong_session",
    "session_required",
    "wrong_key",
    "wrong_authentication",
    "bad_seal",
    "replayed",
    "not_expected_here",
    "no_buffer",
};
static_assert(kNames.back() != nullptr, "every Outcome has a name");

}  // namespace

const char* to_string(Outcome outcome) { return kNames[static_cast<uint32_t>(outcome)]; }

}  // namespace tributary::trio_ml
