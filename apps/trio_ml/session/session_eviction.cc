// SPDX-License-Identifier: Apache-2.0
// The removal of a worker that has not asked for it.
#include <array>

#include "apps/trio_ml/session/session.h"

namespace tributary::trio_ml {

Session::Withdrawal Session::evict(uint32_t source, Instant now) {
  Member& member = members_[source];
  if (number() != 0 && !has_left(source)) {
    member.nonce = key_of_evicted(source);
    return Withdrawal::kMember;
  }
  if (!is_fresh(source, now)) return Withdrawal::kUnknown;
  member.pending_nonce = 0;
  confirming_ = false;
  return Withdrawal::kPending;
}

uint64_t Session::key_of_evicted(uint32_t source) const {
  const std::array<uint64_t, 3> context{config_.id, number(), source};
  return auth::derive_u64(root_, "evicted source", context);
}

}  // namespace tributary::trio_ml
