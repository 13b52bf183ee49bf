// SPDX-License-Identifier: Apache-2.0
#include "server/session_snapshot.h"

#include <fmt/format.h>

namespace tributary::server {

nlohmann::json session_json(const SessionSnapshot& session) {
  nlohmann::json silent_s = nlohmann::json::array();
  for (const auto& silent : session.silent_for) {
    silent_s.push_back(silent ? nlohmann::json(in_seconds(*silent)) : nlohmann::json());
  }
  return {{"id", fmt::format("{:#x}", session.id)},
          {"configured", session.configured},
          {"elements", session.elements},
          {"slots", session.slots},
          {"workers", session.workers},
          {"silent_s", silent_s},
          {"packets", session.packets},
          {"slots_completed", session.slots_completed}};
}

}  // namespace tributary::server
