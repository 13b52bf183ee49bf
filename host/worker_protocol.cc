// SPDX-License-Identifier: Apache-2.0
#include "host/worker_protocol.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "base/assert.h"
#include "base/mutant.h"
#include "host/number_format.h"

namespace tributary::host {

using wire::ElementFormat;
using wire::MessageType;

namespace {

/// How often a worker asks to join.
constexpr Duration kJoinEvery = milliseconds(50);
/// Good-byes are not acknowledged, and a peer whose good-bye is lost is waited for as long as a
/// silent one. So they are repeated, 1 ms after the first and each time twice as late: an
/// aggregator whose socket is full drops two in a row as easily as one. Closing takes 15 ms.
/// Assumed.
constexpr uint32_t kLeaveCount = 5;
constexpr Duration kLeaveAgainAfter = milliseconds(1);
/// What is overtaken by the answer to something so many packets later counts as lost. Source: ATP
/// §3.5 (three).
constexpr uint64_t kOvertakenBy = 3;
/// With mitigation, an overdue position is asked about so often within the straggler timeout, so
/// that losses are repaired before a block ages.
constexpr int64_t kRepairsPerTimeout = 8;
constexpr Duration kRepairMin = milliseconds(1);
/// Doublings of the time-out, at most, while the aggregator is silent.
constexpr uint32_t kDoublingsMax = 6;
/// The same while it answers and later results have come: then a packet is lost, and to wait longer
/// and longer would stop the whole window for it.
constexpr uint32_t kDoublingsHeardMax = 1;
/// An aggregator heard of so lately is alive.
constexpr Duration kAliveFor = milliseconds(2000);

std::string overflow_text(const Transfer& transfer, uint32_t world) {
  if (transfer.format == ElementFormat::kBlockExponent) {
    return fmt::format("a straggler's values are more than {} times those of the ranks in time",
                       1 << kDegradedHeadroom);
  }
  return fmt::format(
      "a value times the scale {} does not fit into a sum of {} ranks; use a smaller scale",
      transfer.scale, world);
}

}  // namespace

const char* to_string(Status status) {
  switch (status) {
    case Status::kOk:
      return "ok";
    case Status::kOverflow:
      return "overflow";
    case Status::kNotFinite:
      return "not_finite";
    case Status::kPeerMissing:
      return "peer_missing";
    case Status::kPeerLeft:
      return "peer_left";
    case Status::kAggregatorGone:
      return "aggregator_gone";
    case Status::kSessionLost:
      return "session_lost";
    case Status::kDesynchronised:
      return "desynchronised";
    case Status::kMismatch:
      return "mismatch";
    case Status::kRefused:
      return "refused";
    case Status::kClosed:
      return "closed";
  }
  return "unknown";
}

WorkerProtocol::WorkerProtocol(const CommunicatorConfig& config, uint32_t nonce, Instant now)
    : config_(config),
      nonce_(nonce),
      started_at_(now),
      join_at_(now),
      heard_at_(now),
      sent_at_(now) {
  TRIB_ASSERT(nonce != 0);
  if (!config_.source) config_.source = config_.rank;
}

// --- The stream ---

void WorkerProtocol::submit(Transfer& transfer, Instant now) {
  TRIB_ASSERT(transfer.elided_elements == 0 || transfer.format == ElementFormat::kInt32);
  transfer.done = false;
  transfer.outcome = Outcome{};
  if (phase_ == Phase::kEnded) {
    transfer.outcome.status = status_;
    transfer.outcome.text = status_text_;
    transfer.done = true;
    return;
  }
  if (transfer.element_count() == 0) {
    transfer.done = true;
    return;
  }
  transfers_.push_back(&transfer);
  if (phase_ == Phase::kRunning) start_transfer(transfer, now);
}

void WorkerProtocol::start_transfer(Transfer& transfer, Instant now) {
  const uint64_t blocks = (transfer.element_count() + config_.gradients - 1) / config_.gradients;
  transfer.lead_ = 0;
  if (transfer.format == ElementFormat::kBlockExponent) {
    transfer.lead_ = std::min<uint64_t>(window_, blocks);
    transfer.exponents_.assign(blocks, -128);
  }
  transfer.position_first_ = end_;
  transfer.positions_left_ = blocks + transfer.lead_;
  transfer.gen_id_ = next_gen_id_++;
  transfer.outcome.blocks = blocks;
  end_ += transfer.positions_left_;
  scan_at_ = std::min(scan_at_, now + rtt_.timeout(RttEstimator::kMax));
}

bool WorkerProtocol::position_of(uint32_t block_id, uint64_t& position) const {
  const uint64_t ahead = static_cast<uint32_t>(block_id - static_cast<uint32_t>(base_));
  position = base_ + ahead;
  return position < next_;
}

Transfer* WorkerProtocol::transfer_at(uint64_t position) {
  const auto after = std::upper_bound(
      transfers_.begin(), transfers_.end(), position,
      [](uint64_t wanted, const Transfer* transfer) { return wanted < transfer->position_first_; });
  TRIB_ASSERT(after != transfers_.begin());
  return *std::prev(after);
}

bool WorkerProtocol::can_send_new() {
  const uint64_t limit = base_ + window_ + (TRIB_MUTANT(kWindowPlusOne) ? 1 : 0);
  if (next_ >= end_ || next_ >= limit) return false;
  const Transfer& transfer = *transfer_at(next_);
  const uint64_t offset = next_ - transfer.position_first_;
  if (transfer.lead_ == 0 || offset < transfer.lead_ || TRIB_MUTANT(kExponentNotAwaited)) {
    return true;
  }
  // The exponent of the gradients to be sent came with the result `lead` positions before.
  const uint64_t source = next_ - transfer.lead_;
  return source < base_ || slot_of(source).state == SlotState::kDone;
}

void WorkerProtocol::queue_repair(uint64_t position) {
  Slot& slot = slot_of(position);
  if (slot.queued) return;
  slot.queued = true;
  repairs_.push_back(position);
}

void WorkerProtocol::begin_wait(uint64_t position, Wait wait) {
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

void WorkerProtocol::end_wait(uint64_t position) {
  Slot& slot = slot_of(position);
  if (slot.wait == Wait::kNothing) return;
  WaitList& list = waits_[static_cast<size_t>(slot.wait)];
  (slot.before == kNone ? list.first : slot_of(slot.before).after) = slot.after;
  (slot.after == kNone ? list.last : slot_of(slot.after).before) = slot.before;
  slot.wait = Wait::kNothing;
}

void WorkerProtocol::repair_overtaken(Wait wait, uint64_t by) {
  if (!config_.repair) return;
  const WaitList& list = waits_[static_cast<size_t>(wait)];
  const uint64_t order = slot_of(by).sent_order;
  while (list.first != kNone && slot_of(list.first).wait_order + kOvertakenBy <= order + 1) {
    // Peers that have contributed to `by` need not have contributed to what lies above it.
    if (wait == Wait::kResult && list.first > by) break;
    queue_repair(list.first);
    end_wait(list.first);
  }
}

Duration WorkerProtocol::take_result(uint64_t position, const wire::Message& message,
                                     std::span<const std::byte> lanes, Instant now) {
  Slot& slot = slot_of(position);
  Transfer& transfer = *slot.transfer;
  if (slot.attempts == 1) {
    rtt_.sample(now - slot.sent_at);
    sample_answer(now - slot.sent_at);
    // The others were scheduled by an older estimate, the first ones without any.
    scan_at_ = std::min(scan_at_, now + rtt_.timeout(RttEstimator::kMax));
    ask_at_once_ = 1;  // Results come by themselves: those behind it are late, not lost.
  } else if (now - slot.sent_at < answer_time_min_) {
    // It was on its way when it was asked for, and so are those behind it.
    ask_at_once_ = 1;
    scan_at_ = std::min(scan_at_, now + rtt_.timeout(RttEstimator::kMax));
  } else if (slot.state == SlotState::kSent) {
    learn_from_answer(position, /*lost=*/true, now);
  } else {
    scan_at_ = std::min(scan_at_, now + rtt_.timeout(RttEstimator::kMax));
  }
  // A result that was asked for may as well be the answer to the contribution.
  if (slot.wait == Wait::kResult) {
    repair_overtaken(Wait::kResult, position);
    repair_overtaken(Wait::kAnswer, position);
  }
  end_wait(position);
  slot.state = SlotState::kDone;
  result_below_ = std::max(result_below_, position + 1);
  counters_.blocks++;

  const uint64_t offset = position - transfer.position_first_;
  const bool dropped = TRIB_MUTANT(kExponentDropped) && slot.attempts > 1;
  if (offset < transfer.exponents_.size() && !dropped) {
    const int8_t largest = message.extension.exponent;
    transfer.exponents_[offset] = message.header.degraded ? degraded_exponent(largest) : largest;
  }
  if ((message.extension.flags & wire::kFlagNotFinite) != 0) {
    transfer.outcome.status = Status::kNotFinite;
  } else if ((message.extension.flags & wire::kFlagOverflow) != 0 &&
             transfer.outcome.status == Status::kOk) {
    transfer.outcome.status = Status::kOverflow;
  }
  if (offset >= transfer.lead_) {
    read_gradients(transfer, offset - transfer.lead_, message, lanes.data());
  }
  if (--transfer.positions_left_ == 0) {
    std::sort(transfer.outcome.degraded.begin(), transfer.outcome.degraded.end(),
              [](const DegradedRange& a, const DegradedRange& b) {
                return a.element_first < b.element_first;
              });
    if (transfer.outcome.status == Status::kOverflow) {
      transfer.outcome.text = overflow_text(transfer, config_.world);
    } else if (transfer.outcome.status == Status::kNotFinite) {
      transfer.outcome.text = "a rank's tensor holds an infinity or a NaN";
    }
    // From here on it is its owner's, who may free it even while an earlier one is on its way.
    std::erase(transfers_, &transfer);
    transfer.done = true;
  }
  advance_base();
  return now - slot.first_sent_at;
}

void WorkerProtocol::advance_base() {
  while (base_ < next_ && slot_of(base_).state == SlotState::kDone) {
    slot_of(base_).state = SlotState::kFree;
    base_++;
  }
}

// --- Time ---

Duration WorkerProtocol::repair_after(uint64_t position) const {
  const Slot& slot = slots_[position % slots_.size()];
  const uint32_t asked = slot.attempts > 0 ? slot.attempts - 1U : 0U;
  // What is held, as all later ones are, waits for a peer: that is no loss.
  const bool lost = slot.state == SlotState::kSent || position < result_below_;
  const bool heard = heard_at_ > slot.sent_at;
  const auto factor =
      int64_t{1} << std::min(asked, lost && heard ? kDoublingsHeardMax : kDoublingsMax);
  Duration longest = RttEstimator::kMax;
  if (straggler_timeout_ != Duration()) {
    longest = std::max(straggler_timeout_ / kRepairsPerTimeout, kRepairMin);
  }
  // What has arrived is waiting for a peer: only a lost result is to be found out, with less hurry.
  // With mitigation that is urgent too: whoever misses a result is late for the next window.
  if (slot.state == SlotState::kHeld) {
    return std::min(rtt_.timeout(RttEstimator::kMax) * 2 * factor, longest);
  }
  return std::min(rtt_.timeout(longest) * factor, longest);
}

void WorkerProtocol::scan_overdue(Instant now) {
  scan_at_ = Instant::never();
  if (!config_.repair) return;
  uint32_t doubtful =
      0;  // Asked about without an answer yet, though they may be no more than late.
  for (uint64_t p = base_; p < next_; p++) {
    const Slot& slot = slot_of(p);
    if (slot.state != SlotState::kSent && slot.state != SlotState::kHeld) continue;
    if (TRIB_MUTANT(kNeverOverdue)) continue;
    const bool overtaken = p < result_below_;
    const Instant due = slot.sent_at + repair_after(p);
    if (due > now) {
      scan_at_ = std::min(scan_at_, due);
      if (slot.state == SlotState::kSent && slot.attempts > 1 && !overtaken) doubtful++;
    } else if (overtaken || doubtful < ask_at_once_) {
      queue_repair(p);
      if (!overtaken) doubtful++;
    }
  }
}

void WorkerProtocol::sample_answer(Duration time) {
  const bool first = answer_time_min_ == Duration();
  answer_time_min_ = first ? time : std::min(answer_time_min_, time);
}

void WorkerProtocol::learn_from_answer(uint64_t position, bool lost, Instant now) {
  if (position < result_below_) return;
  if (lost) ask_at_once_ = std::min(ask_at_once_ * 2, window_);
  scan_at_ = now;
}

std::string WorkerProtocol::missing_text(Instant now) const {
  std::string ranks;
  if (have_position_ == base_) {
    for (uint32_t source = 0; source < sources_; source++) {
      if (contains(have_, source)) continue;
      ranks += fmt::format("{}{}", ranks.empty() ? "" : ", ", rank_base_ + source);
    }
  }
  const double waited = in_seconds(now - slots_[base_ % slots_.size()].first_sent_at);
  if (ranks.empty()) {
    return fmt::format("block {} is not complete after {:.1f} s: {}", base_, waited,
                       have_upstream_ ? "a rank behind another aggregator has not contributed"
                                      : "some rank has not contributed");
  }
  return fmt::format("rank {} has not contributed to block {} for {:.1f} s (aggregator {} answers)",
                     ranks, base_, waited, config_.server.to_string());
}

void WorkerProtocol::check_deadline(Instant now) {
  if (TRIB_MUTANT(kDeadlineIgnored)) return;
  if (phase_ == Phase::kJoining) {
    if (now - started_at_ < config_.deadline) return;
    if (pending_reason_ == wire::Reason::kNone) {
      end(Status::kAggregatorGone,
          fmt::format("aggregator {} does not answer (waited {:.1f} s)", config_.server.to_string(),
                      in_seconds(now - started_at_)));
      return;
    }
    if (pending_reason_ == wire::Reason::kRankTaken) {
      end(Status::kRefused, fmt::format("rank {} of job {} is taken by another living worker",
                                        config_.rank, config_.job_id));
      return;
    }
    std::string ranks;
    for (uint32_t source = 0; source < sources_; source++) {
      if (contains(joined_, source)) continue;
      ranks += fmt::format("{}{}", ranks.empty() ? "" : ", ", rank_base_ + source);
    }
    const bool session_runs = pending_reason_ == wire::Reason::kSessionRunning;
    end(Status::kPeerMissing,
        session_runs ? fmt::format("job {} is still in use by another session", config_.job_id)
                     : fmt::format("rank {} has not joined job {} within {:.1f} s",
                                   ranks.empty() ? "behind another aggregator" : ranks,
                                   config_.job_id, in_seconds(now - started_at_)));
    return;
  }
  if (base_ == next_) return;
  const Slot& oldest = slot_of(base_);
  if (now - oldest.first_sent_at < config_.deadline) return;
  const Duration alive_for = std::min(kAliveFor, config_.deadline / 2);
  if (now - heard_at_ > alive_for) {
    end(Status::kAggregatorGone,
        fmt::format("aggregator {} has not answered for {:.1f} s", config_.server.to_string(),
                    in_seconds(now - heard_at_)));
  } else {
    end(Status::kPeerMissing, missing_text(now));
  }
}

void WorkerProtocol::on_time(Instant now) {
  if (phase_ == Phase::kEnded) return;
  check_deadline(now);
  if (phase_ == Phase::kRunning && now >= scan_at_) scan_overdue(now);
}

Instant WorkerProtocol::next_deadline() const {
  if (phase_ == Phase::kEnded) return leaves_due_ > 0 ? leave_at_ : Instant::never();
  if (phase_ == Phase::kJoining) {
    return TRIB_MUTANT(kDeadlineIgnored) ? join_at_
                                         : std::min(join_at_, started_at_ + config_.deadline);
  }
  Instant next = std::min(scan_at_, sent_at_ + kKeepAliveEvery);
  if (base_ < next_ && !TRIB_MUTANT(kDeadlineIgnored)) {
    next = std::min(next, slots_[base_ % slots_.size()].first_sent_at + config_.deadline);
  }
  return next;
}

void WorkerProtocol::leave(Instant) { end(Status::kClosed, "the communicator was closed"); }

void WorkerProtocol::end(Status status, std::string text) {
  if (phase_ == Phase::kEnded) return;
  // A worker that gives up says so: the others need not wait for it, nor start a session with it.
  if (phase_ == Phase::kRunning || status != Status::kRefused) leaves_due_ = kLeaveCount;
  phase_ = Phase::kEnded;
  status_ = status;
  status_text_ = std::move(text);
  for (Transfer* transfer : transfers_) {
    transfer->outcome.status = status_;
    transfer->outcome.text = status_text_;
    transfer->done = true;
    if (TRIB_MUTANT(kOnlyFirstTold)) break;
  }
  transfers_.clear();
  repairs_.clear();
}

// --- What to send next ---

Outgoing WorkerProtocol::write_repair(std::span<std::byte> out, Instant now) {
  const uint64_t position = repairs_.front();
  repairs_.pop_front();
  Slot& slot = slot_of(position);
  slot.queued = false;
  const bool wanted = position >= base_ && position < next_ &&
                      (slot.state == SlotState::kSent || slot.state == SlotState::kHeld);
  if (!wanted) return {};
  if (slot.data_wanted) return write_contribution(position, out, now);
  return ask_about(position, out, now);
}

Outgoing WorkerProtocol::ask_about(uint64_t position, std::span<std::byte> out, Instant now) {
  Slot& slot = slot_of(position);
  slot.attempts = static_cast<uint8_t>(std::min(slot.attempts + 1, UINT8_MAX));
  slot.sent_at = now;
  slot.sent_order = next_order_++;
  begin_wait(position, Wait::kAnswer);
  asked_at_ = now;
  scan_at_ = std::min(scan_at_, now + repair_after(position));
  counters_.probes++;
  return write_control(MessageType::kProbe, position, out);
}

Outgoing WorkerProtocol::next_packet(std::span<std::byte> out, Instant now) {
  TRIB_ASSERT(out.size() >= packet_bytes_max());
  Outgoing packet;
  if (leaves_due_ > 0 && now >= leave_at_) {
    leave_at_ = now + kLeaveAgainAfter * (int64_t{1} << (kLeaveCount - leaves_due_));
    leaves_due_--;
    packet = write_control(MessageType::kLeave, 0, out);
  } else if (phase_ == Phase::kJoining && now >= join_at_) {
    join_at_ = now + kJoinEvery;
    packet = write_control(MessageType::kJoin, 0, out);
  } else if (phase_ == Phase::kRunning) {
    while (packet.size_bytes == 0 && !repairs_.empty()) packet = write_repair(out, now);
    if (packet.size_bytes == 0 && can_send_new()) {
      Slot& slot = slot_of(next_);
      slot = Slot{};
      slot.transfer = transfer_at(next_);
      if (slot.transfer->receive_only) {
        slot.state = SlotState::kSent;
        slot.first_sent_at = now;
        packet = ask_about(next_++, out, now);
      } else {
        packet = write_contribution(next_++, out, now);
      }
    }
    if (TRIB_MUTANT(kNoKeepAlive) && now - sent_at_ >= kKeepAliveEvery) sent_at_ = now;
    if (packet.size_bytes == 0 && now - sent_at_ >= kKeepAliveEvery) {
      packet = write_control(MessageType::kKeepAlive, 0, out);
    }
  }
  if (packet.size_bytes > 0) {
    sent_at_ = now;
    counters_.packets_sent++;
  }
  return packet;
}

}  // namespace tributary::host
