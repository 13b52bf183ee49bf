// SPDX-License-Identifier: Apache-2.0
#include "bench/latency_bench.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <memory>
#include <span>
#include <thread>
#include <vector>

#include "apps/trio_ml/app.h"
#include "base/assert.h"
#include "base/clock.h"
#include "bench/measure.h"
#include "engine/live/live_engine.h"
#include "io/udp_port.h"
#include "memory/shared_memory.h"
#include "microcode/trio_ml_wire.h"

namespace tributary::bench {
namespace {

constexpr uint32_t kLoopback = 0x7f000001;
constexpr uint32_t kWindow = 64;
/// After so long an answer counts as lost.
constexpr Duration kAnswerWithin = milliseconds(100);
/// Longer than a round: the engine never sleeps.
constexpr Duration kSpin = milliseconds(60'000);

/// A plain UDP socket on loopback.
class Socket {
 public:
  Socket() : fd_(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)) {
    sockaddr_in address = at(0);
    socklen_t size = sizeof address;
    if (::bind(fd_, reinterpret_cast<sockaddr*>(&address), size) == 0 &&
        ::getsockname(fd_, reinterpret_cast<sockaddr*>(&address), &size) == 0) {
      port_ = ntohs(address.sin_port);
    }
  }
  ~Socket() { ::close(fd_); }
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;

  /// 0: could not be opened.
  [[nodiscard]] uint16_t port() const { return port_; }
  [[nodiscard]] bool connect(uint16_t port) const {
    const sockaddr_in address = at(port);
    return ::connect(fd_, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
  }
  [[nodiscard]] int fd() const { return fd_; }

 private:
  static sockaddr_in at(uint16_t port) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(kLoopback);
    address.sin_port = htons(port);
    return address;
  }
  int fd_;
  uint16_t port_ = 0;
};

/// Sends back what comes, as long as it lives.
class Echo {
 public:
  Echo() : thread_([this] { run(); }) {}
  ~Echo() {
    stopping_.store(true, std::memory_order_relaxed);  // Relaxed: nothing else goes with it.
    thread_.join();
  }
  [[nodiscard]] uint16_t port() const { return socket_.port(); }

 private:
  void run() {
    std::vector<std::byte> bytes(io::kUdpPayloadBytesMax);
    while (!stopping_.load(std::memory_order_relaxed)) {
      sockaddr_in from{};
      socklen_t from_size = sizeof from;
      const ssize_t size = ::recvfrom(socket_.fd(), bytes.data(), bytes.size(), 0,
                                      reinterpret_cast<sockaddr*>(&from), &from_size);
      if (size < 0) continue;
      ::sendto(socket_.fd(), bytes.data(), static_cast<size_t>(size), 0,
               reinterpret_cast<const sockaddr*>(&from), from_size);
    }
  }
  Socket socket_;
  std::atomic<bool> stopping_{false};
  std::thread thread_;  ///< Last: begins when the rest is there.
};

/// An aggregator with one job of one source that never sleeps.
class Aggregator {
 public:
  static Result<std::unique_ptr<Aggregator>> start(uint32_t gradients) {
    auto memory = memory::SharedMemory::create({.sram_size_bytes = 0, .dram_size_bytes = 64 << 20});
    if (!memory) return tl::unexpected(memory.error());
    io::UdpPortConfig config;
    config.local = Endpoint::ipv4(kLoopback, 0);
    auto port = io::UdpPort::open(config);
    if (!port) return tl::unexpected(port.error());
    return std::unique_ptr<Aggregator>(
        new Aggregator(*std::move(memory), *std::move(port), gradients));
  }
  [[nodiscard]] uint16_t port() const { return port_->local().port; }

 private:
  Aggregator(memory::SharedMemory memory, std::unique_ptr<io::UdpPort> port, uint32_t gradients)
      : memory_(std::move(memory)),
        port_(std::move(port)),
        job_{.sources = 1, .block_cnt_max = kWindow, .block_grad_max = gradients},
        session_(job_, 1),
        shard_(0, 1, port_->local().port, memory_) {
    const auto added = shard_.add_job(job_, session_, monotonic_now());
    TRIB_ASSERT(added.has_value());
    engine_ = std::make_unique<engine::LiveEngine<trio_ml::App>>(
        *port_, std::vector{trio_ml::App(shard_)}, engine::LiveEngineConfig{.spin = kSpin});
    engine_->start();
  }

  memory::SharedMemory memory_;
  std::unique_ptr<io::UdpPort> port_;
  trio_ml::JobConfig job_;
  trio_ml::Session session_;
  trio_ml::Shard shard_;
  std::unique_ptr<engine::LiveEngine<trio_ml::App>> engine_;
};

/// What a client saw of one server.
struct Seen {
  std::vector<double> times_us;
  uint64_t lost = 0;
  bool right = true;
};

/// Contributions one after the other; a block's number and generation follow from `index`.
class Client {
 public:
  Client(uint16_t server, uint32_t gradients)
      : sent_(microcode::TrioMlHeader::kBytes + gradients * microcode::kGradientBytes),
        received_(sent_.size()),
        gradients_(gradients),
        connected_(socket_.port() != 0 && socket_.connect(server)) {
    for (size_t i = microcode::TrioMlHeader::kBytes; i < sent_.size(); i++) {
      sent_[i] = static_cast<std::byte>(i * 37);
    }
  }
  [[nodiscard]] bool connected() const { return connected_; }

  void run(uint32_t blocks, Seen& seen) {
    for (uint32_t i = 0; i < blocks; i++, index_++) {
      microcode::encode_header({.job_id = 1,
                                .block_id = index_ % kWindow,
                                .src_cnt = 1,
                                .gen_id = static_cast<uint16_t>(index_ / kWindow + 1),
                                .grad_cnt = static_cast<uint16_t>(gradients_)},
                               sent_.data());
      const Instant begin = monotonic_now();
      ::send(socket_.fd(), sent_.data(), sent_.size(), 0);
      if (!await_answer(begin)) {
        seen.lost++;
        continue;
      }
      seen.times_us.push_back(in_seconds(monotonic_now() - begin) * 1e6);
      seen.right &= std::equal(sent_.begin() + microcode::TrioMlHeader::kBytes, sent_.end(),
                               received_.begin() + microcode::TrioMlHeader::kBytes);
    }
  }

 private:
  /// Spins until the answer to this block is there.
  bool await_answer(Instant begin) {
    using H = microcode::TrioMlHeader;
    for (;;) {
      const ssize_t size = ::recv(socket_.fd(), received_.data(), received_.size(), 0);
      if (size == static_cast<ssize_t>(received_.size()) &&
          H::BlockId::load(received_.data()) == H::BlockId::load(sent_.data()) &&
          H::GenerationId::load(received_.data()) == H::GenerationId::load(sent_.data())) {
        return true;
      }
      if (size < 0 && monotonic_now() - begin > kAnswerWithin) return false;
    }
  }

  Socket socket_;
  std::vector<std::byte> sent_;
  std::vector<std::byte> received_;
  const uint32_t gradients_;
  const bool connected_;
  uint32_t index_ = 0;
};

Result<Seen> measure(uint16_t server, const LatencyBenchConfig& config) {
  Client client(server, config.gradients);
  if (server == 0 || !client.connected()) return failure("no UDP socket on loopback");
  Seen warm_up;
  client.run(config.blocks_each, warm_up);
  Seen seen;
  client.run(config.blocks_each, seen);
  if (seen.times_us.empty()) return failure("no answer came over loopback");
  std::sort(seen.times_us.begin(), seen.times_us.end());
  return seen;
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

}  // namespace

Result<LatencyBenchResult> run_latency_bench(const LatencyBenchConfig& config) {
  LatencyBenchResult result;
  result.config = config;
  result.right = true;
  Rounds aggregation, echoes;
  std::vector<double> ratios;
  for (uint32_t round = 0; round < config.rounds; round++) {
    {
      auto aggregator = Aggregator::start(config.gradients);
      if (!aggregator) return tl::unexpected(aggregator.error());
      const auto seen = measure((*aggregator)->port(), config);
      if (!seen) return tl::unexpected(seen.error());
      aggregation.add(*seen);
      result.right &= seen->right;
    }
    const Echo echo;
    const auto seen = measure(echo.port(), config);
    if (!seen) return tl::unexpected(seen.error());
    echoes.add(*seen);
    ratios.push_back(aggregation.p50_us.back() / echoes.p50_us.back());
  }
  result.aggregation = aggregation.figures();
  result.echo = echoes.figures();
  result.ratio = median(ratios);
  result.ratio_min = *std::min_element(ratios.begin(), ratios.end());
  result.ratio_max = *std::max_element(ratios.begin(), ratios.end());
  return result;
}

std::string as_table(const LatencyBenchResult& result) {
  const auto line = [](const char* path, const LatencyFigures& figures) {
    return fmt::format("{:<22} {:>9.1f} {:>9.1f} {:>6}\n", path, figures.p50_us, figures.p99_us,
                       figures.lost);
  };
  return fmt::format("One block of {} gradients in flight, UDP over loopback, both ends spinning\n",
                     result.config.gradients) +
         fmt::format("{:<22} {:>9} {:>9} {:>6}\n", "", "p50 us", "p99 us", "lost") +
         line("aggregated", result.aggregation) + line("bare echo", result.echo) +
         fmt::format("p50: {:.2f} times the echo ({:.2f} - {:.2f}), results {}\n", result.ratio,
                     result.ratio_min, result.ratio_max, result.right ? "right" : "WRONG");
}

nlohmann::json as_json(const LatencyBenchResult& result) {
  const auto figures = [](const LatencyFigures& of) {
    return nlohmann::json{{"p50_us", of.p50_us}, {"p99_us", of.p99_us}, {"lost", of.lost}};
  };
  return {{"bench", "latency"},
          {"gradients", result.config.gradients},
          {"rounds", result.config.rounds},
          {"aggregation", figures(result.aggregation)},
          {"echo", figures(result.echo)},
          {"ratio", result.ratio},
          {"ratio_min", result.ratio_min},
          {"ratio_max", result.ratio_max},
          {"right", result.right}};
}

}  // namespace tributary::bench
