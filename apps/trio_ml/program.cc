// SPDX-License-Identifier: Apache-2.0
#include "apps/trio_ml/program.h"

namespace tributary::trio_ml {

BlockRecord new_block(const Job& job, const MessageHead& message) {
  BlockRecord block;
  block.grad_cnt = message.header.grad_cnt;
  block.extended = message.header.extended;
  block.tensor_elements = message.extension.tensor_elements;
  block.scale_bits = message.extension.scale_bits;
  block.format = message.extension.format;
  block.expected = job.record.active_mask;
  return block;
}

}  // namespace tributary::trio_ml
