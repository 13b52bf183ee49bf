// SPDX-License-Identifier: Apache-2.0
#include "host/switchml/switchml_protocol.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/assert.h"
#include "base/byte_order.h"
#include "base/mutant.h"
#include "host/formats/number_format.h"
#include "host/worker_errors.h"

namespace tributary::host {

using wire::ElementFormat;
using wire::SwitchmlHead;
using wire::SwitchmlHeader;

namespace {

// Values of the second exponent. The switch forwards the largest.
constexpr int8_t kAllFit = 0;
constexpr int8_t kSomeOverflow = 1;
constexpr int8_t kSomeNotFinite = 2;

/// The limit of packet ids with timeouts: the switch compares them as signed words.
constexpr uint64_t kRisingIds = uint64_t{1} << 31;

/// Returns the part of a tensor that a block holds.
template <class T>
std::span<T> slice(std::span<T> tensor, uint64_t block, uint32_t elements) {
  const uint64_t first = block * elements;
  return tensor.subspan(first, std::min<uint64_t>(elements, tensor.size() - first));
}

}  // namespace

SwitchmlProtocol::SwitchmlProtocol(const SwitchmlConfig& config)
    : config_(config), slots_(config.pool), timeout_(config.timeout) {
  TRIB_ASSERT(check(config).has_value());
  for (uint32_t i = 0; i < config.pool; i++) slots_[i].position = i;
}

// --- The stream ---

uint64_t SwitchmlProtocol::blocks_of(const Transfer& transfer) const {
  return (transfer.element_count() + config_.elements - 1) / config_.elements;
}

/// Returns why this transfer is refused; null if it is not.
const char* SwitchmlProtocol::refusal_of(const Transfer& transfer) const {
  if (!transfer.halves.bits.empty()) {
    return "SwitchML carries int32 and float32; widen 16-bit floats";
  }
  if (transfer.receive_only) {
    return "SwitchML has no sum without this rank's part: receive_only";
  }
  if (transfer.owner) return "SwitchML sends every sum to all ranks: owner";
  if (!config_.switch_times_out) return nullptr;
  if (transfer.format == ElementFormat::kBlockExponent) {
    return "a switch that times out agrees on exponents without the ranks that are late; use a "
           "fixed scale";
  }
  if (blocks_of(transfer) > kRisingIds - end_) {
    return "the session's packet ids are used up; begin a new one";
  }
  return nullptr;
}

void SwitchmlProtocol::submit(Transfer& transfer, Instant) {
  TRIB_ASSERT(transfer.elided_elements == 0 || transfer.format == ElementFormat::kInt32);
  transfer.done = false;
  transfer.outcome = Outcome{};
  if (phase_ == Phase::kEnded) {
    transfer.outcome.status = status_;
    transfer.outcome.text = status_text_;
  } else if (const char* const refusal = refusal_of(transfer); refusal != nullptr) {
    transfer.outcome.status = Status::kRefused;
    transfer.outcome.text = refusal;
  } else if (transfer.element_count() > 0) {
    return begin(transfer);
  }
  transfer.done = true;
}

void SwitchmlProtocol::begin(Transfer& transfer) {
  const uint64_t blocks = blocks_of(transfer);
  auto job = std::make_unique<Job>(Job{.transfer = &transfer,
                                       .position_first = end_,
                                       .blocks = blocks,
                                       .lead = 0,
                                       .positions_left = blocks,
                                       .number = next_job_number_++,
                                       .exponents = {}});
  if (transfer.format == ElementFormat::kBlockExponent) {
    job->lead = std::min<uint64_t>(config_.pool, blocks);
    job->positions_left += job->lead;
    job->exponents.assign(blocks, kUnknown);
  }
  transfer.outcome.blocks = blocks;
  if (jobs_.empty()) patient_below_ = end_ + config_.pool;
  const uint64_t first = end_;
  end_ += job->positions_left;
  jobs_.push_back(std::move(job));
  for (uint64_t p = first; p < std::min(end_, first + config_.pool); p++) try_queue(p);
}

SwitchmlProtocol::Job& SwitchmlProtocol::job_at(uint64_t position) {
  const auto after = std::upper_bound(
      jobs_.begin(), jobs_.end(), position,
      [](uint64_t wanted, const auto& job) { return wanted < job->position_first; });
  TRIB_ASSERT(after != jobs_.begin());
  return **std::prev(after);
}

void SwitchmlProtocol::try_queue(uint64_t position) {
  Slot& slot = slot_of(position);
  if (position >= end_ || slot.position != position || slot.state != SlotState::kIdle) return;
  if (position < slot.lost_below) return skip_lost_positions(slot);
  Job& job = job_at(position);
  const uint64_t offset = position - job.position_first;
  if (job.lead > 0 && offset >= job.lead && job.exponents[offset - job.lead] == kUnknown) return;
  slot.job = &job;
  slot.state = SlotState::kQueued;
  ready_.push_back(static_cast<uint32_t>(position % slots_.size()));
}

// --- In ---

void SwitchmlProtocol::refuse(uint64_t& reason) {
  reason++;
  counters_.invalid_packets++;
}

/// Returns the slot that waits for this result. If there is none, counts the packet and returns
/// null.
SwitchmlProtocol::Slot* SwitchmlProtocol::outstanding_slot(const SwitchmlHead& head,
                                                           const Incoming& packet) {
  if (head.elements != config_.elements) {
    refuse(refusals_.wrong_elements);
    return nullptr;
  }
  if (packet.size_bytes != wire::switchml_bytes(head.elements)) {
    refuse(refusals_.wrong_size);
    return nullptr;
  }
  if (head.slot >= slots_.size()) {
    refuse(refusals_.slot_outside_pool);
    return nullptr;
  }
  Slot& slot = slots_[head.slot];
  if (slot.state != SlotState::kSent || head.set != set_of(slot.position)) {
    refusals_.not_outstanding++;
    counters_.duplicate_results++;
    return nullptr;
  }
  if (head.packet_id != packet_id_of(slot.position) && !TRIB_MUTANT(kResultOfAnother)) {
    refuse(refusals_.other_packet);
    return nullptr;
  }
  if (head.degraded && (!config_.switch_times_out || head.job_number >= config_.world)) {
    refuse(refusals_.degraded);
    return nullptr;
  }
  if (!head.degraded && head.job_number != slot.job->number) {
    refuse(refusals_.other_job);
    return nullptr;
  }
  if (slot.job->transfer->elided_elements == 0 && packet.stored.size() < packet.size_bytes) {
    refuse(refusals_.wrong_size);
    return nullptr;
  }
  return &slot;
}

std::optional<Duration> SwitchmlProtocol::on_packet(const Incoming& packet, Instant now) {
  if (phase_ == Phase::kEnded) return {};
  const auto head = wire::decode_switchml_head(packet.stored);
  if (!head) {
    refuse(refusals_.not_switchml);
    return {};
  }
  if (config_.switch_times_out && note_phase(*head)) {
    counters_.packets_received++;
    last_heard_at_ = now;
    return {};
  }
  Slot* const slot = outstanding_slot(*head, packet);
  if (slot == nullptr) return {};
  last_heard_at_ = now;
  counters_.packets_received++;
  counters_.blocks++;
  const Duration took = now - slot->first_sent_at;
  take_result(*slot, *head, packet.stored.subspan(SwitchmlHeader::kBytes));
  return took;
}

void SwitchmlProtocol::take_result(Slot& slot, const SwitchmlHead& head,
                                   std::span<const std::byte> lanes) {
  Job& job = *slot.job;
  const uint64_t position = slot.position;
  const uint64_t offset = position - job.position_first;
  const uint64_t lead = job.lead;
  if (offset < job.exponents.size()) job.exponents[offset] = head.exponent0;
  Outcome& outcome = job.transfer->outcome;
  if (head.exponent1 >= kSomeNotFinite) {
    outcome.status = Status::kNotFinite;
    outcome.text = "a rank's tensor holds an infinity or a NaN";
  } else if (head.exponent1 == kSomeOverflow && outcome.status == Status::kOk) {
    outcome.status = Status::kOverflow;
    outcome.text = fmt::format(
        "a value times the scale {} does not fit into a sum of {} ranks; use a smaller "
        "scale",
        job.transfer->scale, config_.world);
  }
  const uint32_t contributors = head.degraded ? head.job_number : config_.world;
  if (head.degraded) {
    note_degraded(job, offset, contributors);
    counters_.degraded_blocks++;
  }
  if (offset >= lead) read_elements(job, offset - lead, lanes.data(), contributors);
  slot.state = SlotState::kIdle;
  slot.repair_queued = false;  // Its entry in repairs_ is skipped.
  slot.position += slots_.size();
  if (--job.positions_left == 0) finish(job);
  try_queue(slot.position);
  // A short tensor's elements wait for exponents of other slots.
  if (lead > 0 && lead != slots_.size()) try_queue(position + lead);
}

void SwitchmlProtocol::finish(Job& job) {
  Transfer& transfer = *job.transfer;
  Outcome& outcome = transfer.outcome;
  std::sort(
      outcome.degraded.begin(), outcome.degraded.end(),
      [](const auto& one, const auto& other) { return one.element_first < other.element_first; });
  if (job.blocks_lost > 0 && outcome.status == Status::kOk) {
    outcome.status = Status::kDesynchronised;
    outcome.text = fmt::format(
        "{} of {} blocks were summed without this rank, and the switch does not keep their sums; "
        "take the parameters from another rank",
        job.blocks_lost, job.blocks);
  }
  std::erase_if(jobs_, [&job](const auto& one) { return one.get() == &job; });
  if (jobs_.empty()) scan_at_ = earliest_deadline_ = Instant::never();
  // From here on the owner may free it.
  transfer.done = true;
}

void SwitchmlProtocol::read_elements(const Job& job, uint64_t block, const std::byte* lanes,
                                     uint32_t contributors) const {
  const Transfer& transfer = *job.transfer;
  if (transfer.elided_elements > 0) return;
  const uint32_t divisor = transfer.op == ReduceOp::kMean ? contributors : 1;
  if (transfer.format == ElementFormat::kInt32) {
    return unpack_int32(lanes, divisor, slice(transfer.integers, block, config_.elements));
  }
  const double scale =
      transfer.format == ElementFormat::kFixedScale
          ? double{transfer.scale}
          : switchml_scale(static_cast<int8_t>(job.exponents[block]), config_.world);
  unpack_fixed(lanes, scale, divisor, slice(transfer.floats, block, config_.elements));
}

// --- A switch with timeouts ---

uint32_t SwitchmlProtocol::packet_id_of(uint64_t position) const {
  const auto id = static_cast<uint32_t>(position);
  return config_.switch_times_out ? byte_swapped(id) : id;
}

bool SwitchmlProtocol::note_phase(const SwitchmlHead& head) {
  const uint64_t position = byte_swapped(head.packet_id);
  const uint64_t pool = slots_.size();
  const bool about_us = head.elements == config_.elements && head.slot == position % pool &&
                        head.set == set_of(position) && position < kRisingIds;
  // on_packet() counts the packets that it refuses.
  if (!about_us) return false;
  // The phase has a result; or (count 0) the phase has begun, so the one before it has a result.
  const bool is_on = head.degraded && head.job_number == 0;
  const uint64_t known = is_on && position >= pool ? position - pool : position;
  heard_ = std::max(heard_, known + 1);
  if (position >= pool) {
    // The other set holds the phase before, or already the next one; this set holds this one.
    Slot& slot = slots_[head.slot];
    slot.lost_below = std::max(slot.lost_below, position - pool);
    if (slot.state == SlotState::kSent) skip_lost_positions(slot);
  }
  return is_on;
}

/// Continues at the first position of the slot whose result the switch may still have.
void SwitchmlProtocol::skip_lost_positions(Slot& slot) {
  if (slot.position >= slot.lost_below) return;
  slot.state = SlotState::kIdle;
  slot.repair_queued = false;
  while (slot.position < slot.lost_below && slot.position < end_) {
    Job& job = job_at(slot.position);
    note_degraded(job, slot.position - job.position_first, 0);
    job.blocks_lost++;
    slot.position += slots_.size();
    if (--job.positions_left == 0) finish(job);
  }
  try_queue(slot.position);
}

void SwitchmlProtocol::note_degraded(Job& job, uint64_t block, uint32_t contributors) {
  const uint64_t first = block * config_.elements;
  const uint64_t left = job.transfer->element_count() - first;
  job.transfer->outcome.degraded.push_back(
      {.element_first = first,
       .element_count = static_cast<uint32_t>(std::min<uint64_t>(config_.elements, left)),
       .sources = {},
       .contributors = contributors});
}

// --- Out ---

void SwitchmlProtocol::write_elements(const Job& job, uint64_t block, SwitchmlHead& head,
                                      std::byte* lanes, Underflow* underflow) const {
  const Transfer& transfer = *job.transfer;
  uint64_t count = 0;
  if (transfer.format == ElementFormat::kInt32) {
    const auto part = slice<const int32_t>(transfer.integers, block, config_.elements);
    pack_int32(part, lanes);
    count = part.size();
  } else {
    const bool fixed = transfer.format == ElementFormat::kFixedScale;
    const double scale =
        fixed ? double{transfer.scale}
              : switchml_scale(static_cast<int8_t>(job.exponents[block]), config_.world);
    const auto part = slice<const float>(transfer.floats, block, config_.elements);
    const Fit fit = pack_fixed(part, scale, lane_magnitude_max(config_.world), lanes, underflow);
    count = part.size();
    if (fit == Fit::kNotFinite) head.exponent1 = kSomeNotFinite;
    // All values fit the agreed exponent, so only the product's rounding can exceed the limit.
    if (fit == Fit::kOverflows && fixed) head.exponent1 = kSomeOverflow;
  }
  std::fill(lanes + count * sizeof(int32_t), lanes + config_.elements * sizeof(int32_t),
            std::byte{});
}

Outgoing SwitchmlProtocol::write(Slot& slot, bool again, std::span<std::byte> out, Instant now) {
  const Job& job = *slot.job;
  const uint64_t offset = slot.position - job.position_first;
  SwitchmlHead head{.job_number = job.number,
                    .packet_id = packet_id_of(slot.position),
                    .set = set_of(slot.position),
                    .slot = static_cast<uint16_t>(slot.position % slots_.size()),
                    .exponent0 = 0,
                    .exponent1 = kAllFit,
                    .elements = config_.elements};
  if (offset < job.exponents.size()) {
    head.exponent0 =
        block_exponent(slice<const float>(job.transfer->floats, offset, config_.elements));
  }
  const uint32_t size_bytes = packet_bytes_max();
  uint32_t stored_bytes = size_bytes;
  std::byte* const lanes = &out[SwitchmlHeader::kBytes];
  if (job.transfer->elided_elements > 0) {
    stored_bytes = SwitchmlHeader::kBytes;
  } else if (offset < job.lead) {
    std::fill(lanes, out.data() + size_bytes, std::byte{});
  } else {
    Underflow underflow;
    write_elements(job, offset - job.lead, head, lanes, again ? nullptr : &underflow);
    job.transfer->outcome.underflow += underflow;
    counters_.underflowed += underflow.underflowed;
  }
  wire::encode_switchml_head(head, out.data());

  slot.sent_at = now;
  if (config_.repair) scan_at_ = std::min(scan_at_, now + timeout_of(slot));
  counters_.packets_sent++;
  return {.size_bytes = size_bytes, .stored_bytes = stored_bytes, .to = config_.server};
}

Outgoing SwitchmlProtocol::next_packet(std::span<std::byte> out, Instant now) {
  TRIB_ASSERT(out.size() >= packet_bytes_max());
  while (!repairs_.empty()) {
    Slot& slot = slots_[repairs_.front()];
    repairs_.pop_front();
    const bool wanted = slot.repair_queued && slot.state == SlotState::kSent;
    slot.repair_queued = false;
    if (!wanted) continue;
    counters_.retransmitted++;
    return write(slot, /*again=*/true, out, now);
  }
  if (ready_.empty()) return {};
  Slot& slot = slots_[ready_.front()];
  ready_.pop_front();
  slot.state = SlotState::kSent;
  slot.first_sent_at = now;
  earliest_deadline_ = std::min(earliest_deadline_, now + config_.deadline);
  return write(slot, /*again=*/false, out, now);
}

// --- Time ---

Duration SwitchmlProtocol::timeout_of(const Slot& slot) const {
  if (!config_.patient_start || slot.position >= patient_below_) return timeout_;
  const auto times = static_cast<int64_t>(slots_.size());
  // No wait is longer than the deadline, so the product fits for all settings.
  if (timeout_ <= config_.deadline / times) return timeout_ * times;
  return std::max(timeout_, config_.deadline);
}

void SwitchmlProtocol::note_timeout() {
  timeouts_++;
  if (config_.timeouts_to_double == 0 || timeouts_ < config_.timeouts_to_double) return;
  timeouts_ = 0;
  // No wait is longer than the deadline.
  timeout_ = std::min(timeout_ * 2, std::max(config_.deadline, config_.timeout));
}

void SwitchmlProtocol::scan(Instant now) {
  scan_at_ = Instant::never();
  earliest_deadline_ = Instant::never();
  for (uint32_t i = 0; i < slots_.size(); i++) {
    Slot& slot = slots_[i];
    if (slot.state != SlotState::kSent) continue;
    const Instant deadline = slot.first_sent_at + config_.deadline;
    if (deadline <= now) return end_by_deadline(slot, now);
    earliest_deadline_ = std::min(earliest_deadline_, deadline);
    if (!config_.repair || slot.repair_queued || TRIB_MUTANT(kNeverSentAgain)) continue;
    const Instant due = slot.sent_at + timeout_of(slot);
    if (due > now) {
      scan_at_ = std::min(scan_at_, due);
      continue;
    }
    slot.repair_queued = true;
    repairs_.push_back(i);
    note_timeout();
  }
}

/// There is no join, so a session has the time of a join. A living switch may be silent for that
/// long, too, and then two forged refusals end the session.
void SwitchmlProtocol::on_refused(Instant now) {
  if (jobs_.empty()) return;
  refused_.on_refused(last_heard_at_, now);
  if (now < refused_.ends_at(last_heard_at_, kRefusedJoinFor)) return;
  EndReason reason = nothing_listens(config_.server);
  end(reason.status, std::move(reason.text));
}

void SwitchmlProtocol::on_time(Instant now) {
  if (phase_ == Phase::kEnded) return;
  if (now >= std::min(scan_at_, earliest_deadline_)) scan(now);
}

Instant SwitchmlProtocol::next_deadline() const {
  if (phase_ == Phase::kEnded) return Instant::never();
  return std::min(scan_at_, earliest_deadline_);
}

// --- The end ---

void SwitchmlProtocol::end_by_deadline(const Slot& slot, Instant now) {
  const bool heard = last_heard_at_ > slot.first_sent_at;
  end(heard ? Status::kPeerMissing : Status::kAggregatorGone,
      fmt::format("SwitchML switch {} has not answered packet {} (slot {}, set {}) for {:.1f} s; "
                  "{}. A switch without an answer says nothing, so it may be gone, or one of the "
                  "{} workers has not sent this packet",
                  config_.server.to_string(), slot.position, slot.position % slots_.size(),
                  set_of(slot.position) ? 1 : 0, in_seconds(now - slot.first_sent_at),
                  heard ? "it has answered others since" : "nor any other since", config_.world));
}

void SwitchmlProtocol::leave(Instant) { end(Status::kClosed, "the communicator was closed"); }

void SwitchmlProtocol::end(Status status, std::string text) {
  if (phase_ == Phase::kEnded) return;
  phase_ = Phase::kEnded;
  status_ = status;
  status_text_ = std::move(text);
  for (const auto& job : jobs_) {
    job->transfer->outcome.status = status_;
    job->transfer->outcome.text = status_text_;
    job->transfer->done = true;
  }
  jobs_.clear();
  ready_.clear();
  repairs_.clear();
  for (Slot& slot : slots_) slot.job = nullptr;
}

}  // namespace tributary::host
