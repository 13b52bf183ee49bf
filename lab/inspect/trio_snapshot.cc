// SPDX-License-Identifier: Apache-2.0
#include "lab/inspect/trio_snapshot.h"

#include <fmt/format.h>

#include "lab/inspect/trio_words.h"
#include "lab/trace/time_text.h"

namespace tributary::lab {
namespace {

using trio_ml::BlockPhase;

std::string ago(Instant now, Instant then) {
  return then > now ? "" : nanoseconds_text(now - then);
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

}  // namespace

SnapshotTable trio_block_table(trio_ml::Shard& shard, const SnapshotRequest& request, Instant now) {
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
      if (request.block && block.block_id != *request.block) continue;
      if (request.slot && place != *request.slot) continue;
      table.add(row_of(*job, block, place, now), request.rows_max);
    }
  }
  const uint64_t count = table.rows.size() + table.rows_left_out;
  table.title =
      fmt::format("{} in progress{}", count, request.block || request.slot ? " (filtered)" : "");
  return table;
}

}  // namespace tributary::lab
