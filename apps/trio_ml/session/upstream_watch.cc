// SPDX-License-Identifier: Apache-2.0
#include "apps/trio_ml/session/upstream_watch.h"

#include <algorithm>

namespace tributary::trio_ml {

using wire::Reason;
namespace {

/// A pending states a silence of this length. Assumed: two questions lost in a row are enough,
/// because before a session starts a false statement harms nobody.
constexpr Duration kStatedAfter = milliseconds(700);

}  // namespace

uint32_t silence_us(Duration silent_for) {
  return static_cast<uint32_t>(
      std::clamp<int64_t>(in_microseconds(silent_for), 0, int64_t{UINT32_MAX}));
}

std::optional<UpstreamWatch::Question> UpstreamWatch::question_to_repeat(Instant now) const {
  // Acquire: pairs with the release in asked().
  const int64_t since = owed_since_.load(std::memory_order_acquire);
  if (since == kNothing) return {};
  if (now - Instant(Duration::from_ticks(since)) < kUpstreamAnswersWithin) return {};
  const uint64_t question = question_.load(std::memory_order_relaxed);
  return Question{.block_id = static_cast<uint32_t>(question >> 32U),
                  .gen_id = static_cast<uint16_t>(question >> 16U),
                  .grad_cnt = static_cast<uint16_t>(question)};
}

void UpstreamWatch::restart() {
  owed_since_.store(kNothing, std::memory_order_relaxed);
  above_ = {};
  silence_noted_ = false;
}

void UpstreamWatch::take_pending(const wire::ControlBody& body) {
  const bool waits_for_another =
      body.reason == Reason::kWaitingForUpstream || body.reason == Reason::kUpstreamSilent;
  above_ = waits_for_another ? body : wire::ControlBody{};
}

void UpstreamWatch::describe(wire::ControlBody& pending, const Endpoint& upstream,
                             Instant now) const {
  if (silent_for(now) >= kStatedAfter) {
    pending.reason = Reason::kUpstreamSilent;
    pending.group = upstream;
    pending.timeout_us = silence_us(silent_for(now));
  } else if (above_.group.is_set()) {  // Not set: of an older version.
    pending.reason = above_.reason;
    pending.group = above_.group;
    pending.timeout_us = above_.timeout_us;
  } else {
    pending.reason = Reason::kWaitingForUpstream;
    pending.group = upstream;
  }
}

UpstreamWatch::Change UpstreamWatch::note_change(Instant now) {
  const bool silent = is_silent(now);
  if (silent == silence_noted_) return Change::kNone;
  silence_noted_ = silent;
  return silent ? Change::kSilent : Change::kHeard;
}

}  // namespace tributary::trio_ml
