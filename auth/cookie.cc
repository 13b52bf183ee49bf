// SPDX-License-Identifier: Apache-2.0
#include "auth/cookie.h"

#include <algorithm>
#include <cstring>

#include "base/byte_order.h"

namespace tributary::auth {
namespace {

uint64_t period_of(Instant now) {
  // Counts from 1, so that the first period has a predecessor.
  return static_cast<uint64_t>(now.since_start().ticks() / kCookiePeriod.ticks()) + 1;
}

}  // namespace

CookieJar::CookieJar(const Key256& root) : key_(first_half(derive(root, "cookie", {}))) {}

uint64_t CookieJar::make_in(uint64_t period, const CookieOwner& owner) const {
  std::array<std::byte, 48> input{};
  std::memcpy(input.data(), owner.address.address.data(), owner.address.address.size());
  store_be<uint32_t>(input.data() + 16, owner.address.scope_id);
  store_be<uint16_t>(input.data() + 20, owner.address.port);
  input[22] = std::byte{owner.job_id};
  input[23] = std::byte{owner.source};
  store_be<uint64_t>(input.data() + 24, owner.nonce);
  store_be<uint64_t>(input.data() + 32, period);
  store_be<uint32_t>(input.data() + 40, owner.generation);
  return std::max<uint64_t>(siphash(key_, input), 1);
}

uint64_t CookieJar::make(const CookieOwner& owner, Instant now) const {
  return make_in(period_of(now), owner);
}

bool CookieJar::is_valid(uint64_t cookie, const CookieOwner& owner, Instant now) const {
  const uint64_t period = period_of(now);
  return cookie == make_in(period, owner) || cookie == make_in(period - 1, owner);
}

}  // namespace tributary::auth
