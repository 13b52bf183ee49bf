// SPDX-License-Identifier: Apache-2.0
/// @file
/// Decodes messages, and answers joins that no job of this aggregator can serve: an unknown job,
/// another version of the protocol.
///
/// Contract: Changes no job. Answers within the reply budget of strangers only.
/// Tests:    tests/apps/trio_ml/refusal_test.cc, control_test.cc
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>

#include "apps/arrival.h"
#include "apps/trio_ml/emit.h"
#include "apps/trio_ml/shard.h"
#include "microcode/machine.h"

namespace tributary::trio_ml {

using apps::Arrival;
using wire::Reason;

/// Returns the bytes of the message that are in local memory. Machines do not count their reads.
template <microcode::Machine M>
std::span<const std::byte> message_bytes(const M& m, const Arrival& arrival) {
  const microcode::PacketHead head = m.head();
  return {head.bytes() + arrival.offset, std::min(head.size() - arrival.offset, arrival.size)};
}

/// Decodes the message, and reports its head as read.
template <microcode::Machine M>
[[nodiscard]] wire::DecodeStatus read_message(const M& m, const Arrival& arrival,
                                              wire::Message& message) {
  const std::span<const std::byte> bytes = message_bytes(m, arrival);
  const auto status = decode_message(bytes, arrival.size, message);
  if (status == wire::DecodeStatus::kOk) {
    static_cast<void>(m.head().read(arrival.offset, message.head_bytes));
  }
  return status;
}

/// Returns the reason to refuse a message that could not be decoded.
[[nodiscard]] constexpr Outcome refusal_of(wire::DecodeStatus status) {
  switch (status) {
    case wire::DecodeStatus::kTruncated:
      return Outcome::kTruncated;
    case wire::DecodeStatus::kTooShort:
      return Outcome::kLengthBelowGradCnt;
    case wire::DecodeStatus::kTooLong:
      return Outcome::kLengthAboveGradCnt;
    default:
      return Outcome::kBadExtension;
  }
}

/// Refuses a join for a job that is not configured here, so that its worker need not wait.
template <microcode::Machine M>
void refuse_unknown_job(M& m, Shard& shard, const MessageHead& join, const Arrival& arrival) {
  Message reply;
  reply.header = join.header;
  reply.extension = {.type = MessageType::kRefusal, .key = join.extension.key};
  reply.body.reason = Reason::kUnknownJob;
  send_to_stranger(m, shard, /*job=*/nullptr, reply, arrival.size, arrival.source,
                   Outcome::kNoticeSent);
  shard.note({.kind = EventKind::kJoinRefused,
              .job_id = join.header.job_id,
              .reason = Reason::kUnknownJob,
              .at = m.now(),
              .address = arrival.source});
}

/// Returns the reset that answers a message; see MessageType::kReset. It repeats the key, so that
/// only a party that has seen the message can forge it.
[[nodiscard]] inline Message reset_about(const MessageHead& about) {
  Message reset;
  reset.header = about.header;
  reset.header.grad_cnt = 0;
  reset.extension = {.type = MessageType::kReset, .key = about.extension.key};
  return reset;
}

/// Answers a message for a job that is not configured here. No secret is known, so a reset has no
/// seal.
template <microcode::Machine M>
void answer_unknown_job(M& m, Shard& shard, const MessageHead& about, const Arrival& arrival) {
  if (about.extension.type == MessageType::kJoin) {
    refuse_unknown_job(m, shard, about, arrival);
  } else if (about.header.extended && wire::is_of_member(about.extension.type)) {
    send_to_stranger(m, shard, /*job=*/nullptr, reset_about(about), arrival.size, arrival.source,
                     Outcome::kResetSent);
  }
}

/// Answers a join of another version, so that its worker can report the version of this aggregator.
template <microcode::Machine M>
void tell_version(M& m, Shard& shard, const MessageHead& join, const Arrival& arrival) {
  const std::span<const std::byte> bytes = message_bytes(m, arrival);
  if (!wire::other_version(bytes) || !wire::is_join_of_any_version(bytes)) return;
  Message reply;
  reply.header = join.header;
  reply.extension = {.type = MessageType::kRefusal};
  reply.body.reason = Reason::kOtherVersion;
  send_to_stranger(m, shard, /*job=*/nullptr, reply, arrival.size, arrival.source,
                   Outcome::kNoticeSent);
}

}  // namespace tributary::trio_ml
