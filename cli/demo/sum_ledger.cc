// SPDX-License-Identifier: Apache-2.0
#include "cli/demo/sum_ledger.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cerrno>
#include <utility>

#include "base/assert.h"
#include "base/errno_text.h"
#include "host/formats/number_format.h"

namespace tributary::demo {
namespace {

/// First bytes of a ledger file; used to recognise one.
constexpr uint64_t kMagic = 0x5452'4942'4c45'4447;  // "TRIBLEDG"

struct Header {
  uint64_t magic;
  LedgerShape shape;
};

/// Distance between tags. Two workers never write to one cache line, nor to a pair of lines that a
/// prefetcher loads together.
constexpr size_t kTagBytes = 128;
constexpr size_t kHeaderBytes = 128;
static_assert(sizeof(Header) <= kHeaderBytes && kTagBytes >= sizeof(uint64_t));

size_t entry_count(const LedgerShape& shape) { return size_t{shape.world} * shape.depth; }

/// Returns the bytes of one entry's lanes, rounded up to kTagBytes.
size_t lanes_bytes(const LedgerShape& shape) {
  return (size_t{shape.elements} * sizeof(int32_t) + kTagBytes - 1) / kTagBytes * kTagBytes;
}

size_t file_bytes(const LedgerShape& shape) {
  return kHeaderBytes + entry_count(shape) * (kTagBytes + lanes_bytes(shape));
}

Error system_error(const std::string& path, const char* action) {
  return Error{fmt::format("sum ledger '{}' cannot be {}: {}", path, action, errno_text(errno))};
}

/// Compares bit patterns: a result must match in every bit.
bool same_bits(float a, float b) {
  return std::bit_cast<uint32_t>(a) == std::bit_cast<uint32_t>(b);
}

}  // namespace

SumCheck& SumCheck::operator+=(const SumCheck& other) {
  checked += other.checked;
  wrong += other.wrong;
  unchecked += other.unchecked;
  return *this;
}

Result<SumLedger> SumLedger::create(const std::string& path, const LedgerShape& shape) {
  return map(path, shape, true);
}

Result<SumLedger> SumLedger::open(const std::string& path, const LedgerShape& shape) {
  return map(path, shape, false);
}

Result<SumLedger> SumLedger::map(const std::string& path, const LedgerShape& shape, bool make) {
  TRIB_ASSERT(shape.world >= 1 && shape.world <= 256 && shape.depth >= 1 && shape.elements >= 1);
  const size_t size = file_bytes(shape);
  const int file = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (file < 0) return tl::unexpected(system_error(path, "opened"));
  // Truncate to nothing first, so that every tag of the new file is 0.
  if (make && (ftruncate(file, 0) != 0 || ftruncate(file, static_cast<off_t>(size)) != 0)) {
    const Error error = system_error(path, "sized");
    close(file);
    return tl::unexpected(error);
  }
  if (lseek(file, 0, SEEK_END) != static_cast<off_t>(size)) {
    close(file);
    return failure(fmt::format("sum ledger '{}' has another size than {} bytes", path, size));
  }
  void* mapping = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  const Error error = system_error(path, "mapped");
  close(file);  // The mapping keeps the file open.
  if (mapping == MAP_FAILED) return tl::unexpected(error);

  SumLedger ledger(mapping, size, shape);
  auto* header = static_cast<Header*>(mapping);
  if (make) *header = Header{kMagic, shape};
  if (header->magic != kMagic || header->shape != shape) {
    return failure(fmt::format("sum ledger '{}' was made for another world, depth or model", path));
  }
  return ledger;
}

SumLedger::SumLedger(void* mapping, size_t size, const LedgerShape& shape)
    : mapping_(mapping), size_(size), shape_(shape), sums_(shape.elements) {}

SumLedger::SumLedger(SumLedger&& other) noexcept
    : mapping_(std::exchange(other.mapping_, nullptr)),
      size_(other.size_),
      shape_(other.shape_),
      sums_(std::move(other.sums_)) {}

SumLedger::~SumLedger() {
  if (mapping_ != nullptr) munmap(mapping_, size_);
}

uint64_t& SumLedger::tag_of(uint32_t rank, uint32_t iteration) const {
  const size_t entry = size_t{rank} * shape_.depth + iteration % shape_.depth;
  return *reinterpret_cast<uint64_t*>(static_cast<std::byte*>(mapping_) + kHeaderBytes +
                                      entry * kTagBytes);
}

int32_t* SumLedger::lanes_of(uint32_t rank, uint32_t iteration) const {
  const size_t entry = size_t{rank} * shape_.depth + iteration % shape_.depth;
  return reinterpret_cast<int32_t*>(static_cast<std::byte*>(mapping_) + kHeaderBytes +
                                    entry_count(shape_) * kTagBytes + entry * lanes_bytes(shape_));
}

void SumLedger::record(uint32_t rank, uint32_t iteration, std::span<const float> values,
                       float scale) {
  TRIB_ASSERT(rank < shape_.world && values.size() == shape_.elements);
  std::atomic_ref<uint64_t> tag(tag_of(rank, iteration));
  int32_t* lanes = lanes_of(rank, iteration);
  const int32_t magnitude_max = host::lane_magnitude_max(shape_.world);

  // Relaxed: each lane's release store below publishes it. A reader that sees a new lane also sees
  // this 0 (or a later tag) when it reads the tag a second time.
  tag.store(0, std::memory_order_relaxed);
  for (size_t i = 0; i < values.size(); i++) {
    const int32_t lane =
        std::clamp(host::to_fixed(values[i], scale), -magnitude_max, magnitude_max);
    // Pairs with the acquire load in add_lanes().
    std::atomic_ref<int32_t>(lanes[i]).store(lane, std::memory_order_release);
  }
  // Pairs with the first acquire load in add_lanes().
  tag.store(uint64_t{iteration} + 1, std::memory_order_release);
}

bool SumLedger::add_lanes(uint32_t rank, uint32_t iteration, uint64_t first,
                          std::span<uint32_t> sums) const {
  const std::atomic_ref<uint64_t> tag(tag_of(rank, iteration));
  // Pairs with the last release store in record(): all lanes are written.
  if (tag.load(std::memory_order_acquire) != uint64_t{iteration} + 1) return false;
  int32_t* lanes = lanes_of(rank, iteration) + first;
  for (size_t i = 0; i < sums.size(); i++) {
    // Pairs with the release store of the lane in record().
    sums[i] +=
        static_cast<uint32_t>(std::atomic_ref<int32_t>(lanes[i]).load(std::memory_order_acquire));
  }
  // Relaxed: ordered after the lanes' acquire loads. An unchanged tag means no lane was
  // overwritten.
  return tag.load(std::memory_order_relaxed) == uint64_t{iteration} + 1;
}

SumCheck SumLedger::check_range(uint32_t iteration, uint64_t first, std::span<const float> result,
                                const host::SourceSet& sources, float scale) {
  const std::span<uint32_t> sums(sums_.data() + first, result.size());
  std::fill(sums.begin(), sums.end(), 0U);
  uint32_t source_count = 0;
  for (uint32_t rank = 0; rank < shape_.world; rank++) {
    if (!host::contains(sources, rank)) continue;
    source_count++;
    if (!add_lanes(rank, iteration, first, sums)) return {.unchecked = result.size()};
  }
  if (source_count == 0) return {.checked = result.size(), .wrong = result.size()};
  SumCheck outcome{.checked = result.size()};
  for (size_t i = 0; i < result.size(); i++) {
    const float expected = host::from_fixed(static_cast<int32_t>(sums[i]), scale, source_count);
    if (!same_bits(result[i], expected)) outcome.wrong++;
  }
  return outcome;
}

SumCheck SumLedger::check(uint32_t iteration, std::span<const float> result,
                          std::span<const host::DegradedRange> degraded, float scale) {
  TRIB_ASSERT(result.size() == shape_.elements);
  host::SourceSet everyone{};
  for (uint32_t rank = 0; rank < shape_.world; rank++) everyone[rank / 64] |= 1ULL << (rank % 64);

  SumCheck outcome;
  uint64_t next = 0;
  for (const host::DegradedRange& range : degraded) {
    if (range.element_first < next || range.element_first > result.size() ||
        range.element_count > result.size() - range.element_first) {
      // The outcome contradicts itself, so count every element from here on as wrong.
      outcome += {.checked = result.size() - next, .wrong = result.size() - next};
      return outcome;
    }
    const auto whole = result.subspan(next, range.element_first - next);
    outcome += check_range(iteration, next, whole, everyone, scale);
    const auto part = result.subspan(range.element_first, range.element_count);
    outcome += check_range(iteration, range.element_first, part, range.sources, scale);
    next = range.element_first + range.element_count;
  }
  outcome += check_range(iteration, next, result.subspan(next), everyone, scale);
  return outcome;
}

}  // namespace tributary::demo
