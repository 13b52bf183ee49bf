// SPDX-License-Identifier: Apache-2.0
#include "lab/faults/promptness.h"

#include <fmt/format.h>

#include <algorithm>

namespace tributary::lab {

using wire::MessageType;
using wire::Reason;

namespace {

/// Tolerance between the cable and the program: serialisation, and the wait until the core reads.
constexpr Duration kSlack = microseconds(200);

double in_ms(Duration duration) { return in_seconds(duration) * 1e3; }

}  // namespace

void PromptnessJudge::adopt_session(uint32_t session) {
  if (session == session_) return;
  session_ = session;
  blocks_.clear();
  first_heard_at_.assign(config_.sources, Instant::never());
  contributed_at_.assign(config_.sources, Instant());
  present_at_ = Instant::never();
  has_permanent_source_ = false;
}

bool PromptnessJudge::is_late(Instant last_at, Instant now) const {
  if (!steady_ || present_at_ == Instant::never()) return false;
  return now > std::max(last_at, present_at_) + config_.timeout * 2 + kSlack;
}

void PromptnessJudge::on_arrival(const trio_ml::Job* job, std::span<const std::byte> bytes,
                                 Instant now) {
  if (job == nullptr) return;
  adopt_session(job->session.number());
  wire::MessageHead message;
  const auto head = bytes.first(std::min<size_t>(bytes.size(), wire::kControlMessageBytes));
  const bool fits =
      decode_head(head, static_cast<uint32_t>(bytes.size()), message) == wire::DecodeStatus::kOk;
  const uint32_t source = message.header.src_id;
  if (!fits || !message.header.extended || session_ == 0 || source >= config_.sources ||
      message.extension.key != job->session.key_of(source, session_) ||
      message.extension.type == MessageType::kJoin) {
    return;
  }
  first_heard_at_[source] = std::min(first_heard_at_[source], now);
  if (present_at_ == Instant::never()) {
    // never() while any member is unheard.
    present_at_ = *std::max_element(first_heard_at_.begin(), first_heard_at_.end());
  }
  if (message.extension.type != MessageType::kContribution) return;

  const auto [entry, is_new] = blocks_.try_emplace(message.header.block_id);
  Block& block = entry->second;
  if (is_new) block.arrived_at.assign(config_.sources, Instant::never());
  if (block.ended || block.arrived_at[source] != Instant::never()) return;
  if (!is_new && is_late(block.last_at, now)) {
    verdicts_.push_back(
        fmt::format("block {} has not ended {:.1f} ms after its last contribution; timeout {:.1f}",
                    message.header.block_id, in_ms(now - block.last_at), in_ms(config_.timeout)));
  }
  block.arrived_at[source] = now;
  block.last_at = now;
  contributed_at_[source] = now;
}

void PromptnessJudge::check_end_time(Block& block, const wire::Message& message, Instant now) {
  Instant last_at;
  for (uint32_t source = 0; source < config_.sources; source++) {
    const Instant at = block.arrived_at[source];
    if (trio_ml::contains(message.mask, source) && at != Instant::never()) {
      last_at = std::max(last_at, at);
    }
  }
  const Duration after = now - last_at;
  // With a permanent straggler, blocks end as soon as the others have contributed.
  if (!has_permanent_source_ && steady_ && after < config_.timeout) {
    verdicts_.push_back(
        fmt::format("block {} was closed {:.2f} ms after a contribution; timeout "
                    "{:.1f}",
                    message.header.block_id, in_ms(after), in_ms(config_.timeout)));
  }
  if (!has_permanent_source_ && is_late(last_at, now)) {
    verdicts_.push_back(
        fmt::format("block {} was closed only {:.2f} ms after its last "
                    "contribution; timeout {:.1f}",
                    message.header.block_id, in_ms(after), in_ms(config_.timeout)));
  }
}

void PromptnessJudge::on_departure(const trio_ml::Job* job, std::span<const std::byte> bytes,
                                   Instant now) {
  if (job == nullptr) return;
  adopt_session(job->session.number());
  wire::Message message;
  const auto head = bytes.first(std::min<size_t>(bytes.size(), wire::kControlMessageBytes));
  if (decode_message(head, static_cast<uint32_t>(bytes.size()), message) !=
          wire::DecodeStatus::kOk ||
      !message.header.extended || session_ == 0 ||
      message.extension.key != job->session.result_key(session_)) {
    return;
  }
  if (message.extension.type == MessageType::kNotice &&
      message.body.reason == Reason::kSourcePermanent) {
    const uint32_t source = message.body.source;
    const Duration silent = now - contributed_at_[source];
    if (!has_permanent_source_ && steady_ && silent + kSlack < config_.permanent_after) {
      verdicts_.push_back(
          fmt::format("source {} became permanent {:.2f} ms after it "
                      "contributed; period {:.1f}",
                      source, in_ms(silent), in_ms(config_.permanent_after)));
    }
    has_permanent_source_ = true;
  }
  if (message.extension.type != MessageType::kResult &&
      message.extension.type != MessageType::kReceipt) {
    return;
  }
  const auto found = blocks_.find(message.header.block_id);
  if (found == blocks_.end() || found->second.ended) return;
  found->second.ended = true;
  if (message.header.degraded) check_end_time(found->second, message, now);
}

}  // namespace tributary::lab
