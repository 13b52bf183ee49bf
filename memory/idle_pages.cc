// SPDX-License-Identifier: Apache-2.0
#include "memory/idle_pages.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>

#include "base/assert.h"

namespace tributary::memory {

void IdlePages::add(std::span<std::byte> bytes) {
  TRIB_ASSERT(count_ < kRangesMax);
  const auto page = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  const auto begin = reinterpret_cast<uint64_t>(bytes.data());
  const uint64_t first = (begin + page - 1) / page * page;
  const uint64_t end = (begin + bytes.size()) / page * page;
  if (first < end) ranges_[count_++] = {first, end};
}

void IdlePages::return_slice() {
  TRIB_ASSERT(count_ > 0);
  Pages& pages = ranges_[count_ - 1];
  // Ends at a multiple of a slice, so that later slices are whole huge pages.
  const uint64_t end = std::min(pages.end, (pages.begin / kSliceBytes + 1) * kSliceBytes);
  // Fails for locked pages, which then stay.
  // NOLINTNEXTLINE(performance-no-int-to-ptr): madvise() takes the page's address.
  static_cast<void>(
      madvise(reinterpret_cast<void*>(pages.begin), end - pages.begin, MADV_DONTNEED));
  pages.begin = end;
  if (pages.begin == pages.end) count_--;
}

}  // namespace tributary::memory
