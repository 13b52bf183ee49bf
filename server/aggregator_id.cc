// SPDX-License-Identifier: Apache-2.0
#include "server/aggregator_id.h"

#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <climits>
#include <fstream>
#include <span>

#include "auth/keys.h"
#include "base/byte_order.h"

namespace tributary::server {

uint64_t aggregator_id(const Endpoint& listen) {
  std::string machine_id;
  std::ifstream("/etc/machine-id") >> machine_id;
  std::array<char, HOST_NAME_MAX + 1> name{};
  static_cast<void>(gethostname(name.data(), name.size() - 1));
  return aggregator_id(machine_id, name.data(), listen);
}

uint64_t aggregator_id(std::string_view machine_id, std::string_view host_name,
                       const Endpoint& listen) {
  const std::string text = fmt::format("{}\n{}\n{}", machine_id, host_name, listen.to_string());
  const auth::Key256 hash = auth::hash(std::as_bytes(std::span(text)));
  return load_be<uint64_t>(hash.data());
}

}  // namespace tributary::server
