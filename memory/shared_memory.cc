// SPDX-License-Identifier: Apache-2.0
#include "memory/shared_memory.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <bit>
#include <cerrno>
#include <cstring>
#include <iterator>
#include <utility>

#include "base/errno_text.h"

namespace tributary::memory {
namespace {

/// The size of a huge page on x86-64, and the largest alignment that allocate() accepts.
constexpr uint64_t kHugePageBytes = uint64_t{2} << 20;

/// 64 TiB, more than any machine can map.
constexpr uint64_t kDramSizeBytesMax = uint64_t{1} << 46;
constexpr uint64_t kSramSizeBytesMax = kDramBase - kSramBase;

constexpr uint64_t rounded_up(uint64_t value, uint64_t align) {
  return (value + align - 1) & ~(align - 1);
}
constexpr uint64_t rounded_down(uint64_t value, uint64_t align) { return value & ~(align - 1); }
static_assert(rounded_up(5, 4) == 8 && rounded_up(8, 4) == 8 && rounded_down(7, 4) == 4);

/// Zeroes [bytes, bytes + size_bytes). Whole pages go back to the operating system.
void discard(std::byte* bytes, uint64_t size_bytes) {
  const auto page = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  const auto begin = reinterpret_cast<uint64_t>(bytes);
  const uint64_t pages_begin = rounded_up(begin, page);
  const uint64_t pages_end = rounded_down(begin + size_bytes, page);
  if (pages_begin >= pages_end) {
    std::memset(bytes, 0, size_bytes);
    return;
  }
  const uint64_t head_bytes = pages_begin - begin;
  const uint64_t pages_bytes = pages_end - pages_begin;
  std::memset(bytes, 0, head_bytes);
  if (madvise(bytes + head_bytes, pages_bytes, MADV_DONTNEED) != 0) {
    std::memset(bytes + head_bytes, 0, pages_bytes);  // Locked pages cannot be given back.
  }
  std::memset(bytes + head_bytes + pages_bytes, 0, size_bytes - head_bytes - pages_bytes);
}

/// Advises huge pages for the whole ones inside. Failure affects only speed.
void advise_huge_pages(std::byte* bytes, uint64_t size_bytes) {
  const auto begin = reinterpret_cast<uint64_t>(bytes);
  const uint64_t pages_begin = rounded_up(begin, kHugePageBytes);
  const uint64_t pages_end = rounded_down(begin + size_bytes, kHugePageBytes);
  if (pages_begin >= pages_end) return;
  static_cast<void>(madvise(bytes + (pages_begin - begin), pages_end - pages_begin, MADV_HUGEPAGE));
}

}  // namespace

const char* name_of(Range range) { return range == Range::kSram ? "SRAM" : "DRAM"; }

Result<SharedMemory::Part> SharedMemory::reserve(Range range, uint64_t size_bytes) {
  Part part;
  part.base = range == Range::kSram ? kSramBase : kDramBase;
  if (size_bytes == 0) return part;
  part.size_bytes = size_bytes;
  part.mapping_size_bytes = size_bytes + kHugePageBytes;  // Room to move up to the boundary.
  void* const mapping = mmap(nullptr, part.mapping_size_bytes, PROT_READ | PROT_WRITE,
                             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapping == MAP_FAILED) {
    return failure(fmt::format("cannot reserve {} bytes of address space for the {} range: {}",
                               size_bytes, name_of(range), errno_text(errno)));
  }
  part.mapping = mapping;
  const auto begin = reinterpret_cast<uint64_t>(mapping);
  part.bytes = static_cast<std::byte*>(mapping) + (rounded_up(begin, kHugePageBytes) - begin);
  part.free.emplace(0, size_bytes);
  return part;
}

Result<SharedMemory> SharedMemory::create(const Config& config) {
  const std::array<std::pair<uint64_t, uint64_t>, kRangeCount> sizes{
      {{config.sram_size_bytes, kSramSizeBytesMax}, {config.dram_size_bytes, kDramSizeBytesMax}}};
  SharedMemory memory;
  memory.huge_pages_ = config.huge_pages;
  for (const Range range : {Range::kSram, Range::kDram}) {
    const auto [size_bytes, size_bytes_max] = sizes[static_cast<size_t>(range)];
    if (size_bytes > size_bytes_max) {
      return failure(fmt::format("the {} range's size is {} bytes; allowed: 0 to {}",
                                 name_of(range), size_bytes, size_bytes_max));
    }
    Result<Part> part = reserve(range, size_bytes);
    if (!part) return tl::unexpected<Error>(part.error());
    memory.parts_[static_cast<size_t>(range)] = std::move(*part);
  }
  return memory;
}

/// Marks [offset, offset + size_bytes), which lies in one free piece, as allocated.
void SharedMemory::take(Part& part, uint64_t offset, uint64_t size_bytes) {
  const auto piece = std::prev(part.free.upper_bound(offset));
  const auto [piece_begin, piece_size_bytes] = *piece;
  part.free.erase(piece);
  if (offset > piece_begin) part.free.emplace(piece_begin, offset - piece_begin);
  const uint64_t end = offset + size_bytes;
  const uint64_t piece_end = piece_begin + piece_size_bytes;
  if (end < piece_end) part.free.emplace(end, piece_end - end);
  part.allocated.emplace(offset, size_bytes);
  part.used_bytes += size_bytes;
}

Result<Address> SharedMemory::allocate(Range range, uint64_t size_bytes, uint64_t align_bytes) {
  if (!std::has_single_bit(align_bytes) || align_bytes > kHugePageBytes) {
    return failure(fmt::format("alignment {} bytes is not allowed; use a power of two up to {}",
                               align_bytes, kHugePageBytes));
  }
  if (size_bytes == 0) return failure("an allocation of 0 bytes was requested; request 1 or more");

  Part& from = parts_[static_cast<size_t>(range)];
  for (const auto& [begin, piece_size_bytes] : from.free) {
    const uint64_t offset = rounded_up(begin, align_bytes);  // The bases are aligned to 4 GiB.
    const uint64_t gap_bytes = offset - begin;
    if (gap_bytes > piece_size_bytes || size_bytes > piece_size_bytes - gap_bytes) continue;
    take(from, offset, size_bytes);
    if (huge_pages_) advise_huge_pages(from.bytes + offset, size_bytes);
    return from.base + offset;
  }
  return failure(fmt::format(
      "cannot allocate {} bytes (aligned to {}) of {}: {} of {} are free, no piece is large enough",
      size_bytes, align_bytes, name_of(range), from.size_bytes - from.used_bytes, from.size_bytes));
}

void SharedMemory::release(Address at) {
  Part& to = parts_[static_cast<size_t>(range_of(at))];
  const auto held = to.allocated.find(at.value() - to.base.value());
  TRIB_ASSERT(held != to.allocated.end());
  uint64_t offset = held->first;
  uint64_t size_bytes = held->second;
  to.allocated.erase(held);
  to.used_bytes -= size_bytes;
  discard(to.bytes + offset, size_bytes);

  // Join the free neighbours, so that pieces stay as large as possible.
  const auto after = to.free.lower_bound(offset);
  if (after != to.free.begin()) {
    const auto before = std::prev(after);
    if (before->first + before->second == offset) {
      offset = before->first;
      size_bytes += before->second;
      to.free.erase(before);
    }
  }
  if (after != to.free.end() && offset + size_bytes == after->first) {
    size_bytes += after->second;
    to.free.erase(after);
  }
  to.free.emplace(offset, size_bytes);
}

bool SharedMemory::contains(Address address, uint64_t size_bytes) const {
  const Part& in = part(range_of(address));
  const uint64_t offset = address.value() - in.base.value();
  return offset < in.size_bytes && size_bytes <= in.size_bytes - offset;
}

Address SharedMemory::address_of(const void* pointer) const {
  const auto value = reinterpret_cast<uint64_t>(pointer);
  for (const Part& in : parts_) {
    const uint64_t offset = value - reinterpret_cast<uint64_t>(in.bytes);
    if (offset < in.size_bytes) return in.base + offset;
  }
  return Address();
}

void SharedMemory::unmap(Part& part) noexcept {
  if (part.mapping != nullptr) munmap(part.mapping, part.mapping_size_bytes);
  part.mapping = nullptr;
}

SharedMemory::SharedMemory(SharedMemory&& other) noexcept { *this = std::move(other); }

SharedMemory& SharedMemory::operator=(SharedMemory&& other) noexcept {
  if (this == &other) return *this;
  for (size_t i = 0; i < kRangeCount; i++) {
    unmap(parts_[i]);
    parts_[i] = std::exchange(other.parts_[i], Part());
  }
  huge_pages_ = other.huge_pages_;
  return *this;
}

SharedMemory::~SharedMemory() {
  for (Part& part : parts_) unmap(part);
}

}  // namespace tributary::memory
