// SPDX-License-Identifier: Apache-2.0
#include "bench/soak/server_watch.h"

#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <sstream>

#include "bench/measure.h"
#include "io/udp/free_port.h"

namespace tributary::soak {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::seconds kPatience{10};  // For a busy machine; normally milliseconds.
constexpr int kPollMs = 5;

uint64_t resident_bytes_of(pid_t pid) {
  // The second number is in pages. Source: Linux, proc(5), statm.
  std::istringstream numbers(bench::text_of(fmt::format("/proc/{}/statm", pid)));
  uint64_t all_pages = 0;
  uint64_t resident_pages = 0;
  numbers >> all_pages >> resident_pages;
  return resident_pages * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
}

uint64_t open_files_of(pid_t pid) {
  std::error_code ignored;
  const std::filesystem::directory_iterator files(fmt::format("/proc/{}/fd", pid), ignored);
  return static_cast<uint64_t>(std::distance(begin(files), end(files)));
}

}  // namespace

Result<ServerState> state_in(const std::string& serve_json) {
  const auto json = nlohmann::json::parse(serve_json, nullptr, false);
  if (json.is_discarded() || !json.contains("ports") || !json.contains("jobs")) {
    return failure("the server's counters cannot be read");
  }
  ServerState state;
  for (const auto& port : json["ports"]) {
    state.rx_packets += port.value("rx_packets", uint64_t{0});
    state.rx_packets += port.value("rx_truncated", uint64_t{0});
  }
  for (const auto& job : json["jobs"]) {
    state.blocks_open += job.value("block_curr_cnt", uint64_t{0});
    state.buffers_free += job.value("buffers_free", uint64_t{0});
    state.sessions_open += job.value("session", uint64_t{0}) == 0 ? 0 : 1;
  }
  return state;
}

uint64_t socket_drops_in(const std::string& udp_table, uint16_t port) {
  std::istringstream lines(udp_table);
  const std::string wanted = fmt::format(":{:04X}", port);
  uint64_t drops = 0;
  for (std::string line; std::getline(lines, line);) {
    // The line is "sl: local:port remote:port … drops". Source: Linux,
    // Documentation/networking/proc_net_tcp.
    std::istringstream words(line);
    std::string number;
    std::string local;
    words >> number >> local;
    if (!local.ends_with(wanted)) continue;
    const size_t last = line.find_last_not_of(' ');
    const size_t begin = line.find_last_of(' ', last) + 1;
    drops += std::strtoull(line.c_str() + begin, nullptr, 10);
  }
  return drops;
}

Result<ServerWatch> ServerWatch::start(const ServerPlan& plan) {
  uint16_t number = plan.port;
  if (number == 0) {
    const auto port = io::free_port(io::Transport::kUdp);
    if (!port) return tl::unexpected(port.error());
    number = *port;
  }
  const std::string listen = fmt::format("{}:{}", plan.host, number);
  const auto address = Endpoint::parse(listen);
  if (!address) return tl::unexpected(address.error());
  const std::filesystem::path json = plan.scratch / "serve.json";
  std::vector<std::string> words = plan.where;
  words.insert(words.end(),
               {plan.program, "serve", "--listen", listen, "--buffer-mb",
                std::to_string(kServerBufferMb), "--json", json, "--log-level", "error"});
  for (const std::string& job : plan.jobs) words.insert(words.end(), {"--job", job});
  auto child = ChildProcess::start({.name = "the aggregator",
                                    .program = words.front(),
                                    .arguments = {words.begin() + 1, words.end()},
                                    .inherited_files = {}});
  if (!child) return tl::unexpected(child.error());
  ServerWatch watch(std::move(*child), *address, json);
  if (const auto ready = watch.await_ready(); !ready) return tl::unexpected(ready.error());
  return watch;
}

bool ServerWatch::await_end() {
  const auto deadline = Clock::now() + kPatience;
  while (!process_.has_ended() && Clock::now() < deadline) {
    static_cast<void>(process_.stderr_tail());  // Drains the pipe.
    poll(nullptr, 0, kPollMs);
  }
  return process_.has_ended();
}

Result<void> ServerWatch::await_ready() {
  const auto deadline = Clock::now() + kPatience;
  while (Clock::now() < deadline && !process_.has_ended()) {
    for (const std::string& line : process_.take_lines()) {
      if (line.starts_with("ready")) return {};
    }
    pollfd file{process_.stdout_file(), POLLIN, 0};
    poll(&file, 1, kPollMs);
  }
  return failure(fmt::format("the aggregator did not start: {}", process_.last_output()));
}

Result<ServerState> ServerWatch::look() {
  std::error_code ignored;
  std::filesystem::remove(json_, ignored);  // The server writes it under another name and renames
                                            // it.
  process_.signal(SIGUSR1);
  const auto deadline = Clock::now() + kPatience;
  while (!std::filesystem::exists(json_, ignored)) {
    if (process_.has_ended() || Clock::now() > deadline) {
      return failure(fmt::format("the aggregator does not answer ({}): {}", process_.end_text(),
                                 process_.last_output()));
    }
    poll(nullptr, 0, kPollMs);
  }
  auto state = state_in(bench::text_of(json_));
  if (!state) return state;
  // The process's own view, because it may have a network namespace of its own.
  const std::string tables = fmt::format("/proc/{}/net/udp", process_.pid());
  state->socket_drops = socket_drops_in(bench::text_of(tables), address_.port) +
                        socket_drops_in(bench::text_of(tables + "6"), address_.port);
  state->open_files = open_files_of(process_.pid());
  state->resident_bytes = resident_bytes_of(process_.pid());
  return state;
}

}  // namespace tributary::soak
