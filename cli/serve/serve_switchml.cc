// SPDX-License-Identifier: Apache-2.0
#include "cli/serve/serve_switchml.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "io/frames/link_inspect.h"
#include "io/udp/resolve.h"
#include "io/udp/socket_address.h"

namespace tributary::cli {
namespace {

constexpr std::array<KeySpec, 3> kSessionKeys{{
    {.name = "workers",
     .type = KeyType::kText,
     .help = "the workers' sending addresses by rank, for example 10.0.0.1+10.0.0.2",
     .required = true},
    {.name = "elements",
     .type = KeyType::kUint,
     .help = "elements in a packet: 64 or 256",
     .default_text = "256",
     .min = 64,
     .max = switchml::kElementsMax},
    {.name = "slots",
     .type = KeyType::kUint,
     .help = "slots per set that workers may use; without it, as many as --slots",
     .min = 1,
     .max = switchml::kSlotsLimit},
}};

constexpr std::array<const char*, 6> kFlagNames{"--session", "--control", "--sessions",
                                                "--slots",   "--meet-ms", "--session-idle-ms"};

Result<server::SwitchmlConfig::Session> to_session(const KeyValues& row, uint32_t slots_max) {
  server::SwitchmlConfig::Session session;
  std::string_view rest = row.text("workers");
  for (bool more = true; more;) {
    const size_t end = rest.find('+');
    more = end != std::string_view::npos;
    const auto address = io::resolve(rest.substr(0, end), wire::kSwitchmlPort);
    if (!address) {
      return failure_in(fmt::format("{}: workers: ", row.where()), address.error());
    }
    session.workers.push_back(*address);
    if (more) rest.remove_prefix(end + 1);
  }
  session.config = {
      .workers = static_cast<uint32_t>(session.workers.size()),
      .elements = static_cast<uint32_t>(row.uint("elements")),
      .slots = row.has("slots") ? static_cast<uint32_t>(row.uint("slots")) : slots_max};
  const auto good = check(session.config, switchml::ShardConfig{.slots_max = slots_max});
  if (!good) return failure(fmt::format("{}: {}", row.where(), good.error().text));
  return session;
}

/// Refuses workers on other machines if only this machine can reach the switch.
Result<void> check_reach(const server::SwitchmlConfig& config) {
  if (!config.devices.empty() || !io::is_loopback(config.listen)) return {};
  const auto refuse = [&config](const std::string& what) {
    return failure(
        fmt::format("{} names other machines, but --listen {} serves this one only; to fix: give "
                    "--listen the address that the workers reach, on a network of trusted hosts, "
                    "because SwitchML's packets cannot be authenticated",
                    what, config.listen.to_string()));
  };
  for (const Endpoint& control : config.control.addresses) {
    if (!io::is_loopback(control)) return refuse("--control " + control.to_string());
  }
  for (const server::SwitchmlConfig::Session& session : config.sessions) {
    if (!std::ranges::all_of(session.workers, io::is_loopback)) return refuse("--session");
  }
  return {};
}

}  // namespace

const KeyTable& session_keys() {
  static const KeyTable table("session", kSessionKeys);
  return table;
}

void add_switchml_flags(CLI::App& command, Settings& settings, SwitchmlFlags& flags) {
  settings.add_table(session_keys(), flags.sessions,
                     "With --protocol switchml: a session that needs no control point");
  command
      .add_option("--control", flags.control,
                  "With --protocol switchml: address where workers register (gRPC), HOST:PORT; "
                  "repeat it for each job that starts at the same time")
      ->allow_extra_args(false);
  add_uint(command, "--sessions", flags.sessions_max, 1, switchml::kSessionsLimit,
           "With --protocol switchml: most sessions at once");
  add_uint(command, "--slots", flags.slots_max, 1, switchml::kSlotsLimit,
           "With --protocol switchml: slots per set of each session");
  add_milliseconds(command, "--meet-ms", flags.deadline, 1, 3'600'000,
                   "With --protocol switchml: longest wait in a barrier or broadcast");
  add_milliseconds(command, "--session-idle-ms", flags.idle_after, 1, 86'400'000,
                   "With --protocol switchml: a session silent for this long may be replaced");
}

bool uses_switchml_flags(const CLI::App& command) {
  for (const char* name : kFlagNames) {
    if (command.get_option(name)->count() > 0) return true;
  }
  return false;
}

Result<server::SwitchmlConfig> with_switchml_flags(server::SwitchmlConfig config,
                                                   const SwitchmlFlags& flags) {
  config.book.shard = {.sessions_max = flags.sessions_max, .slots_max = flags.slots_max};
  config.book.idle_after = flags.idle_after;
  config.control.deadline = flags.deadline;
  for (const KeyValues& row : flags.sessions) {
    auto session = to_session(row, flags.slots_max);
    if (!session) return tl::unexpected(session.error());
    config.sessions.push_back(*std::move(session));
  }
  for (const std::string& text : flags.control) {
    const auto address = io::resolve(text, server::kSwitchmlControlPort);
    if (!address) return failure_in("--control: ", address.error());
    config.control.addresses.push_back(*address);
  }
  const bool nothing_said = flags.sessions.empty() && flags.control.empty();
  if (nothing_said && !server::ControlServer::available()) {
    return failure(
        "--session: no session is configured, and this program was built without gRPC; give "
        "sessions as "
        "--session workers=ADDRESS+ADDRESS, or run tools/install-deps.sh --with-grpc and build "
        "again");
  }
  if (nothing_said) {
    config.control.addresses.push_back(Endpoint::ipv4(0x7f000001, server::kSwitchmlControlPort));
  }
  // The answer to UdpSession has a field for an IPv4 address only.
  const bool can_be_told = config.listen.is_ipv4() || io::is_wildcard(config.listen);
  if (!config.control.addresses.empty() && !can_be_told) {
    return failure(fmt::format("--listen {}: allowed with --control: an IPv4 address",
                               config.listen.to_string()));
  }
  if (const auto good = check_reach(config); !good) return tl::unexpected(good.error());
  return config;
}

}  // namespace tributary::cli
