// SPDX-License-Identifier: Apache-2.0
// The session and the packets that arrive. The packets to send are in worker_packets.cc.
#include "host/trio_ml/worker_protocol.h"

#include <algorithm>

#include "base/assert.h"
#include "base/mutant.h"
#include "host/formats/number_format.h"
#include "host/trio_ml/tensor_terms.h"
#include "host/worker_recorder.h"

namespace tributary::host {

using wire::ElementFormat;
using wire::Message;
using wire::MessageType;
using wire::Reason;

namespace {

CommunicatorConfig with_source(CommunicatorConfig config) {
  if (!config.source) config.source = config.rank;
  return config;
}

}  // namespace

WorkerProtocol::WorkerProtocol(const CommunicatorConfig& config, uint64_t nonce, Instant now)
    : config_(with_source(config)),
      nonce_(nonce),
      join_(config_, now),
      repair_(now),
      codec_(config_.world),
      end_(config_),
      seals_(config_.auth, config_.job_id, /*lane=*/0),
      sent_at_(now),
      recorder_(config_.recorder == nullptr ? nullptr : config_.recorder->add_channel()),
      round_at_(now) {
  TRIB_ASSERT(nonce != 0);
}

// --- Driver ---

void WorkerProtocol::submit(Transfer& transfer, Instant now) {
  TRIB_ASSERT(transfer.elided_elements == 0 || transfer.format == ElementFormat::kInt32);
  TRIB_ASSERT(!transfer.owner || *transfer.owner < config_.world);
  transfer.done = false;
  transfer.outcome = Outcome{};
  if (end_.ended()) {
    transfer.outcome.status = end_.status();
    transfer.outcome.text = end_.text();
    transfer.done = true;
    return;
  }
  if (transfer.element_count() == 0) {
    transfer.done = true;
    return;
  }
  note_begin(transfer, now);
  stream_.submit(transfer);
  if (stream_.is_open()) repair_.scan_within_timeout(now);
}

void WorkerProtocol::leave(Instant) { end(closed()); }

void WorkerProtocol::on_time(Instant now) {
  begin_round(now);
  if (recorder_ != nullptr) recorder_->flush();
  check_aggregator(now);
  if (end_.ended()) return;
  if (!join_.joined()) {
    end_if(join_.check_deadline(now));
    if (end_.ended()) return;
    if (const auto notice = join_.take_notice(now); notice && config_.on_join_wait) {
      config_.on_join_wait(*notice);
    }
    return;
  }
  if (stream_.base() < stream_.next()) {
    const uint64_t oldest = stream_.base();
    end_if(end_.check_deadline({oldest, stream_.first_sent_at(oldest)}, repair_.last_heard_at(),
                               join_.terms(), now));
  }
  if (end_.ended()) return;
  announce_wait(now);
  record_stall(now);
  if (!end_.ended() && now >= repair_.next_scan()) {
    repair_.scan(stream_.base(), stream_.next(), now);
  }
}

void WorkerProtocol::on_refused(Instant now) {
  if (end_.ended()) return;
  // A living aggregator, too, is silent to a worker that asks nothing.
  const bool asks = !join_.joined() || (config_.repair && stream_.base() < stream_.next());
  if (!asks) return;
  refusals_.on_refused(repair_.last_heard_at(), now);
  check_aggregator(now);
}

Instant WorkerProtocol::refused_until() const {
  return refusals_.ends_at(repair_.last_heard_at(),
                           join_.joined() ? kRefusedSessionFor : config_.server_wait);
}

Instant WorkerProtocol::reset_until() const {
  return resets_.ends_at(repair_.last_heard_at(), kRefusedSessionFor);
}

std::optional<Duration> WorkerProtocol::silent_limit() const {
  if (!join_.joined()) {
    return config_.from_directory ? std::optional(kSilentListedFor) : std::nullopt;
  }
  if (config_.server_silent || config_.aggregators.size() <= 1) return config_.server_silent;
  return kSilentSessionFor;
}

/// Records a question that a living aggregator answers at once.
void WorkerProtocol::note_question(Instant now) {
  const Instant heard_at = repair_.last_heard_at();
  if (const auto limit = silent_limit()) silence_.on_asked(heard_at, *limit, now);
  announced_silence_.on_asked(heard_or_resumed_at(), kSilenceAnnouncedAfter, now);
}

Instant WorkerProtocol::silent_until() const {
  const auto limit = silent_limit();
  return limit ? silence_.ends_at(repair_.last_heard_at(), *limit) : Instant::never();
}

/// Ends the session or the join if the aggregator is lost.
void WorkerProtocol::check_aggregator(Instant now) {
  const bool waits = !join_.joined() || stream_.base() < stream_.next();
  if (end_.ended() || !waits) return;
  if (now >= refused_until()) return end(nothing_listens(config_.server));
  if (now >= reset_until()) return end(session_lost(config_.server));
  if (now < silent_until()) return;
  const Duration silent_for = now - silence_.silent_since();
  end(join_.joined() ? aggregator_silent(config_.server, silent_for)
                     : no_answer(config_.server, silent_for));
}

void WorkerProtocol::on_closed() {
  if (!end_.ended()) end(connection_closed(config_.server));
}

Instant WorkerProtocol::next_deadline() const {
  if (end_.ended()) return end_.next_leave();
  if (!join_.joined()) {
    return std::min({join_.next_deadline(), refused_until(), silent_until()});
  }
  Instant next = std::min({repair_.next_scan(), sent_at_ + kKeepAliveEvery, report_at_});
  if (stream_.base() < stream_.next()) {
    next = std::min(next, end_.deadline_of(stream_.first_sent_at(stream_.base())));
    next = std::min({next, refused_until(), reset_until(), silent_until(), stall_at()});
    if (config_.on_event) next = std::min(next, announce_at());
  }
  return next;
}

uint32_t WorkerProtocol::packet_bytes_max() const {
  return std::max(wire::kControlMessageBytes,
                  wire::head_bytes_max(config_.auth.mode) + gradients() * wire::kGradientBytes);
}

void WorkerProtocol::end(EndReason reason) {
  if (end_.ended()) return;
  end_.end(std::move(reason), /*sends_leaves=*/!join_.is_refused());
  if (report_at_ != Instant::never()) report_at_ = Instant();  // The last one goes at once.
  stream_.end_all(end_.status(), end_.text());
  repair_.clear();
  record_change(recorder::Kind::kSessionEnded, static_cast<uint8_t>(end_.status()));
}

void WorkerProtocol::record_change(recorder::Kind kind, uint8_t detail) {
  if (recorder_ == nullptr) return;
  recorder_->note({.kind = kind,
                   .detail = detail,
                   .job = config_.job_id,
                   .rank = static_cast<uint16_t>(config_.rank)},
                  round_at_);
}

void WorkerProtocol::end_if(std::optional<EndReason> reason) {
  if (reason) end(*std::move(reason));
}

/// Ends the session if the aggregator above this one has been silent for the limit, and a tensor
/// waits for it.
void WorkerProtocol::end_if_upper_is_lost(const wire::ControlBody& notice) {
  const auto limit = silent_limit();
  const Duration silent_for = microseconds(notice.timeout_us);
  if (!limit || silent_for < *limit || stream_.base() == stream_.next()) return;
  end(upper_aggregator_silent(config_, notice.group, silent_for));
}

// --- Received packets ---

std::optional<Duration> WorkerProtocol::on_packet(std::span<const std::byte> payload, Instant now) {
  begin_round(now);
  Message message;
  const auto head = payload.first(std::min<size_t>(payload.size(), wire::kControlMessageBytes));
  if (decode_message(head, static_cast<uint32_t>(payload.size()), message) !=
          wire::DecodeStatus::kOk ||
      !message.header.extended || message.header.job_id != config_.job_id) {
    counters_.invalid_packets++;
    if (const auto version = wire::other_version(head)) join_.note_other_version(*version);
    return {};
  }
  if (!is_for_this_session(message)) {
    if (!end_.ended()) counters_.invalid_packets++;
    return {};
  }
  // A late copy of a reply to the join. Anybody can have recorded it, so it is no sign of life.
  if (is_join_reply(message.extension.type) && join_.joined()) return {};
  if (!opens(message, payload, now)) {
    if (is_unsealed_reset(message)) {
      resets_.on_refused(repair_.last_heard_at(), now);
      check_aggregator(now);
    }
    return {};
  }
  counters_.packets_received++;
  repair_.on_heard(now);
  switch (message.extension.type) {
    case MessageType::kCookie:
    case MessageType::kWelcome:
    case MessageType::kPending:
    case MessageType::kRefusal:
      on_join_reply(message, now);
      break;
    case MessageType::kResult:
    case MessageType::kReceipt:
      stream_.hear_result(message.header.block_id);
      return on_result(message, payload, now);
    case MessageType::kHave:
      on_have(message, now);
      break;
    case MessageType::kNotice:
      on_notice(message, now);
      break;
    case MessageType::kReset:
      end(session_lost(config_.server));
      break;
    default:
      counters_.invalid_packets++;
  }
  return {};
}

bool WorkerProtocol::is_for_this_session(const Message& message) const {
  if (end_.ended()) return false;
  const MessageType type = message.extension.type;
  const uint64_t key = message.extension.key;
  if (is_join_reply(type)) return key == nonce_;
  if (!join_.joined()) return false;
  // A reset repeats the key of this worker's message, and names its source.
  if (type == MessageType::kReset) {
    return (key == join_.terms().key || TRIB_MUTANT(kResetUnchecked)) &&
           message.header.src_id == *config_.source;
  }
  if (is_for_another_source(message)) return false;
  return key == join_.terms().result_key ||
         (TRIB_MUTANT(kForeignSessionResult) && type == MessageType::kResult);
}

/// Tells whether a message of a sealed session is another member's. All members open the
/// aggregator's seals, so anybody can pass such a message on to this one.
bool WorkerProtocol::is_for_another_source(const Message& message) const {
  if (!seals_.is_sealed() || message.header.src_id == *config_.source) return false;
  const bool is_answer = config_.asynchronous && join_.terms().names_receiver &&
                         message.extension.type == MessageType::kResult;
  return is_answer || is_for_one_source(message);
}

/// Tells whether the message is a reset without a seal. An aggregator sends one after a restart
/// without the job, whose secret it needs for a seal. Any observer of this worker's packets can
/// forge one.
bool WorkerProtocol::is_unsealed_reset(const Message& message) {
  return message.extension.type == MessageType::kReset &&
         wire::seal_mode(message.extension.flags) == auth::Mode::kNone;
}

/// Checks the seal of a message. Counts a message that it refuses.
bool WorkerProtocol::opens(const Message& message, std::span<const std::byte> payload,
                           Instant now) {
  const MessageType type = message.extension.type;
  const auth::Mode mode = wire::seal_mode(message.extension.flags);
  if (!seals_.is_sealed() && mode == auth::Mode::kNone) return true;
  // An aggregator with another mode or secret cannot seal its refusal, so take this one unsealed.
  if (message.body.reason == Reason::kAuthentication && type == MessageType::kRefusal &&
      (!seals_.is_sealed() || join_.believes_unsealed(now) || TRIB_MUTANT(kUnsealedBelieved))) {
    return true;
  }
  const auto head = payload.first(message.head_bytes);
  const bool lasting = is_join_reply(type) || type == MessageType::kReset;
  auto status = auth::OpenStatus::kForged;
  if (mode != (lasting && seals_.is_sealed() ? auth::Mode::kHeader : seals_.mode())) {
    status = auth::OpenStatus::kForged;
  } else if (is_join_reply(type)) {
    if (seals_.opens_join_reply(head)) {
      status = auth::OpenStatus::kOpened;
      join_.vouch();
    }
  } else if (type == MessageType::kReset) {
    if (seals_.opens_reset(head)) status = auth::OpenStatus::kOpened;
  } else {
    status = seals_.open(head, payload.subspan(message.head_bytes));
  }
  if (status == auth::OpenStatus::kForged) counters_.forged_packets++;
  if (status == auth::OpenStatus::kReplayed) counters_.replayed_packets++;
  return status == auth::OpenStatus::kOpened;
}

void WorkerProtocol::on_join_reply(const Message& message, Instant now) {
  switch (join_.on_reply(message, now)) {
    case SessionJoin::Reply::kWaits:
      break;
    case SessionJoin::Reply::kWelcomed:
      begin_session(now);
      break;
    case SessionJoin::Reply::kRedirected:
      end(other_list(config_));
      break;
    case SessionJoin::Reply::kRefused:
      end(refused(config_, gradients(), message.body));
      break;
  }
}

void WorkerProtocol::begin_session(Instant now) {
  const SessionTerms& terms = join_.terms();
  record_change(recorder::Kind::kSessionStarted);
  seals_.start(terms.salt);
  codec_.open(terms.gradients, terms.narrow_gradients);
  repair_.open({.window = terms.window,
                .enabled = config_.repair,
                .straggler_timeout = terms.straggler_timeout});
  stream_.open(terms.window, terms.gradients, terms.narrow_gradients);
  if (!stream_.idle()) repair_.scan_within_timeout(now);
  // Mitigation begins when the aggregator knows that every rank was welcomed: a keep-alive is due.
  sent_at_ = now - kKeepAliveEvery;
  if (terms.reports) report_at_ = now + kReportEvery;
}

std::optional<Duration> WorkerProtocol::on_result(const Message& message,
                                                  std::span<const std::byte> payload, Instant now) {
  const auto position = stream_.position_of(message.header.block_id);
  if (!position || (stream_.is_done(*position) && !TRIB_MUTANT(kResultTakenTwice))) {
    counters_.duplicate_results++;
    return {};
  }
  const StreamWindow::Contents contents = stream_.contents(*position);
  const wire::TensorTerms terms = terms_of(*contents.transfer);
  const bool fits = message.header.grad_cnt == contents.lane_count &&
                    message.header.gen_id == contents.gen_id &&
                    message.extension.format == terms.format &&
                    message.extension.tensor_elements == terms.tensor_elements &&
                    // This rank cannot read a sum of another scale.
                    message.extension.scale_bits == terms.scale_bits;
  if (!fits && !TRIB_MUTANT(kResultUnchecked)) {
    counters_.invalid_packets++;
    // The others completed another tensor without this rank, and nobody else reports that.
    if (message.header.degraded && !contains(message.mask, config_.rank) &&
        message.header.gen_id == contents.gen_id) {
      end_if(end_.on_other_tensor(*position, message, terms, repair_.sent_at(*position), now));
    }
    return {};
  }
  const Transfer& transfer = *contents.transfer;
  const bool owned = !transfer.owner || *transfer.owner == config_.rank;
  if ((owned || TRIB_MUTANT(kReceiptIgnored)) && message.extension.type == MessageType::kReceipt) {
    counters_.invalid_packets++;
    return {};
  }
  const bool takes =
      owned || (TRIB_MUTANT(kOthersSumTaken) && message.extension.type == MessageType::kResult);
  return take_result(*position, contents, message,
                     takes ? payload.data() + message.head_bytes : nullptr, now);
}

/// @param lanes  Null if another rank owns the result: this rank's tensor stays as it is.
/// @return the time since the position was first sent.
Duration WorkerProtocol::take_result(uint64_t position, const StreamWindow::Contents& contents,
                                     const Message& message, const std::byte* lanes, Instant now) {
  Transfer& transfer = *contents.transfer;
  const bool dropped = TRIB_MUTANT(kExponentDropped) && repair_.attempts(position) > 1;
  repair_.on_result(position, now);
  counters_.blocks++;

  if (config_.asynchronous) {
    const uint32_t pushes = wire::pushes_of(message);
    const uint32_t others = pushes == 0 ? 0 : pushes - 1;
    transfer.outcome.staleness.pushes_sum += others;
    transfer.outcome.staleness.pushes_max = std::max(transfer.outcome.staleness.pushes_max, others);
  }
  const bool degraded = message.header.degraded;
  record(degraded ? recorder::Kind::kDegradedResult : recorder::Kind::kResult, position);
  if (permanent_.ranks() != SourceSet{}) [[unlikely]] {
    const SourceSet before = permanent_.ranks();
    permanent_.on_result(degraded, message.mask);
    announce_stragglers(before);
  }
  if (contents.has_exponent && !dropped) {
    stream_.set_exponent(position, message.extension.exponent, degraded);
  }
  if ((message.extension.flags & wire::kFlagNotFinite) != 0) {
    transfer.outcome.status = Status::kNotFinite;
  } else if ((message.extension.flags & wire::kFlagOverflow) != 0 &&
             transfer.outcome.status == Status::kOk) {
    transfer.outcome.status = Status::kOverflow;
  }
  if (contents.lane_count > 0) {
    if (lanes != nullptr) {
      counters_.bytes +=
          contents.lane_count * (transfer.halves.bits.empty() ? sizeof(float) : sizeof(uint16_t));
    }
    const uint64_t block = contents.gradient_block;
    const bool imprecise = (message.extension.flags & wire::kFlagImprecise) != 0;
    if ((degraded || imprecise) && !TRIB_MUTANT(kDegradedUnsaid)) {
      counters_.degraded_blocks++;
      transfer.outcome.degraded.push_back(
          {.element_first = block * transfer.block_elements(),
           .element_count = message.header.grad_cnt,
           .sources = degraded ? message.mask : ranks_below(config_.world),
           .imprecise = imprecise});
    }
    if (lanes == nullptr) {
      // Only the outcome is this rank's.
    } else if ((message.extension.flags & wire::kFlagNotFinite) != 0) {
      codec_.spoil(transfer, block);
    } else if (transfer.elided_elements == 0) {
      const uint32_t sources =
          message.header.src_cnt == 0 ? wire::kSourcesMax : message.header.src_cnt;
      codec_.read(transfer, block, StreamWindow::exponent(transfer, block).exponent, sources,
                  lanes);
    }
  }
  const Duration age = now - stream_.first_sent_at(position);
  if (Transfer* last = stream_.finish(position)) complete(*last);
  return age;
}

/// Completes the outcome. The owner may free the transfer as soon as it is `done`.
void WorkerProtocol::complete(Transfer& transfer) {
  Outcome& outcome = transfer.outcome;
  std::sort(outcome.degraded.begin(), outcome.degraded.end(),
            [](const DegradedRange& a, const DegradedRange& b) {
              return a.element_first < b.element_first;
            });
  if (outcome.status == Status::kOverflow) {
    outcome.text = overflow_text(transfer.format, transfer.scale, config_.world);
  } else if (outcome.status == Status::kNotFinite) {
    outcome.text = not_finite_text();
  }
  announce_degraded(transfer);
  transfer.done = true;
}

void WorkerProtocol::on_have(const Message& message, Instant now) {
  const auto position = stream_.position_of(message.header.block_id);
  if (!position || (stream_.is_done(*position) && !TRIB_MUTANT(kHaveAfterResult))) return;
  const wire::ControlBody& body = message.body;
  const bool receive_only = stream_.contents(*position).transfer->receive_only;
  end_.note_have(*position, stream_.base(), body.mask, body.upstream, receive_only);
  const bool withheld = stream_.is_withheld(*position) && may_withhold(*position, now);
  const bool contributes = !receive_only && !withheld;
  const bool lost = contributes && !contains(body.mask, *config_.source);
  if ((message.extension.flags & wire::kFlagRun) == 0) {
    repair_.on_have(*position, lost, now);
    return;
  }
  repair_.on_have_run(*position, lost,
                      {message.extension.tensor_elements, body.present, body.complete},
                      stream_.next(), now);
}

void WorkerProtocol::on_notice(const Message& notice, Instant now) {
  record_change(recorder::Kind::kNoticed, static_cast<uint8_t>(notice.body.reason));
  if (notice.body.reason == Reason::kUpstreamSilent) {
    end_.note_upper_silent(notice.body, now);
    return end_if_upper_is_lost(notice.body);
  }
  auto position = stream_.position_of(notice.header.block_id);
  if (position && stream_.is_done(*position)) position.reset();
  std::optional<uint64_t> oldest;
  if (stream_.base() < stream_.next()) oldest = stream_.base();
  const SourceSet permanent = permanent_.ranks();
  permanent_.on_notice(notice.body, join_.terms().rank_base);
  announce_stragglers(permanent);
  end_if(end_.on_notice(notice, position, oldest, join_.terms()));
}

}  // namespace tributary::host
