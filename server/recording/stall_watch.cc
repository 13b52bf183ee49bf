// SPDX-License-Identifier: Apache-2.0
#include "server/recording/stall_watch.h"

namespace tributary::server {

std::vector<Wait> StallWatch::find_new(std::span<const Wait> waits) {
  std::vector<Wait> stalls;
  std::set<Key> present;
  for (const Wait& wait : waits) {
    if (after_ == Duration() || !wait.block || !wait.since || *wait.since < after_) continue;
    Key key{wait.job, wait.missing};
    if (!known_.contains(key)) stalls.push_back(wait);
    present.insert(std::move(key));
  }
  known_ = std::move(present);
  return stalls;
}

}  // namespace tributary::server
