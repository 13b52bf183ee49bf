// SPDX-License-Identifier: Apache-2.0
#include "lab/peers/protocol_group.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace tributary::lab {

using host::Status;

void ProtocolGroup::add_member(std::unique_ptr<host::TensorProtocol> member) {
  members_.push_back(std::move(member));
}

// --- Ends ---

void ProtocolGroup::note_progress() {
  for (size_t i = 0; i < members_.size() && status_ == Status::kOk; i++) {
    if (members_[i]->phase() != Phase::kEnded) continue;
    status_ = members_[i]->status();
    status_text_ = fmt::format("{} {}: {}", member_name_, i, members_[i]->status_text());
    for (const auto& member : members_) {
      if (member->phase() != Phase::kEnded)
        member->fail(status_, status_text_, /*lost_aggregator=*/0);
    }
  }
  on_progress();
}

void ProtocolGroup::leave(Instant now) {
  for (const auto& member : members_) member->leave(now);
  note_progress();
}

void ProtocolGroup::fail(Status status, std::string text, uint32_t lost_aggregator) {
  if (status_ != Status::kOk) return;
  status_ = status;
  status_text_ = std::move(text);
  for (const auto& member : members_) member->fail(status_, status_text_, lost_aggregator);
  on_progress();
}

ProtocolGroup::Phase ProtocolGroup::phase() const {
  if (status_ != Status::kOk) return Phase::kEnded;
  const bool joins = std::any_of(members_.begin(), members_.end(), [](const auto& member) {
    return member->phase() == Phase::kJoining;
  });
  return joins ? Phase::kJoining : Phase::kRunning;
}

// --- Packets and time ---

void ProtocolGroup::hold(bool held) {
  for (const auto& member : members_) member->hold(held);
}

void ProtocolGroup::limit_window(uint32_t packets) {
  const uint64_t all = window();
  for (const auto& member : members_) {
    const uint64_t part = uint64_t{packets} * member->window() / std::max<uint64_t>(all, 1);
    member->limit_window(static_cast<uint32_t>(std::max<uint64_t>(part, 1)));
  }
}

bool ProtocolGroup::has_new_packets() const {
  return std::any_of(members_.begin(), members_.end(),
                     [](const auto& member) { return member->has_new_packets(); });
}

void ProtocolGroup::on_time(Instant now) {
  for (const auto& member : members_) member->on_time(now);
  note_progress();
}

Instant ProtocolGroup::next_deadline() const {
  Instant at = Instant::never();
  for (const auto& member : members_) at = std::min(at, member->next_deadline());
  return at;
}

// --- Accessors ---

bool ProtocolGroup::idle() const {
  return std::all_of(members_.begin(), members_.end(),
                     [](const auto& member) { return member->idle(); });
}

host::Progress ProtocolGroup::progress() const {
  host::Progress behind;
  bool first = true;
  for (const auto& member : members_) {
    const host::Progress progress = member->progress();
    // As sums, because either may be the larger one.
    if (!first && progress.heard + behind.submitted <= behind.heard + progress.submitted) continue;
    behind = progress;
    first = false;
  }
  return behind;
}

const host::CommunicatorCounters& ProtocolGroup::counters() const {
  counters_ = {};
  for (const auto& member : members_) counters_ += member->counters();
  return counters_;
}

uint32_t ProtocolGroup::packet_bytes_max() const { return members_.front()->packet_bytes_max(); }

uint32_t ProtocolGroup::gradients() const { return members_.front()->gradients(); }

uint32_t ProtocolGroup::window() const {
  uint32_t sum = 0;
  for (const auto& member : members_) sum += member->window();
  return sum;
}

}  // namespace tributary::lab
