// SPDX-License-Identifier: Apache-2.0
/// @file
/// Checks of a contribution: against its job, its block, and the result that it comes too late for.
///
/// Contract: Changes nothing.
/// Tests:    tests/apps/trio_ml/program_test.cc, refusal_test.cc
#pragma once

#include "apps/trio_ml/block_window.h"
#include "apps/trio_ml/decode.h"
#include "apps/trio_ml/job.h"
#include "apps/trio_ml/shard.h"
#include "base/mutant.h"

namespace tributary::trio_ml {

/// Checks a contribution against its job.
[[nodiscard]] inline Verdict check_against_job(const Job& job, const MessageHead& message) {
  const wire::TrioMlFields& header = message.header;
  if (header.src_id >= job.config.sources) return Outcome::kSourceOutsideJob;
  if (header.grad_cnt > job.config.block_grad_max) return Outcome::kTooManyGradients;
  if (!header.extended) {
    if ((job.adopted() != 0 || !job.config.takes_plain_packets()) &&
        !TRIB_MUTANT(kPlainInSession)) {
      return Outcome::kSessionRequired;
    }
    if (header.grad_cnt == 0) return Outcome::kNoGradients;
    return kAccepted;
  }
  const wire::ExtensionFields& extension = message.extension;
  if (!TRIB_MUTANT(kNoMembershipCheck)) {
    if (job.adopted() == 0) return Outcome::kWrongSession;
    if (extension.key != job.key_of(header.src_id)) return Outcome::kWrongKey;
  }
  // The first blocks of a tensor may carry an exponent only.
  const bool may_be_empty = wire::has_exponent(extension.format);
  if (header.grad_cnt == 0 && !may_be_empty) return Outcome::kNoGradients;
  return kAccepted;
}

/// Checks a contribution against the block that it would join, or a result of the upper aggregator
/// against the block whose partial sum it replaces.
[[nodiscard]] inline Verdict check_against_block(const BlockRecord& block,
                                                 const MessageHead& message) {
  if (TRIB_MUTANT(kNoTensorCheck)) return kAccepted;
  if (message.header.grad_cnt != block.grad_cnt) return Outcome::kGradCntDiffers;
  if (!message.header.extended) {
    if (block.extended) return Outcome::kTensorDiffers;
    return kAccepted;
  }
  const wire::ExtensionFields& extension = message.extension;
  const bool agrees = block.extended && message.header.gen_id == block.gen_id &&
                      extension.tensor_elements == block.tensor_elements &&
                      (extension.scale_bits == block.scale_bits || TRIB_MUTANT(kNoScaleCheck)) &&
                      extension.format == block.format;
  if (!agrees) return Outcome::kTensorDiffers;
  return kAccepted;
}

namespace detail {

/// Returns the reason to refuse a contribution that finds no block to join.
[[nodiscard]] constexpr Outcome refusal_of(Found::Kind kind) {
  switch (kind) {
    case Found::Kind::kAbsent:
      return Outcome::kNoBuffer;
    case Found::Kind::kResult:
      return Outcome::kLate;
    case Found::Kind::kStaleGeneration:
      return Outcome::kStaleGeneration;
    case Found::Kind::kFutureGeneration:
      return Outcome::kFutureGeneration;
    case Found::Kind::kPastCache:
      return Outcome::kPastCache;
    default:
      return Outcome::kWindowExceeded;
  }
}

}  // namespace detail

/// Tells whether a late contribution is as large as its block's result. Anybody can send a plain
/// packet under a forged address, which must not get more than was sent.
[[nodiscard]] inline bool is_worth_an_answer(const MessageHead& message,
                                             const ResultRecord& result) {
  return message.header.extended ||
         message.header.grad_cnt * wire::kGradientBytes == result.payload_bytes;
}

}  // namespace tributary::trio_ml
