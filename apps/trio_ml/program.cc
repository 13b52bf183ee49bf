// SPDX-License-Identifier: Apache-2.0
#include "apps/trio_ml/program.h"

namespace tributary::trio_ml {

Outcome check_contribution(const Job& job, const Message& message) {
  const microcode::TrioMlFields& header = message.header;
  if (header.src_id >= job.config.sources) return Outcome::kSourceOutsideJob;
  if (header.grad_cnt > job.config.block_grad_max) return Outcome::kTooManyGradients;
  if (!header.extended) {
    if (job.adopted() != 0) return Outcome::kSessionRequired;
    return header.grad_cnt == 0 ? Outcome::kNoGradients : Outcome::kCount;
  }
  const microcode::ExtensionFields& extension = message.extension;
  if (job.adopted() == 0 || extension.session != job.adopted()) return Outcome::kWrongSession;
  if (extension.key != job.key_of(header.src_id)) return Outcome::kWrongKey;
  // The first blocks of a tensor may carry an exponent only.
  const bool may_be_empty = extension.format == microcode::ElementFormat::kBlockExponent;
  return header.grad_cnt == 0 && !may_be_empty ? Outcome::kNoGradients : Outcome::kCount;
}

Outcome check_against_block(const BlockRecord& block, const Message& message) {
  if (message.header.grad_cnt != block.grad_cnt) return Outcome::kGradCntDiffers;
  if (!message.header.extended) return block.extended ? Outcome::kTensorDiffers : Outcome::kCount;
  const microcode::ExtensionFields& extension = message.extension;
  const bool agrees = block.extended && message.header.gen_id == block.gen_id &&
                      extension.tensor_elements == block.tensor_elements &&
                      extension.scale_bits == block.scale_bits && extension.format == block.format;
  return agrees ? Outcome::kCount : Outcome::kTensorDiffers;
}

BlockRecord new_block(const Job& job, const Message& message, Instant now) {
  BlockRecord block;
  block.block_start_time = now;
  block.grad_cnt = message.header.grad_cnt;
  block.extended = message.header.extended;
  block.tensor_elements = message.extension.tensor_elements;
  block.scale_bits = message.extension.scale_bits;
  block.format = message.extension.format;
  block.expected = job.record.active_mask;
  return block;
}

Contribution contribution_of(const Job& job, const Message& message) {
  Contribution contribution{.source = message.header.src_id,
                            .src_cnt = 1,
                            .exponent = message.extension.exponent,
                            .flags = message.extension.flags,
                            .final = message.header.final,
                            .degraded = false,
                            .ranks = {}};
  if (job.config.sources_are_aggregators) {
    contribution.src_cnt =
        message.header.src_cnt == 0 ? uint16_t{microcode::kSourcesMax} : message.header.src_cnt;
    contribution.degraded = message.header.degraded;
    if ((message.extension.flags & microcode::kFlagSourceMask) != 0) {
      contribution.ranks = message.mask;
    }
  }
  return contribution;
}

}  // namespace tributary::trio_ml
