// SPDX-License-Identifier: Apache-2.0
/// @file
/// What the thread of a contribution does, step by step (Trio paper §4, Figure 10). A step issues
/// one XTXN; what follows the reply is plain code, up to the next step.
///
///   find_job -> find_block -> [insert_block] -> admit -> add_gradients -> settle
///
/// Why steps: program.h runs them one after the other, either as a coroutine that waits for each
///           reply, or, on a machine whose replies are there at once, as one plain function whose
///           state the compiler keeps in registers. The order and every branch stand here, once.
/// Contract: Right under every interleaving of its XTXNs (microcode/machine.h). A contribution
///           changes its block's record in whole XTXNs only: insert, admit, settle.
/// Tests:    tests/apps/trio_ml/program_test.cc (live), interleaving_test.cc (suspending machine)
#pragma once

#include "apps/trio_ml/arrival.h"
#include "apps/trio_ml/control.h"
#include "apps/trio_ml/emit.h"
#include "apps/trio_ml/trio_ml.h"
#include "apps/trio_ml/upstream.h"
#include "base/mutant.h"
#include "microcode/machine.h"

namespace tributary::trio_ml {

inline constexpr microcode::Instruction kParseHeader{"parse_header",
                                                     {.lmem_reads = 2, .register_writes = 2}};
inline constexpr microcode::Instruction kCheckHeader{"check_header", {.register_reads = 4}};
inline constexpr microcode::Instruction kPrepareBlock{"prepare_block",
                                                      {.register_reads = 4, .lmem_writes = 2}};
inline constexpr microcode::Instruction kCheckBlock{"check_block", {.register_reads = 4}};

/// The ranks that a lower aggregator's partial sum holds.
template <microcode::Machine M>
void merge_ranks(const M& m, const Job& job, BlockRecord& block, const MessageHead& message,
                 const Arrival& arrival) {
  if ((message.extension.flags & wire::kFlagSourceMask) == 0) return;
  if (!job.config.sources_are_aggregators) return;
  if (TRIB_MUTANT(kRanksNotMerged)) return;
  const SourceMask ranks = wire::decode_mask(message_bytes(m, arrival).data());
  for (uint32_t i = 0; i < ranks.size(); i++) block.ranks[i] |= ranks[i];
}

/// What checks a contribution against its job. Outcome::kCount: nothing is wrong.
[[nodiscard]] inline Outcome check_contribution(const Job& job, const MessageHead& message) {
  const wire::TrioMlFields& header = message.header;
  if (header.src_id >= job.config.sources) return Outcome::kSourceOutsideJob;
  if (header.grad_cnt > job.config.block_grad_max) return Outcome::kTooManyGradients;
  if (!header.extended) {
    if (job.adopted() != 0) return Outcome::kSessionRequired;
    return header.grad_cnt == 0 ? Outcome::kNoGradients : Outcome::kCount;
  }
  const wire::ExtensionFields& extension = message.extension;
  if (!TRIB_MUTANT(kNoMembershipCheck)) {
    if (job.adopted() == 0 || extension.session != job.adopted()) return Outcome::kWrongSession;
    if (extension.key != job.key_of(header.src_id)) return Outcome::kWrongKey;
  }
  // The first blocks of a tensor may carry an exponent only.
  const bool may_be_empty = extension.format == wire::ElementFormat::kBlockExponent;
  return header.grad_cnt == 0 && !may_be_empty ? Outcome::kNoGradients : Outcome::kCount;
}

/// What a block is made with whose first contribution this is.
[[nodiscard]] inline BlockTerms terms_of(const Job& job, const MessageHead& message) {
  return {.tensor_elements = message.extension.tensor_elements,
          .scale_bits = message.extension.scale_bits,
          .grad_cnt = message.header.grad_cnt,
          .format = message.extension.format,
          .extended = message.header.extended,
          .expected = job.record.active_mask};
}

/// What the message adds to its block's record.
[[nodiscard]] inline Contribution contribution_of(const Job& job, const MessageHead& message) {
  Contribution contribution{.exponent = message.extension.exponent,
                            .flags = message.extension.flags,
                            .final = message.header.final};
  if (job.config.sources_are_aggregators) {
    contribution.src_cnt =
        message.header.src_cnt == 0 ? uint16_t{wire::kSourcesMax} : message.header.src_cnt;
    if (TRIB_MUTANT(kLowerCountsOne)) contribution.src_cnt = 1;
    contribution.degraded = message.header.degraded;
  }
  return contribution;
}

namespace detail {

/// Why a contribution finds no block to join.
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

/// A contribution after its block's completion: the result again, if it is kept.
template <microcode::Machine M>
void answer_late(M& m, Shard& shard, Job& job, const ResultRecord* result,
                 const MessageHead& message, const Arrival& arrival) {
  // Below another aggregator a block may wait for the upper result for long: who is late for it
  // is back all the same.
  note_contribution(m, shard, job, message.header.src_id, arrival.offset);
  if (result == nullptr) return;
  send_result(m, shard, job, *result, std::span<const Endpoint>(&arrival.source, 1));
}

/// A contribution that its block holds already. Its source may have asked by sending it again.
template <microcode::Machine M>
void answer_duplicate(M& m, Shard& shard, Job& job, const BlockRecord& block,
                      const MessageHead& message, const Arrival& arrival) {
  if (block.phase == BlockPhase::kSentUp && !TRIB_MUTANT(kPartialNotRepeated)) {
    repeat_upstream(m, shard, job, block);
  }
  if (message.header.extended && (message.extension.flags & wire::kFlagRetransmission) != 0) {
    send_have(m, shard, job, block, message, arrival.source);
  }
}

/// Where a thread goes on.
enum class Step : uint8_t {
  kFindJob,
  kFindBlock,
  kInsertBlock,
  kAdmit,
  kAddGradients,
  kSettle,
  kEmit,     ///< This contribution made the sum final: emit_block().
  kOther,    ///< Not a contribution: serve_other().
  kRefused,  ///< ContributionThread::answer().
  kEnd,
};

/// The state of a contribution's thread and its steps. Each step is a function that issues an XTXN
/// and one that takes what it led to and says which step is next.
///
/// Every function is called from one place in each of the two ways to run, so all of them are
/// inlined; what is not usual is a call. No call is given the address of this state, or the
/// compiler would have to keep all of it in memory.
template <microcode::Machine M>
class ContributionThread {
 public:
  ContributionThread(M& m, Shard& shard) : m_(m), shard_(shard), arrival_(payload_arrival(m)) {}

  /// Whether the packet is like the last contribution of its source but for the block, and then of
  /// which kind: begin() and find_job() would find nothing else than they did for that one.
  [[nodiscard, gnu::always_inline]] KnownHead::Kind look_known() {
    const std::byte* message = m_.head().bytes();
    if (m_.arrived_as_frame() || arrival_.size < Header::kBytes) return KnownHead::Kind::kNone;
    job_ = shard_.job(static_cast<uint8_t>(Header::JobId::load(message)));
    if (job_ == nullptr || job_->adopted() != job_->session.number()) return KnownHead::Kind::kNone;
    const uint32_t source = Header::SourceId::load(message);
    if (source >= job_->config.sources) return KnownHead::Kind::kNone;
    const SourceState& state = job_->sources[source];
    if (state.address != arrival_.source) return KnownHead::Kind::kNone;
    return state.known_head.match(message, arrival_.size);
  }
  /// What the further steps want of it. @param extended Whether it is of kind kExtended.
  [[nodiscard, gnu::always_inline]] Step begin_known(bool extended) {
    const std::byte* message = m_.head().bytes();
    message_.header.extended = extended;
    message_.header.block_id = Header::BlockId::load(message);
    message_.header.src_id = static_cast<uint8_t>(Header::SourceId::load(message));
    message_.header.gen_id = static_cast<uint16_t>(Header::GenerationId::load(message));
    message_.header.grad_cnt = static_cast<uint16_t>(Header::GradientCount::load(message));
    message_.head_bytes = Header::kBytes;
    if (extended) {
      message_.head_bytes += wire::kExtensionBytes;
      wire::ExtensionFields extension;
      static_cast<void>(decode_extension(message + Header::kBytes, extension));
      message_.extension = extension;
      job_->session.heard(source(), m_.now());
    }
    return Step::kFindBlock;
  }

  /// Locates and decodes the message of the packet at hand.
  [[nodiscard, gnu::always_inline]] Step begin() {
    if (const Located located = locate_message(m_, shard_.udp_port(), arrival_); !located.ok) {
      return refused(located.refused);
    }
    m_.instruction(kParseHeader);
    const auto status = decode_head(message_bytes(m_, arrival_), arrival_.size, message_);
    if (status != wire::DecodeStatus::kOk) [[unlikely]]
      return refused(refusal_of(status));
    m_.instruction(kCheckHeader);
    return Step::kFindJob;
  }

  [[gnu::always_inline]] auto find_job() {
    return m_.issue(microcode::Xtxn{microcode::XtxnKind::kHashLookup, &shard_, 8},
                    [this] { job_ = shard_.job(message_.header.job_id); });
  }
  [[nodiscard, gnu::always_inline]] Step job_found() {
    if (job_ == nullptr) [[unlikely]]
      return refused(Outcome::kUnknownJob);
    job_->adopt(job_->session.number());
    if (is_other()) [[unlikely]]
      return Step::kOther;
    if (const Outcome wrong = check_contribution(*job_, message_); wrong != Outcome::kCount)
        [[unlikely]]
      return refused(wrong);
    if (!job_->locate(source(), arrival_.source)) [[unlikely]]
      return refused(Outcome::kForeignAddress);
    if (message_.header.extended) job_->session.heard(source(), m_.now());
    contribution_ = contribution_of(*job_, message_);
    if (!M::kSuspends && contribution_.is_plain()) remember();
    return Step::kFindBlock;
  }

  [[gnu::always_inline]] auto find_block() {
    return m_.issue(microcode::Xtxn{microcode::XtxnKind::kHashLookup, &job_->record, 8},
                    [this] { job_->window.find(name(), found_); });
  }
  [[nodiscard, gnu::always_inline]] Step block_found() {
    if (found_.kind == Found::Kind::kActive) return joined();
    if (found_.kind != Found::Kind::kAbsent) [[unlikely]]
      return refused(detail::refusal_of(found_.kind));
    m_.instruction(kPrepareBlock);
    return Step::kInsertBlock;
  }

  /// Makes the contribution's block, unless another thread has just done so.
  [[gnu::always_inline]] auto insert_block() {
    return m_.issue(
        microcode::Xtxn{microcode::XtxnKind::kHashInsert, &job_->record, sizeof(BlockRecord)},
        [this] {
          // Nobody comes between a lookup and this where replies are there at once.
          inserted_ = M::kSuspends || found_.block == nullptr
                          ? job_->window.insert(name(), terms_of(*job_, message_), M::kSuspends)
                          : job_->window.insert_at(found_, name(), terms_of(*job_, message_));
          if (inserted_.status != BlockWindow::Insert::kCreated) return;
          if (!inserted_.superseded) job_->record.block_curr_cnt++;
          job_->ref_bits.mark_live(job_->window.place_of(*inserted_.block));
        });
  }
  [[nodiscard, gnu::always_inline]] Step block_inserted() {
    if (inserted_.status == BlockWindow::Insert::kNoBuffer && thaw_buffers(m_, job_->window))
        [[unlikely]]
      return Step::kInsertBlock;
    if (inserted_.superseded) [[unlikely]]
      count(m_, shard_, Outcome::kBlockSuperseded);
    found_.block = inserted_.block;
    found_.incarnation = inserted_.incarnation;
    first_ = inserted_.status == BlockWindow::Insert::kCreated;
    if (first_ || inserted_.status == BlockWindow::Insert::kExists) return joined();
    if (inserted_.status == BlockWindow::Insert::kRefused) {
      found_.kind = Found::Kind::kWindowExceeded;
    }
    return refused(detail::refusal_of(found_.kind));
  }

  [[gnu::always_inline]] auto admit_source() {
    return m_.issue(block_request(), [this] {
      admission_ = admit(*found_.block, found_.incarnation, source(), m_.now());
    });
  }
  [[nodiscard, gnu::always_inline]] Step source_admitted() {
    if (admission_ != Admission::kAdmitted) [[unlikely]] {
      return refused(admission_ == Admission::kDuplicate ? Outcome::kDuplicate : Outcome::kLate);
    }
    if (!TRIB_MUTANT(kReferenceLost)) job_->ref_bits.touch(job_->window.place_of(block()));
    note_contribution(m_, shard_, *job_, source(), arrival_.offset);
    return Step::kAddGradients;
  }

  [[gnu::always_inline]] auto add_gradients() {
    const bool replace = first_ && !M::kSuspends && !TRIB_MUTANT(kBufferNotCleared);
    return m_.accumulate(job_->window.lanes(block().aggr_buffer),
                         arrival_.offset + message_.head_bytes, message_.header.grad_cnt,
                         replace ? microcode::Accumulate::kFirst : microcode::Accumulate::kAdd);
  }
  [[nodiscard, gnu::always_inline]] Step gradients_added() {
    count(m_, shard_, Outcome::kAggregated, arrival_.size);
    return Step::kSettle;
  }

  [[gnu::always_inline]] auto settle_block() {
    return m_.issue(block_request(), [this] {
      merge_ranks(m_, *job_, block(), message_, arrival_);
      final_ = settle(block(), contribution_);
    });
  }
  [[nodiscard, gnu::always_inline]] Step block_settled() {
    if (!final_) return Step::kEnd;
    stop_aging(*job_, block());
    return Step::kEmit;
  }

  /// What is known of a refused packet beside what stands in it.
  struct Refusal {
    Outcome why = Outcome::kCount;
    Job* job = nullptr;
    BlockRecord* block = nullptr;
    const ResultRecord* result = nullptr;  ///< If it is kept and the contribution late for it.
  };
  [[nodiscard]] Refusal refusal() const { return {refusal_, job_, found_.block, found_.result}; }
  /// What the packet's source is told, and the count. @pre begin() has been called.
  void answer(const Refusal& refusal) {
    tell_source(refusal);
    refuse(m_, shard_, refusal.why);
  }

  [[nodiscard]] Job& job() { return *job_; }
  [[nodiscard]] BlockRecord& block() { return *found_.block; }
  [[nodiscard]] const MessageHead& message() const { return message_; }
  [[nodiscard]] const Arrival& arrival() const { return arrival_; }

 private:
  using Header = wire::TrioMlHeader;

  [[nodiscard]] uint32_t source() const { return message_.header.src_id; }
  [[nodiscard]] BlockName name() const {
    return {message_.header.gen_id, message_.header.block_id, message_.header.extended};
  }
  [[nodiscard]] microcode::Xtxn block_request() const {
    return {microcode::XtxnKind::kFetchAndOp, found_.block, 8};
  }
  /// Whether the message is for serve_other().
  [[nodiscard]] bool is_other() const {
    return (message_.header.extended && message_.extension.type != MessageType::kContribution) ||
           is_from_upstream(*job_, message_, arrival_.source);
  }

  void tell_source(const Refusal& refusal) {
    const Endpoint& from = arrival_.source;
    switch (refusal.why) {
      case Outcome::kUnknownJob:
        if (message_.extension.type == MessageType::kJoin) refuse_unknown_job(m_, message_, from);
        break;
      case Outcome::kWrongSession:
        tell_session_lost(m_, shard_, *refusal.job, message_, from);
        break;
      case Outcome::kPastCache:
        tell_past_cache(m_, shard_, *refusal.job, message_, from);
        break;
      case Outcome::kStaleGeneration:
        if (message_.header.extended) break;
        tell_generation(m_, shard_, *refusal.job, message_, Reason::kStaleGeneration, from);
        break;
      case Outcome::kFutureGeneration:
        tell_generation(m_, shard_, *refusal.job, message_, Reason::kFutureGeneration, from);
        break;
      case Outcome::kGradCntDiffers:
      case Outcome::kTensorDiffers:
        if (!message_.header.extended) break;
        tell_mismatch(m_, shard_, *refusal.job, *refusal.block, message_);
        break;
      case Outcome::kLate:
        answer_late(m_, shard_, *refusal.job, refusal.result, message_, arrival_);
        break;
      case Outcome::kDuplicate:
        if (TRIB_MUTANT(kDuplicateSettles)) {
          static_cast<void>(settle(*refusal.block, contribution_of(*refusal.job, message_)));
        }
        answer_duplicate(m_, shard_, *refusal.job, *refusal.block, message_, arrival_);
        break;
      default:
        break;
    }
  }
  /// For look_known(), which takes a contribution for plain and of one rank.
  void remember() {
    if (job_->config.sources_are_aggregators) return;
    job_->sources[source()].known_head.remember(m_.head().bytes() + arrival_.offset, arrival_.size,
                                                message_.header.extended);
  }
  /// The packet ends here.
  [[nodiscard]] Step refused(Outcome reason) {
    refusal_ = reason;
    return Step::kRefused;
  }
  /// The block is there: does the contribution fit it?
  [[nodiscard, gnu::always_inline]] Step joined() {
    m_.instruction(kCheckBlock);
    const Outcome wrong = check_against_block(block(), message_);
    return wrong == Outcome::kCount ? Step::kAdmit : refused(wrong);
  }
  /// All buffers are in use. Those that are cooling are free once what was sent has left.
  /// @return whether it is worth trying again: another thread may have thawed, or taken what this
  /// one has thawed.
  [[nodiscard, gnu::noinline, gnu::cold]] static bool thaw_buffers(M& m, BlockWindow& window) {
    if (!window.has_cooling()) return window.buffers_free() > 0;
    m.release_payload({});
    window.thaw();
    return true;
  }

  M& m_;
  Shard& shard_;
  Arrival arrival_;
  MessageHead message_;
  Job* job_ = nullptr;
  Contribution contribution_;
  Found found_;
  BlockWindow::Inserted inserted_{};
  Admission admission_ = Admission::kClosed;
  Outcome refusal_ = Outcome::kCount;  ///< Why the packet ends here.
  bool first_ = false;                 ///< This thread made the block.
  bool final_ = false;                 ///< This thread made its sum final.
};

}  // namespace tributary::trio_ml
