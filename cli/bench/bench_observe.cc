// SPDX-License-Identifier: Apache-2.0
#include "cli/bench/bench_observe.h"

#include <fcntl.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <stop_token>
#include <thread>

#include "base/clock.h"
#include "bench/measure.h"
#include "bench/replay_load.h"
#include "cli/bench/bench_flags.h"
#include "cli/console.h"
#include "cli/version.h"
#include "io/file_descriptor.h"
#include "server/appliance.h"
#include "server/control/api.h"
#include "server/control/history.h"
#include "server/control/http_client.h"
#include "server/control/http_server.h"
#include "server/control/pages.h"
#include "server/recording/record_keeper.h"

namespace tributary::cli {
namespace {

constexpr uint32_t kQuickRounds = 3;
constexpr Duration kQuickRound = milliseconds(300);
constexpr uint64_t kMemoryMb = 1024;
constexpr std::chrono::milliseconds kAskEvery{1000};
/// The requests of Prometheus and of a browser with the dashboard.
constexpr std::array<const char*, 4> kPaths{"/metrics", "/v1/status", "/v1/who", "/v1/history"};

/// Replays a load for ever, generation after generation.
class EndlessQueue final : public engine::PortQueue {
 public:
  explicit EndlessQueue(const bench::ReplayLoad& load) : replay_(load) {}
  uint32_t receive(std::span<engine::Packet> burst) override {
    if (replay_.done()) replay_.rewind(++gen_id_);
    return replay_.receive(burst);
  }
  void transmit(std::span<const engine::TxPacket> packets) override { replay_.transmit(packets); }
  void wait(Duration) override {}
  void wake() override {}
  [[nodiscard]] engine::PortCounters counters() const override { return {}; }

 private:
  bench::ReplayQueue replay_;
  uint16_t gen_id_ = 0;
};

class EndlessPort final : public engine::Port {
 public:
  explicit EndlessPort(const bench::ReplayLoad& load) : queue_(load) {}
  [[nodiscard]] uint32_t queue_count() const override { return 1; }
  [[nodiscard]] engine::PortQueue& queue(uint32_t) override { return queue_; }
  [[nodiscard]] Endpoint local() const override {
    return Endpoint::ipv4(0x7f000001, wire::kTrioMlPort);
  }
  [[nodiscard]] uint32_t payload_bytes_max() const override { return engine::kMailboxBytes; }

 private:
  EndlessQueue queue_;
};

/// Everything that observes an appliance, as `tributary serve --http` has it.
class Observation {
 public:
  Observation(server::Appliance& appliance, server::RecordControl& recorder,
              const std::string& socket)
      : appliance_(appliance),
        socket_(socket),
        api_({.name = "bench",
              .version = std::string(program_version()),
              .snapshot = [&appliance] { return appliance.snapshot(); },
              .is_ready = [] { return true; },
              .settings = nlohmann::json::object(),
              .history = &history_,
              .recorder = &recorder}) {}

  Result<void> listen() {
    auto started = control::HttpServer::start(socket_, [this](const control::Request& request) {
      return control::Pages(api_).handle(request);
    });
    if (!started) return tl::unexpected(started.error());
    http_ = *std::move(started);
    return {};
  }

  /// Begins to keep a history and to ask.
  void begin() {
    observer_ =
        std::make_unique<control::Observer>([this] { return appliance_.snapshot(); }, history_);
    asking_ = std::jthread([this](const std::stop_token& stop) { ask(stop); });
  }
  void end() {
    asking_ = {};
    observer_ = nullptr;
  }
  /// Asks without a pause. @return the times of the answers in milliseconds, sorted.
  [[nodiscard]] std::vector<double> ask_for(Duration time) {
    const Instant end = monotonic_now() + time;
    std::vector<double> times_ms;
    do {
      for (const char* path : kPaths) {
        const Instant asked = monotonic_now();
        ask_once(path);
        times_ms.push_back(in_seconds(monotonic_now() - asked) * 1e3);
      }
    } while (monotonic_now() < end);
    std::ranges::sort(times_ms);
    return times_ms;
  }
  [[nodiscard]] uint64_t answers() const { return answers_.load(); }
  [[nodiscard]] bool all_answered() const { return failures_.load() == 0; }

 private:
  void ask_once(const char* path) {
    (control::get_bytes(socket_, path) ? answers_ : failures_).fetch_add(1);
  }
  /// Asks as Prometheus and a browser with the dashboard do.
  void ask(const std::stop_token& stop) {
    std::mutex mutex;
    std::condition_variable_any wake;
    std::unique_lock lock(mutex);
    do {  // At least once, however short the round.
      for (const char* path : kPaths) ask_once(path);
      wake.wait_for(lock, stop, kAskEvery, [] { return false; });
    } while (!stop.stop_requested());
  }

  server::Appliance& appliance_;
  const std::string socket_;
  control::History history_;
  control::Api api_;
  std::unique_ptr<control::HttpServer> http_;
  std::unique_ptr<control::Observer> observer_;
  std::atomic<uint64_t> answers_{0};
  std::atomic<uint64_t> failures_{0};
  std::jthread asking_;
};

/// Returns the packets per second of the core's CPU time during one round.
double measure(server::Appliance& appliance, Duration round) {
  const server::Snapshot before = appliance.snapshot();
  std::this_thread::sleep_for(std::chrono::nanoseconds(in_nanoseconds(round)));
  const server::Snapshot after = appliance.snapshot();
  const auto packets =
      static_cast<double>(after.cores[0].counters.packets - before.cores[0].counters.packets);
  return packets / in_seconds(after.cores[0].cpu - before.cores[0].cpu);
}

bool has_aggregated_all(const server::Snapshot& snapshot) {
  return snapshot.packets(trio_ml::Outcome::kAggregated) == snapshot.cores[0].counters.packets;
}

Result<ObserveBenchRow> run_row(const ObserveBenchConfig& config, uint32_t gradients) {
  const bench::ReplayLoad load(
      {.gradients = gradients, .window = config.window, .sources = config.sources});
  const bench::ScratchFolder folder;
  const io::FileDescriptor nowhere(open("/dev/null", O_WRONLY | O_CLOEXEC));
  server::Log log({.file = nowhere.get()});
  auto appliance = server::Appliance::start({.memory_mb = kMemoryMb,
                                             .jobs = {{.id = 1,
                                                       .sources = config.sources,
                                                       .block_cnt_max = config.window,
                                                       .block_grad_max = gradients}},
                                             .record_events = config.record_events,
                                             .record_name = "bench"},
                                            std::make_unique<EndlessPort>(load));
  if (!appliance) return tl::unexpected(appliance.error());
  server::Appliance& server = **appliance;
  auto keeper = server::RecordKeeper::start(
      {.folder = folder.path(), .events = config.record_events}, server, log);
  if (!keeper) return tl::unexpected(keeper.error());
  Observation observation(server, **keeper, folder.path() / "bench.sock");
  if (const auto listening = observation.listen(); !listening) {
    return tl::unexpected(listening.error());
  }

  ObserveBenchRow row{.gradients = gradients, .window = config.window};
  std::vector<double> alone, observed, ratios, recorder_ratios;
  for (uint32_t i = 0; i < config.rounds; i++) {
    (*keeper)->set_on(false);
    alone.push_back(measure(server, config.round));
    (*keeper)->set_on(true);
    recorder_ratios.push_back(measure(server, config.round) / alone.back());
    observation.begin();
    observed.push_back(measure(server, config.round));
    observation.end();
    ratios.push_back(observed.back() / alone.back());
  }
  row.alone_mpps = bench::median(alone) * 1e-6;
  row.observed_mpps = bench::median(observed) * 1e-6;
  row.ratio = bench::median(ratios);
  row.ratio_min = *std::ranges::min_element(ratios);
  row.ratio_max = *std::ranges::max_element(ratios);
  row.recorder_ratio = bench::median(recorder_ratios);
  row.answers = observation.answers();
  const std::vector<double> times_ms = observation.ask_for(config.round);
  row.api_answers = times_ms.size();
  row.api_median_ms = times_ms[times_ms.size() / 2];
  row.api_longest_ms = times_ms.back();
  row.events = (*keeper)->state()["recorded"].get<uint64_t>();
  row.is_correct = has_aggregated_all(server.snapshot()) && observation.all_answered() &&
                   row.answers > 0 && row.events > 0;
  (*keeper)->stop();
  server.stop();
  return row;
}

int run_observe(BenchFlags<ObserveBenchConfig>& flags) {
  if (flags.quick) {
    flags.bench.rounds = kQuickRounds;
    flags.bench.round = kQuickRound;
  }
  const auto rows = run_observe_bench(flags.bench, [](const std::string& line) {
    print_error("tributary bench observe: {} …\n", line);
  });
  if (!rows) {
    print_error("tributary bench observe: {}\n", rows.error().text);
    return 1;
  }
  return report_rows(*rows, flags.json_path, std::mem_fn(&ObserveBenchRow::is_correct));
}

}  // namespace

Result<std::vector<ObserveBenchRow>> run_observe_bench(const ObserveBenchConfig& config,
                                                       void (*progress)(const std::string&)) {
  std::vector<ObserveBenchRow> rows;
  for (const uint32_t gradients : config.gradients) {
    progress(fmt::format("{} gradients, {} rounds of {:.1f} s each way", gradients, config.rounds,
                         in_seconds(config.round)));
    const auto row = run_row(config, gradients);
    if (!row) return tl::unexpected(row.error());
    rows.push_back(*row);
  }
  return rows;
}

std::string as_table(const std::vector<ObserveBenchRow>& rows) {
  std::string table = fmt::format(
      "One core, packets in memory, observed (recorder, metrics, dashboard) against alone\n"
      "{:>9} {:>7} {:>11} {:>14} {:>7} {:>15} {:>14} {:>8} {:>15} {:>8}\n",
      "gradients", "window", "alone Mpps", "observed Mpps", "ratio", "(min - max)", "recorder only",
      "answers", "longest answer", "packets");
  for (const ObserveBenchRow& row : rows) {
    table += fmt::format(
        "{:>9} {:>7} {:>11.2f} {:>14.2f} {:>7.3f} {:>7.3f} - {:>5.3f} {:>14.3f} {:>8} {:>12.1f} ms "
        "{:>8}\n",
        row.gradients, row.window, row.alone_mpps, row.observed_mpps, row.ratio, row.ratio_min,
        row.ratio_max, row.recorder_ratio, row.answers, row.api_longest_ms,
        row.is_correct ? "right" : "WRONG");
  }
  return table;
}

nlohmann::json as_json(const std::vector<ObserveBenchRow>& rows) {
  nlohmann::json json{{"bench", "observe"}, {"rows", nlohmann::json::array()}};
  for (const ObserveBenchRow& row : rows) {
    json["rows"].push_back({{"gradients", row.gradients},
                            {"window", row.window},
                            {"alone_mpps", row.alone_mpps},
                            {"observed_mpps", row.observed_mpps},
                            {"ratio", row.ratio},
                            {"ratio_min", row.ratio_min},
                            {"ratio_max", row.ratio_max},
                            {"recorder_ratio", row.recorder_ratio},
                            {"answers", row.answers},
                            {"api_answers", row.api_answers},
                            {"api_median_ms", row.api_median_ms},
                            {"api_longest_ms", row.api_longest_ms},
                            {"events", row.events},
                            {"is_correct", row.is_correct}});
  }
  return json;
}

void add_observe_bench(CLI::App& command, int& exit_code) {
  CLI::App* observe = command.add_subcommand(
      "observe", "A core with recorder, metrics and dashboard, against the same core alone");
  const auto flags = bench_flags<ObserveBenchConfig>(*observe);
  add_uint(*observe, "--rounds", flags->bench.rounds, 1, 1000, "Times to run each way, in turn");
  add_milliseconds(*observe, "--round-ms", flags->bench.round, 100, 60'000,
                   "Length of a round; the questions come each second");
  observe
      ->add_option("--gradients", flags->bench.gradients,
                   "Gradients in a packet; one value or more")
      ->check(CLI::Range(1, 4095))
      ->capture_default_str();
  add_uint(*observe, "--window", flags->bench.window, 16, 65'536, "Blocks in progress");
  observe->callback([flags, &exit_code] { exit_code = run_observe(*flags); });
}

}  // namespace tributary::cli
