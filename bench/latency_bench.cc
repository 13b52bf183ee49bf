// SPDX-License-Identifier: Apache-2.0
#include "bench/latency_bench.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "apps/trio_ml/app.h"
#include "auth/keys.h"
#include "base/assert.h"
#include "base/clock.h"
#include "bench/latency_ends.h"
#include "bench/measure.h"
#include "engine/live/live_engine.h"
#include "io/udp/udp_port.h"
#include "memory/shared_memory.h"
#include "wire/trio_ml.h"

namespace tributary::bench {
namespace {

constexpr uint32_t kLoopback = 0x7f000001;
constexpr uint32_t kWindow = 64;
/// A later answer counts as lost.
constexpr Duration kAnswerWithin = milliseconds(100);
/// Longer than a round, so that the engine never sleeps.
constexpr Duration kSpin = milliseconds(60'000);

/// An aggregator with one job and one source. It never sleeps.
class Aggregator {
 public:
  /// @param port Must outlive this object. No other object may use its queue meanwhile.
  Aggregator(memory::SharedMemory memory, engine::Port& port, uint32_t gradients)
      : memory_(std::move(memory)),
        job_{.sources = 1, .block_cnt_max = kWindow, .block_grad_max = gradients},
        session_(job_, auth::key_of_seed(1)),
        shard_(0, 1, port.local().port, memory_) {
    const auto added = shard_.add_job(job_, session_, monotonic_now());
    TRIB_ASSERT(added.has_value());
    engine_ = std::make_unique<engine::LiveEngine<trio_ml::App>>(
        port, std::vector{trio_ml::App(shard_)}, engine::LiveEngineConfig{.spin = kSpin});
    engine_->start();
  }

 private:
  memory::SharedMemory memory_;
  trio_ml::JobConfig job_;
  trio_ml::Session session_;
  trio_ml::Shard shard_;
  std::unique_ptr<engine::LiveEngine<trio_ml::App>> engine_;
};

Result<memory::SharedMemory> make_memory() {
  return memory::SharedMemory::create({.sram_size_bytes = 0, .dram_size_bytes = 64 << 20});
}

/// A client's measurements of one server.
struct Seen {
  std::vector<double> times_us;
  uint64_t lost = 0;
  bool is_correct = true;
};

/// Sends contributions one after the other. A block's number and generation follow from `index_`.
template <typename Link>
class Client {
 public:
  Client(Link& link, uint32_t gradients)
      : link_(link),
        sent_(wire::TrioMlHeader::kBytes + gradients * wire::kGradientBytes),
        gradients_(gradients) {
    for (size_t i = wire::TrioMlHeader::kBytes; i < sent_.size(); i++) {
      sent_[i] = static_cast<std::byte>(i * 37);
    }
  }

  void run(uint32_t blocks, Seen& seen) {
    for (uint32_t i = 0; i < blocks; i++, index_++) {
      wire::encode_header({.job_id = 1,
                           .block_id = index_ % kWindow,
                           .src_cnt = 1,
                           .gen_id = static_cast<uint16_t>(index_ / kWindow + 1),
                           .grad_cnt = static_cast<uint16_t>(gradients_)},
                          sent_.data());
      const Instant begin = monotonic_now();
      link_.send(sent_);
      const std::span<const std::byte> answer = await_answer(begin);
      if (answer.empty()) {
        seen.lost++;
        continue;
      }
      seen.times_us.push_back(in_seconds(monotonic_now() - begin) * 1e6);
      seen.is_correct &= std::equal(sent_.begin() + wire::TrioMlHeader::kBytes, sent_.end(),
                                    answer.begin() + wire::TrioMlHeader::kBytes);
    }
  }

 private:
  /// Spins until the answer to this block arrives.
  std::span<const std::byte> await_answer(Instant begin) {
    using H = wire::TrioMlHeader;
    for (;;) {
      const std::span<const std::byte> answer = link_.receive();
      if (answer.size() == sent_.size() &&
          H::BlockId::load(answer.data()) == H::BlockId::load(sent_.data()) &&
          H::GenerationId::load(answer.data()) == H::GenerationId::load(sent_.data())) {
        return answer;
      }
      if (answer.empty() && monotonic_now() - begin > kAnswerWithin) return {};
    }
  }

  Link& link_;
  std::vector<std::byte> sent_;
  const uint32_t gradients_;
  uint32_t index_ = 0;
};

template <typename Link>
Result<Seen> measure(Link link, const LatencyBenchConfig& config) {
  Client client(link, config.gradients);
  Seen warm_up;
  client.run(config.blocks_each, warm_up);
  Seen seen;
  client.run(config.blocks_each, seen);
  if (seen.times_us.empty()) return failure("no answer arrived");
  std::sort(seen.times_us.begin(), seen.times_us.end());
  return seen;
}

Result<Seen> measure_socket(uint16_t server, const LatencyBenchConfig& config) {
  SocketLink link(server);
  if (!link.is_open()) return failure("cannot open a UDP socket on loopback");
  return measure<SocketLink&>(link, config);
}

double percentile(const Seen& seen, uint32_t percent) {
  return seen.times_us[std::min(seen.times_us.size() - 1, seen.times_us.size() * percent / 100)];
}

/// The rounds of one path.
struct Rounds {
  std::vector<double> p50_us;
  std::vector<double> p99_us;
  uint64_t lost = 0;

  void add(const Seen& seen) {
    p50_us.push_back(percentile(seen, 50));
    p99_us.push_back(percentile(seen, 99));
    lost += seen.lost;
  }
  [[nodiscard]] LatencyFigures figures() const { return {median(p50_us), median(p99_us), lost}; }
};

/// Measures both servers in turn.
/// @param aggregate,echo Each measures once, with a new server.
template <typename Aggregate, typename Echo>
Result<LatencyPath> run_path(std::string name, uint32_t rounds, Aggregate aggregate, Echo echo) {
  LatencyPath path;
  path.name = std::move(name);
  path.is_correct = true;
  Rounds aggregations, echoes;
  std::vector<double> ratios;
  for (uint32_t round = 0; round < rounds; round++) {
    const Result<Seen> aggregated = aggregate();
    if (!aggregated) return tl::unexpected(aggregated.error());
    const Result<Seen> echoed = echo();
    if (!echoed) return tl::unexpected(echoed.error());
    aggregations.add(*aggregated);
    echoes.add(*echoed);
    path.is_correct &= aggregated->is_correct;
    ratios.push_back(aggregations.p50_us.back() / echoes.p50_us.back());
  }
  path.aggregation = aggregations.figures();
  path.echo = echoes.figures();
  path.ratio = median(ratios);
  path.ratio_min = *std::min_element(ratios.begin(), ratios.end());
  path.ratio_max = *std::max_element(ratios.begin(), ratios.end());
  return path;
}

Result<LatencyPath> run_udp(const LatencyBenchConfig& config) {
  const auto aggregate = [&]() -> Result<Seen> {
    auto memory = make_memory();
    if (!memory) return tl::unexpected(memory.error());
    auto port = io::UdpPort::open({.local = Endpoint::ipv4(kLoopback, 0)});
    if (!port) return tl::unexpected(port.error());
    const Aggregator aggregator(*std::move(memory), **port, config.gradients);
    return measure_socket((*port)->local().port, config);
  };
  const auto echo = [&] {
    const SocketEcho server;
    return measure_socket(server.port(), config);
  };
  return run_path("udp", config.rounds, aggregate, echo);
}

Result<LatencyPath> run_shared_memory(const LatencyBenchConfig& config,
                                      const SharedMemoryWire& wire) {
  const auto link = [&] { return PortLink(*wire.worker, wire.server->local()); };
  const auto aggregate = [&]() -> Result<Seen> {
    auto memory = make_memory();
    if (!memory) return tl::unexpected(memory.error());
    const Aggregator aggregator(*std::move(memory), *wire.server, config.gradients);
    return measure(link(), config);
  };
  const auto echo = [&] {
    const PortEcho server(*wire.server);
    return measure(link(), config);
  };
  return run_path("shared-memory", config.rounds, aggregate, echo);
}

}  // namespace

bool LatencyBenchResult::is_correct() const {
  return std::all_of(paths.begin(), paths.end(),
                     [](const LatencyPath& path) { return path.is_correct; });
}

Result<LatencyBenchResult> run_latency_bench(const LatencyBenchConfig& config) {
  LatencyBenchResult result;
  result.config = config;
  auto udp = run_udp(config);
  if (!udp) return tl::unexpected(udp.error());
  result.paths.push_back(*std::move(udp));
  const auto wire = SharedMemoryWire::open();
  if (!wire) {
    result.left_out = wire.error().text;
    return result;
  }
  auto memory = run_shared_memory(config, *wire);
  if (!memory) return tl::unexpected(memory.error());
  result.paths.push_back(*std::move(memory));
  return result;
}

std::string as_table(const LatencyBenchResult& result) {
  std::string text = fmt::format(
      "One block of {} gradients in flight, both ends spinning\n{:<28} {:>9} {:>9} {:>6}\n",
      result.config.gradients, "", "p50 us", "p99 us", "lost");
  for (const LatencyPath& path : result.paths) {
    const auto line = [&](const char* what, const LatencyFigures& figures) {
      text += fmt::format("{:<28} {:>9.2f} {:>9.2f} {:>6}\n", path.name + ", " + what,
                          figures.p50_us, figures.p99_us, figures.lost);
    };
    line("aggregated", path.aggregation);
    line("bare echo", path.echo);
    text += fmt::format("{}: p50 {:.2f} times the echo ({:.2f} - {:.2f}), results {}\n", path.name,
                        path.ratio, path.ratio_min, path.ratio_max,
                        path.is_correct ? "right" : "WRONG");
  }
  if (!result.left_out.empty()) text += "shared-memory is left out: " + result.left_out + "\n";
  return text;
}

nlohmann::json as_json(const LatencyBenchResult& result) {
  const auto figures = [](const LatencyFigures& of) {
    return nlohmann::json{{"p50_us", of.p50_us}, {"p99_us", of.p99_us}, {"lost", of.lost}};
  };
  nlohmann::json json{{"bench", "latency"},
                      {"gradients", result.config.gradients},
                      {"rounds", result.config.rounds},
                      {"left_out", result.left_out},
                      {"paths", nlohmann::json::array()}};
  for (const LatencyPath& path : result.paths) {
    json["paths"].push_back({{"path", path.name},
                             {"aggregation", figures(path.aggregation)},
                             {"echo", figures(path.echo)},
                             {"ratio", path.ratio},
                             {"ratio_min", path.ratio_min},
                             {"ratio_max", path.ratio_max},
                             {"right", path.is_correct}});
  }
  return json;
}

}  // namespace tributary::bench
