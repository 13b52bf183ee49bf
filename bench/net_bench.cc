// SPDX-License-Identifier: Apache-2.0
#include "bench/net_bench.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "base/assert.h"
#include "base/prng.h"
#include "bench/measure.h"
#include "net/topology.h"

namespace tributary::bench {
namespace {

constexpr uint64_t kSeed = 1;
constexpr uint64_t kRateBitsPerSecond = 100'000'000'000;

/// A network, its load and the hosts' destinations.
struct Shape {
  net::Topology topology;
  uint32_t hosts;
  double load;     ///< Part of each host's link rate.
  bool to_random;  ///< Otherwise to the next host.
};

Shape shape_of(const std::string& name) {
  if (name == "star-6") return {net::star({}), 6, 0.98, false};
  TRIB_ASSERT(name == "leaf-spine-576");
  // 24 hosts at 40 % of 100 Gbit/s fill 12 uplinks of the same rate to 77 %.
  return {net::leaf_spine({}), 576, 0.4, true};
}

/// A host that sends packets and ignores received ones.
class Sender final : public net::Node, private EventTarget {
 public:
  struct Work {
    Duration interval;  ///< Mean time between two packets.
    uint32_t payload_bytes;
    uint64_t packets;
    uint32_t to_next;  ///< Index of the neighbour; UINT32_MAX: random.
  };
  Sender(net::Network& network, const net::NodeSpec& spec, uint32_t index,
         const std::vector<Endpoint>& addresses, const Work& work)
      : network_(network),
        id_(network.add_node(*this, spec.name)),
        index_(index),
        addresses_(addresses),
        work_(work),
        draws_(kSeed + index) {
    schedule();
  }

  [[nodiscard]] net::NodeId id() const { return id_; }

  void receive(uint32_t, net::PacketRef) override {}

 private:
  void on_event(uint64_t) override {
    uint32_t to = work_.to_next;
    if (to == UINT32_MAX) {
      to = draws_.below(static_cast<uint32_t>(addresses_.size()) - 1);
      if (to >= index_) to++;
    }
    network_.transmit(
        id_, 0,
        network_.packets().make(addresses_[index_], addresses_[to], work_.payload_bytes, {}));
    if (--work_.packets > 0) schedule();
  }
  void schedule() {
    const auto mean = static_cast<uint32_t>(work_.interval.ticks());
    const auto ticks = static_cast<int64_t>(mean / 2 + draws_.below(mean));
    network_.core().schedule(network_.core().now() + Duration::from_ticks(ticks),
                             EventPriority::kHost, *this, 0);
  }

  net::Network& network_;
  const net::NodeId id_;
  const uint32_t index_;
  const std::vector<Endpoint>& addresses_;
  Work work_;
  Prng draws_;
};

struct Measured {
  double seconds = 0;
  uint64_t hops = 0;
  uint64_t digest = 0;
};

Measured run_once(const NetBenchLoad& load, uint64_t packets, EventCore::Queue queue) {
  const Shape shape = shape_of(load.topology);
  EventCore core(queue);
  net::Network network(core, kSeed);
  std::vector<Endpoint> addresses;
  for (const net::NodeSpec& node : shape.topology.nodes) {
    if (node.address.is_set()) addresses.push_back(node.address);
  }
  const uint64_t wire_bits = uint64_t{load.payload_bytes + net::kWireOverheadBytes} * 8;
  const double seconds_each = static_cast<double>(wire_bits) / kRateBitsPerSecond / shape.load;
  std::vector<std::unique_ptr<Sender>> senders;
  const auto built =
      net::build(shape.topology, network, [&](const net::NodeSpec& spec) -> Result<net::BuiltNode> {
        const auto index = static_cast<uint32_t>(senders.size());
        const Sender::Work work{from_seconds(seconds_each), load.payload_bytes,
                                packets / shape.hosts,
                                shape.to_random ? UINT32_MAX : (index + 1) % shape.hosts};
        senders.push_back(std::make_unique<Sender>(network, spec, index, addresses, work));
        return net::BuiltNode{senders.back()->id(), nullptr, false};
      });
  TRIB_ASSERT(built.has_value());
  const double begin = thread_cpu_s();
  while (core.run_next()) continue;
  return {thread_cpu_s() - begin, network.counters().delivered, network.digest()};
}

NetBenchRow measure(const NetBenchLoad& load, const NetBenchConfig& config) {
  NetBenchRow row{.topology = load.topology,
                  .hosts = shape_of(load.topology).hosts,
                  .payload_bytes = load.payload_bytes,
                  .digests_agree = true};
  std::vector<double> calendar_ns;
  std::vector<double> heap_ns;
  std::vector<double> ratios;
  for (uint32_t i = 0; i < config.repetitions; i++) {
    const Measured calendar = run_once(load, config.packets_each, EventCore::Queue::kCalendar);
    const Measured heap = run_once(load, config.packets_each, EventCore::Queue::kHeap);
    calendar_ns.push_back(calendar.seconds * 1e9 / static_cast<double>(calendar.hops));
    heap_ns.push_back(heap.seconds * 1e9 / static_cast<double>(heap.hops));
    ratios.push_back(heap_ns.back() / calendar_ns.back());
    if (i == 0) row.digest = calendar.digest;
    row.hops = calendar.hops;
    row.digests_agree &= calendar.digest == row.digest && heap.digest == row.digest;
  }
  row.ns_per_hop = median(calendar_ns);
  row.hops_per_s = 1e9 / row.ns_per_hop;
  row.ns_per_hop_min = *std::min_element(calendar_ns.begin(), calendar_ns.end());
  row.ns_per_hop_max = *std::max_element(calendar_ns.begin(), calendar_ns.end());
  row.heap_ns_per_hop = median(heap_ns);
  row.ratio = median(ratios);
  return row;
}

}  // namespace

std::vector<NetBenchRow> run_net_bench(const NetBenchConfig& config,
                                       void (*progress)(const std::string&)) {
  std::vector<NetBenchRow> rows;
  for (const NetBenchLoad& load : config.loads) {
    progress(fmt::format("{}, payload of {} bytes", load.topology, load.payload_bytes));
    rows.push_back(measure(load, config));
  }
  return rows;
}

std::string as_table(const std::vector<NetBenchRow>& rows) {
  std::string table = fmt::format(
      "One core, virtual network, CPU time; calendar queue against a binary heap\n"
      "{:>15} {:>8} {:>9} {:>8} {:>15} {:>8} {:>11} {:>8}\n",
      "topology", "payload", "M hops/s", "ns/hop", "(min - max)", "heap ns", "heap/calend",
      "digests");
  for (const NetBenchRow& row : rows) {
    table += fmt::format(
        "{:>15} {:>8} {:>9.2f} {:>8.1f} {:>6.1f} - {:>6.1f} {:>8.1f} {:>11.2f} {:>8}\n",
        row.topology, row.payload_bytes, row.hops_per_s / 1e6, row.ns_per_hop, row.ns_per_hop_min,
        row.ns_per_hop_max, row.heap_ns_per_hop, row.ratio, row.digests_agree ? "agree" : "DIFFER");
  }
  return table;
}

nlohmann::json as_json(const std::vector<NetBenchRow>& rows) {
  nlohmann::json json{{"bench", "net"}, {"rows", nlohmann::json::array()}};
  for (const NetBenchRow& row : rows) {
    json["rows"].push_back({{"topology", row.topology},
                            {"hosts", row.hosts},
                            {"payload_bytes", row.payload_bytes},
                            {"hops", row.hops},
                            {"hops_per_s", row.hops_per_s},
                            {"ns_per_hop", row.ns_per_hop},
                            {"ns_per_hop_min", row.ns_per_hop_min},
                            {"ns_per_hop_max", row.ns_per_hop_max},
                            {"heap_ns_per_hop", row.heap_ns_per_hop},
                            {"heap_over_calendar", row.ratio},
                            {"digest", fmt::format("{:016x}", row.digest)},
                            {"digests_agree", row.digests_agree}});
  }
  return json;
}

}  // namespace tributary::bench
