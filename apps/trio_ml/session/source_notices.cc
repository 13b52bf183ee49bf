// SPDX-License-Identifier: Apache-2.0
#include "apps/trio_ml/session/source_notices.h"

namespace tributary::trio_ml {

Mismatch mismatch_of(const Job& job, const BlockRecord& block, const MessageHead& contribution) {
  return {.expected = {.format = block.format,
                       .tensor_elements = block.tensor_elements,
                       .scale_bits = block.scale_bits},
          .ranks = ranks_in(job, block),
          .given = {.format = contribution.extension.format,
                    .tensor_elements = contribution.extension.tensor_elements,
                    .scale_bits = contribution.extension.scale_bits},
          .given_by = job.session.ranks_of(contribution.header.src_id)};
}

std::optional<uint32_t> left_source_of(const Job& job, const BlockRecord& block) {
  if (!job.config.ends_at_leave() || job.adopted() == 0) return {};
  for (uint32_t source = 0; source < job.config.sources; source++) {
    const bool is_missing = contains(block.expected, source) && !contains(block.rcvd_mask, source);
    if (is_missing && job.session.has_left(source)) return source;
  }
  return {};
}

void become_peer_left(const Job& job, uint32_t source, Message& message) {
  message.extension.type = MessageType::kNotice;
  if (job.ending) {
    message.body.reason = *job.ending;
    return;
  }
  message.body.reason = Reason::kPeerLeft;
  message.body.value = job.session.lost_aggregator(source);
  message.body.source = static_cast<uint8_t>(source);
  message.body.mask = job.session.ranks_of(source);
}

Message mismatch_notice(const Job& job, const Mismatch& mismatch, const MessageHead& about) {
  Message notice = control_message(job, about, MessageType::kNotice);
  notice.extension.format = mismatch.expected.format;
  notice.extension.tensor_elements = mismatch.expected.tensor_elements;
  notice.extension.scale_bits = mismatch.expected.scale_bits;
  notice.extension.flags = wire::kFlagSourceMask;
  notice.mask = mismatch.ranks;
  notice.body.reason = Reason::kMismatch;
  notice.body.mask = mismatch.given_by;
  notice.body.given = mismatch.given;
  return notice;
}

}  // namespace tributary::trio_ml
