// SPDX-License-Identifier: Apache-2.0
#include "apps/trio_ml/asynchronous/parameter_store.h"

#include <algorithm>

#include "base/assert.h"
#include "base/byte_order.h"

namespace tributary::trio_ml {
namespace {

constexpr uint32_t kCacheLineBytes = 64;

constexpr uint64_t parts(uint64_t whole, uint64_t part) { return (whole + part - 1) / part; }

/// Adds big-endian changes to lanes, wrapping modulo 2^32. Both have shape [lane_count].
/// @return whether every sum fits an int32.
bool add_changes(int32_t* __restrict lanes, const std::byte* __restrict be, uint32_t lane_count) {
  uint32_t overflows = 0;  // The sign bit collects: the sum has another sign than both addends.
  for (uint32_t i = 0; i < lane_count; i++) {
    const auto lane = static_cast<uint32_t>(lanes[i]);
    const auto change = load_be<uint32_t>(be + size_t{i} * wire::kGradientBytes);
    const uint32_t sum = lane + change;
    overflows |= (lane ^ sum) & (change ^ sum);
    lanes[i] = static_cast<int32_t>(sum);
  }
  return overflows >> 31 == 0;
}

void store_lanes(std::byte* __restrict be, const int32_t* __restrict lanes, uint32_t lane_count) {
  for (uint32_t i = 0; i < lane_count; i++) {
    store_be(be + size_t{i} * wire::kGradientBytes, static_cast<uint32_t>(lanes[i]));
  }
}

}  // namespace

ParameterShape::ParameterShape(const JobConfig& config)
    : elements(config.parameters),
      sources(config.sources),
      blocks_max(static_cast<uint32_t>(parts(config.parameters, gradients_min(config)))),
      head_room_bytes(static_cast<uint32_t>(
          parts(wire::head_bytes_max(config.auth.mode), kCacheLineBytes) * kCacheLineBytes)) {
  const uint32_t lane_bytes = config.block_grad_max * wire::kGradientBytes;
  answer_bytes =
      static_cast<uint32_t>(parts(head_room_bytes + lane_bytes, kCacheLineBytes) * kCacheLineBytes);
}

uint64_t ParameterShape::memory_bytes() const {
  // Of the classes' private records: see the static_asserts in create().
  constexpr uint64_t kBlockBytes = 16;
  constexpr uint64_t kPushBytes = 32;
  return elements * sizeof(int32_t) + blocks_max * (kBlockBytes + sources * kPushBytes) +
         uint64_t{ParameterStore::kAnswers} * answer_bytes + 4 * kCacheLineBytes;
}

Result<std::unique_ptr<ParameterStore>> ParameterStore::create(const JobConfig& config,
                                                               memory::SharedMemory& memory) {
  static_assert(sizeof(Block) == 16 && sizeof(PushRecord) == 32, "memory_bytes() has the same");
  const ParameterShape shape(config);
  std::unique_ptr<ParameterStore> store(new ParameterStore(shape, memory));
  const auto take = [&held = store->held_](uint64_t size_bytes) {
    return held.allocate(memory::Range::kDram, size_bytes, kCacheLineBytes);
  };
  const auto lanes = take(shape.elements * sizeof(int32_t));
  if (!lanes) return tl::unexpected(lanes.error());
  const auto blocks = take(shape.blocks_max * sizeof(Block));
  if (!blocks) return tl::unexpected(blocks.error());
  const auto records = take(uint64_t{shape.blocks_max} * shape.sources * sizeof(PushRecord));
  if (!records) return tl::unexpected(records.error());
  const auto answers = take(uint64_t{kAnswers} * shape.answer_bytes);
  if (!answers) return tl::unexpected(answers.error());
  // Allocations are zeroed, so no block has begun.
  store->lanes_ = reinterpret_cast<int32_t*>(*lanes);
  store->blocks_ = reinterpret_cast<Block*>(*blocks);
  store->records_ = reinterpret_cast<PushRecord*>(*records);
  store->answers_ = *answers;
  store->newest_.resize(shape.sources);
  return store;
}

void ParameterStore::start(uint32_t session, uint32_t gradients, uint32_t window,
                           const wire::ParameterShare& share) {
  session_ = session;
  gradients_ = gradients;
  window_ = window;
  const wire::BlockRange range = wire::blocks_of(share, parts(shape_.elements, gradients));
  first_block_ = range.first;
  block_count_ = static_cast<uint32_t>(range.count());
  TRIB_ASSERT(block_count_ <= shape_.blocks_max);
  std::fill(newest_.begin(), newest_.end(), 0);
  terms_ = BlockRecord{};
}

std::array<std::span<std::byte>, 2> ParameterStore::session_memory() const {
  const size_t records = size_t{shape_.blocks_max} * shape_.sources;
  return {std::as_writable_bytes(std::span(lanes_, shape_.elements)),
          std::as_writable_bytes(std::span(records_, records))};
}

uint32_t ParameterStore::lane_count(uint32_t block) const {
  const uint64_t first = (first_block_ + block) * gradients_;
  return static_cast<uint32_t>(std::min<uint64_t>(gradients_, shape_.elements - first));
}

ParameterStore::Where ParameterStore::find(uint32_t source, uint32_t block_id, Place& place) const {
  if (block_count_ == 0) return Where::kBeyond;
  const uint64_t newest = newest_[source];
  const auto ahead = static_cast<int32_t>(block_id - static_cast<uint32_t>(newest));
  if (ahead > 0 && static_cast<uint32_t>(ahead) > window_) return Where::kBeyond;
  if (ahead < 0 && newest < uint64_t{0} - static_cast<uint64_t>(int64_t{ahead})) {
    return Where::kBefore;
  }
  place.position = newest + static_cast<uint64_t>(int64_t{ahead});
  place.push = place.position / block_count_;
  place.block = static_cast<uint32_t>(place.position % block_count_);
  return Where::kInside;
}

ParameterStore::State ParameterStore::state_of(uint32_t source, const Place& place) const {
  if (!is_begun(place.block)) return State::kMissing;
  const PushRecord& mine = record(source, place.block);
  if (place.push >= mine.pushes) return State::kMissing;
  if (place.push + 1 < mine.pushes) return State::kPast;
  return mine.held ? State::kHeld : State::kAnswered;
}

void ParameterStore::begin(uint32_t block) {
  blocks_[block] = {.pushes = 0, .session = session_, .flags = 0};
  std::fill_n(&record(0, block), shape_.sources, PushRecord{});
  std::fill_n(lanes_of(block), lane_count(block), 0);
}

bool ParameterStore::push(uint32_t source, const Place& place, uint16_t gen_id, uint8_t flags,
                          std::span<const std::byte> lanes) {
  if (!is_begun(place.block)) begin(place.block);
  Block& block = blocks_[place.block];
  PushRecord& mine = record(source, place.block);
  newest_[source] = std::max(newest_[source], place.position);
  mine.pushes = place.push + 1;
  mine.counted_before = mine.counted;
  mine.gen_id = gen_id;
  mine.flags = flags & (wire::kFlagOverflow | wire::kFlagNotFinite);
  mine.held = true;
  if (mine.flags != 0) {
    // Without its initial values a block is of no use to anybody.
    if (source == 0 && place.push == 0) block.flags |= mine.flags;
    return true;
  }
  block.pushes++;
  const uint32_t count = lane_count(place.block);
  TRIB_ASSERT(lanes.size() == size_t{count} * wire::kGradientBytes);
  const bool fits = add_changes(lanes_of(place.block), lanes.data(), count);
  if (!fits) block.flags |= wire::kFlagOverflow;
  return fits;
}

bool ParameterStore::has_initial(uint32_t block) const {
  return is_begun(block) && record(0, block).pushes > 0;
}

ParameterStore::Answer ParameterStore::answer(uint32_t source, const Place& place) {
  TRIB_ASSERT(has_free_answer());
  const Block& block = blocks_[place.block];
  PushRecord& mine = record(source, place.block);
  Answer answer{};
  answer.lanes =
      answers_ + uint64_t{answers_used_++} * shape_.answer_bytes + shape_.head_room_bytes;
  const uint64_t added = block.pushes - mine.counted_before;
  const uint64_t others = mine.flags == 0 ? added - 1 : added;
  // A source's first answer begins its count: it knew nothing that could be stale.
  answer.pushes = place.push == 0
                      ? uint16_t{1}
                      : static_cast<uint16_t>(std::min<uint64_t>(others + 1, UINT16_MAX));
  answer.gen_id = mine.gen_id;
  answer.flags = block.flags | mine.flags;
  mine.counted = block.pushes;
  mine.held = false;
  store_lanes(answer.lanes, lanes_of(place.block), lane_count(place.block));
  return answer;
}

std::optional<ParameterStore::Place> ParameterStore::held_push(uint32_t source,
                                                               uint32_t block) const {
  if (!is_begun(block)) return {};
  const PushRecord& mine = record(source, block);
  if (!mine.held) return {};
  const uint64_t push = mine.pushes - 1;
  return Place{.position = push * block_count_ + block, .push = push, .block = block};
}

}  // namespace tributary::trio_ml
