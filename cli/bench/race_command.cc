// SPDX-License-Identifier: Apache-2.0
#include "cli/bench/race_command.h"

#include <signal.h>

#include <atomic>
#include <memory>
#include <string>

#include "base/endpoint.h"
#include "base/result_file.h"
#include "bench/race/client/ps_server.h"
#include "bench/race/client/tributary_client.h"
#include "bench/race/race.h"
#include "bench/race/report.h"
#include "cli/console.h"
#include "cli/settings.h"
#include "cli/worker/worker_result.h"

namespace tributary::cli {
namespace {

struct RaceFlags {
  explicit RaceFlags(CLI::App& command) : settings(command) {}
  Settings settings;
  race::RaceConfig race;
  bool quick = false;
  bool full = false;
  std::string json_path;
  std::string svg_path;
};

std::atomic<bool> interrupted{false};

/// Applies the settings of --quick or --full, except those given by other flags.
void apply_preset(const CLI::App& command, RaceFlags& flags) {
  race::RaceConfig preset = flags.race;
  if (flags.quick) {
    preset.nets = {"lo"};
    preset.workers = {2};
    preset.bytes = {1'000'000};
    preset.rounds = 2;
    preset.laps = 2;
  } else if (flags.full) {
    preset.nets = {
        "netns-1gbit-equal",  "lo", "netns", "netns-mtu9000", "netns-pkt1500", "netns-1gbit",
        "netns-1gbit-pkt1500"};
    preset.workers = {2, 4, 6};
    preset.bytes = {1'000'000, 10'000'000, 100'000'000};
    preset.losses = {0, 0.001, 0.01};
    preset.straggler = true;
    preset.rounds = 3;
  }
  const auto given = [&command](const char* flag) { return command.count(flag) > 0; };
  if (given("--servers")) preset.nets = {"netns-1gbit-equal"};  // Refused on the others.
  if (!given("--nets")) flags.race.nets = preset.nets;
  if (!given("--workers")) flags.race.workers = preset.workers;
  if (!given("--bytes")) flags.race.bytes = preset.bytes;
  if (!given("--loss")) flags.race.losses = preset.losses;
  if (!given("--rounds")) flags.race.rounds = preset.rounds;
  if (!given("--laps")) flags.race.laps = preset.laps;
  flags.race.straggler = preset.straggler;
}

bool write_file(const char* flag, const std::string& path, const std::string& text) {
  if (path.empty()) return true;
  const auto written = write_result_file(path, text);
  if (!written) print_error("tributary bench race: {} {}\n", flag, written.error().text);
  return written.has_value();
}

int run_race(RaceFlags& flags) {
  if (const auto checked = race::check(flags.race); !checked) {
    print_error("tributary bench race: {}\n", checked.error().text);
    return kExitUsage;
  }
  // Without SA_RESTART, a waiting poll() returns and the race checks whether it was interrupted.
  struct sigaction action {};
  action.sa_handler = [](int) { interrupted.store(true, std::memory_order_relaxed); };
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) sigaction(number, &action, nullptr);
  const race::RaceHooks hooks{
      .progress =
          [](const std::string& line) { print_error("tributary bench race: {} …\n", line); },
      // Relaxed: only a flag; no other data depends on it.
      .interrupted = [] { return interrupted.load(std::memory_order_relaxed); }};
  const race::RaceResult result = race::run_race(flags.race, hooks);
  print("{}", race::as_table(result));
  const bool written =
      write_file("--json", flags.json_path, race::as_json(result).dump(2) + "\n") &&
      write_file("--svg", flags.svg_path, race::as_svg(result));
  if (result.interrupted) return kExitInterrupted;
  return written && race::all_sums_correct(result) ? 0 : 1;
}

race::PsServer* running_server = nullptr;

int run_ps_server(const std::string& listen, uint32_t workers) {
  const auto local = Endpoint::parse(listen);
  auto server = local ? race::PsServer::listen(*local, workers)
                      : Result<std::unique_ptr<race::PsServer>>(tl::unexpected(local.error()));
  if (!server) {
    print_error("tributary race-ps-server: {}\n", server.error().text);
    return kExitUsage;
  }
  running_server = server->get();
  // stop() is one write to a pipe, so a signal handler may call it.
  signal(SIGTERM, [](int) { running_server->stop(); });
  print("ready\n");
  std::fflush(stdout);
  running_server->run();
  signal(SIGTERM, SIG_DFL);
  return 0;
}

}  // namespace

void add_race_command(CLI::App& bench, int& exit_code) {
  CLI::App* command = bench.add_subcommand(
      "race", "Compare all-reduces by Tributary, Gloo, Open MPI and a parameter server");
  const auto flags = std::make_shared<RaceFlags>(*command);
  auto* quick = command->add_flag("--quick", flags->quick, "A short run of a few seconds");
  command->add_flag("--full", flags->full, "Every network, size and loss; takes hours")
      ->excludes(quick);
  const auto add_list = [&](const char* flag, auto& values, const char* help) {
    command->add_option(flag, values, help)->delimiter(',')->capture_default_str();
  };
  add_list("--systems", flags->race.systems, "Systems to compare; default: all that can run here");
  add_list("--nets", flags->race.nets,
           "Networks: lo, netns, netns-mtu9000, netns-pkt1500, netns-1gbit, netns-1gbit-equal, …");
  add_list("--workers", flags->race.workers, "Numbers of workers");
  add_list("--bytes", flags->race.bytes, "Tensor sizes in bytes");
  add_list("--wire", flags->race.wires,
           "Bits of an element on the wire: 32, or 16 (peers then reduce float16)");
  add_list("--servers", flags->race.servers,
           "Numbers of spare machines with an aggregator, besides one on each worker's machine; "
           "only on the networks where every link is shaped (netns-1gbit-equal, …)");
  add_list("--loss", flags->race.losses, "Packet loss probabilities, each way");
  command->add_flag("--straggler", flags->race.straggler,
                    "Add cases with one worker a second late");
  add_uint(*command, "--rounds", flags->race.rounds, 1, 100, "Times to run all systems, in turn");
  add_uint(*command, "--laps", flags->race.laps, 0, 1000,
           "Measured laps in a turn; 0: chosen by the tensor's size");
  command->add_option("--json", flags->json_path, "Write the rows to this file")->type_name("FILE");
  command->add_option("--svg", flags->svg_path, "Write plots to this file")->type_name("FILE");
  command->callback([flags, command, &exit_code] {
    apply_preset(*command, *flags);
    exit_code = run_race(*flags);
  });
}

void add_race_processes(CLI::App& app, int& exit_code) {
  CLI::App* worker = app.add_subcommand("race-worker", "One worker of the race");
  worker->group("");
  const auto client = std::make_shared<race::ClientConfig>();
  race::add_client_options(*worker, *client);
  worker->callback([client, &exit_code] {
    const auto done = race::run_worker(*client);
    if (!done) print_error("rank {}: {}\n", client->rank, done.error().text);
    exit_code = done ? 0 : 1;
  });

  CLI::App* server = app.add_subcommand("race-ps-server", "A parameter server of the race");
  server->group("");
  const auto listen = std::make_shared<std::string>();
  const auto workers = std::make_shared<uint32_t>(2);
  server->add_option("--listen", *listen)->required();
  add_uint(*server, "--workers", *workers, 1, race::kWorkersMax, "Workers that send tensors");
  server->callback([listen, workers, &exit_code] { exit_code = run_ps_server(*listen, *workers); });
}

}  // namespace tributary::cli
