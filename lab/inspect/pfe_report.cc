// SPDX-License-Identifier: Apache-2.0
#include "lab/inspect/pfe_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

#include "lab/inspect/latency_summary.h"
#include "lab/trace/time_text.h"

namespace tributary::lab {
namespace {

std::string number_or_dash(uint64_t number) {
  return number == 0 ? "-" : fmt::format("{}", number);
}

std::string ago(Instant now, Instant then) {
  return then > now ? "" : nanoseconds_text(now - then);
}

SnapshotTable threads_of(const engine::PfeView& view, size_t rows_max) {
  size_t waiting = 0;
  for (const engine::ThreadView& thread : view.threads) {
    waiting += thread.state == engine::ThreadState::kWaiting ? 1 : 0;
  }
  SnapshotTable table{.name = "threads",
                      .title = fmt::format("{} of {} in use, {} wait for a reply",
                                           view.threads.size(), view.thread_count, waiting),
                      .columns = {"thread", "ppe", "place", "packet", "state", "waits for", "at",
                                  "waits ns", "on ppe ns", "instructions"},
                      .rows = {},
                      .text_columns = {4, 5, 6}};
  // In the order of PPEs and places.
  std::vector<engine::ThreadView> threads = view.threads;
  std::sort(threads.begin(), threads.end(), [](const auto& a, const auto& b) {
    return std::tuple(a.place.ppe, a.place.thread, a.number) <
           std::tuple(b.place.ppe, b.place.thread, b.number);
  });
  for (const engine::ThreadView& thread : threads) {
    const bool placed = thread.place_count > 0;
    const bool waits = thread.state == engine::ThreadState::kWaiting;
    table.add(
        {fmt::format("{}", thread.number), placed ? fmt::format("{}", thread.place.ppe) : "-",
         placed ? fmt::format("{}", thread.place.thread) : "-", number_or_dash(thread.packet),
         engine::to_string(thread.state), thread.waits_for.empty() ? "-" : thread.waits_for,
         thread.target.empty() ? "-" : thread.target, waits ? ago(view.at, thread.since) : "-",
         placed ? ago(view.at, thread.started_at) : "-", fmt::format("{}", thread.instructions)},
        rows_max);
  }
  return table;
}

SnapshotTable queue_of(const engine::PfeView& view, size_t rows_max) {
  SnapshotTable table{.name = "queue",
                      .title = fmt::format("{} packets before the threads", view.waiting.size()),
                      .columns = {"packet", "bytes", "waits ns", "where"},
                      .rows = {},
                      .text_columns = {3}};
  for (const engine::WaitingView& packet : view.waiting) {
    table.add({fmt::format("{}", packet.packet), fmt::format("{}", packet.size_bytes),
               ago(view.at, packet.arrived_at), packet.in_ingress ? "ingress" : "dispatch"},
              rows_max);
  }
  return table;
}

SnapshotTable banks_of(const engine::PfeView& view, size_t rows_max) {
  Duration backlog;
  for (const engine::BankView& bank : view.banks) backlog += bank.backlog;
  SnapshotTable table{
      .name = "banks",
      .title = fmt::format("RMW engines; {} ns of work before them", nanoseconds_text(backlog)),
      .columns = {"bank", "before it ns", "worked ns"},
      .rows = {}};
  for (size_t i = 0; i < view.banks.size(); i++) {
    table.add({fmt::format("{}", i), nanoseconds_text(view.banks[i].backlog),
               nanoseconds_text(view.banks[i].busy)},
              rows_max);
  }
  return table;
}

/// Returns the part that shows the use of an engine's resource.
PartKind kind_of_use(const std::string& resource) {
  if (resource == "threads") return PartKind::kThreadsInUse;
  if (resource == "RMW banks") return PartKind::kRmwBanksInUse;
  return PartKind::kOther;
}

}  // namespace

AggregatorResult pfe_result(std::string name, const engine::Report& report) {
  AggregatorResult result;
  result.name = std::move(name);
  result.packets = report.arrived;
  result.dropped = report.refused_full + report.refused_too_long;
  result.latency = summarise(report.adding);
  for (uint32_t i = 0; i < engine::kLatencyPartCount; i++) {
    const auto part = static_cast<engine::LatencyPart>(i);
    result.add(std::string("latency ") + engine::to_string(part),
               in_seconds(report.adding.parts_mean[part]) * 1e6, "us");
  }
  for (const engine::ResourceUse& use : report.resources) {
    // The use while any thread was at work: of the whole run, and of its fullest part.
    result.parts.push_back(
        {use.name + " in use, when active", use.share, "share", kind_of_use(use.name)});
    result.add(use.name + " in use, fullest stretch", use.share_peak, "share");
  }
  result.add(PartKind::kInstructionsPerPacket, report.instructions_per_packet, "");
  result.add("instructions per gradient", report.instructions_per_gradient, "");
  result.add("packet buffer peak", static_cast<double>(report.packet_buffer_peak), "packets");
  if (report.refused_full > 0) {
    result.add(kPacketBufferFull, static_cast<double>(report.refused_full), "packets");
  }
  if (report.refused_too_long > 0) {
    result.add("dropped: too long", static_cast<double>(report.refused_too_long), "packets");
  }
  if (report.reservations_overflowed > 0) {
    result.add(kReservationsOverflowed, static_cast<double>(report.reservations_overflowed), "");
  }
  result.add("gradients added", static_cast<double>(report.gradients), "");
  result.add("active (a thread at work)", in_seconds(report.active), "s");
  result.bottleneck = engine::bottleneck(report);
  return result;
}

std::vector<SnapshotTable> pfe_tables(const engine::PfeView& view, size_t rows_max) {
  return {threads_of(view, rows_max), queue_of(view, rows_max), banks_of(view, rows_max)};
}

}  // namespace tributary::lab
