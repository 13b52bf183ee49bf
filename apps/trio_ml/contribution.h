// SPDX-License-Identifier: Apache-2.0
/// @file
/// The steps of a contribution's thread (Trio paper §4, Figure 10).
///
/// Model:    A step issues one external transaction (XTXN). A check follows the reply and accepts
///           or refuses the packet. program.h has their sequence, once for each kind of machine.
/// Contract: Correct under every interleaving of its XTXNs (microcode/machine.h), also with changes
///           of the session between them. A contribution changes its block's record only in three
///           whole XTXNs: insert, admit, settle.
/// Tests:    tests/apps/trio_ml/program_test.cc (live), interleaving_test.cc (suspending machine)
#pragma once

#include <algorithm>
#include <array>
#include <span>

#include "apps/arrival.h"
#include "apps/trio_ml/contribution_checks.h"
#include "apps/trio_ml/emit.h"
#include "apps/trio_ml/session/control.h"
#include "apps/trio_ml/shard.h"
#include "apps/trio_ml/upstream.h"
#include "base/mutant.h"
#include "engine/packet.h"
#include "microcode/access_meter.h"
#include "microcode/machine.h"

namespace tributary::trio_ml {

inline constexpr microcode::Instruction kPrepareBlock{"prepare_block",
                                                      {.register_reads = 4, .lmem_writes = 2}};
inline constexpr microcode::Instruction kCheckBlock{"check_block", {.register_reads = 4}};

/// Merges the ranks that the message of a lower aggregator names into those of the block.
template <microcode::Machine M>
void merge_ranks(const M& m, const Job& job, BlockRecord& block, const MessageHead& message,
                 const Arrival& arrival) {
  if ((message.extension.flags & wire::kFlagSourceMask) == 0) return;
  if (!job.config.sources_are_aggregators) return;
  if (TRIB_MUTANT(kRanksNotMerged)) return;
  const SourceMask ranks = wire::decode_mask(message_bytes(m, arrival).data());
  for (uint32_t i = 0; i < ranks.size(); i++) block.ranks[i] |= ranks[i];
}

/// Returns the fields that the message adds to its block's record.
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

/// Answers a contribution that came after its block was complete: sends the result again if it is
/// still kept.
template <microcode::Machine M>
void answer_late(M& m, Shard& shard, Job& job, const ResultRecord* result,
                 const MessageHead& message, const Arrival& arrival) {
  // Below another aggregator a block may wait long for the upper result. A source that is late for
  // such a block has still returned.
  note_contribution(m, shard, job, message.header.src_id, arrival.offset);
  if (result == nullptr || !is_worth_an_answer(message, *result)) return;
  if (!job.take_reply_token(message.header.src_id, m.now())) {
    return count(m, shard, Outcome::kSourceQuota);
  }
  resend_result(m, shard, job, *result, message.header.src_id, arrival.source);
}

/// Answers a contribution that its block already holds. A source retransmits to ask for an answer.
template <microcode::Machine M>
void answer_duplicate(M& m, Shard& shard, Job& job, BlockRecord& block, const MessageHead& message,
                      const Arrival& arrival) {
  if (!job.take_reply_token(message.header.src_id, m.now())) {
    return count(m, shard, Outcome::kSourceQuota);
  }
  if (block.phase == BlockPhase::kSentUp && !TRIB_MUTANT(kPartialNotRepeated)) {
    repeat_upstream(m, shard, job, block);
  }
  if (message.header.extended && (message.extension.flags & wire::kFlagRetransmission) != 0) {
    send_have(m, shard, job, block, message, arrival.source);
  }
}

/// A refused packet: the reason, and the records that the thread had found by then.
struct Refusal {
  Outcome why;
  Job* job = nullptr;
  BlockRecord* block = nullptr;
  const ResultRecord* result = nullptr;  ///< Set if the contribution is late and its result kept.
};

/// The state of a contribution's thread, and its steps in the order in which program.h runs them.
///
/// The live machine keeps this state in registers. So no function that stays a call may take the
/// address of the state: the compiler would have to keep all of it in memory.
template <microcode::Machine M>
class ContributionThread {
 public:
  ContributionThread(M& m, Shard& shard)
      : m_(m), shard_(shard), arrival_(apps::payload_arrival(m)) {}

  // --- The head: decoded and checked, or recognised ---------------------------------------------

  /// Returns the kind of the source's previous header if the packet's header matches it in
  /// everything except block_id, so that parse() to check_message() would succeed. Otherwise kNone.
  [[nodiscard]] KnownHead::Kind match_known_head() {
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
  /// Returns true for a contribution with a wrong key when the reply budget for strangers is spent.
  /// The full check would drop it without an answer; this one is cheaper under a flood. Returns
  /// false if anything else about the packet is unusual.
  /// @pre match_known_head() returned kNone.
  [[nodiscard]] bool is_ignored_forgery() const {
    constexpr uint32_t kHeadBytes = Header::kBytes + wire::kExtensionBytes;
    constexpr auto kUsualFirst =
        std::byte{wire::kExtensionVersion << 4 | static_cast<uint8_t>(MessageType::kContribution)};
    // match_known_head() has found the job, unless the packet is a frame or its job is unknown.
    if (job_ == nullptr || arrival_.size < kHeadBytes || TRIB_MUTANT(kNoMembershipCheck)) {
      return false;
    }
    if (job_->adopted() == 0 || job_->adopted() != job_->session.number()) return false;
    const std::byte* message = m_.head().bytes();
    const uint32_t source = Header::SourceId::load(message);
    const uint32_t gradients = Header::GradientCount::load(message);
    const bool is_member =
        source < job_->config.sources &&
        load_be<uint64_t>(message + kHeadBytes - sizeof(uint64_t)) == job_->key_of(source);
    if (is_member || source >= job_->config.sources) return false;
    const auto flags = std::to_integer<uint8_t>(message[wire::kFlagsByte]);
    const auto format = std::to_integer<uint8_t>(message[wire::kFlagsByte - 1]);
    const bool is_usual =
        Header::Extended::load(message) != 0 && message[Header::kBytes] == kUsualFirst &&
        format <= wire::kElementFormatLast && (flags & wire::kFlagSourceMask) == 0 &&
        (flags & wire::kFlagsOfSeal) != wire::kFlagsOfSeal &&
        gradients <= job_->config.block_grad_max;
    if (!is_usual) return false;
    const uint32_t size =
        kHeadBytes + auth::seal_bytes(wire::seal_mode(flags)) +
        gradients * wire::gradient_bytes(static_cast<wire::ElementFormat>(format));
    return arrival_.size == size && shard_.must_ignore_strangers(m_.now());
  }
  /// Drops and counts such a packet. @pre is_ignored_forgery().
  void ignore_forgery() {
    count(m_, shard_, Outcome::kReplyWithheld);
    refuse(m_, shard_, Outcome::kWrongKey);
  }
  /// Reads the fields that find_block() and the steps after it use from a known head.
  /// @param extended Whether match_known_head() returned kExtended.
  [[nodiscard]] Verdict read_known(bool extended) {
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
      message_.head_bytes += auth::seal_bytes(job_->end.mode());
      if (const Verdict verdict = open_seal(); verdict.is_refused()) [[unlikely]]
        return verdict;
      job_->session.heard(source(), m_.now());
    }
    return kAccepted;
  }

  /// Locates and decodes the message in the packet.
  [[nodiscard]] Verdict parse() {
    const apps::Fit fit = apps::locate_udp_payload(m_, shard_.udp_port(), arrival_);
    if (fit != apps::Fit::kFits) return apps::outcome_of<Outcome>(fit);
    m_.instruction(apps::kParseHeader);
    const auto status = decode();
    if (status != wire::DecodeStatus::kOk) [[unlikely]]
      return refusal_of(status);
    return kAccepted;
  }

  [[nodiscard]] auto find_job() {
    return m_.issue(job_table_request<M>(shard_, message_.header.job_id),
                    [this] { job_ = shard_.job(message_.header.job_id); });
  }
  /// Adopts the session that the job has, if the job exists.
  [[nodiscard]] Verdict check_job() {
    if (job_ == nullptr) [[unlikely]]
      return Outcome::kUnknownJob;
    job_->adopt(job_->session.number());
    epoch_ = job_->window.epoch();
    return kAccepted;
  }
  /// Tells whether the message is not a contribution of a source, so that serve_other() takes it.
  [[nodiscard]] bool is_other() const {
    return (message_.header.extended && message_.extension.type != MessageType::kContribution) ||
           is_from_upstream(*job_, message_, arrival_.source);
  }
  /// Tells whether the contribution is a push to an asynchronous job, which serve_push() takes.
  [[nodiscard]] bool is_push() const { return job_->parameters != nullptr; }
  /// Checks the contribution against its job and its source's address.
  [[nodiscard]] Verdict check_message() {
    if (const Verdict verdict = check_against_job(*job_, message_); verdict.is_refused())
        [[unlikely]]
      return verdict;
    if (const Verdict verdict = open_seal(); verdict.is_refused()) [[unlikely]]
      return verdict;
    if (!job_->locate(source(), arrival_.source)) [[unlikely]]
      return Outcome::kForeignAddress;
    if (message_.header.extended) job_->session.heard(source(), m_.now());
    contribution_ = contribution_of(*job_, message_);
    if (!M::kSuspends && contribution_.is_plain()) remember();
    return kAccepted;
  }

  // --- The block: found, or made ----------------------------------------------------------------

  [[nodiscard]] auto find_block() {
    return m_.issue(
        block_table_request<M>(microcode::XtxnKind::kHashLookup, *job_, name().block_id),
        [this] { job_->window.find(name(), found_); });
  }
  [[nodiscard]] bool is_block_absent() const { return found_.kind == Found::Kind::kAbsent; }
  void prepare_block() { m_.instruction(kPrepareBlock); }
  /// Makes the contribution's block, unless another thread has made it since find_block().
  [[nodiscard]] auto insert_block() {
    return m_.issue(
        block_table_request<M>(microcode::XtxnKind::kHashInsert, *job_, name().block_id), [this] {
          if (is_stale()) {
            inserted_ = {BlockWindow::Insert::kRefused, nullptr, 0, false};
            return;
          }
          // On a machine that does not suspend, no other thread runs between lookup and insert.
          inserted_ = M::kSuspends || found_.block == nullptr
                          ? job_->window.insert(name(), terms_of(*job_, message_), M::kSuspends)
                          : job_->window.insert_at(found_, name(), terms_of(*job_, message_));
          if (inserted_.status != BlockWindow::Insert::kCreated) return;
          if (!inserted_.superseded) job_->record.block_curr_cnt++;
          const uint32_t place = job_->window.place_of(*inserted_.block);
          job_->ref_bits.mark_live(place);
          note_record<M>(*job_, place, message_.header.block_id);
        });
  }
  /// Frees buffers if insert_block() found none. @return whether another try may succeed.
  [[nodiscard]] bool try_free_buffers() {
    return inserted_.status == BlockWindow::Insert::kNoBuffer &&
           free_cooling_buffers(m_, job_->window);
  }
  /// Continues with the block that insert_block() made or found.
  void take_inserted() {
    if (inserted_.superseded) [[unlikely]]
      count(m_, shard_, Outcome::kBlockSuperseded);
    found_.block = inserted_.block;
    found_.incarnation = inserted_.incarnation;
    first_ = inserted_.status == BlockWindow::Insert::kCreated;
    if (first_ || inserted_.status == BlockWindow::Insert::kExists) {
      found_.kind = Found::Kind::kActive;
    } else if (inserted_.status == BlockWindow::Insert::kRefused) {
      found_.kind = Found::Kind::kWindowExceeded;
    }
  }
  /// Checks whether there is a block to join, and whether the contribution fits it.
  [[nodiscard]] Verdict check_block() {
    if (is_stale()) return Outcome::kWrongSession;
    if (found_.kind != Found::Kind::kActive) [[unlikely]]
      return detail::refusal_of(found_.kind);
    m_.instruction(kCheckBlock);
    return check_against_block(block(), message_);
  }

  // --- The sum ----------------------------------------------------------------------------------

  [[nodiscard]] auto admit_source() {
    return m_.issue(block_request(), [this] {
      admission_ = admit(*found_.block, found_.incarnation, source(), m_.now());
    });
  }
  [[nodiscard]] Verdict check_admission() const {
    if (admission_ == Admission::kAdmitted) [[likely]]
      return kAccepted;
    if (is_stale()) return Outcome::kWrongSession;
    return admission_ == Admission::kDuplicate ? Outcome::kDuplicate : Outcome::kLate;
  }
  /// Marks the block as referenced and the source as present.
  void note_admission() {
    if (is_stale()) return;  // The block is discarded.
    if (!TRIB_MUTANT(kReferenceLost)) job_->ref_bits.touch(job_->window.place_of(block()));
    note_contribution(m_, shard_, *job_, source(), arrival_.offset);
  }

  [[nodiscard]] auto add_gradients() {
    const bool replace = first_ && !M::kSuspends && !TRIB_MUTANT(kBufferNotCleared);
    return m_.accumulate(job_->window.lanes(block().aggr_buffer),
                         arrival_.offset + message_.head_bytes, message_.header.grad_cnt,
                         replace ? microcode::Accumulate::kFirst : microcode::Accumulate::kAdd,
                         width_of(block().format));
  }
  void count_contribution() { count(m_, shard_, Outcome::kAggregated, arrival_.size); }

  [[nodiscard]] auto settle_block() {
    return m_.issue(block_request(), [this] {
      merge_ranks(m_, *job_, block(), message_, arrival_);
      final_ = settle(block(), contribution_);
    });
  }
  /// Tells whether this contribution made the sum final. The thread then emits the block.
  [[nodiscard]] bool is_sum_final() const { return final_; }
  void end_aging() { stop_aging(*job_, block()); }

  // --- For program.h ----------------------------------------------------------------------------

  /// @pre The verdict is a refusal.
  [[nodiscard]] Refusal refusal(Verdict verdict) const {
    return {verdict.reason(), job_, found_.block, found_.result};
  }
  /// Refuses the packet: answers its source if the reason calls for an answer, counts the reason
  /// and drops the packet. @pre parse() has been called.
  void refuse_packet(const Refusal& refusal) {
    answer_source(refusal);
    refuse(m_, shard_, refusal.why);
  }

  [[nodiscard]] Job& job() { return *job_; }
  [[nodiscard]] BlockRecord& block() { return *found_.block; }
  [[nodiscard]] const MessageHead& message() const { return message_; }
  [[nodiscard]] const Arrival& arrival() const { return arrival_; }

 private:
  using Header = wire::TrioMlHeader;
  /// The bytes of the head that parse_header reads; check_header reads as many.
  static constexpr uint32_t kFirstHalfBytes = 2 * microcode::kLmemAccessBytes;
  static_assert(Header::kBytes <= kFirstHalfBytes &&
                Header::kBytes + wire::kExtensionBytes == 2 * kFirstHalfBytes);

  /// Tells whether the session has changed since check_job(), so that the window has the blocks of
  /// another session. @pre check_job() has accepted the packet.
  [[nodiscard]] bool is_stale() const { return session_changed<M>(*job_, epoch_); }
  [[nodiscard]] uint32_t source() const { return message_.header.src_id; }
  [[nodiscard]] BlockName name() const {
    return {message_.header.gen_id, message_.header.block_id, message_.header.extended};
  }
  [[nodiscard]] microcode::Xtxn block_request() const {
    return {microcode::XtxnKind::kFetchAndOp, found_.block, 8};
  }

  /// Decodes the head of the message. Two instructions read its first 32 bytes: the header and the
  /// extension.
  [[nodiscard]] wire::DecodeStatus decode() {
    if constexpr (M::kSuspends) {
      // Only the bytes that the instructions have read are in `loaded`; the decoder sees no others.
      std::array<std::byte, engine::kHeadBytes> loaded{};
      const auto head = m_.head();
      const uint32_t size = std::min(head.size() - arrival_.offset, arrival_.size);
      const auto load = [&](uint32_t from, uint32_t end) {
        if (end <= from) return;
        const auto bytes = head.read(arrival_.offset + from, end - from);
        std::copy(bytes.begin(), bytes.end(), loaded.begin() + from);
      };
      load(0, std::min(size, kFirstHalfBytes));
      m_.instruction(apps::kCheckHeader);
      if (Header::Extended::load(loaded.data()) != 0) {
        load(kFirstHalfBytes, std::min(size, 2 * kFirstHalfBytes));
      }
      return decode_head(std::span<const std::byte>(loaded).first(size), arrival_.size, message_);
    } else {
      return decode_head(message_bytes(m_, arrival_), arrival_.size, message_);
    }
  }
  /// Checks the seal of an extended contribution, in a job that has one.
  [[nodiscard]] Verdict open_seal() {
    if (!job_->end.is_sealed() || !message_.header.extended) [[likely]]
      return kAccepted;
    return open_member_seal(m_, *job_, sealed_message(message_, arrival_));
  }
  void answer_source(const Refusal& refusal) {
    if (refusal.why == Outcome::kBadExtension) tell_version(m_, shard_, message_, arrival_);
    switch (refusal.why) {
      case Outcome::kUnknownJob:
        answer_unknown_job(m_, shard_, message_, arrival_);
        break;
      case Outcome::kSourceOutsideJob:
      case Outcome::kWrongSession:
      case Outcome::kWrongKey:
        send_reset(m_, shard_, *refusal.job, message_, arrival_);
        break;
      case Outcome::kPastCache:
        tell_past_cache(m_, shard_, *refusal.job, message_, arrival_.source);
        break;
      case Outcome::kStaleGeneration:
        if (message_.header.extended) break;
        tell_generation(m_, shard_, *refusal.job, message_, Reason::kStaleGeneration, arrival_);
        break;
      case Outcome::kFutureGeneration:
        tell_generation(m_, shard_, *refusal.job, message_, Reason::kFutureGeneration, arrival_);
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
  /// Stores the head for match_known_head(), which assumes that a contribution has one rank and is
  /// part of a sum.
  void remember() {
    if (job_->config.sources_are_aggregators || is_push()) return;
    job_->sources[source()].known_head.remember(message_bytes(m_, arrival_).data(), arrival_.size,
                                                message_.header.extended);
  }
  /// If no buffer is free, sends everything that waits, so that the cooling buffers become free.
  /// @return whether another try may succeed: buffers were freed, by this thread or by another.
  [[gnu::noinline, gnu::cold]] static bool free_cooling_buffers(M& m, BlockWindow& window) {
    if (!window.has_cooling()) return window.buffers_free() > 0;
    m.release_payload({});
    window.free_cooling();
    return true;
  }

  M& m_;
  Shard& shard_;
  Arrival arrival_;
  MessageHead message_;
  Job* job_ = nullptr;
  uint32_t epoch_ = 0;  ///< Epoch of the job's window; set by check_job().
  Contribution contribution_;
  Found found_;
  BlockWindow::Inserted inserted_{};
  Admission admission_ = Admission::kClosed;
  bool first_ = false;  ///< This thread made the block.
  bool final_ = false;  ///< This thread made its sum final.
};

}  // namespace tributary::trio_ml
