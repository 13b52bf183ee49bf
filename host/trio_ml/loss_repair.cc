// SPDX-License-Identifier: Apache-2.0
#include "host/trio_ml/loss_repair.h"

#include <algorithm>
#include <bit>

#include "base/mutant.h"

namespace tributary::host {

namespace {

/// A packet counts as lost if a packet sent this many packets later has its answer. It is the
/// least: note_reordering() raises it. Source: ATP §3.5 (three).
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

LossRepair::LossRepair(Instant now) : overtaken_by_(kOvertakenBy), last_heard_at_(now) {}

void LossRepair::open(const Config& config) {
  config_ = config;
  slots_.assign(std::bit_ceil(config.window), Slot{});
  slot_mask_ = slots_.size() - 1;
  runs_.assign(std::bit_ceil(config.window / wire::kBlocksPerRun + 2), RunProbe{});
  run_mask_ = runs_.size() - 1;
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
  slot.data_order = count_packet(position, Wait::kResult, now);
}

uint32_t LossRepair::on_probe_sent(uint64_t position, bool about_run, Instant now) {
  asked_at_ = now;
  probes_since_heard_++;
  const uint64_t order = count_packet(position, Wait::kAnswer, now);
  if (about_run && covering_probe(position) == nullptr) {
    runs_[position / wire::kBlocksPerRun & run_mask_] = {position, order, now};
  }
  return static_cast<uint32_t>(order);
}

/// @return the packet's number.
uint64_t LossRepair::count_packet(uint64_t position, Wait wait, Instant now) {
  Slot& slot = slot_of(position);
  slot.attempts = static_cast<uint8_t>(std::min(slot.attempts + 1, UINT8_MAX));
  slot.sent_at = now;
  slot.sent_order = next_order_++;
  begin_wait(position, wait);
  scan_at_ = std::min(scan_at_, overdue_at(position));
  return slot.sent_order;
}

/// Forgets that a probe of this position asked about the rest of the run: its answer does not tell.
void LossRepair::forget_probe(uint64_t position) {
  RunProbe& probe = runs_[position / wire::kBlocksPerRun & run_mask_];
  if (probe.position == position) probe.position = kNone;
}

/// Returns the last probe about the position's run if it asks about the position: it was sent for
/// an earlier position, at least kOvertakenBy packets after this position's last packet.
const LossRepair::RunProbe* LossRepair::covering_probe(uint64_t position) const {
  const RunProbe& probe = runs_[position / wire::kBlocksPerRun & run_mask_];
  const bool covers = probe.position < position && position >= result_below_ &&
                      probe.position / wire::kBlocksPerRun == position / wire::kBlocksPerRun &&
                      slot_of(position).sent_order + kOvertakenBy <= probe.order;
  return covers ? &probe : nullptr;
}

// --- Packets received ---

void LossRepair::on_heard(Instant now) {
  // After a silence the timeouts of the probed positions have grown; do not wait for them.
  if (last_heard_at_ <= asked_at_) scan_within_timeout(now);
  last_heard_at_ = now;
  probes_since_heard_ = 0;
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
    note_reordering(position);
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
    queue_overtaken(Wait::kResult, position, slot.sent_order);
    queue_overtaken(Wait::kAnswer, position, slot.sent_order);
  }
  end_wait(position);
  slot.state = State::kFree;
  forget_probe(position);
  result_below_ = std::max(result_below_, position + 1);
}

void LossRepair::on_have(uint64_t position, bool lost, Instant now) {
  forget_probe(position);
  learn_from_answer(position, lost, now);
  take_have(position, lost, now);
}

void LossRepair::take_have(uint64_t position, bool lost, Instant now) {
  Slot& slot = slot_of(position);
  if (slot.wait == Wait::kAnswer) {
    if (slot.attempts == 2) sample_answer(now - slot.sent_at);
    queue_overtaken(Wait::kAnswer, position, slot.sent_order);
  }
  if (lost) {
    retransmit(position);
    return;
  }
  begin_wait(position, Wait::kResult);
  if (slot.state == State::kHeld) return;
  slot.state = State::kHeld;
  slot.data_wanted = false;
  slot.attempts = 2;  // Its result is ambiguous, so it gives no round-trip sample.
  scan_at_ = std::min(scan_at_, overdue_at(position));
}

void LossRepair::on_have_run(uint64_t position, bool lost, const RunAnswer& answer, uint64_t next,
                             Instant now) {
  const uint32_t packets_since = static_cast<uint32_t>(next_order_) - answer.probe;
  if (packets_since == 0 || packets_since > next_order_) return;  // Not a number of this worker.
  const uint64_t order = next_order_ - packets_since;
  learn_from_answer(position, /*lost=*/false, now);
  queue_overtaken(Wait::kAnswer, position, order);
  // A contribution that was retransmitted after the probe may be on its way.
  const uint64_t data_order = slot_of(position).data_order;
  if (!lost || data_order == kNone || data_order < order) take_have(position, lost, now);
  const uint64_t end = std::min(next, position + wire::blocks_to_run_end(position));
  for (uint64_t p = position + 1; p < end; p++) {
    const uint64_t i = p - position;
    take_answer(p, order, (answer.present[i / 64] >> (i % 64) & 1) != 0,
                (answer.complete[i / 64] >> (i % 64) & 1) != 0);
  }
}

/// Applies the answer to a probe of another position, sent as packet `order`, to this position.
void LossRepair::take_answer(uint64_t position, uint64_t order, bool present, bool complete) {
  Slot& slot = slot_of(position);
  // A position without a contribution is only probed.
  if (slot.state == State::kFree || slot.data_order == kNone) return;
  if (slot.data_order + kOvertakenBy > order) return;
  if (!present) {
    retransmit(position);
    return;
  }
  if (slot.state == State::kSent) {
    slot.state = State::kHeld;
    slot.data_wanted = false;
  }
  // The result left before the answer.
  if (complete && slot.sent_order + kOvertakenBy <= order) queue(position);
}

/// Detects reordering. Called if a result arrives sooner after a probe than any answer can. If the
/// only probe was sent because a later position had its answer, nothing was lost: the aggregator or
/// the network reorders packets, and the threshold doubles. If the aggregator had the contribution
/// before the probe, a peer has repaired a loss of its own, and the threshold stays.
/// Source: RFC 8985 §6.2, whose window also grows with each such event.
void LossRepair::note_reordering(uint64_t position) {
  const Slot& slot = slot_of(position);
  if (!slot.overtaken || slot.state != State::kSent || slot.attempts != 2) return;
  const uint64_t most = std::max<uint64_t>(config_.window / 2, kOvertakenBy);
  overtaken_by_ = std::min(2 * overtaken_by_, most);
}

/// Queues the contribution of a position, which the aggregator lacks.
void LossRepair::retransmit(uint64_t position) {
  Slot& slot = slot_of(position);
  // Halve the threshold, so that losses are found quickly once reordering stops.
  if (slot.overtaken) overtaken_by_ = std::max(overtaken_by_ / 2, kOvertakenBy);
  slot.state = State::kSent;
  slot.data_wanted = true;
  end_wait(position);
  queue(position);
}

/// Records the time from a packet to its only possible answer.
void LossRepair::sample_answer(Duration time) {
  const bool first = answer_time_min_ == Duration();
  answer_time_min_ = first ? time : std::min(answer_time_min_, time);
}

/// Handles the answer to a probe. If no later position has a result, makes a second scan due at
/// once. If the answer proves a loss, that scan may probe twice as many positions. Otherwise the
/// positions wait for a peer, and the number of probes stays.
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

/// Queues the positions whose wait began at least overtaken_by_ packets before packet `order` of
/// the position `by`, which has its answer.
void LossRepair::queue_overtaken(Wait wait, uint64_t by, uint64_t order) {
  if (!config_.enabled) return;
  const WaitList& list = waits_[static_cast<size_t>(wait)];
  while (list.first != kNone && slot_of(list.first).wait_order + overtaken_by_ <= order + 1) {
    // Peers that contributed to `by` may not have contributed to the positions above it.
    if (wait == Wait::kResult && list.first > by) break;
    slot_of(list.first).overtaken = true;
    queue(list.first);
    end_wait(list.first);
  }
}

// --- Time ---

/// Returns when the position becomes overdue: an interval after its last packet, or after the last
/// probe that asks about it.
Instant LossRepair::overdue_at(uint64_t position) const {
  const Slot& slot = slot_of(position);
  Instant asked_at = slot.sent_at;
  uint32_t attempts = slot.attempts;
  if (const RunProbe* probe = covering_probe(position)) {
    asked_at = probe->sent_at;
    attempts = std::max<uint32_t>(attempts, slot_of(probe->position).attempts);
  }
  const uint32_t asked = attempts > 0 ? attempts - 1U : 0U;
  // If this position and all later ones are held, they wait for a peer. Nothing is lost then.
  const bool lost = slot.state == State::kSent || position < result_below_;
  const bool heard = last_heard_at_ > asked_at;
  uint32_t doublings_max = kDoublingsMax;
  if (lost) {
    // A single lost probe is no silence, however often the position was probed before.
    doublings_max = heard ? kDoublingsHeardMax
                          : std::clamp(probes_since_heard_, kDoublingsHeardMax, kDoublingsMax);
  }
  const auto factor = int64_t{1} << std::min(asked, doublings_max);
  Duration longest = RttEstimator::kMax;
  if (config_.straggler_timeout != Duration()) {
    longest = std::max(config_.straggler_timeout / kRepairsPerTimeout, kRepairMin);
  }
  // A held contribution has arrived, so only its result can be lost: probe half as often. With
  // mitigation the bound stays short, because a worker that misses a result is late for the next
  // window.
  if (slot.state == State::kHeld) {
    return asked_at + std::min(rtt_.timeout(RttEstimator::kMax) * 2 * factor, longest);
  }
  return asked_at + std::min(rtt_.timeout(longest) * factor, longest);
}

void LossRepair::scan(uint64_t base, uint64_t next, Instant now) {
  scan_at_ = Instant::never();
  if (!config_.enabled || TRIB_MUTANT(kNeverOverdue)) return;
  while (base < next) {
    const uint64_t run_end = std::min(next, base + wire::blocks_to_run_end(base));
    scan_run(base, run_end, now);
    base = run_end;
  }
}

/// Queues overdue positions of one run: those that a result has overtaken, and of the others the
/// first. Its probe asks about the rest.
void LossRepair::scan_run(uint64_t base, uint64_t next, Instant now) {
  uint32_t asked = 0;
  for (uint64_t p = base; p < next; p++) {
    const Slot& slot = slot_of(p);
    if (slot.state == State::kFree) continue;
    const Instant due = overdue_at(p);
    if (due > now) {
      scan_at_ = std::min(scan_at_, due);
    } else if (p < result_below_) {
      queue(p);
    } else if (asked < ask_at_once_) {
      queue(p);
      asked++;
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
