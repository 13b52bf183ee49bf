// SPDX-License-Identifier: Apache-2.0
#include "lab/peers/stream.h"

#include <algorithm>

#include "base/assert.h"

namespace tributary::lab {

// --- Sending ---

SendWindow::SendWindow(uint32_t window) : places_(window), limit_(window) {
  TRIB_ASSERT(window > 0);
}

bool SendWindow::may_send_new() const { return next_ < base_ + places_.size() && next_ < limit_; }

uint64_t SendWindow::send_new(Instant now) {
  TRIB_ASSERT(may_send_new());
  Place& place = place_of(next_);
  place = Place{};
  note_sent(place, now);
  return next_++;
}

std::optional<uint64_t> SendWindow::next_repair(Instant now) {
  while (!repairs_.empty()) {
    const uint64_t position = repairs_.front();
    repairs_.pop_front();
    if (position < base_)
      continue;  // Acknowledged since; its place may belong to another position.
    Place& place = place_of(position);
    place.queued = false;
    if (place.acknowledged) continue;
    repair_count_++;
    note_sent(place, now);
    return position;
  }
  return std::nullopt;
}

void SendWindow::note_sent(Place& place, Instant now) {
  place.sent_at = now;
  place.order = ++order_;
  place.attempts++;
  scan_at_ = std::min(scan_at_, now + patience(place));
}

Duration SendWindow::patience(const Place& place) const {
  const uint32_t doublings = std::min(place.attempts - 1, kDoublingsMax);
  return timeout() * (int64_t{1} << doublings);
}

bool SendWindow::on_ack(const Ack& ack, Instant now) {
  if (ack.below > next_ || ack.words > kAckWords) return false;
  limit_ = std::max(limit_, ack.limit);
  for (; base_ < ack.below; base_++) acknowledge(base_, now);
  if (ack.below < base_) return true;  // Older than the last one; it adds nothing.
  uint64_t end = base_;
  for (uint64_t i = 0; i < uint64_t{ack.words} * 64 && base_ + i < next_; i++) {
    if ((ack.beyond[i / 64] >> (i % 64) & 1) == 0) continue;
    acknowledge(base_ + i, now);
    end = base_ + i;
  }
  queue_overtaken(end);
  return true;
}

void SendWindow::acknowledge(uint64_t position, Instant now) {
  Place& place = place_of(position);
  if (place.acknowledged) return;
  place.acknowledged = true;
  order_acknowledged_ = std::max(order_acknowledged_, place.order);
  if (place.attempts == 1) rtt_.sample(now - place.sent_at);
}

void SendWindow::queue_overtaken(uint64_t end) {
  for (uint64_t position = base_; position < end; position++) {
    Place& place = place_of(position);
    if (place.acknowledged || place.queued) continue;
    if (place.order + kOvertakenBy > order_acknowledged_) continue;
    place.queued = true;
    repairs_.push_back(position);
  }
}

void SendWindow::on_time(Instant now) {
  if (now < scan_at_ || base_ == next_) return;
  scan_at_ = Instant::never();
  for (uint64_t position = base_; position < next_; position++) {
    Place& place = place_of(position);
    if (place.acknowledged || place.queued) continue;
    const Instant due = place.sent_at + patience(place);
    if (due <= now) {
      place.queued = true;
      repairs_.push_back(position);
    } else {
      scan_at_ = std::min(scan_at_, due);
    }
  }
}

// --- Receiving ---

ReceiveWindow::ReceiveWindow(uint32_t window) : come_(window) { TRIB_ASSERT(window > 0); }

ReceiveWindow::Take ReceiveWindow::take(uint64_t position) {
  if (position < below_) return Take::kDuplicate;
  if (position >= used_ + come_.size() || position >= below_ + kAckBits) return Take::kOutside;
  if (has(position)) return Take::kDuplicate;
  come_[position % come_.size()] = true;
  end_ = std::max(end_, position + 1);
  while (below_ < end_ && has(below_)) below_++;
  return Take::kNew;
}

void ReceiveWindow::use_next() {
  TRIB_ASSERT(has_next());
  come_[used_ % come_.size()] = false;
  used_++;
}

Ack ReceiveWindow::ack() const {
  Ack ack;
  ack.below = below_;
  ack.limit = used_ + come_.size();
  if (!has_gap()) return ack;
  const uint64_t bits = std::min<uint64_t>(end_ - below_, kAckBits);
  ack.words = static_cast<uint32_t>((bits + 63) / 64);
  for (uint64_t i = 0; i < bits; i++) {
    if (has(below_ + i)) ack.beyond[i / 64] |= uint64_t{1} << (i % 64);
  }
  return ack;
}

}  // namespace tributary::lab
