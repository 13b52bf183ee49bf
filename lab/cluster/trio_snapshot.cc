// SPDX-License-Identifier: Apache-2.0
// A TrioNode's inside at one moment, as tables.
#include <fmt/format.h>

#include <algorithm>
#include <tuple>

#include "lab/cluster/trio_node.h"
#include "lab/trace/time_text.h"

namespace tributary::lab {
namespace {

using trio_ml::BlockPhase;

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
  // By PPE and place, as the chip has them.
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

std::vector<std::string> row_of(const trio_ml::Job& job, const trio_ml::BlockRecord& block,
                                uint32_t place, Instant now) {
  return {fmt::format("{}", job.config.id),
          fmt::format("{}", block.block_id),
          fmt::format("{}", place),
          to_string(block.phase),
          fmt::format("{}", block.admitted),
          fmt::format("{}", block.rcvd_cnt),
          fmt::format("{}", trio_ml::count(block.expected)),
          fmt::format("{:#x}", block.rcvd_mask[0]),
          fmt::format("{}", block.grad_cnt),
          block.degraded ? "yes" : "no",
          block.admitted == 0 ? "-" : ago(now, block.referenced_at)};
}

SnapshotTable records_of(trio_ml::Shard& shard, const SnapshotWish& wish, Instant now) {
  SnapshotTable table{.name = "blocks",
                      .title = "",
                      .columns = {"job", "block", "slot", "state", "admitted", "added", "of",
                                  "sources", "gradients", "degraded", "idle ns"},
                      .rows = {},
                      .text_columns = {3, 7, 9}};
  for (trio_ml::Job* const job : shard.jobs()) {
    for (uint32_t place = 0; place < job->window.place_count(); place++) {
      const trio_ml::BlockRecord& block = job->window.at_place(place);
      if (block.phase == BlockPhase::kFree) continue;
      if (wish.block && block.block_id != *wish.block) continue;
      if (wish.slot && place != *wish.slot) continue;
      table.add(row_of(*job, block, place, now), wish.rows_max);
    }
  }
  const uint64_t count = table.rows.size() + table.rows_left_out;
  table.title =
      fmt::format("{} in progress{}", count, wish.block || wish.slot ? " (filtered)" : "");
  return table;
}

}  // namespace

NodeSnapshot TrioNode::snapshot(const SnapshotWish& wish) {
  const engine::PfeView view = pfe_->view(wish.at, words_);
  return {.node = name(),
          .tables = {threads_of(view, wish.rows_max), queue_of(view, wish.rows_max),
                     banks_of(view, wish.rows_max), records_of(shard_, wish, view.at)}};
}

}  // namespace tributary::lab
