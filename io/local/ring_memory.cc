// SPDX-License-Identifier: Apache-2.0
#include "io/local/ring_memory.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>
#include <bit>
#include <cerrno>

#include "base/assert.h"
#include "base/errno_text.h"
#include "io/udp/udp_port_config.h"

namespace tributary::io {
namespace {

/// The page that holds a ring's words.
constexpr uint64_t kWordsBytes = 4096;
static_assert(sizeof(RingWords) <= kWordsBytes);

constexpr uint32_t kRingBytesMin = 1U << 16;
constexpr uint32_t kRingBytesMax = 1U << 26;

constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

Result<std::byte*> map_shared(int fd, uint64_t bytes) {
  void* const memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (memory == MAP_FAILED) return system_failure(errno, "cannot map shared memory");
  return static_cast<std::byte*>(memory);
}

}  // namespace

Result<void> RingMemoryShape::check() const {
  if (core_count == 0 || core_count > kLocalCoresMax || !std::has_single_bit(core_count)) {
    return failure(fmt::format("{} cores are not allowed; allowed: a power of two up to {}",
                               core_count, kLocalCoresMax));
  }
  if (ring_bytes < kRingBytesMin || ring_bytes > kRingBytesMax ||
      !std::has_single_bit(ring_bytes)) {
    return failure(
        fmt::format("rings of {} bytes are not allowed; allowed: a power of two from "
                    "{} to {}",
                    ring_bytes, kRingBytesMin, kRingBytesMax));
  }
  const uint32_t fits = std::min(ring_bytes / 2 - kRecordHeadBytes, kUdpPayloadBytesMax);
  if (packet_bytes_max == 0 || packet_bytes_max > fits) {
    return failure(fmt::format("packets of {} bytes are not allowed; allowed: 1 to {}",
                               packet_bytes_max, fits));
  }
  return {};
}

uint64_t RingMemoryShape::bytes() const {
  return uint64_t{core_count} * 2 * (kWordsBytes + ring_bytes);
}

Result<RingMemory> RingMemory::create(const RingMemoryShape& shape, FileDescriptor& fd) {
  TRIB_ASSERT(shape.check().has_value());
  const auto bytes = static_cast<off_t>(shape.bytes());
  FileDescriptor made(::memfd_create("tributary", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!made.is_open()) return system_failure(errno, "cannot make shared memory");
  if (::ftruncate(made.get(), bytes) != 0 || ::fallocate(made.get(), 0, 0, bytes) != 0) {
    return system_failure(errno, "cannot set shared memory aside");
  }
  if (::fcntl(made.get(), F_ADD_SEALS, kSeals) != 0) {
    return system_failure(errno, "cannot seal shared memory");
  }
  const auto memory = map_shared(made.get(), shape.bytes());
  if (!memory) return tl::unexpected(memory.error());
  fd = std::move(made);
  return RingMemory(shape, *memory);
}

Result<RingMemory> RingMemory::map(const RingMemoryShape& shape, int fd) {
  if (const auto good = shape.check(); !good) return tl::unexpected(good.error());
  const int seals = ::fcntl(fd, F_GET_SEALS);
  if (seals < 0 || (seals & F_SEAL_SHRINK) == 0) {
    return failure("the shared memory is not sealed against shrinking");
  }
  struct stat status {};
  if (::fstat(fd, &status) != 0) return system_failure(errno, "cannot read its size");
  if (static_cast<uint64_t>(status.st_size) != shape.bytes()) {
    return failure(fmt::format("the shared memory has {} bytes; expected are {}", status.st_size,
                               shape.bytes()));
  }
  const auto memory = map_shared(fd, shape.bytes());
  if (!memory) return tl::unexpected(memory.error());
  return RingMemory(shape, *memory);
}

ByteRing RingMemory::ring(uint32_t core, RingDirection direction) const {
  TRIB_ASSERT(core < shape_.core_count);
  const uint64_t index = uint64_t{core} * 2 + static_cast<uint64_t>(direction);
  std::byte* const words = memory_.get() + index * (kWordsBytes + shape_.ring_bytes);
  return {.words = reinterpret_cast<RingWords*>(words),
          .data = {words + kWordsBytes, shape_.ring_bytes},
          .packet_bytes_max = shape_.packet_bytes_max};
}

void RingMemory::Unmap::operator()(std::byte* memory) const { ::munmap(memory, bytes); }

}  // namespace tributary::io
