// SPDX-License-Identifier: Apache-2.0
// Stands for gmac_ipsec_mb.cc where libipsec-mb is not installed.
#include "auth/gmac.h"
#include "base/assert.h"

namespace tributary::auth {

struct Gmac::ExpandedKey {};

bool Gmac::is_available() { return false; }

Gmac::Gmac(const Key128&) { TRIB_ASSERT(is_available()); }
Gmac::~Gmac() = default;
Gmac::Gmac(Gmac&&) noexcept = default;
Gmac& Gmac::operator=(Gmac&&) noexcept = default;

void Gmac::tag(const std::array<std::byte, kGmacNonceBytes>&, std::span<const std::byte>,
               std::span<const std::byte>, std::byte*) const {
  TRIB_ASSERT(is_available());
}

}  // namespace tributary::auth
