// SPDX-License-Identifier: Apache-2.0
#include "host/loss_repair.h"

#include <algorithm>
#include <bit>

#include "base/mutant.h"

namespace tributary::host {

namespace {

/// A packet counts as lost if a packet sent this many packets later has its answer.
/// Source: ATP §3.5 (three).
constexpr uint64_t kOvertakenBy = 3;
/// With mitigation, an overdue position is probed this many times within the straggler timeout, so
/// that losses are repaired before a block ages.
constexpr int64_t kRepairsPerTimeout = 8;
constexpr Duration kRepairMin = milliseconds(1);
/// The timeout doubles at most this many times while the aggregator is silent.
constexpr uint32_t kDoublingsMax = 6;
/// The timeout doubles at most this many times while the aggregator answers and later results have
/// come. A packet is lost then, and a longer timeout would stop the whole window for it.
constexpr uint32_t kDoublingsHeardMax = 1;

}  // namespace

void LossRepair::open(const Config& config) {
  config_ = config;
  slots_.assign(std::bit_ceil(config.window), Slot{});
  slot_mask_ = slots_.size() - 1;
}

// --- Packets sent ---

void LossRepair::begin(uint64_t position) {
  Slot& slot = slot_of(position);
  slot = Slot{};
  slot.state = State::kSent;
}

void LossRepair::on_contribution_sent(uint64_t position, Instant now) {
  Slot& slot = slot_of(position);
  slot.state = State::kSent;
  slot.data_wanted = false;
  count_packet(position, Wait::kResult, now);
}

void LossRepair::on_probe_sent(uint64_t position, Instant now) {
  asked_at_ = now;
  count_packet(position, Wait::kAnswer, now);
}

void LossRepair::count_packet(uint64_t position, Wait wait, Instant now) {
  Slot& slot = slot_of(position);
  slot.attempts = static_cast<uint8_t>(std::min(slot.attempts + 1, UINT8_MAX));
  slot.sent_at = now;
  slot.sent_order = next_order_++;
  begin_wait(position, wait);
  scan_at_ = std::min(scan_at_, now + repair_after(position));
}

// --- Packets received ---

void LossRepair::on_heard(Instant now) {
  // After a silence the timeouts of the probed positions have grown; do not wait for them.
  if (last_heard_at_ <= asked_at_) scan_within_timeout(now);
  last_heard_at_ = now;
}

void LossRepair::on_result(uint64_t position, Instant now) {
  Slot& slot = slot_of(position);
  const Duration time = now - slot.sent_at;
  if (slot.attempts == 1) {
    rtt_.sample(time);
    sample_answer(time);
    // The scan was scheduled by an older estimate, or by none.
    scan_within_timeout(now);
    ask_at_once_ = 1;  // Results come unasked: the positions behind this one are late, not lost.
  } else if (time < answer_time_min_) {
    // The result was on its way when the worker asked, and so are those behind it.
    ask_at_once_ = 1;
    scan_within_timeout(now);
  } else if (slot.state == State::kSent) {
    learn_from_answer(position, /*lost=*/true, now);
  } else {
    scan_within_timeout(now);
  }
  // The result of a probed position may be the answer to its contribution or to its probe, so it
  // overtakes nothing.
  if (slot.wait == Wait::kResult) {
    queue_overtaken(Wait::kResult, position);
    queue_overtaken(Wait::kAnswer, position);
  }
  end_wait(position);
  slot.state = State::kFree;
  result_below_ = std::max(result_below_, position + 1);
}

void LossRepair::on_have(uint64_t position, bool lost, Instant now) {
  Slot& slot = slot_of(position);
  learn_from_answer(position, lost, now);
  if (slot.wait == Wait::kAnswer) {
    if (slot.attempts == 2) sample_answer(now - slot.sent_at);
    queue_overtaken(Wait::kAnswer, position);
  }
  if (lost) {
    slot.state = State::kSent;
    slot.data_wanted = true;
    end_wait(position);
    queue(position);
    return;
  }
  begin_wait(position, Wait::kResult);
  if (slot.state == State::kHeld) return;
  slot.state = State::kHeld;
  slot.data_wanted = false;
  slot.attempts = 2;  // Its result is ambiguous, so it gives no round-trip sample.
  scan_at_ = std::min(scan_at_, now + repair_after(position));
}

/// Records the time from a packet to its only possible answer.
void LossRepair::sample_answer(Duration time) {
  const bool first = answer_time_min_ == Duration();
  answer_time_min_ = first ? time : std::min(answer_time_min_, time);
}

/// Handles the answer to a probe. If no result has overtaken the position, a scan is due at once.
/// After a loss that scan may probe twice as many such positions. Without a loss they wait for the
/// same peer.
void LossRepair::learn_from_answer(uint64_t position, bool lost, Instant now) {
  if (position < result_below_) return;
  if (lost) ask_at_once_ = std::min(ask_at_once_ * 2, config_.window);
  scan_at_ = now;
}

// --- Wait lists ---

/// Starts a wait of the position and ends its previous one.
void LossRepair::begin_wait(uint64_t position, Wait wait) {
  end_wait(position);
  WaitList& list = waits_[static_cast<size_t>(wait)];
  Slot& slot = slot_of(position);
  slot.wait = wait;
  slot.wait_order = next_order_;
  slot.before = list.last;
  slot.after = kNone;
  (list.last == kNone ? list.first : slot_of(list.last).after) = position;
  list.last = position;
}

void LossRepair::end_wait(uint64_t position) {
  Slot& slot = slot_of(position);
  if (slot.wait == Wait::kNothing) return;
  WaitList& list = waits_[static_cast<size_t>(slot.wait)];
  (slot.before == kNone ? list.first : slot_of(slot.before).after) = slot.after;
  (slot.after == kNone ? list.last : slot_of(slot.after).before) = slot.before;
  slot.wait = Wait::kNothing;
}

/// Queues the positions whose wait began at least kOvertakenBy packets before the last packet of
/// `by`, which has its answer.
void LossRepair::queue_overtaken(Wait wait, uint64_t by) {
  if (!config_.enabled) return;
  const WaitList& list = waits_[static_cast<size_t>(wait)];
  const uint64_t order = slot_of(by).sent_order;
  while (list.first != kNone && slot_of(list.first).wait_order + kOvertakenBy <= order + 1) {
    // Peers that contributed to `by` may not have contributed to the positions above it.
    if (wait == Wait::kResult && list.first > by) break;
    queue(list.first);
    end_wait(list.first);
  }
}

// --- Time ---

/// Returns how long after its last packet the position becomes overdue.
Duration LossRepair::repair_after(uint64_t position) const {
  const Slot& slot = slot_of(position);
  const uint32_t asked = slot.attempts > 0 ? slot.attempts - 1U : 0U;
  // If this position and all later ones are held, they wait for a peer. Nothing is lost then.
  const bool lost = slot.state == State::kSent || position < result_below_;
  const bool heard = last_heard_at_ > slot.sent_at;
  const auto factor =
      int64_t{1} << std::min(asked, lost && heard ? kDoublingsHeardMax : kDoublingsMax);
  Duration longest = RttEstimator::kMax;
  if (config_.straggler_timeout != Duration()) {
    longest = std::max(config_.straggler_timeout / kRepairsPerTimeout, kRepairMin);
  }
  // A held contribution has arrived, so only its result can be lost: probe half as often. With
  // mitigation the bound stays short, because a worker that misses a result is late for the next
  // window.
  if (slot.state == State::kHeld) {
    return std::min(rtt_.timeout(RttEstimator::kMax) * 2 * factor, longest);
  }
  return std::min(rtt_.timeout(longest) * factor, longest);
}

void LossRepair::scan(uint64_t base, uint64_t next, Instant now) {
  scan_at_ = Instant::never();
  if (!config_.enabled) return;
  uint32_t doubtful = 0;  // Probed, unanswered, and overtaken by no result: perhaps only late.
  for (uint64_t p = base; p < next; p++) {
    const Slot& slot = slot_of(p);
    if (slot.state == State::kFree || TRIB_MUTANT(kNeverOverdue)) continue;
    const bool overtaken = p < result_below_;
    const Instant due = slot.sent_at + repair_after(p);
    if (due > now) {
      scan_at_ = std::min(scan_at_, due);
      if (slot.state == State::kSent && slot.attempts > 1 && !overtaken) doubtful++;
    } else if (overtaken || doubtful < ask_at_once_) {
      queue(p);
      if (!overtaken) doubtful++;
    }
  }
}

void LossRepair::scan_within_timeout(Instant now) {
  scan_at_ = std::min(scan_at_, now + rtt_.timeout(RttEstimator::kMax));
}

// --- The queue ---

void LossRepair::queue(uint64_t position) {
  Slot& slot = slot_of(position);
  if (slot.queued) return;
  slot.queued = true;
  queue_.push_back(position);
}

std::optional<LossRepair::Request> LossRepair::take_request(uint64_t base, uint64_t next) {
  while (!queue_.empty()) {
    const uint64_t position = queue_.front();
    queue_.pop_front();
    Slot& slot = slot_of(position);
    slot.queued = false;
    if (position < base || position >= next || slot.state == State::kFree) continue;
    return Request{position, slot.data_wanted};
  }
  return {};
}

}  // namespace tributary::host
