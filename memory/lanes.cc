// SPDX-License-Identifier: Apache-2.0
// Chooses a variant; lanes_scalar.cc and lanes_x86.cc define the variants.
#include "memory/lanes.h"

#include "memory/lanes_variants.h"

namespace tributary::memory {
namespace {

/// Returns the first variant of lane_kernels_available() and stores it for all later calls.
const LaneKernels& choose() {
  const LaneKernels& best = lane_kernels_available().front();
  detail::store_be32_chosen.store(best.store_be32, std::memory_order_relaxed);
  detail::add_be32_chosen.store(best.add_be32, std::memory_order_relaxed);
  detail::to_be32_in_place_chosen.store(best.to_be32_in_place, std::memory_order_relaxed);
  detail::add_lanes_chosen.store(best.add_lanes, std::memory_order_relaxed);
  detail::store_be16_chosen.store(best.store_be16, std::memory_order_relaxed);
  detail::add_be16_chosen.store(best.add_be16, std::memory_order_relaxed);
  detail::to_be16_chosen.store(best.to_be16, std::memory_order_relaxed);
  return best;
}

void store_be32_first(int32_t* to, const std::byte* be, uint32_t lane_count) {
  choose().store_be32(to, be, lane_count);
}
void add_be32_first(int32_t* to, const std::byte* be, uint32_t lane_count) {
  choose().add_be32(to, be, lane_count);
}
void to_be32_in_place_first(int32_t* lanes, uint32_t lane_count) {
  choose().to_be32_in_place(lanes, lane_count);
}
void add_lanes_first(int32_t* to, const int32_t* from, uint32_t lane_count) {
  choose().add_lanes(to, from, lane_count);
}
void store_be16_first(int32_t* to, const std::byte* be, uint32_t lane_count) {
  choose().store_be16(to, be, lane_count);
}
void add_be16_first(int32_t* to, const std::byte* be, uint32_t lane_count) {
  choose().add_be16(to, be, lane_count);
}
void to_be16_first(std::byte* be, const int32_t* lanes, uint32_t lane_count, uint32_t shift) {
  choose().to_be16(be, lanes, lane_count, shift);
}

}  // namespace

// constinit: set before any constructor runs, whatever the order of the translation units.
constinit std::atomic<SwapLanesFn> detail::store_be32_chosen{&store_be32_first};
constinit std::atomic<SwapLanesFn> detail::add_be32_chosen{&add_be32_first};
constinit std::atomic<InPlaceLanesFn> detail::to_be32_in_place_chosen{&to_be32_in_place_first};
constinit std::atomic<AddLanesFn> detail::add_lanes_chosen{&add_lanes_first};
constinit std::atomic<SwapLanesFn> detail::store_be16_chosen{&store_be16_first};
constinit std::atomic<SwapLanesFn> detail::add_be16_chosen{&add_be16_first};
constinit std::atomic<NarrowLanesFn> detail::to_be16_chosen{&to_be16_first};

std::span<const LaneKernels> lane_kernels_available() {
#if defined(__x86_64__)
  static constexpr LaneKernels kVariants[] = {detail::kAvx512Kernels, detail::kAvx2Kernels,
                                              detail::kScalarKernels};
  __builtin_cpu_init();  // The first call may come before the runtime has done this.
  const bool has_avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw");
  const bool has_avx2 = __builtin_cpu_supports("avx2");
  const std::span<const LaneKernels> all(kVariants);
  if (has_avx512 && has_avx2) return all;
  return all.subspan(has_avx2 ? 1 : 2);
#else
  static constexpr LaneKernels kVariants[] = {detail::kScalarKernels};
  return kVariants;
#endif
}

const char* lanes_isa() { return lane_kernels_available().front().isa; }

}  // namespace tributary::memory
