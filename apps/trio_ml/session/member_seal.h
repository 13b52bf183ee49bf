// SPDX-License-Identifier: Apache-2.0
/// @file
/// Checks the seals of members' messages.
///
/// Tests:    tests/apps/trio_ml/sealed_job_test.cc
#pragma once

#include <span>

#include "apps/arrival.h"
#include "apps/trio_ml/shard.h"
#include "auth/session_seal.h"
#include "microcode/machine.h"

namespace tributary::trio_ml {

using apps::Arrival;
using wire::MessageHead;

/// Accepts a message whose seal was opened; otherwise returns the outcome to refuse it for.
[[nodiscard]] constexpr Verdict verdict_of(auth::OpenStatus status) {
  if (status == auth::OpenStatus::kOpened) return kAccepted;
  return status == auth::OpenStatus::kForged ? Outcome::kBadSeal : Outcome::kReplayed;
}

/// The position of a member's message in its packet, and the fields that its seal needs. A value of
/// 16 bytes, which is passed in registers (see ContributionThread).
struct SealedMessage {
  uint32_t offset;
  uint32_t size;
  uint32_t head_bytes;
  uint8_t source;
  uint8_t flags;
};
[[nodiscard]] inline SealedMessage sealed_message(const MessageHead& message,
                                                  const Arrival& arrival) {
  return {.offset = arrival.offset,
          .size = arrival.size,
          .head_bytes = message.head_bytes,
          .source = message.header.src_id,
          .flags = message.extension.flags};
}

/// Returns the bytes of a message behind its head. A machine that keeps only the head of a packet
/// in local memory returns none; it serves no job in mode `full`.
template <microcode::Machine M>
std::span<const std::byte> payload_of(const M& m, const SealedMessage& message) {
  if constexpr (requires { m.packet_bytes(); }) {
    return m.packet_bytes().subspan(message.offset, message.size).subspan(message.head_bytes);
  } else {
    return {};
  }
}

/// Checks the seal of a member's message. @pre Its key is its source's.
template <microcode::Machine M>
[[nodiscard, gnu::noinline]] Verdict open_member_seal(const M& m, Job& job, SealedMessage message) {
  if (wire::seal_mode(message.flags) != job.end.mode()) return Outcome::kWrongAuthentication;
  if (!job.end.is_sealed()) return kAccepted;
  const auto head = m.head().read(message.offset, message.head_bytes);
  return verdict_of(job.end.open(message.source, head, payload_of(m, message)));
}

}  // namespace tributary::trio_ml
