// SPDX-License-Identifier: Apache-2.0
#include "server/directory_state.h"

namespace tributary::server {

nlohmann::json directory_json(const std::vector<DirectoryJob>& jobs) {
  nlohmann::json rows = nlohmann::json::array();
  for (const DirectoryJob& job : jobs) {
    nlohmann::json aggregators = nlohmann::json::array();
    for (const DirectoryAggregator& each : job.aggregators) {
      aggregators.push_back({{"address", each.name},
                             {"answers", each.answers},
                             {"weight", each.weight},
                             {"fault", each.fault}});
    }
    rows.push_back({{"id", job.job_id},
                    {"plans", job.changes},
                    {"predicted_s", job.predicted_s},
                    {"aggregators", aggregators}});
  }
  return rows;
}

}  // namespace tributary::server
