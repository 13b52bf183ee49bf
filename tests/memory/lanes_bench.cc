// SPDX-License-Identifier: Apache-2.0
// The payload loops, in L1. Each variant runs by name; "dispatched" is the engine's own call. The
// payload lies at 54 mod 64 bytes, as after Ethernet, IPv4, UDP and the Trio-ML header. The
// arguments are lane counts. Plain baseline: the scalar variant, which the compiler vectorises as
// far as the build's target allows.
#include <benchmark/benchmark.h>

#include <string>
#include <vector>

#include "memory/lanes.h"

namespace tributary::memory {
namespace {

constexpr size_t kPayloadOffset = 54;

/// An accumulator and a payload, both aligned to 64 bytes but for kPayloadOffset.
struct Buffers {
  explicit Buffers(uint32_t lane_count) : to(lane_count + 16), bytes(lane_count * 4 + 128) {
    for (size_t i = 0; i < bytes.size(); i++) bytes[i] = static_cast<std::byte>(i * 37);
  }
  template <class T>
  static T* aligned(T* pointer) {
    return reinterpret_cast<T*>((reinterpret_cast<uintptr_t>(pointer) + 63) & ~uintptr_t{63});
  }
  int32_t* sums() { return aligned(to.data()); }
  [[nodiscard]] std::byte* payload() { return aligned(bytes.data()) + kPayloadOffset; }

  std::vector<int32_t> to;
  std::vector<std::byte> bytes;
};

/// Times `kernel(buffers)`, and then runs it once more from known sums for the checksum.
template <class F>
void run(benchmark::State& state, F&& kernel) {
  const auto lane_count = static_cast<uint32_t>(state.range(0));
  Buffers buffers(lane_count);
  for (auto _ : state) {
    kernel(buffers, lane_count);
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() * int64_t{lane_count} * 4);
  for (uint32_t i = 0; i < lane_count; i++) buffers.sums()[i] = static_cast<int32_t>(i);
  kernel(buffers, lane_count);
  uint32_t checksum = 0;
  for (uint32_t i = 0; i < lane_count; i++) checksum += static_cast<uint32_t>(buffers.sums()[i]);
  state.counters["checksum"] = checksum;
}

void run_swap(benchmark::State& state, SwapLanesFn kernel) {
  run(state, [&](Buffers& buffers, uint32_t lane_count) {
    kernel(buffers.sums(), buffers.payload(), lane_count);
  });
}

void run_in_place(benchmark::State& state, InPlaceLanesFn kernel) {
  run(state, [&](Buffers& buffers, uint32_t lane_count) { kernel(buffers.sums(), lane_count); });
}

void run_add(benchmark::State& state, AddLanesFn kernel) {
  std::vector<int32_t> from(static_cast<size_t>(state.range(0)), 7);
  run(state, [&](Buffers& buffers, uint32_t lane_count) {
    kernel(buffers.sums(), from.data(), lane_count);
  });
}

void register_all(const LaneKernels& kernels) {
  const auto sizes = [](benchmark::internal::Benchmark* bench) {
    for (const int64_t lane_count : {16, 64, 256, 1024}) bench->Arg(lane_count);
  };
  const std::string isa = kernels.isa;
  sizes(benchmark::RegisterBenchmark(("add_be32/" + isa).c_str(), run_swap, kernels.add_be32));
  sizes(benchmark::RegisterBenchmark(("store_be32/" + isa).c_str(), run_swap, kernels.store_be32));
  sizes(benchmark::RegisterBenchmark(("to_be32_in_place/" + isa).c_str(), run_in_place,
                                     kernels.to_be32_in_place));
  sizes(benchmark::RegisterBenchmark(("add_lanes/" + isa).c_str(), run_add, kernels.add_lanes));
}

const bool kRegistered = [] {
  register_all({"dispatched", &store_be32, &add_be32, &to_be32_in_place, &add_lanes});
  for (const LaneKernels& kernels : lane_kernels_available()) register_all(kernels);
  return true;
}();

}  // namespace
}  // namespace tributary::memory
