// SPDX-License-Identifier: Apache-2.0
/// @file
/// Returns the pages of idle memory to the operating system, a slice at a time, so that a core can
/// do it between two bursts.
///
/// Model:   The owner adds ranges of unused bytes, and calls return_slice() until
///          is_done(). Their bytes are undefined afterwards. The addresses stay valid: the kernel
///          gives a zeroed page at the next access.
/// Threads: The owner of the memory.
/// Errors:  None: pages that the kernel does not take stay as they are.
/// Memory:  Allocates nothing.
/// Tests:   tests/memory/idle_pages_test.cc
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace tributary::memory {

class IdlePages {
 public:
  /// Bytes that one call returns at most. A huge page, so that none is split. With 4 KiB pages a
  /// call takes about 0.1 ms.
  static constexpr uint64_t kSliceBytes = uint64_t{2} << 20;
  static constexpr uint32_t kRangesMax = 3;

  /// Adds the whole pages inside `bytes`. @pre Fewer than kRangesMax ranges are left.
  void add(std::span<std::byte> bytes);
  /// Forgets all ranges: their owner needs the bytes.
  void clear() { count_ = 0; }
  [[nodiscard]] bool is_done() const { return count_ == 0; }
  /// Returns the next slice to the operating system. @pre !is_done()
  void return_slice();

 private:
  struct Pages {
    uint64_t begin = 0;  ///< Address of a page.
    uint64_t end = 0;
  };
  std::array<Pages, kRangesMax> ranges_{};
  uint32_t count_ = 0;
};

}  // namespace tributary::memory
