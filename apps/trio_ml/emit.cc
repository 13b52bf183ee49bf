// SPDX-License-Identifier: Apache-2.0
#include "apps/trio_ml/emit.h"

#include <algorithm>

#include "base/mutant.h"

namespace tributary::trio_ml {
namespace {

/// Seals the message of a block, if the job has a secret. @pre Its lanes are final.
void seal_block(Job& job, uint32_t aggr_buffer, uint32_t head_bytes, uint32_t payload_bytes,
                bool upward) {
  if (!job.end.is_sealed()) return;
  const std::span<std::byte> head(job.window.head(aggr_buffer, head_bytes), head_bytes);
  const std::span<const std::byte> lanes(head.data() + head_bytes, payload_bytes);
  if (upward) {
    job.upward_end.seal(static_cast<uint8_t>(job.config.upstream_source), head, lanes);
  } else {
    job.end.seal(head, lanes);
  }
}

/// Tells whether a message goes to the upper aggregator.
bool is_upward(const Job& job, const Message& message) {
  const MessageType type = message.extension.type;
  // Notices go both ways.
  if (type == MessageType::kNotice) return message.extension.key == job.session.upstream_key();
  return type == MessageType::kJoin || type == MessageType::kLeave || type == MessageType::kProbe ||
         type == MessageType::kKeepAlive;
}

/// Tells whether a message's seal has a key of the job rather than one of a session.
bool is_lasting(MessageType type) {
  return type == MessageType::kJoin || type == MessageType::kReset || is_join_reply(type);
}

}  // namespace

void flag_control(const Job& job, Message& message) {
  if (!job.end.is_sealed()) return;
  const auto mode = is_lasting(message.extension.type) ? auth::Mode::kHeader : job.end.mode();
  message.extension.flags &= static_cast<uint8_t>(~wire::kFlagsOfSeal);
  message.extension.flags |= wire::seal_flag(mode);
}

void seal_control(Job& job, const Message& message, std::span<std::byte> head) {
  if (!job.end.is_sealed()) return;
  const MessageType type = message.extension.type;
  if (type == MessageType::kJoin) {
    job.upward_end.seal_join(head);
  } else if (is_join_reply(type)) {
    job.end.seal_join_reply(head);
  } else if (type == MessageType::kReset) {
    job.end.seal_reset(head);
  } else if (is_upward(job, message)) {
    job.upward_end.seal(message.header.src_id, head, {});
  } else if (job.adopted() != 0) {
    job.end.seal(head, {});
  }
}

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

void mark_repeat(Job& job, const BlockRecord& block) {
  std::byte* head = job.window.head(block.aggr_buffer, block.head_bytes);
  head[wire::kFlagsByte] |= std::byte{wire::kFlagRetransmission};
  seal_block(job, block.aggr_buffer, block.head_bytes, payload_bytes(block), /*upward=*/true);
}

void seal_again(Job& job, const ResultRecord& result) {
  seal_block(job, result.aggr_buffer, result.head_bytes, result.payload_bytes,
             /*upward=*/false);
}

bool gets_gradients(const Job& job, const ResultRecord& result, uint32_t source) {
  if (result.owner_plus_one == 0 || !job.session.takes_receipts(source)) return true;
  if (TRIB_MUTANT(kReceiptWithSum)) return true;
  uint32_t owner = result.owner_plus_one - 1U;
  if (TRIB_MUTANT(kOwnerGetsReceipt)) owner++;
  if (TRIB_MUTANT(kOwnerByRankBase)) owner += job.config.rank_base;
  return owner < wire::kSourcesMax && contains(job.session.ranks_of(source), owner);
}

bool has_owner_below(const Job& job, const MessageHead& result) {
  const auto owner = wire::result_owner(result.extension.format, result.extension.scale_bits);
  if (!owner || *owner >= wire::kSourcesMax) return false;
  for (uint32_t source = 0; source < job.config.sources; source++) {
    if (contains(job.session.ranks_of(source), *owner)) return true;
  }
  return false;
}

Receipt receipt_of(Job& job, const ResultRecord& result) {
  Receipt receipt{.bytes = {}, .size_bytes = result.head_bytes};
  const std::span<std::byte> head = std::span(receipt.bytes).first(result.head_bytes);
  std::copy_n(job.window.head(result.aggr_buffer, result.head_bytes), head.size(), head.data());
  wire::set_type(MessageType::kReceipt, head.data());
  if (job.end.is_sealed()) job.end.seal(head, {});
  return receipt;
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

void build_extended_head(Job& job, BlockRecord& block, bool upward) {
  // A block whose sum came down from the upper aggregator already has its ranks and src_cnt.
  const bool is_receipt = block.phase == BlockPhase::kPublishingReceipt;
  const bool from_above = is_receipt || block.phase == BlockPhase::kPublishing;
  MessageHead message;
  message.header = header_of(job, block, upward);
  const MessageType downward = is_receipt ? MessageType::kReceipt : MessageType::kResult;
  message.extension = {.type = upward ? MessageType::kContribution : downward,
                       .format = block.format,
                       .flags = static_cast<uint8_t>(block.flags & wire::kFlagsMerged),
                       .exponent = block.exponent,
                       .tensor_elements = block.tensor_elements,
                       .scale_bits = block.scale_bits,
                       .key = upward ? job.session.upstream_key() : job.result_key()};
  if (block.degraded || upward) message.extension.flags |= wire::kFlagSourceMask;
  if (block.extended) message.extension.flags |= wire::seal_flag(job.end.mode());
  const uint32_t head_bytes = encoded_head_bytes(message.header, message.extension);
  block.head_bytes = static_cast<uint16_t>(head_bytes);
  std::byte* head = job.window.head(block.aggr_buffer, head_bytes);
  encode_head(message, head);
  if (!message.header.extended) return;
  if ((message.extension.flags & wire::kFlagSourceMask) != 0) {
    wire::encode_mask(from_above ? block.ranks : ranks_in(job, block), head);
  }
  seal_block(job, block.aggr_buffer, head_bytes, payload_bytes(block), upward);
}

}  // namespace tributary::trio_ml
