// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "engine/model/pfe.h"
#include "memory/rmw_bank.h"

namespace tributary::engine {
namespace {

/// Returns the instructions in the bodies of the two leaf loops: a turn over 16 gradients of the
/// head, one over 16 of the tail, and a turn over 256 bytes of result.
uint32_t loop_body_instructions(const Parameters& parameters) {
  const uint32_t lanes = microcode::kTailChunkBytes / 4;
  const uint32_t turn =
      lanes * parameters.instructions_per_gradient + parameters.instructions_per_chunk;
  return 2 * turn + parameters.instructions_per_result_chunk;
}

double share_of(Duration part, double whole_ticks) {
  return whole_ticks > 0 ? static_cast<double>(part.ticks()) / whole_ticks : 0;
}

}  // namespace

PfeCore::Mark PfeCore::mark_now() const {
  Mark mark;
  mark.machine = machine_.counters();
  mark.memory = machine_.memory_timing().counters();
  mark.loops = machine_.loops();
  mark.xtxns = machine_.xtxns();
  for (uint32_t bank = 0; bank < machine_.memory_timing().bank_count(); bank++) {
    mark.bank_busy.push_back(machine_.memory_timing().busy(bank));
    mark.bank_timer_busy.push_back(machine_.memory_timing().timer_busy(bank));
  }
  for (const auto& row : accesses().instructions()) mark.marks.push_back(row.executed);
  mark.held = reorder_.counters().held;
  mark.overflows = machine_.overflow_count();
  return mark;
}

void PfeCore::reset_report() {
  const Instant now = core_.now();
  measured_from_ = now;
  counted_ = Report();
  latency_ = LatencyHistogram();
  adding_ = LatencyHistogram();
  threads_used_ = OccupancySeries(now);
  issue_used_ = OccupancySeries(now);
  banks_used_ = OccupancySeries(now);
  crossbar_used_ = OccupancySeries(now);
  for (Carrier* const carrier : {&ports_in_, &fabric_, &ports_out_}) carrier->reset(now);
  active_since_ = now;
  active_ = OccupancySeries(now);
  timer_work_ = TimerWork();
  stop_work_ = TimerWork();
  mark_ = mark_now();
}

void PfeCore::note_active(OccupancySeries& series) const {
  series.add(active_since_, core_.now(), core_.now() - active_since_);
}

void PfeCore::note_span(const ModelThread& thread, bool for_packet) {
  const Instant begin = thread.started_at;
  const Instant end = core_.now();
  const int64_t train = thread.packet.train;
  const auto instructions = static_cast<int64_t>(thread.instructions) * train;
  const auto words = static_cast<int64_t>(thread.crossbar_bytes / memory::kRmwBytesPerCycle);
  const TimerWork work{.threads = (end - begin) * train,
                       .issue = parameters_.clock_period * instructions,
                       .banks = thread.bank_busy,
                       .crossbar = parameters_.clock_period * words};
  threads_used_.add(begin, end, work.threads);
  issue_used_.add(begin, end, work.issue);
  banks_used_.add(begin, end, work.banks);
  crossbar_used_.add(begin, end, work.crossbar);
  if (!for_packet) {
    TimerWork& timers = is_stopping_ ? stop_work_ : timer_work_;
    timers.threads += work.threads;
    timers.issue += work.issue;
    timers.banks += work.banks;
    timers.crossbar += work.crossbar;
  }
  if (thread.has_packet) counted_.instructions += static_cast<uint64_t>(instructions);
}

Report PfeCore::report() const {
  Report report = counted_;
  fill_counts(report);
  fill_instructions(report);
  report.observed = core_.now() - measured_from_;
  OccupancySeries active = active_;
  if (dispatch_.busy_count() > 0) note_active(active);
  report.active = active.total();
  fill_resources(report, active);
  report.latency = latency_.summary();
  report.adding = adding_.summary();
  return report;
}

void PfeCore::fill_counts(Report& report) const {
  const ModelMachineCounters& machine = machine_.counters();
  report.forwarded = machine.forwarded - mark_.machine.forwarded;
  report.dropped = machine.dropped - mark_.machine.dropped;
  report.sent = machine.sent - mark_.machine.sent;
  report.refused_too_long += machine.sent_too_long - mark_.machine.sent_too_long;
  report.refused_full += machine.sent_no_room - mark_.machine.sent_no_room;
  report.held_for_order = reorder_.counters().held - mark_.held;

  for (uint32_t i = 0; i < microcode::kXtxnKindCount; i++) {
    const uint64_t issued = machine_.xtxns()[i] - mark_.xtxns[i];
    if (issued == 0) continue;
    report.xtxn_counts.push_back({to_string(static_cast<microcode::XtxnKind>(i)), issued});
  }
  const MemoryTiming::Counters& memory = machine_.memory_timing().counters();
  report.memory_requests = memory.requests - mark_.memory.requests;
  report.cache_hits = memory.cache_hits - mark_.memory.cache_hits;
  report.cache_misses = memory.cache_misses - mark_.memory.cache_misses;
  report.bank_queued = memory.queued - mark_.memory.queued;
  report.crossbar_held = memory.crossbar_held - mark_.memory.crossbar_held;
  report.reservations_overflowed = machine_.overflow_count() - mark_.overflows;
}

void PfeCore::fill_instructions(Report& report) const {
  const ModelMachine::LoopCounters& loops = machine_.loops();
  report.gradients = loops.gradients - mark_.loops.gradients;
  const uint64_t add_instructions = loops.add_instructions - mark_.loops.add_instructions;
  if (report.gradients > 0) {
    report.instructions_per_gradient =
        static_cast<double>(add_instructions) / static_cast<double>(report.gradients);
  }
  if (report.packet_threads > 0) {
    report.instructions_per_packet =
        static_cast<double>(report.instructions) / static_cast<double>(report.packet_threads);
  }
  const auto& marks = accesses().instructions();
  for (uint32_t i = 0; i < marks.size(); i++) {
    const uint64_t before = i < mark_.marks.size() ? mark_.marks[i] : 0;
    if (marks[i].executed == before) continue;
    report.instruction_counts.push_back({marks[i].name, marks[i].executed - before});
  }
  report.program_instructions =
      static_cast<uint32_t>(report.instruction_counts.size()) + parameters_.header_instructions;
  if (report.gradients > 0) report.program_instructions += loop_body_instructions(parameters_);
}

void PfeCore::fill_resources(Report& report, OccupancySeries active) const {
  const uint32_t banks = machine_.memory_timing().bank_count();
  struct Resource {
    const char* name;
    const char* unit;
    const OccupancySeries& series;
    uint32_t capacity;
    Duration TimerWork::*timers;  ///< Null: timer threads use none.
  };
  std::vector<Resource> resources = {
      {"RMW banks", "banks at work", banks_used_, banks, &TimerWork::banks},
      {"PPEs", "issue slots used", issue_used_, parameters_.ppe_count, &TimerWork::issue},
      {"crossbar", "8 bytes a cycle for each bank", crossbar_used_, banks, &TimerWork::crossbar},
      {"threads", "threads at work", threads_used_, parameters_.thread_count(),
       &TimerWork::threads},
  };
  if (ports_in_.is_limited()) {
    resources.push_back({"ports in", "time that packets take", ports_in_.used(), 1, nullptr});
    resources.push_back({"ports out", "time that packets take", ports_out_.used(), 1, nullptr});
  }
  if (fabric_.is_limited()) {
    resources.push_back({"fabric", "time that packets take", fabric_.used(), 1, nullptr});
  }
  report.bin_width = active.bin_width();
  for (const Resource& resource : resources) {
    report.bin_width = std::max(report.bin_width, resource.series.bin_width());
  }
  active.widen_to(report.bin_width);
  const std::vector<Duration> active_bins = active.bins(core_.now());
  for (const Resource& resource : resources) {
    OccupancySeries series = resource.series;
    series.widen_to(report.bin_width);
    ResourceUse use;
    use.name = resource.name;
    use.unit = resource.unit;
    const double capacity = resource.capacity;
    use.share = share_of(series.total(), capacity * static_cast<double>(report.active.ticks()));
    const Duration for_timers =
        resource.timers == nullptr ? Duration() : timer_work_.*resource.timers;
    const Duration at_stop = resource.timers == nullptr ? Duration() : stop_work_.*resource.timers;
    use.packet_work_s = in_seconds(series.total() - for_timers - at_stop) / capacity;
    use.timer_share = share_of(for_timers, capacity * static_cast<double>(report.observed.ticks()));
    // A thread's work counts evenly over its life, but its memory requests may be served later. So
    // work for which a bin has no capacity belongs to the next one.
    const double bin_ticks = capacity * static_cast<double>(report.bin_width.ticks());
    const std::vector<Duration> bins = series.bins(core_.now());
    double left = 0;
    for (size_t i = 0; i < bins.size(); i++) {
      left += static_cast<double>(bins[i].ticks());
      const double done = std::min(left, bin_ticks);
      left -= done;
      use.bins.push_back(done / bin_ticks);
      const double active_ticks = capacity * static_cast<double>(active_bins[i].ticks());
      if (active_ticks > 0) {
        use.share_peak = std::max(use.share_peak, std::min(done / active_ticks, 1.0));
      }
    }
    report.resources.push_back(std::move(use));
  }
  fill_banks(report);
}

void PfeCore::fill_banks(Report& report) const {
  const MemoryTiming& timing = machine_.memory_timing();
  const auto active = static_cast<double>(report.active.ticks());
  const auto observed = static_cast<double>(report.observed.ticks());
  double limit = 0;
  for (uint32_t bank = 0; bank < timing.bank_count(); bank++) {
    const Duration busy = timing.busy(bank) - mark_.bank_busy[bank];
    report.bank_share_fullest = std::max(report.bank_share_fullest, share_of(busy, active));
    const Duration for_packets = busy - (timing.timer_busy(bank) - mark_.bank_timer_busy[bank]);
    const Duration until_stop =
        is_stopping_ ? bank_timer_busy_at_stop_[bank] : timing.timer_busy(bank);
    const Duration for_timers = until_stop - mark_.bank_timer_busy[bank];
    const double timer_share = share_of(for_timers, observed);
    // Packets use what timer threads leave.
    const double used = static_cast<double>(for_packets.ticks()) / std::max(1 - timer_share, 1e-9);
    if (used <= limit) continue;
    limit = used;
    report.bank_packet_work_s = in_seconds(for_packets);
    report.bank_timer_share = timer_share;
  }
}

}  // namespace tributary::engine
