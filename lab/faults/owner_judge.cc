// SPDX-License-Identifier: Apache-2.0
#include "lab/faults/owner_judge.h"

#include <fmt/format.h>

#include <algorithm>

#include "wire/trio_ml.h"

namespace tributary::lab {

bool OwnerJudge::judges(const FaultPlan& plan) {
  return plan.protocol == wire::Protocol::kTrioMl && !plan.kinds.has(FaultKind::kReplayer);
}

void OwnerJudge::on_departure(const trio_ml::Job& job, const net::Packet& packet,
                              const std::function<Endpoint(uint32_t rank)>& next_to) {
  const std::span<const std::byte> bytes = packet.stored;
  wire::MessageHead message;
  const auto head = bytes.first(std::min<size_t>(bytes.size(), wire::kControlMessageBytes));
  if (decode_head(head, packet.size_bytes, message) != wire::DecodeStatus::kOk ||
      !message.header.extended || message.extension.type != wire::MessageType::kResult ||
      message.header.grad_cnt == 0 || job.adopted() == 0 ||
      message.extension.key != job.result_key()) {
    return;
  }
  const auto owner = wire::result_owner(message.extension.format, message.extension.scale_bits);
  if (!owner) return;
  judged_++;
  if (packet.destination.address == next_to(*owner).address) return;
  verdicts_.push_back(fmt::format("job {}: the sum of block {}, which rank {} owns, goes to {}",
                                  job.config.id, message.header.block_id, *owner,
                                  packet.destination.to_string()));
}

}  // namespace tributary::lab
