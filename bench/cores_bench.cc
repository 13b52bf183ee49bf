// SPDX-License-Identifier: Apache-2.0
// Compares two cores at once with each of them alone. The work and the memory are the same, and
// each thread has a CPU of its own. Only the load on the other core differs.
#include <array>
#include <barrier>
#include <memory>
#include <numeric>
#include <thread>

#include "bench/parts_rows.h"
#include "memory/lanes.h"
#include "wire/trio_ml.h"

namespace tributary::bench {
namespace {

constexpr uint32_t kCores = 2;
constexpr uint32_t kSources = 4;
constexpr uint32_t kBlocksOfCore = trio_ml::kBlocksPerRun;

ReplayShape shape_of(uint32_t core) {
  return {.gradients = kGradients,
          .window = kCores * kBlocksOfCore,
          .sources = kSources,
          .owner = core,
          .owner_count = kCores};
}

using Loads = std::vector<std::unique_ptr<ReplayLoad>>;

Loads make_loads() {
  Loads loads;
  for (uint32_t core = 0; core < kCores; core++) {
    loads.push_back(std::make_unique<ReplayLoad>(shape_of(core)));
  }
  return loads;
}

/// Measures `work(core)`, which returns a rate, on both cores at once and then on each alone.
template <class Work>
void measure_cores(PartsBenchRow& row, const PartsBenchConfig& config, Work&& work) {
  const std::vector<int> cpus = cpus_allowed();
  row.baseline = cpus.size() < kCores ? "each alone; ONE CPU" : "each alone";
  std::array<double, kCores> rates{};
  const auto on_its_cpu = [&](uint32_t core) {
    pin_to_cpu(cpus[core % cpus.size()]);
    rates[core] = work(core);
  };
  const auto at_once = [&] {
    std::barrier both(kCores);
    const auto run = [&](uint32_t core) {
      both.arrive_and_wait();
      on_its_cpu(core);
    };
    std::thread one(run, 0), other(run, 1);
    one.join();
    other.join();
    return std::accumulate(rates.begin(), rates.end(), 0.0);
  };
  const auto alone = [&] {
    for (uint32_t core = 0; core < kCores; core++) std::thread(on_its_cpu, core).join();
    return std::accumulate(rates.begin(), rates.end(), 0.0);
  };
  measure_pairs(row, config.repetitions, at_once, alone);
}

/// A port queue that is never woken; mailboxes need one.
class NoQueue final : public engine::PortQueue {
 public:
  uint32_t receive(std::span<engine::Packet>) override { return 0; }
  void transmit(std::span<const engine::TxPacket>) override {}
  void wait(Duration) override {}
  void wake() override {}
  [[nodiscard]] engine::PortCounters counters() const override { return {}; }
};

/// Two cores that share the blocks of one job.
class TwoCores {
 public:
  TwoCores() : sessions_(shape_of(0)), loads_(make_loads()) {
    for (uint32_t core = 0; core < kCores; core++) {
      mailboxes_.push_back(std::make_unique<engine::Mailbox>(kMailboxBytes, kCores, queues_[core]));
    }
    for (uint32_t core = 0; core < kCores; core++) {
      engines_.push_back(std::make_unique<Core>(*loads_[core], sessions_, mailboxes_));
    }
  }

  /// Returns millions of packets per second.
  double run(uint32_t core, uint64_t packets) {
    return aggregate(engines_[core]->engine, *loads_[core], packets, engines_[core]->gen_id);
  }
  [[nodiscard]] bool is_correct() const {
    bool correct = true;
    for (const auto& core : engines_) {
      correct &= core->engine.results() == uint64_t{core->gen_id} * kBlocksOfCore;
    }
    return correct;
  }

 private:
  static constexpr uint32_t kMailboxBytes = 2048;
  /// State of different cores is at least 128 bytes apart, as in the live engine.
  struct alignas(128) Core {
    Core(const ReplayLoad& load, ReplaySessions& sessions,
         std::span<const std::unique_ptr<engine::Mailbox>> mailboxes)
        : engine(load, sessions, mailboxes) {}
    ReplayEngine engine;
    uint16_t gen_id = 0;
  };

  ReplaySessions sessions_;
  const Loads loads_;
  std::array<NoQueue, kCores> queues_;
  std::vector<std::unique_ptr<engine::Mailbox>> mailboxes_;
  std::vector<std::unique_ptr<Core>> engines_;
};

/// Runs a core's packets through the vector loops only: stores or adds them to their block's lanes.
class VectorLoops {
 public:
  explicit VectorLoops(const ReplayLoad& load)
      : load_(load), lanes_(size_t{kBlocksOfCore} * kGradients) {}

  double run(uint64_t packets) {
    return millions_per_s(packets, load_.packets().size(), [this] { once(); });
  }
  /// Returns true if the lanes equal the sums of one generation, computed by plain additions.
  [[nodiscard]] bool is_correct() const {
    std::vector<uint32_t> sums(lanes_.size());
    for (const engine::Packet& packet : load_.packets()) {
      for (uint32_t i = 0; i < kGradients; i++) {
        sums[place_of(packet) + i] +=
            load_be<uint32_t>(packet.data + Header::kBytes + size_t{i} * wire::kGradientBytes);
      }
    }
    return std::equal(sums.begin(), sums.end(), lanes_.begin(), [](uint32_t sum, int32_t lane) {
      return sum == static_cast<uint32_t>(lane);
    });
  }

 private:
  using Header = wire::TrioMlHeader;
  static size_t place_of(const engine::Packet& packet) {
    return size_t{Header::BlockId::load(packet.data) % kBlocksOfCore} * kGradients;
  }
  void once() {
    for (const engine::Packet& packet : load_.packets()) {
      int32_t* const lanes = &lanes_[place_of(packet)];
      const std::byte* const payload = packet.data + Header::kBytes;
      if (Header::SourceId::load(packet.data) == 0) {
        memory::store_be32(lanes, payload, kGradients);
      } else {
        memory::add_be32(lanes, payload, kGradients);
      }
    }
  }

  const ReplayLoad& load_;
  std::vector<int32_t> lanes_;
};

/// Additions that use only registers.
constexpr uint32_t kAdditions = 1024;
uint64_t add_in_registers(uint64_t value) {
  uint64_t a = value;
  uint64_t b = value + 1;
  uint64_t c = value + 2;
  uint64_t d = value + 3;
  for (uint64_t i = 0; i < kAdditions / 4; i++) {
    a += i;
    b += i;
    c += i;
    d += i;
    asm volatile("" : "+r"(a), "+r"(b), "+r"(c), "+r"(d));  // Prevents folding into one product.
  }
  return a + b + c + d;
}

}  // namespace

PartsBenchRow cores_row(const PartsBenchConfig& config) {
  PartsBenchRow row{.part = "two cores", .baseline = "", .unit = "Mpps"};
  TwoCores two;
  const uint64_t packets = config.packets_each / kCores;
  measure_cores(row, config, [&](uint32_t core) { return two.run(core, packets); });
  row.is_correct = two.is_correct();
  return row;
}

PartsBenchRow cores_vectors_row(const PartsBenchConfig& config) {
  PartsBenchRow row{.part = "  vector loops alone", .baseline = "", .unit = "Mpps"};
  const Loads loads = make_loads();
  std::vector<VectorLoops> loops;
  for (const auto& load : loads) loops.emplace_back(*load);
  const uint64_t packets = config.packets_each / kCores;
  measure_cores(row, config, [&](uint32_t core) { return loops[core].run(packets); });
  row.is_correct =
      std::all_of(loops.begin(), loops.end(), [](const auto& loop) { return loop.is_correct(); });
  return row;
}

PartsBenchRow cores_registers_row(const PartsBenchConfig& config) {
  PartsBenchRow row{.part = "  registers alone", .baseline = "", .unit = "Gops"};
  // Enough additions to take about as long as the packets.
  const uint64_t additions = config.packets_each / kCores * 100;
  std::array<bool, kCores> same{true, true};
  measure_cores(row, config, [&](uint32_t core) {
    const uint64_t wanted = add_in_registers(core);
    return 1e-3 * millions_per_s(additions, kAdditions,
                                 [&] { same[core] &= add_in_registers(core) == wanted; });
  });
  row.is_correct = same[0] && same[1];
  return row;
}

}  // namespace tributary::bench
