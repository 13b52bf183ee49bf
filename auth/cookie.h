// SPDX-License-Identifier: Apache-2.0
/// @file
/// Cookies: proof that the sender of a join receives packets at its address. An aggregator keeps no
/// state for a stranger until the stranger has returned the cookie sent to its address.
///
/// Model:   A cookie is SipHash of the address, the join and the time, under a key that only the
///          aggregator has. It stays valid for one to two periods of kCookiePeriod.
/// Threads: Any; a CookieJar never changes.
/// Source:  RFC 6013 and RFC 8446 §4.2.2 have the same idea.
/// Tests:   tests/auth/cookie_test.cc
#pragma once

#include <cstdint>

#include "auth/keys.h"
#include "base/endpoint.h"
#include "base/time.h"

namespace tributary::auth {

/// Assumed: longer than the round trip of any join, and shorter than the time after which an
/// address passes to another owner.
inline constexpr Duration kCookiePeriod = seconds(60);

/// The join that a cookie belongs to.
struct CookieOwner {
  Endpoint address;
  uint64_t nonce = 0;
  uint8_t job_id = 0;
  uint8_t source = 0;
  uint32_t generation = 0;  ///< Generation of the source's cookies; others are not valid.
};

class CookieJar {
 public:
  explicit CookieJar(const Key256& root);

  /// Returns the cookie for the owner; never 0.
  [[nodiscard]] uint64_t make(const CookieOwner& owner, Instant now) const;
  /// Tells whether make() gave this cookie to the owner in this period or the previous one.
  [[nodiscard]] bool is_valid(uint64_t cookie, const CookieOwner& owner, Instant now) const;

 private:
  [[nodiscard]] uint64_t make_in(uint64_t period, const CookieOwner& owner) const;

  const Key128 key_;
};

}  // namespace tributary::auth
