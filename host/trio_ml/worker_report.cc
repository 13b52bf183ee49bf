// SPDX-License-Identifier: Apache-2.0
// The part of WorkerProtocol that tells people about the job: announcements to the program, and
// reports to the aggregator.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "host/trio_ml/worker_protocol.h"
#include "host/worker_recorder.h"

namespace tributary::host {
namespace {

/// Returns the ranks in `some` that are not in `others`.
SourceSet without(const SourceSet& some, const SourceSet& others) {
  SourceSet rest{};
  for (uint32_t i = 0; i < rest.size(); i++) rest[i] = some[i] & ~others[i];
  return rest;
}

}  // namespace

// --- Announcements ---

/// Returns since when a block has been waited for. A worker that was stopped itself begins anew.
Instant WorkerProtocol::waited_since(uint64_t position) const {
  return std::max(stream_.first_sent_at(position), resumed_at_);
}

/// Returns the time of the last packet. A worker that was stopped itself may have packets to read.
Instant WorkerProtocol::heard_or_resumed_at() const {
  return std::max(repair_.last_heard_at(), resumed_at_);
}

Instant WorkerProtocol::announce_at() const {
  const uint64_t oldest = stream_.base();
  const Instant silent_at =
      announced_silence_.ends_at(heard_or_resumed_at(), kSilenceAnnouncedAfter);
  if (silent_at == Instant::never()) {
    return announcer_.due_at(oldest, waited_since(oldest));
  }
  return silence_said_ == announced_silence_.silent_since() ? Instant::never() : silent_at;
}

/// Announces once the ranks or the aggregator that the oldest block waits for.
void WorkerProtocol::announce_wait(Instant now) {
  if (!config_.on_event || stream_.base() == stream_.next() || now < announce_at()) return;
  const uint64_t oldest = stream_.base();
  const Duration waited = now - waited_since(oldest);
  const Instant heard_at = heard_or_resumed_at();
  if (announced_silence_.ends_at(heard_at, kSilenceAnnouncedAfter) <= now) {
    silence_said_ = announced_silence_.silent_since();
    config_.on_event({.kind = WorkerEvent::Kind::kWaiting,
                      .waited = waited,
                      .text = aggregator_silent(config_.server, now - silence_said_).text});
    return;
  }
  announcer_.note(oldest, now);
  // The aggregator answers each question at once, so one that was not heard since then is silent.
  const EndReason reason =
      end_.waits_for({oldest, now - waited}, now - heard_at, waited, join_.terms(), now);
  config_.on_event({.kind = WorkerEvent::Kind::kWaiting,
                    .ranks = end_.missing_at(oldest, join_.terms()),
                    .waited = waited,
                    .text = reason.text});
}

Instant WorkerProtocol::stall_at() const {
  const uint64_t oldest = stream_.base();
  if (recorder_ == nullptr || oldest == stalled_) return Instant::never();
  return stream_.first_sent_at(oldest) + recorder::kStallAfter;
}

/// Records once that the oldest block stalls, and has a file written.
void WorkerProtocol::record_stall(Instant now) {
  if (stream_.base() == stream_.next() || now < stall_at()) return;
  stalled_ = stream_.base();
  uint32_t missing = recorder::kNoRank;
  const SourceSet ranks = end_.missing_at(stalled_, join_.terms());
  for (uint32_t rank = config_.world; rank > 0; rank--) {
    if ((ranks[(rank - 1) / 64] >> ((rank - 1) % 64) & 1) != 0) missing = rank - 1;
  }
  recorder_->note(
      {.kind = recorder::Kind::kStalled,
       .job = config_.job_id,
       .rank = static_cast<uint16_t>(missing),
       .block = static_cast<uint32_t>(stalled_),
       .count = 1,
       .value = static_cast<uint64_t>(in_milliseconds(now - stream_.first_sent_at(stalled_)))},
      now);
  config_.recorder->store_stall(now);
}

void WorkerProtocol::announce_degraded(const Transfer& transfer) {
  if (!config_.on_event || transfer.outcome.degraded.empty()) return;
  const SourceSet world = ranks_below(config_.world);
  SourceSet missing{};
  for (const DegradedRange& range : transfer.outcome.degraded) {
    const SourceSet lacks = without(world, range.sources);
    for (uint32_t i = 0; i < missing.size(); i++) missing[i] |= lacks[i];
  }
  const uint64_t blocks = transfer.outcome.degraded.size();
  config_.on_event(
      {.kind = WorkerEvent::Kind::kDegraded,
       .ranks = missing,
       .blocks = blocks,
       .text = missing == SourceSet{}
                   ? fmt::format("{} of {} blocks lost precision", blocks, transfer.outcome.blocks)
                   : fmt::format("{} of {} blocks lack {}", blocks, transfer.outcome.blocks,
                                 ranks_text(missing, ""))});
}

/// Announces the ranks that the aggregator has stopped waiting for since `before`, and those for
/// which it waits once more.
void WorkerProtocol::announce_stragglers(const SourceSet& before) {
  const SourceSet& ranks = permanent_.ranks();
  if (!config_.on_event || ranks == before) return;
  const SourceSet lagging = without(ranks, before);
  const SourceSet returned = without(before, ranks);
  if (lagging != SourceSet{}) {
    config_.on_event({.kind = WorkerEvent::Kind::kStraggler,
                      .ranks = lagging,
                      .text = fmt::format("blocks do not wait for {}", ranks_text(lagging, ""))});
  }
  if (returned != SourceSet{}) {
    config_.on_event(
        {.kind = WorkerEvent::Kind::kReturned,
         .ranks = returned,
         .text = fmt::format("blocks wait for {} as before", ranks_text(returned, ""))});
  }
}

// --- Reports ---

/// Makes a report due if this is the first part of an all-reduce that is sampled. An asynchronous
/// rank does not keep step with others, so its beginnings say nothing.
void WorkerProtocol::note_begin(const Transfer& transfer, Instant now) {
  if (transfer.all_reduce == all_reduce_) return;
  all_reduce_ = transfer.all_reduce;
  const bool takes_reports = report_at_ != Instant::never();
  if (!takes_reports || config_.asynchronous || !begins_.take(all_reduce_, now)) return;
  begun_ = all_reduce_;
  report_at_ = now;
}

wire::WorkerReport WorkerProtocol::report(Instant now) const {
  wire::WorkerReport report{.blocks = counters_.blocks,
                            .degraded = counters_.degraded_blocks,
                            .retransmitted = counters_.retransmitted,
                            .probes = counters_.probes,
                            .bytes = counters_.bytes};
  if (end_.ended() || stream_.base() == stream_.next()) return report;
  const Duration waited = now - stream_.first_sent_at(stream_.base());
  if (waited < kWaitAnnouncedAfter) return report;
  report.waited_ms = static_cast<uint32_t>(std::min<int64_t>(in_milliseconds(waited), UINT32_MAX));
  report.waits_for = end_.missing_at(stream_.base(), join_.terms());
  return report;
}

Outgoing WorkerProtocol::write_report(std::span<std::byte> out, Instant now) {
  report_at_ = end_.ended() ? Instant::never() : now + kReportEvery;
  wire::Message message = control(wire::MessageType::kReport);
  message.body.report = report(now);
  message.body.report.begun = std::exchange(begun_, 0);
  return write_control(message, out);
}

}  // namespace tributary::host
