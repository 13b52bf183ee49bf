// SPDX-License-Identifier: Apache-2.0
#include "cli/serve/serve_status.h"

#include <fmt/format.h>

namespace tributary::cli {

std::string status_line(const server::Snapshot& snapshot) {
  uint64_t sources = 0;
  uint64_t members = 0;
  uint64_t blocks = 0;
  for (const server::JobSnapshot& job : snapshot.jobs) {
    sources += job.sources.size();
    blocks += job.blocks_total;
    for (const server::SourceSnapshot& source : job.sources) {
      members += source.state == server::SourceState::kMember ? 1 : 0;
    }
  }
  return fmt::format("{} jobs, {} of {} workers in sessions, {} blocks", snapshot.jobs.size(),
                     members, sources, blocks);
}

}  // namespace tributary::cli
