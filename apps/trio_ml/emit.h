// SPDX-License-Identifier: Apache-2.0
/// @file
/// What the aggregator sends: results, partial sums for the upper aggregator, and short answers.
///
/// Source: Trio paper §4 ("Result packet", "Hierarchical aggregation"), §5 (degraded results).
/// Tests:  tests/apps/trio_ml/
#pragma once

#include <array>
#include <cstddef>
#include <span>

#include "apps/trio_ml/trio_ml.h"
#include "base/mutant.h"
#include "memory/xtxn.h"
#include "microcode/machine.h"

namespace tributary::trio_ml {

using microcode::Message;
using microcode::MessageHead;
using microcode::MessageType;

inline constexpr microcode::Instruction kBuildHeader{"build_header",
                                                     {.register_reads = 4, .lmem_writes = 2}};
inline constexpr microcode::Instruction kCount{"count", {.register_reads = 2}};

/// Counts a thing of `size_bytes` in the shard's Packet/Byte Counter, `times` over.
template <microcode::Machine M>
void count(M& m, Shard& shard, Outcome outcome, uint32_t size_bytes = 0, uint64_t times = 1) {
  m.instruction(kCount);
  memory::post_counter_increment(m, shard.counters()[static_cast<uint32_t>(outcome)], size_bytes,
                                 times);
}

/// Ends the packet at hand: counted under its reason, no other effect.
template <microcode::Machine M>
void refuse(M& m, Shard& shard, Outcome reason) {
  count(m, shard, reason, m.packet_size());
  m.drop(static_cast<uint32_t>(reason));
}

/// Sends a message without gradients to `to`.
template <microcode::Machine M>
void send_control(M& m, const Message& message, const Endpoint& to) {
  m.instruction(kBuildHeader);
  std::array<std::byte, microcode::kControlMessageBytes> bytes;
  const uint32_t size = encode_message(message, bytes.data());
  m.send_small(std::span<const std::byte>(bytes.data(), size), to);
}

/// A control message about the block and source that `about` names.
[[nodiscard]] Message control_message(const Job& job, const MessageHead& about, MessageType type);

/// Sends a notice to every source whose address is known.
template <microcode::Machine M>
void notify_all(M& m, Shard& shard, const Job& job, const Message& notice) {
  for (const Endpoint& to : job.destinations) {
    send_control(m, notice, to);
    count(m, shard, Outcome::kNoticeSent);
  }
}

/// Writes the head of the block's message in front of its lanes: a result for the sources, or a
/// contribution for the upper aggregator.
void build_head(const Job& job, BlockRecord& block, bool upward);

/// Sends a kept result, to one source or to all.
template <microcode::Machine M>
void send_result(M& m, Shard& shard, const Job& job, const ResultRecord& result,
                 std::span<const Endpoint> to) {
  const auto message = job.window.message(result.aggr_buffer, result.head_bytes, result.grad_cnt);
  m.send(message, to);
  count(m, shard, Outcome::kResultSent, static_cast<uint32_t>(message.size()), to.size());
}

/// Sends a block's partial sum to the upper aggregator, again if `retransmission`.
template <microcode::Machine M>
void send_upstream(M& m, Shard& shard, const Job& job, const BlockRecord& block) {
  const auto message = job.window.message(block.aggr_buffer, block.head_bytes, block.grad_cnt);
  m.send(message, std::span<const Endpoint>(&job.config.upstream, 1));
  count(m, shard, Outcome::kSentUpstream, static_cast<uint32_t>(message.size()));
}

/// The block's sum and record are final: keeps the result and sends it to all sources.
template <microcode::Machine M>
microcode::Subroutine<void, M> publish(M& m, Shard& shard, Job& job, BlockRecord& block) {
  m.instruction(kBuildHeader);
  build_head(job, block, /*upward=*/false);
  count(m, shard, block.degraded ? Outcome::kBlockDegraded : Outcome::kBlockCompleted);
  const ResultRecord result = co_await m.issue(
      microcode::Xtxn{microcode::XtxnKind::kHashDelete, &block, sizeof(BlockRecord)},
      [&job, &block] {
        if (!block.degraded || !TRIB_MUTANT(kBlockCountLeaked)) job.record.block_curr_cnt--;
        job.record.block_total_cnt++;
        return job.window.retire(block);
      });
  send_result(m, shard, job, result, job.destinations);
}

/// Everything that will be in the block is in its buffer: makes the message and sends it, up or
/// down. Called once for each block, by the thread to which settle() or close() said so.
template <microcode::Machine M>
microcode::Subroutine<void, M> emit_block(M& m, Shard& shard, Job& job, BlockRecord& block) {
  if (!TRIB_MUTANT(kEmptySumSent)) {
    co_await m.finish_lanes(job.window.lanes(block.aggr_buffer), block.grad_cnt);
  }
  block.degraded |= block.rcvd_mask != job.record.src_mask;
  if (!job.config.upstream.is_set()) {
    co_await publish(m, shard, job, block);
    co_return;
  }
  m.instruction(kBuildHeader);
  build_head(job, block, /*upward=*/true);
  block.phase = BlockPhase::kSentUp;
  send_upstream(m, shard, job, block);
}

}  // namespace tributary::trio_ml
