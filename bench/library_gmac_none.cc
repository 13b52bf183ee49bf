// SPDX-License-Identifier: Apache-2.0
#include "base/assert.h"
#include "bench/library_gmac.h"

namespace tributary::bench {

struct LibraryGmac::State {};

LibraryGmac::LibraryGmac(const auth::Key128&) { TRIB_ASSERT(false); }
LibraryGmac::~LibraryGmac() = default;
void LibraryGmac::tag(std::span<const std::byte>, std::byte*) {}

}  // namespace tributary::bench
