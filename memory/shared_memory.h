// SPDX-License-Identifier: Apache-2.0
/// @file
/// The Shared Memory System's address space: one space, in which the on-chip SRAM and the off-chip
/// DRAM are two ranges that differ only in capacity, latency and bandwidth (Trio paper §2.3).
///
/// Units:   Addresses count bytes (Trio's count 8-byte words: in Figure 6 the next 16-byte counter
///          is at BASE + 2).
/// Threads: create(), allocate() and release() belong to one thread, at() and the memory itself to
///          the owner of the data there. No lock.
/// Errors:  A failed reservation or allocation returns an Error. An address outside its range is a
///          bug; check addresses from outside with contains().
/// Memory:  create() only reserves both ranges; a page costs nothing until it is touched.
/// Tests:   tests/memory/shared_memory_test.cc
#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>

#include "base/assert.h"
#include "base/result.h"

namespace tributary::memory {

/// The kind of memory that an address lies in.
enum class Range : uint8_t { kSram, kDram };
inline constexpr uint32_t kRangeCount = 2;

/// Returns "SRAM" or "DRAM".
[[nodiscard]] const char* name_of(Range range);

/// A byte of the unified address space. A default-constructed Address is null: it lies in no range.
class Address {
 public:
  constexpr Address() = default;
  explicit constexpr Address(uint64_t value) : value_(value) {}
  [[nodiscard]] constexpr uint64_t value() const { return value_; }
  [[nodiscard]] constexpr bool is_null() const { return value_ == 0; }

  friend constexpr auto operator<=>(Address, Address) = default;
  friend constexpr Address operator+(Address a, uint64_t offset_bytes) {
    return Address(a.value_ + offset_bytes);
  }
  /// Returns the bytes from `b` up to `a`, which must not lie below `b`.
  friend constexpr uint64_t operator-(Address a, Address b) { return a.value_ - b.value_; }

 private:
  uint64_t value_ = 0;
};

/// Bases of the ranges [base, base + size). They are far apart, so a range never reaches the
/// next. They lie above 4 GiB, so an offset mistaken for an address is detected.
inline constexpr Address kSramBase{uint64_t{1} << 32};
inline constexpr Address kDramBase{uint64_t{1} << 40};
static_assert(kSramBase < kDramBase);

/// Stores bytes only: memory/rmw_bank.h and engine/model/ have the latency and bandwidth.
class SharedMemory {
 public:
  struct Config {
    /// Source of both: Trio paper §2.3, "typically 2-8 MBytes" and "several GBytes".
    uint64_t sram_size_bytes = uint64_t{8} << 20;
    uint64_t dram_size_bytes = uint64_t{4} << 30;
    /// Asks the operating system for 2 MiB pages under allocations of at least that size. This is
    /// advice only: if it is not followed, only speed changes.
    bool huge_pages = false;
  };

  /// Reserves both ranges; a size may be 0. Refuses an SRAM that would reach the DRAM's base, a
  /// DRAM that would leave the address space, and sizes that the operating system refuses.
  [[nodiscard]] static Result<SharedMemory> create(const Config& config);

  /// Allocates `size_bytes` zeroed bytes at a multiple of `align_bytes`, at the lowest address that
  /// fits. Refuses size 0, an alignment that is not a power of two from 1 to 2 MiB, and a size that
  /// does not fit. The Error states the size asked for and the size left.
  [[nodiscard]] Result<Address> allocate(Range range, uint64_t size_bytes, uint64_t align_bytes);

  /// Frees a whole allocation and returns its pages to the operating system. `at` must be the
  /// address of an allocation that is still held: anything else is a bug.
  void release(Address at);

  /// Returns the byte at `address`, which must lie in a range.
  [[nodiscard]] std::byte* at(Address address) const {
    const Part& part = parts_[address >= kDramBase ? 1 : 0];
    const uint64_t offset = address.value() - part.base.value();  // Huge if below the base.
    TRIB_ASSERT(offset < part.size_bytes);
    return part.bytes + offset;
  }

  /// Returns the T at `address`, which must be aligned for T and wholly inside a range, else a bug.
  template <class T>
  [[nodiscard]] T* at_as(Address address) const {
    TRIB_ASSERT(address.value() % alignof(T) == 0 && contains(address, sizeof(T)));
    return reinterpret_cast<T*>(at(address));
  }

  /// Returns whether [address, address + size_bytes) lies in one range; for addresses from outside.
  [[nodiscard]] bool contains(Address address, uint64_t size_bytes) const;

  /// The inverse of at(). @return null if `pointer` does not point into this memory.
  [[nodiscard]] Address address_of(const void* pointer) const;

  /// Returns the range of an address that at() would accept.
  [[nodiscard]] static constexpr Range range_of(Address address) {
    return address >= kDramBase ? Range::kDram : Range::kSram;
  }

  [[nodiscard]] uint64_t size_bytes(Range range) const { return part(range).size_bytes; }
  /// Returns the bytes in allocations, without alignment gaps.
  [[nodiscard]] uint64_t used_bytes(Range range) const { return part(range).used_bytes; }

  SharedMemory(SharedMemory&& other) noexcept;
  SharedMemory& operator=(SharedMemory&& other) noexcept;
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;
  ~SharedMemory();

 private:
  /// One range. Offsets count bytes from its base.
  /// Each allocation costs one tree node.
  struct Part {
    Address base;
    uint64_t size_bytes = 0;
    std::byte* bytes = nullptr;  ///< On a 2 MiB boundary.
    void* mapping = nullptr;     ///< For munmap().
    uint64_t mapping_size_bytes = 0;
    uint64_t used_bytes = 0;
    std::map<uint64_t, uint64_t> free;       ///< Offset to size; no two are adjacent.
    std::map<uint64_t, uint64_t> allocated;  ///< Offset to size.
  };

  SharedMemory() = default;
  [[nodiscard]] const Part& part(Range range) const { return parts_[static_cast<size_t>(range)]; }
  [[nodiscard]] static Result<Part> reserve(Range range, uint64_t size_bytes);
  static void take(Part& part, uint64_t offset, uint64_t size_bytes);
  static void unmap(Part& part) noexcept;

  std::array<Part, kRangeCount> parts_;  ///< Indexed by Range.
  bool huge_pages_ = false;
};

}  // namespace tributary::memory
