// SPDX-License-Identifier: Apache-2.0
#include "apps/guard/outcomes.h"

namespace tributary::guard {
namespace {

constexpr std::array<const char*, kOutcomeCount> kNames{"forwarded",
                                                        "allowed",
                                                        "known",
                                                        "policed",
                                                        "kept",
                                                        "would_drop",
                                                        "not_ip",
                                                        "dropped_source",
                                                        "dropped_network",
                                                        "dropped_destination",
                                                        "not_frame",
                                                        "bad_ip_header",
                                                        "truncated",
                                                        "violation",
                                                        "detected",
                                                        "recovered",
                                                        "timed_out",
                                                        "expired",
                                                        "source_known",
                                                        "suspect_untracked",
                                                        "destination_untracked"};

}  // namespace

const char* to_string(Outcome outcome) {
  const auto index = static_cast<uint32_t>(outcome);
  return index < kOutcomeCount ? kNames[index] : "unknown";
}

}  // namespace tributary::guard
