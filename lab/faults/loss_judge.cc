// SPDX-License-Identifier: Apache-2.0
#include "lab/faults/loss_judge.h"

#include <fmt/format.h>

#include <algorithm>

#include "wire/trio_ml.h"

namespace tributary::lab {

using wire::MessageType;

namespace {

std::span<const std::byte> head_of(std::span<const std::byte> bytes) {
  return bytes.first(std::min<size_t>(bytes.size(), wire::kControlMessageBytes));
}

}  // namespace

bool LossJudge::judges(const FaultPlan& plan) {
  FaultKinds others = plan.kinds;
  for (const FaultKind kind : {FaultKind::kLoss, FaultKind::kDuplication, FaultKind::kReordering,
                               FaultKind::kGarbage, FaultKind::kForger, FaultKind::kReplayer,
                               FaultKind::kHalfOpenJoiner, FaultKind::kForeignMember}) {
    others.remove(kind);
  }
  return plan.protocol == wire::Protocol::kTrioMl && others == FaultKinds();
}

Duration LossJudge::round_of(const FaultPlan& plan) {
  const Duration one_way = plan.propagation + plan.links.jitter + plan.links.reorder_max;
  // The wait adapts to the round trips that it sees: up to twice the shortest, or two of them.
  return std::max(kRtoMin * 2, one_way * 4) + one_way * 4;
}

void LossJudge::on_sent(std::span<const std::byte> bytes, uint64_t lost, Instant now) {
  wire::MessageHead message;
  if (decode_head(head_of(bytes), static_cast<uint32_t>(bytes.size()), message) !=
          wire::DecodeStatus::kOk ||
      !message.header.extended || message.extension.type != MessageType::kContribution) {
    return;
  }
  sent_.try_emplace({message.extension.key, message.header.block_id}, Sent{now, lost});
}

void LossJudge::on_departure(const trio_ml::Job& job, std::span<const std::byte> bytes,
                             const std::function<uint64_t(uint32_t source)>& lost_of, Instant now) {
  wire::Message message;
  if (decode_message(head_of(bytes), static_cast<uint32_t>(bytes.size()), message) !=
          wire::DecodeStatus::kOk ||
      !message.header.extended ||
      (message.extension.type != MessageType::kResult &&
       message.extension.type != MessageType::kReceipt) ||
      job.adopted() == 0 || message.extension.key != job.result_key()) {
    return;
  }
  const uint32_t block = message.header.block_id;
  const bool first = ended_.try_emplace({message.extension.key, block}, true).second;
  if (!first || !message.header.degraded) return;
  for (uint32_t source = 0; source < job.config.sources; source++) {
    // Blocks do not wait for a permanent straggler.
    if (trio_ml::contains(message.mask, job.config.rank_base + source) ||
        !trio_ml::contains(job.record.active_mask, source)) {
      continue;
    }
    const auto sent = sent_.find({job.key_of(source), block});
    if (sent == sent_.end()) continue;
    const Duration waited = now - sent->second.at;
    const uint64_t losses = lost_of(source) - sent->second.lost;
    if (waited < job.config.timeout ||
        waited < round_ * static_cast<int64_t>(std::max<uint64_t>(losses, 1) + 1)) {
      continue;
    }
    verdicts_.push_back(fmt::format(
        "job {}: block {} lacks source {}, which contributed {:.2f} ms before its end; its cable "
        "lost {} packets meanwhile; timeout {:.1f}",
        job.config.id, block, source, in_seconds(waited) * 1e3, losses,
        in_seconds(job.config.timeout) * 1e3));
  }
}

}  // namespace tributary::lab
