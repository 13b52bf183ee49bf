// SPDX-License-Identifier: Apache-2.0
#include "apps/switchml/slots.h"

#include <bit>
#include <memory>

namespace tributary::switchml {
namespace {

constexpr uint32_t kCacheLineBytes = 64;

}  // namespace

uint32_t SlotPool::place_count(uint32_t slots_max, uint32_t shard_count) {
  const uint32_t runs = (slots_max + kSlotsPerRun - 1) / kSlotsPerRun;
  return (runs + shard_count - 1) / shard_count * kSlotsPerRun;
}

uint64_t SlotPool::memory_bytes(uint32_t slots_max, uint32_t shard_count) {
  return uint64_t{2} * place_count(slots_max, shard_count) * (sizeof(SetRecord) + kBufferBytes);
}

Result<SlotPool> SlotPool::create(uint32_t slots_max, uint32_t shard_count,
                                  memory::SharedMemory& memory) {
  const uint64_t sets = uint64_t{2} * place_count(slots_max, shard_count);
  const auto records =
      memory.allocate(memory::Range::kDram, sets * sizeof(SetRecord), kCacheLineBytes);
  if (!records) return tl::unexpected(records.error());
  const auto buffers = memory.allocate(memory::Range::kDram, sets * kBufferBytes, kCacheLineBytes);
  if (!buffers) return tl::unexpected(buffers.error());
  // A record of zeros belongs to no session (epoch 0), so the memory stays untouched.
  auto* first = reinterpret_cast<SetRecord*>(memory.at(*records));
  return SlotPool(first, memory.at(*buffers), static_cast<uint32_t>(std::countr_zero(shard_count)));
}

}  // namespace tributary::switchml
