// SPDX-License-Identifier: Apache-2.0
// Measures the cost of a payload from one port to another, both in this thread: kernel UDP over
// loopback (the baseline), DPDK over rings (headers and checks, but no copy between the ends), and
// DPDK over vhost-user (with the copies between two processes). It measures CPU time, which a busy
// machine disturbs little.
//
//   ninja -C build/release io_dpdk_bench && build/release/io_dpdk_bench
#include <benchmark/benchmark.h>
#include <unistd.h>

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "io/dpdk/open_dpdk_port.h"
#include "io/dpdk/ring_pair.h"
#include "io/udp/udp_port.h"

namespace tributary::io {
namespace {

struct Ends {
  std::unique_ptr<engine::Port> server;
  std::unique_ptr<engine::Port> worker;
  std::string failure;
};

std::unique_ptr<engine::Port> open_end(DpdkDeviceSpec device, const Endpoint& local,
                                       std::string& failure) {
  device.address = local;
  device.address->port = 0;
  device.prefix_bits = 24;
  auto spec = join_dpdk_devices({std::move(device)});
  if (!spec) return failure = spec.error().text, nullptr;
  auto opened = open_dpdk_port({.spec = *spec, .udp_port = local.port});
  if (!opened) return failure = opened.error().text, nullptr;
  return std::move(opened->port);
}

const Endpoint kServer = Endpoint::ipv4(0x0a000001, 12000);
const Endpoint kWorker = Endpoint::ipv4(0x0a000002, 5000);

Ends over_sockets() {
  Ends ends;
  auto server = UdpPort::open({.local = Endpoint::ipv4(0x7f000001, 0)});
  if (!server) return ends.failure = server.error().text, std::move(ends);
  UdpPortConfig config;
  config.peer = (*server)->local();
  auto worker = UdpPort::open(config);
  if (!worker) return ends.failure = worker.error().text, std::move(ends);
  ends.server = std::move(*server);
  ends.worker = std::move(*worker);
  return ends;
}

Ends over_rings() {
  static uint32_t number = 0;
  Ends ends;
  auto pair = make_ring_pair("bench" + std::to_string(number++), 1);
  if (!pair) return ends.failure = pair.error().text, std::move(ends);
  ends.server = open_end((*pair)[0], kServer, ends.failure);
  ends.worker = open_end((*pair)[1], kWorker, ends.failure);
  return ends;
}

Ends over_vhost() {
  Ends ends;
  const std::string path = "/tmp/tributary_bench_" + std::to_string(getpid());
  const auto device = [](const std::string& text) {
    return parse_dpdk_device("dpdk:" + text + ",hugepages=off");
  };
  ends.server = open_end(*device("vhost,iface=" + path), kServer, ends.failure);
  if (ends.server) {
    ends.worker = open_end(*device("virtio_user,path=" + path), kWorker, ends.failure);
  }
  return ends;
}

/// Sends one burst from the worker to the server. @return packets received.
uint32_t pass(Ends& ends, const std::vector<engine::TxPacket>& packets) {
  ends.worker->queue(0).transmit(packets);
  std::array<engine::Packet, engine::kBurstPackets> burst;
  uint32_t received = 0;
  for (uint32_t empty = 0; received < packets.size() && empty < 1000;) {
    const uint32_t some = ends.server->queue(0).receive(burst);
    empty = some == 0 ? empty + 1 : 0;
    received += some;
    if (some == 0) {  // Questions and answers pass first, until the ends have met.
      std::array<engine::Packet, 1> none;
      static_cast<void>(ends.worker->queue(0).receive(none));
    }
  }
  return received;
}

void one_way(benchmark::State& state, Ends (*open)()) {
  Ends ends = open();
  if (!ends.failure.empty()) return state.SkipWithError(ends.failure.c_str());
  const std::vector<std::byte> payload(static_cast<size_t>(state.range(0)));
  const auto size = static_cast<uint32_t>(payload.size());
  const std::vector<engine::TxPacket> packets(
      32, {.data = payload.data(), .size = size, .destination = ends.server->local()});
  // Separate payloads, as a worker has them, without a run of equal ones.
  std::vector<std::vector<std::byte>> payloads(32, payload);
  std::vector<engine::TxPacket> separate = packets;
  for (size_t i = 0; i < separate.size(); i++) separate[i].data = payloads[i].data();
  while (pass(ends, separate) == 0) {
  }
  uint64_t lost = 0;
  for (auto _ : state) lost += separate.size() - pass(ends, separate);
  state.SetItemsProcessed(static_cast<int64_t>(state.iterations() * separate.size()));
  state.counters["lost"] = static_cast<double>(lost);
}
BENCHMARK_CAPTURE(one_way, kernel_udp, over_sockets)->Arg(64)->Arg(1408)->Arg(4136);
BENCHMARK_CAPTURE(one_way, dpdk_ring, over_rings)->Arg(64)->Arg(1408)->Arg(4136);
BENCHMARK_CAPTURE(one_way, dpdk_vhost, over_vhost)->Arg(64)->Arg(1408)->Arg(4136);

}  // namespace
}  // namespace tributary::io
