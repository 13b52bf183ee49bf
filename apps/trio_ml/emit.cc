// SPDX-License-Identifier: Apache-2.0
#include "apps/trio_ml/emit.h"

#include "base/mutant.h"

namespace tributary::trio_ml {

SourceMask ranks_in(const Job& job, const BlockRecord& block) {
  if (job.config.sources_are_aggregators || job.config.rank_base == 0 ||
      TRIB_MUTANT(kRankBaseIgnored)) {
    return job.config.sources_are_aggregators ? block.ranks : block.rcvd_mask;
  }
  SourceMask ranks{};
  for (uint32_t source = 0; source < job.config.sources; source++) {
    if (contains(block.rcvd_mask, source)) include(ranks, job.config.rank_base + source);
  }
  return ranks;
}

void mark_repeat(const Job& job, const BlockRecord& block) {
  std::byte* head = job.window.head(block.aggr_buffer, block.head_bytes);
  head[wire::kFlagsByte] |= std::byte{wire::kFlagRetransmission};
}

Message control_message(const Job& job, const MessageHead& about, MessageType type) {
  Message message;
  message.header = about.header;
  message.header.job_id = job.config.id;
  message.header.extended = true;
  message.extension.type = type;
  message.extension.key = job.result_key();
  message.body.source = about.header.src_id;
  return message;
}

void build_extended_head(const Job& job, BlockRecord& block, bool upward) {
  // A block whose sum came down from the upper aggregator already has its ranks and src_cnt.
  const bool from_above = block.phase == BlockPhase::kPublishing;
  MessageHead message;
  message.header = header_of(job, block, upward);
  message.extension = {.type = upward ? MessageType::kContribution : MessageType::kResult,
                       .format = block.format,
                       .flags = static_cast<uint8_t>(block.flags & wire::kFlagsMerged),
                       .exponent = block.exponent,
                       .tensor_elements = block.tensor_elements,
                       .scale_bits = block.scale_bits,
                       .key = upward ? job.session.upstream_key() : job.result_key()};
  if (block.degraded || upward) message.extension.flags |= wire::kFlagSourceMask;
  const uint32_t head_bytes = encoded_head_bytes(message.header, message.extension);
  block.head_bytes = static_cast<uint16_t>(head_bytes);
  std::byte* head = job.window.head(block.aggr_buffer, head_bytes);
  encode_head(message, head);
  if (!message.header.extended || (message.extension.flags & wire::kFlagSourceMask) == 0) return;
  wire::encode_mask(from_above ? block.ranks : ranks_in(job, block), head);
}

}  // namespace tributary::trio_ml
