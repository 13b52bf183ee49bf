// SPDX-License-Identifier: Apache-2.0
#include "server/job_snapshot.h"

#include <algorithm>
#include <array>
#include <bit>
#include <tuple>

#include "apps/trio_ml/asynchronous/parameter_store.h"

namespace tributary::server {
namespace {

constexpr uint32_t kPlacesPerWord = 64;

bool is_older(const BlockSnapshot& a, const BlockSnapshot& b) {
  return std::tie(a.referenced_at, a.block_id) < std::tie(b.referenced_at, b.block_id);
}

SourceState state_of(const trio_ml::Session& session, uint32_t session_number,
                     const SourceSnapshot& source, uint32_t index, Instant now) {
  if (session_number != 0) {
    if (session.has_left(index)) return SourceState::kLeft;
    return session.is_gone(index, now) ? SourceState::kSilent : SourceState::kMember;
  }
  if (source.joining) return SourceState::kJoining;
  return source.address.is_set() ? SourceState::kPlain : SourceState::kAbsent;
}

UpstreamSnapshot upstream_of(const trio_ml::Session& session, Instant now) {
  using State = UpstreamSnapshot::State;
  const trio_ml::UpstreamWatch& watch = session.upstream_watch();
  UpstreamSnapshot upstream;
  upstream.silent_for = watch.silent_for(now);
  upstream.refusal = session.upstream_refusal(now);
  if (watch.is_silent(now)) {
    upstream.state = State::kSilent;
  } else if (session.upstream_key() != 0) {
    upstream.state = State::kJoined;
  } else if (upstream.refusal != wire::Reason::kNone) {
    upstream.state = State::kRefused;
  } else if (session.waits_for_upstream(now)) {
    wire::ControlBody pending;
    watch.describe(pending, session.config().upstream, now);
    const bool waits_for_silent = pending.reason == wire::Reason::kUpstreamSilent;
    if (waits_for_silent && pending.group == session.config().upstream) {
      upstream.state = State::kSilent;
    } else {
      upstream.state = State::kJoining;
      upstream.waits_at = pending.group;
      upstream.waits_for_silent = waits_for_silent;
    }
  }
  return upstream;
}

/// Returns the blocks of JobSnapshot::blocks.
std::vector<BlockSnapshot> blocks_of(std::span<const JobView> views) {
  std::vector<BlockSnapshot> blocks;
  for (const JobView& view : views) {
    blocks.insert(blocks.end(), view.oldest.begin(), view.oldest.end());
  }
  std::ranges::sort(blocks, is_older);
  if (blocks.size() > kOldestBlocks) blocks.resize(kOldestBlocks);
  // The oldest blocks may all lack the same source. Every other one needs a block of its own.
  const size_t count = views.empty() ? 0 : views[0].oldest_without.size();
  for (size_t i = 0; i < count; i++) {
    std::optional<BlockSnapshot> oldest;
    for (const JobView& view : views) {
      const auto& block = view.oldest_without[i];
      if (block && (!oldest || is_older(*block, *oldest))) oldest = block;
    }
    if (oldest) blocks.push_back(*oldest);
  }
  std::ranges::sort(blocks, is_older);
  const auto copies = std::ranges::unique(blocks, {}, &BlockSnapshot::block_id);
  blocks.erase(copies.begin(), copies.end());
  return blocks;
}

}  // namespace

const char* to_string(UpstreamSnapshot::State state) {
  constexpr std::array<const char*, 5> kNames{"idle", "joining", "joined", "silent", "refused"};
  return kNames[static_cast<uint32_t>(state)];
}

JobView::JobView(const trio_ml::JobConfig& config)
    : addresses(config.sources),
      reports(config.sources),
      refused_joins(config.sources),
      oldest_without(config.sources + 1) {
  oldest.reserve(kOldestBlocks);
}

void JobView::read(const trio_ml::Job& job, uint32_t core, Instant now) {
  for (uint32_t source = 0; source < addresses.size(); source++) {
    addresses[source] = job.sources[source].address;
    if (core == 0 && job.session.pending_nonce(source, now) != 0) {
      trio_ml::include(joining, source);
    }
  }
  if (core == 0 && job.config.upstream.is_set()) upstream = upstream_of(job.session, now);
  if (core == 0) std::copy(job.reports.begin(), job.reports.end(), reports.begin());
  if (core == 0) std::ranges::copy(job.refused_joins, refused_joins.begin());
  active = job.record.active_mask;
  blocks_total = job.record.block_total_cnt;
  blocks_degraded = job.record.block_degraded_cnt;
  memory_bytes = job.window.memory_bytes();
  if (job.parameters != nullptr) {
    memory_bytes += trio_ml::ParameterShape(job.config).memory_bytes();
  }
  buffers_free = job.window.buffers_free();
  blocks_held = job.record.block_curr_cnt;
  // A core notices a new session at its next packet. Until then its blocks belong to the old one.
  if (job.adopted() == job.session.number()) blocks_in_progress = blocks_held;
}

bool JobView::read_blocks(trio_ml::Job& job) {
  const uint32_t place_count = job.window.place_count();
  if (job.adopted() != job.session.number() || job.record.block_curr_cnt == 0) return false;
  const uint32_t end = std::min(next_place_ + kPlacesPerVisit, place_count);
  uint32_t comparisons = 0;
  for (; next_place_ < end && comparisons < kComparisonsPerVisit; next_place_ += kPlacesPerWord) {
    for (uint64_t live = job.ref_bits.live_mask(next_place_); live != 0; live &= live - 1) {
      const auto bit = static_cast<uint32_t>(std::countr_zero(live));
      const trio_ml::BlockRecord& block = job.window.at_place(next_place_ + bit);
      const bool sent_up = block.phase == trio_ml::BlockPhase::kSentUp;
      const bool aggregating = block.phase == trio_ml::BlockPhase::kAggregating && !block.closing;
      if (!sent_up && !aggregating) continue;
      BlockSnapshot copy{.block_id = block.block_id,
                         .referenced_at = block.referenced_at,
                         .waits_upstream = sent_up};
      for (uint32_t i = 0; i < copy.missing.size() && aggregating; i++) {
        copy.missing[i] = block.expected[i] & ~block.rcvd_mask[i];
      }
      keep_oldest(copy);
      comparisons += keep_oldest_without(copy);
    }
  }
  return next_place_ < place_count;
}

void JobView::keep_oldest(const BlockSnapshot& block) {
  if (oldest.size() == kOldestBlocks) {
    if (!is_older(block, oldest.front())) return;
    std::pop_heap(oldest.begin(), oldest.end(), is_older);
    oldest.back() = block;
  } else {
    oldest.push_back(block);  // Within the capacity that the constructor reserved.
  }
  std::push_heap(oldest.begin(), oldest.end(), is_older);
}

uint32_t JobView::keep_oldest_without(const BlockSnapshot& block) {
  // Most blocks lack the sources that the one before them lacks, and are newer.
  if (compared_ && compared_->missing == block.missing &&
      compared_->waits_upstream == block.waits_upstream && !is_older(block, *compared_)) {
    return 1;
  }
  compared_ = block;
  uint32_t comparisons = 1;
  const auto compare = [&](std::optional<BlockSnapshot>& kept) {
    comparisons++;
    if (!kept || is_older(block, *kept)) kept = block;
  };
  if (block.waits_upstream) compare(oldest_without.back());
  for (uint32_t word = 0; word < block.missing.size(); word++) {
    for (uint64_t left = block.missing[word]; left != 0; left &= left - 1) {
      const uint32_t source = word * 64 + static_cast<uint32_t>(std::countr_zero(left));
      if (source + 1 < oldest_without.size()) compare(oldest_without[source]);
    }
  }
  return comparisons;
}

const char* to_string(SourceState state) {
  constexpr std::array<const char*, 6> kNames{"absent", "plain",  "joining",
                                              "member", "silent", "left"};
  return kNames[static_cast<uint32_t>(state)];
}

bool has_fresh_report(const SourceSnapshot& source, Instant now) {
  return source.state == SourceState::kMember && source.report &&
         now - source.report->at <= kReportFresh;
}

std::vector<uint32_t> numbers_in(const wire::SourceMask& mask) {
  std::vector<uint32_t> numbers;
  for (uint32_t i = 0; i < wire::kSourcesMax; i++) {
    if (trio_ml::contains(mask, i)) numbers.push_back(i);
  }
  return numbers;
}

JobSnapshot merge(const trio_ml::Session& session, std::span<const JobView> views, Instant now) {
  JobSnapshot job;
  job.config = session.config();
  job.session = session.number();
  job.sources.resize(job.config.sources);
  for (const JobView& view : views) {
    job.blocks_held += view.blocks_held;
    job.blocks_in_progress += view.blocks_in_progress;
    job.blocks_total += view.blocks_total;
    job.blocks_degraded += view.blocks_degraded;
    job.memory_bytes += view.memory_bytes;
    job.buffers_free += view.buffers_free;
    if (view.upstream) job.upstream = view.upstream;
    for (uint32_t i = 0; i < job.config.sources; i++) {
      SourceSnapshot& source = job.sources[i];
      if (view.addresses[i].is_set()) source.address = view.addresses[i];
      source.waited_for &= trio_ml::contains(view.active, i);
      source.joining |= trio_ml::contains(view.joining, i);
      const trio_ml::RefusedJoin& join = view.refused_joins[i];
      if (join.reason != wire::Reason::kNone) source.refused_join = join;
      if (view.reports[i].has_arrived()) source.report = view.reports[i];
    }
  }
  job.blocks = blocks_of(views);
  for (uint32_t i = 0; i < job.config.sources; i++) {
    SourceSnapshot& source = job.sources[i];
    source.state = state_of(session, job.session, source, i, now);
    source.ranks = numbers_in(session.ranks_of(i));
    if (job.session != 0) source.silent_for = std::max(now - session.heard_at(i), Duration());
  }
  return job;
}

}  // namespace tributary::server
