// SPDX-License-Identifier: Apache-2.0
/// @file
/// Sends results, partial sums for the upper aggregator, and control messages.
///
/// Source: Trio paper §4 ("Result packet", "Hierarchical aggregation"), §5 (degraded results).
/// Tests:  tests/apps/trio_ml/
#pragma once

#include <array>
#include <cstddef>
#include <span>

#include "apps/counting.h"
#include "apps/trio_ml/recording.h"
#include "apps/trio_ml/shard.h"
#include "base/mutant.h"
#include "memory/xtxn.h"
#include "microcode/machine.h"

namespace tributary::trio_ml {

using apps::count;
using apps::kBuildHeader;
using apps::refuse;
using wire::Message;
using wire::MessageHead;
using wire::MessageType;

/// Sets the flag of the seal that a message without gradients needs, if its job has a secret.
void flag_control(const Job& job, Message& message);
/// Seals an encoded message without gradients. @pre flag_control() was called before encoding.
void seal_control(Job& job, const Message& message, std::span<std::byte> head);

/// Sends a message without gradients, sealed if its job has a secret.
/// @param job Null for a job that is not configured here.
template <microcode::Machine M>
void send_control(M& m, Job* job, Message message, const Endpoint& to) {
  m.instruction(kBuildHeader);
  std::array<std::byte, wire::kControlMessageBytes> bytes;
  if (job != nullptr) flag_control(*job, message);
  const uint32_t size = encode_message(message, bytes.data());
  if (job != nullptr) seal_control(*job, message, std::span(bytes).first(size));
  m.send_small(std::span<const std::byte>(bytes.data(), size), to);
}
template <microcode::Machine M>
void send_control(M& m, Job& job, const Message& message, const Endpoint& to) {
  send_control(m, &job, message, to);
}

/// Sends a reply to a sender that is not a member, unless it is larger than the sender's packet,
/// the budget for such replies is spent, or half of the port's send buffer is full. So nobody can
/// use the aggregator to amplify traffic, and replies to addresses that do not exist leave room for
/// results.
template <microcode::Machine M>
void send_to_stranger(M& m, Shard& shard, Job* job, Message message, uint32_t packet_bytes,
                      const Endpoint& to, Outcome sent) {
  if (job != nullptr) flag_control(*job, message);
  const uint32_t size = encoded_head_bytes(message.header, message.extension);
  if (size > packet_bytes || !shard.take_stranger_token(m.now()) || m.is_send_crowded()) {
    count(m, shard, Outcome::kReplyWithheld);
    return;
  }
  send_control(m, job, message, to);
  count(m, shard, sent);
}

/// Returns the ranks in a block's sum: its sources shifted by rank_base, or the ranks that lower
/// aggregators named.
[[nodiscard]] SourceMask ranks_in(const Job& job, const BlockRecord& block);

/// Returns a control message about the block and source that `about` names.
[[nodiscard]] Message control_message(const Job& job, const MessageHead& about, MessageType type);

/// Sends a notice to every source whose address is known.
template <microcode::Machine M>
void notify_all(M& m, Shard& shard, Job& job, const Message& notice) {
  for (const Endpoint& to : job.destinations) {
    send_control(m, job, notice, to);
    count(m, shard, Outcome::kNoticeSent);
  }
}

/// Returns the header of the block's message.
/// @param upward Whether it goes to the upper aggregator.
[[nodiscard]] inline wire::TrioMlFields header_of(const Job& job, const BlockRecord& block,
                                                  bool upward) {
  return {.job_id = job.config.id,
          .block_id = block.block_id,
          .age_op = static_cast<uint8_t>(block.degraded ? 1 : 0),
          .final = block.final,
          .degraded = block.degraded,
          .extended = block.extended,
          .src_id = static_cast<uint8_t>(upward ? job.config.upstream_source : 0),
          .src_cnt = static_cast<uint8_t>(block.src_cnt),
          .gen_id = block.gen_id,
          .grad_cnt = block.grad_cnt};
}

/// Writes the head of the block's message in front of its lanes. The message is a result for the
/// sources or a contribution for the upper aggregator. The head of a plain result is its header.
/// @pre The lanes are final: a full seal covers them.
void build_extended_head(Job& job, BlockRecord& block, bool upward);
inline void build_head(Job& job, BlockRecord& block, bool upward) {
  if (block.extended || upward) {
    build_extended_head(job, block, upward);
    return;
  }
  block.head_bytes = wire::TrioMlHeader::kBytes;
  encode_header(header_of(job, block, upward),
                job.window.head(block.aggr_buffer, wire::TrioMlHeader::kBytes));
}

/// Sets kFlagRetransmission in the head of a block that was sent to the upper aggregator, and seals
/// it with the next sequence number.
void mark_repeat(Job& job, const BlockRecord& block);

/// Seals a kept result with the next sequence number, if the job has a secret. Its receiver may
/// have dropped the first copy, so the same number would not do.
void seal_again(Job& job, const ResultRecord& result);

/// Sends a kept result to one source or to all.
template <microcode::Machine M>
void send_result(M& m, Shard& shard, const Job& job, const ResultRecord& result,
                 std::span<const Endpoint> to) {
  const auto message =
      job.window.message(result.aggr_buffer, result.head_bytes, result.payload_bytes);
  m.send(message, to);
  count(m, shard, Outcome::kResultSent, static_cast<uint32_t>(message.size()), to.size());
}

/// Tells whether a source gets the gradients of a kept result: all ranks get them, a rank of the
/// source owns them, or the source takes no receipts.
[[nodiscard]] bool gets_gradients(const Job& job, const ResultRecord& result, uint32_t source);

/// Tells whether a source of this aggregator, or a rank below it, owns a result. The upper
/// aggregator then sends the gradients.
[[nodiscard]] bool has_owner_below(const Job& job, const MessageHead& result);

/// The message to the sources that do not get the gradients of a result.
struct Receipt {
  std::array<std::byte, wire::kMessageHeadBytesMax> bytes;
  uint32_t size_bytes;
};
/// Returns the head of a kept result as a message of its own, sealed if the job has a secret.
[[nodiscard]] Receipt receipt_of(Job& job, const ResultRecord& result);

template <microcode::Machine M>
void send_receipt(M& m, Shard& shard, const Receipt& receipt, const Endpoint& to) {
  m.instruction(kBuildHeader);
  m.send_small(std::span(receipt.bytes).first(receipt.size_bytes), to);
  count(m, shard, Outcome::kReceiptSent, receipt.size_bytes);
}

/// Sends a kept result to the source whose rank owns it, and receipts to the others. Nothing goes
/// to the job's multicast group, so no owner gets a receipt.
template <microcode::Machine M>
[[gnu::noinline]] void send_to_owner(M& m, Shard& shard, Job& job, const ResultRecord& result) {
  const Receipt receipt = receipt_of(job, result);
  for (uint32_t source = 0; source < job.config.sources; source++) {
    const Endpoint& to = job.sources[source].address;
    if (!to.is_set()) continue;
    if (gets_gradients(job, result, source)) {
      send_result(m, shard, job, result, std::span<const Endpoint>(&to, 1));
    } else {
      send_receipt(m, shard, receipt, to);
    }
  }
}

/// Sends a kept result, or its receipt, to a source that asked for it.
template <microcode::Machine M>
void resend_result(M& m, Shard& shard, Job& job, const ResultRecord& result, uint32_t source,
                   const Endpoint& to) {
  if (!gets_gradients(job, result, source)) {
    return send_receipt(m, shard, receipt_of(job, result), to);
  }
  seal_again(job, result);
  send_result(m, shard, job, result, std::span<const Endpoint>(&to, 1));
}

/// Sends a block's partial sum to the upper aggregator.
template <microcode::Machine M>
void send_upstream(M& m, Shard& shard, const Job& job, BlockRecord& block) {
  block.sent_up_at_us = low_us(m.now());
  const auto message =
      job.window.message(block.aggr_buffer, block.head_bytes, payload_bytes(block));
  m.send(message, std::span<const Endpoint>(&job.config.upstream, 1));
  count(m, shard, Outcome::kSentUpstream, static_cast<uint32_t>(message.size()));
}

/// Sends the partial sum again because a source has asked for it. The retransmission flag makes the
/// upper aggregator answer if its block waits for a source that has left.
template <microcode::Machine M>
void repeat_upstream(M& m, Shard& shard, Job& job, BlockRecord& block) {
  if (block.extended) {
    m.release_payload({});  // The first copy may not have left this buffer yet.
    mark_repeat(job, block);
    job.session.upstream_watch().asked(
        {.block_id = block.block_id, .gen_id = block.gen_id, .grad_cnt = block.grad_cnt}, m.now());
  }
  send_upstream(m, shard, job, block);
}

/// Returns the width of a block's gradients on the wire.
[[nodiscard]] inline microcode::LaneWidth width_of(wire::ElementFormat format) {
  return format == wire::ElementFormat::kBlockExponent16 ? microcode::LaneWidth::k16
                                                         : microcode::LaneWidth::k32;
}

/// Returns the form of a block's sum. The aggregators next to the ranks divide it, so that no
/// partial sum exceeds 16 bits; those above them add quotients.
[[nodiscard]] inline microcode::ResultLanes result_lanes(const Job& job, const BlockRecord& block) {
  const auto shift = static_cast<uint8_t>(
      job.config.sources_are_aggregators ? 0 : wire::result_shift(job.config.ranks()));
  return {.width = width_of(block.format), .shift = shift};
}

/// The last steps of a block: XTXNs and the code after their replies, as in contribution.h.
template <microcode::Machine M>
class Emission {
 public:
  Emission(M& m, Shard& shard, Job& job, BlockRecord& block)
      : m_(m), shard_(shard), job_(job), block_(block) {}

  /// Turns the sum into a result's payload.
  auto finish_sum() {
    const uint32_t lane_count = TRIB_MUTANT(kEmptySumSent) ? 0 : block_.grad_cnt;
    return m_.finish_lanes(job_.window.lanes(block_.aggr_buffer), lane_count,
                           result_lanes(job_, block_));
  }
  /// Sends the partial sum to the upper aggregator if there is one.
  /// @return whether publish() follows: this aggregator publishes the result, or the session has
  ///         changed and publish() only frees the record.
  [[nodiscard]] bool sum_finished() {
    if (is_discarded()) return true;
    block_.degraded |= !is_same(block_.rcvd_mask, job_.record.src_mask);
    if (!job_.config.upstream.is_set()) [[likely]]
      return true;
    m_.instruction(kBuildHeader);
    build_head(job_, block_, /*upward=*/true);
    block_.phase = BlockPhase::kSentUp;
    send_upstream(m_, shard_, job_, block_);
    record(recorder::Kind::kSentUp);
    return false;
  }

  /// Writes the head. @pre The record is final.
  void prepare_result() {
    if (is_discarded()) return;
    m_.instruction(kBuildHeader);
    build_head(job_, block_, /*upward=*/false);
    count(m_, shard_, block_.degraded ? Outcome::kBlockDegraded : Outcome::kBlockCompleted);
    if (block_.degraded) [[unlikely]] {
      record(recorder::Kind::kDegraded);
    } else {
      record_completion(shard_, job_, block_.block_id, m_.now());
    }
  }
  /// Frees the record and keeps the result, unless the session has changed.
  auto retire_block() {
    return m_.issue(block_table_request<M>(microcode::XtxnKind::kHashDelete, job_, block_.block_id),
                    [this] {
                      if constexpr (M::kSuspends) {
                        if (is_discarded()) return job_.window.abandon(block_);
                        epoch_ = job_.window.epoch();
                      }
                      if (!block_.degraded || !TRIB_MUTANT(kBlockCountLeaked)) {
                        job_.record.block_curr_cnt--;
                      }
                      job_.record.block_total_cnt++;
                      job_.record.block_degraded_cnt += block_.degraded ? 1 : 0;
                      result_ = job_.window.retire(block_);
                      if constexpr (M::kSuspends) {
                        if (job_.table != nullptr) job_.table->erase(job_.window.place_of(block_));
                      }
                    });
  }
  /// Sends the result to all sources, or to the one that owns it, unless the session has changed.
  void block_retired() {
    if constexpr (M::kSuspends) {
      if (!result_.valid || session_changed<M>(job_, epoch_)) return;
    }
    if (result_.owner_plus_one != 0) [[unlikely]]
      return send_to_owner(m_, shard_, job_, result_);
    send_result(m_, shard_, job_, result_, job_.destinations);
  }

 private:
  /// Tells whether the session has changed while the thread waited, which only a machine that
  /// suspends threads allows.
  [[nodiscard]] bool is_discarded() const {
    return M::kSuspends && block_.phase == BlockPhase::kDiscarded;
  }
  void record(recorder::Kind kind) {
    record_block(shard_, kind, job_, recorder::kNoRank, block_.block_id, m_.now());
  }

  M& m_;
  Shard& shard_;
  Job& job_;
  BlockRecord& block_;
  ResultRecord result_;  ///< A copy: another block may own the place before it is sent.
  uint32_t epoch_ = 0;   ///< The window's when the result was kept.
};

/// Keeps the result and sends it to its sources. @pre The block's sum and record are final.
template <microcode::Machine M>
microcode::Subroutine<void, M> publish(M& m, Shard& shard, Job& job, BlockRecord& block) {
  Emission<M> emission(m, shard, job, block);
  emission.prepare_result();
  co_await emission.retire_block();
  emission.block_retired();
}

/// Makes the block's message and sends it to the upper aggregator or to all sources. Called once
/// for each block, by the thread to which settle() or close() returned true.
template <microcode::Machine M>
microcode::Subroutine<void, M> emit_block(M& m, Shard& shard, Job& job, BlockRecord& block) {
  Emission<M> emission(m, shard, job, block);
  co_await emission.finish_sum();
  if (emission.sum_finished()) co_await publish(m, shard, job, block);
}

/// Emits a block as emit_block() does, on a machine whose replies are there at once.
template <microcode::Machine M>
requires(!M::kSuspends) void emit_in_place(M& m, Shard& shard, Job& job, BlockRecord& block) {
  Emission<M> emission(m, shard, job, block);
  static_cast<void>(emission.finish_sum());
  if (!emission.sum_finished()) return;
  emission.prepare_result();
  static_cast<void>(emission.retire_block());
  emission.block_retired();
}

}  // namespace tributary::trio_ml
