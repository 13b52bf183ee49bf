// SPDX-License-Identifier: Apache-2.0
#include "apps/trio_ml/asynchronous/asynchronous.h"

namespace tributary::trio_ml {

Verdict check_push(const Job& job, const MessageHead& push) {
  const wire::ExtensionFields& extension = push.extension;
  const ParameterStore& store = *job.parameters;
  // A stored sum has one scale, so block exponents do not fit; a mean and an owner have no meaning.
  if (extension.format == wire::ElementFormat::kBlockExponent ||
      extension.format == wire::ElementFormat::kBlockExponent16 ||
      (extension.scale_bits & wire::kScaleBitMean) != 0 ||
      wire::result_owner(extension.format, extension.scale_bits) ||
      extension.tensor_elements != store.elements()) {
    return Outcome::kNotParameters;
  }
  const BlockRecord& terms = store.terms();
  const bool first = terms.phase == BlockPhase::kFree;
  if (!first && (extension.format != terms.format || extension.scale_bits != terms.scale_bits)) {
    return Outcome::kTensorDiffers;
  }
  return kAccepted;
}

void note_terms(ParameterStore& store, const MessageHead& push) {
  BlockRecord& terms = store.terms();
  if (terms.phase == BlockPhase::kFree) {
    terms.begin();
    terms.tensor_elements = push.extension.tensor_elements;
    terms.scale_bits = push.extension.scale_bits;
    terms.format = push.extension.format;
  }
  include(terms.rcvd_mask, push.header.src_id);
}

std::span<const std::byte> build_answer(Job& job, uint32_t source, const Place& place) {
  ParameterStore& store = *job.parameters;
  const ParameterStore::Answer answer = store.answer(source, place);
  const BlockRecord& terms = store.terms();
  const uint32_t lane_count = store.lane_count(place.block);
  MessageHead message;
  message.header = {.job_id = job.config.id,
                    .block_id = static_cast<uint32_t>(place.position),
                    .extended = true,
                    .src_id = static_cast<uint8_t>(source),
                    .gen_id = answer.gen_id,
                    .grad_cnt = static_cast<uint16_t>(lane_count)};
  message.extension = {.type = MessageType::kResult,
                       .format = terms.format,
                       .flags = answer.flags,
                       .tensor_elements = terms.tensor_elements,
                       .scale_bits = terms.scale_bits,
                       .key = job.result_key()};
  message.extension.flags |= wire::seal_flag(job.end.mode());
  wire::set_pushes(message, answer.pushes);
  const uint32_t head_bytes = encoded_head_bytes(message.header, message.extension);
  const std::span<std::byte> head(answer.lanes - head_bytes, head_bytes);
  encode_head(message, head.data());
  const std::span<const std::byte> lanes(answer.lanes, size_t{lane_count} * wire::kGradientBytes);
  if (job.end.is_sealed()) job.end.seal(head, lanes);
  return {head.data(), head.size() + lanes.size()};
}

BlockRecord waiting_block(const Job& job, bool has_push) {
  BlockRecord block;
  if (!has_push) return block;
  block.expected = job.record.src_mask;
  block.rcvd_mask = job.record.src_mask;
  exclude(block.rcvd_mask, 0);
  return block;
}

}  // namespace tributary::trio_ml
