// SPDX-License-Identifier: Apache-2.0
// Packets a second through SwitchML's switch program: eight workers, 128 slots, both sets in turn.
// Arguments: elements a packet, and whether the payload is elided. The checksum is the number of
// bytes that left the switch.
#include <benchmark/benchmark.h>

#include "tests/tofino/switchml_bed.h"

namespace tributary::tofino {
namespace {

constexpr uint32_t kWorkers = 8;
constexpr uint32_t kSlots = 128;
/// Between two packets of a worker: 1100 bytes on the wire at 100 Gbit/s.
constexpr Duration kGap = nanoseconds(88);

class CountingSink final : public SwitchSink {
 public:
  void send(Instant /*at*/, uint32_t /*port*/, PacketView packet) override {
    bytes += packet.size_bytes;
  }
  uint64_t bytes = 0;
};

void run_switchml(benchmark::State& state) {
  const auto elements = static_cast<uint32_t>(state.range(0));
  const bool elided = state.range(1) != 0;
  CountingSink sink;
  auto device = SwitchmlSwitch::make({.elements = elements}, sink,
                                     elided ? Payload::kElided : Payload::kCarried);
  if (!device || !device->set_session(testing::session_of(kWorkers, kSlots))) {
    state.SkipWithError("no switch");
    return;
  }
  SwitchmlMessage message;
  message.elements.assign(elements, 3);
  std::vector<std::vector<std::byte>> frames;
  for (uint32_t i = 0; i < 2 * kSlots * kWorkers; i++) {
    message.slot = static_cast<uint16_t>(i / kWorkers % kSlots);
    message.set = i / kWorkers >= kSlots;
    frames.push_back(testing::frame_of(i % kWorkers, message));
  }
  const auto size = static_cast<uint32_t>(frames[0].size());
  if (elided) {
    for (auto& frame : frames) frame.resize(kUdpFrameHeaderBytes + SwitchmlHeader::kBytes);
  }
  Instant now;
  uint32_t next = 0;
  for (auto _ : state) {
    const uint32_t worker = next % kWorkers;
    if (worker == 0) now = now + kGap;
    device->device().arrive(now, testing::worker_port(worker), {frames[next], size});
    next = (next + 1) % static_cast<uint32_t>(frames.size());
  }
  state.SetItemsProcessed(state.iterations());
  state.counters["checksum"] = static_cast<double>(sink.bytes);
}
BENCHMARK(run_switchml)->ArgsProduct({{64, 256}, {0, 1}});

}  // namespace
}  // namespace tributary::tofino
