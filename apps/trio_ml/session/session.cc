// SPDX-License-Identifier: Apache-2.0
#include "apps/trio_ml/session/session.h"

#include <algorithm>
#include <array>
#include <bit>
#include <utility>

#include "base/byte_order.h"
#include "base/mutant.h"
#include "wire/receive_room.h"

namespace tributary::trio_ml {

using wire::MessageType;
using wire::Reason;

namespace {

/// Stands for the time of a first message that has not arrived.
constexpr int64_t kNotHeard = INT64_MAX;

/// Returns the smaller of two requested values; 0 means no request.
uint32_t least_wish(uint32_t a, uint32_t b) { return a == 0 || (b != 0 && b < a) ? b : a; }

}  // namespace

Session::Session(const JobConfig& config, const auth::Key256& root)
    : config_(config), root_(root), cookies_(root) {
  // Starts at a number of its own, so that a restarted server's sessions have other numbers.
  sessions_started_ = static_cast<uint32_t>(auth::derive_u64(root, "first session", {}));
  upstream_nonce_ = next_upstream_nonce();
  if (config.auth.mode != auth::Mode::kNone) {
    const std::array<uint64_t, 2> context{config.id, config.aggregator_id};
    issuing_ = auth::first_half(auth::derive(config.auth.key, "issued keys", context));
  }
}

uint64_t Session::key_of(uint32_t source, uint32_t number) const {
  const std::array<uint64_t, 3> context{config_.id, number,
                                        TRIB_MUTANT(kKeyForAnySource) ? 0 : source};
  const uint64_t key = auth::derive_u64(root_, "source key", context);
  if (!issuing_) return key;
  // Not 0: the key in a session differs from that of no session.
  const uint32_t upper_half = std::max(static_cast<uint32_t>(key >> 32U), 1U);
  return uint64_t{upper_half} << 32U | tag_of_key(upper_half);
}

uint32_t Session::tag_of_key(uint32_t upper_half) const {
  std::array<std::byte, sizeof(upper_half)> bytes;
  store_be(bytes.data(), upper_half);
  return static_cast<uint32_t>(auth::siphash(*issuing_, bytes));
}

bool Session::may_have_issued(uint64_t key) const {
  return !issuing_ || tag_of_key(static_cast<uint32_t>(key >> 32U)) == static_cast<uint32_t>(key);
}

uint64_t Session::result_key(uint32_t number) const {
  const std::array<uint64_t, 2> context{config_.id, number};
  return auth::derive_u64(root_, "result key", context);
}

auth::Salt Session::salt(uint32_t number) const {
  const std::array<uint64_t, 2> context{config_.id, number};
  return {auth::derive_u64(root_, "salt high", context),
          auth::derive_u64(root_, "salt low", context)};
}

bool Session::note_join_sequence(uint32_t source, uint64_t nonce, uint64_t sequence) {
  if (source >= config_.sources) return true;  // join() refuses it.
  Member& member = members_[source];
  Joiner& joiner = member.holder.nonce == nonce ? member.holder : member.candidate;
  const auto past = std::ranges::find(member.past, nonce, &Joiner::nonce);
  if (joiner.nonce != nonce && past != member.past.end()) {
    if (sequence <= past->sequence) return false;
    std::swap(*past, joiner);  // It still asks, after another worker that came later.
  }
  if (joiner.nonce == nonce && sequence <= joiner.sequence) return false;
  if (joiner.nonce != nonce) remember_past(member, joiner);
  joiner = {nonce, sequence};
  return true;
}

void Session::take_place(Member& member, uint64_t nonce) {
  if (member.holder.nonce == nonce) return;
  remember_past(member, member.holder);
  member.holder = {nonce, 0};
  if (member.candidate.nonce == nonce) std::swap(member.holder, member.candidate);
  member.candidate = {};
}

void Session::remember_past(Member& member, const Joiner& joiner) {
  if (joiner.nonce != 0) member.past[member.past_count++ % member.past.size()] = joiner;
}

uint64_t Session::next_upstream_nonce() {
  const std::array<uint64_t, 2> context{config_.id, ++upstream_joins_};
  return auth::derive_u64(root_, "upstream nonce", context);
}

void Session::heard(uint32_t source, Instant now) {
  // Relaxed: a rough time that is compared with seconds. It publishes no other data.
  auto& ticks = heard_ticks_[source];
  const int64_t now_ticks = now.since_start().ticks();
  if (now_ticks - ticks.load(std::memory_order_relaxed) > kHeardPeriod.ticks() &&
      !TRIB_MUTANT(kHeardForgotten)) {
    ticks.store(now_ticks, std::memory_order_relaxed);
  }
  auto& first_ticks = first_heard_ticks_[source];
  if (first_ticks.load(std::memory_order_relaxed) == kNotHeard) [[unlikely]] {
    first_ticks.store(now_ticks, std::memory_order_relaxed);
  }
}

bool Session::all_present_for(Duration length, Instant now) const {
  if (number() == 0) return true;  // Plain packets: no source has joined.
  const int64_t latest = (now - length).since_start().ticks();
  for (uint32_t source = 0; source < config_.sources; source++) {
    // Relaxed: a value that is a few scans old will do.
    const int64_t first_ticks = first_heard_ticks_[source].load(std::memory_order_relaxed);
    if (first_ticks > latest && !is_gone(source, now)) return false;  // True for kNotHeard.
  }
  return true;
}

bool Session::is_gone(uint32_t source, Instant now) const {
  if (has_left(source)) return true;
  const int64_t silent =
      now.since_start().ticks() - heard_ticks_[source].load(std::memory_order_relaxed);
  return silent > config_.silent_after.ticks();
}

SourceMask Session::ranks_of(uint32_t source) const {
  SourceMask ranks{};
  if (!config_.sources_are_aggregators) {
    include(ranks, config_.rank_base + source);
    return ranks;
  }
  for (uint32_t i = 0; i < ranks.size(); i++) {
    ranks[i] = ranks_[source][i].load(std::memory_order_relaxed);
  }
  return ranks;
}

SourceMask Session::ranks_below() const {
  SourceMask ranks{};
  for (uint32_t source = 0; source < config_.sources; source++) {
    const SourceMask some = ranks_of(source);
    for (uint32_t i = 0; i < ranks.size(); i++) ranks[i] |= some[i];
  }
  return ranks;
}

bool Session::nobody_left(Instant now) const {
  for (uint32_t source = 0; source < config_.sources; source++) {
    if (!is_gone(source, now)) return false;
  }
  return true;
}

bool Session::all_have_left() const {
  for (uint32_t source = 0; source < config_.sources; source++) {
    if (!has_left(source)) return false;
  }
  return true;
}

bool Session::is_in_use(Instant now) const { return number() != 0 && !nobody_left(now); }

/// Tells whether a worker has sent a join lately.
bool Session::is_fresh(uint32_t source, Instant now) const {
  const Member& member = members_[source];
  return member.pending_nonce != 0 && now - member.pending_at <= kJoinFreshFor;
}

bool Session::is_pending(uint32_t source, Instant now) const {
  return is_fresh(source, now) && !members_[source].list_refused;
}

bool Session::all_pending(Instant now) const {
  const uint32_t left_out = TRIB_MUTANT(kStartsWithoutLast) ? 1 : 0;
  for (uint32_t source = 0; source + left_out < config_.sources; source++) {
    if (!is_pending(source, now)) return false;
  }
  return true;
}

bool Session::all_confirmed() const {
  for (uint32_t source = 0; source < config_.sources; source++) {
    if (!members_[source].confirmed && !TRIB_MUTANT(kStartsUnconfirmed)) return false;
  }
  return true;
}

bool Session::has_plain_clients(Instant now) const {
  // Relaxed: see heard_plain().
  const int64_t ticks = plain_ticks_.load(std::memory_order_relaxed);
  return ticks != INT64_MIN && now.since_start().ticks() - ticks <= kSilentAfter.ticks();
}

Session::JoinAnswer Session::refusal(Reason reason, uint32_t value) const {
  JoinAnswer answer{.reply = MessageType::kRefusal, .body = {}};
  answer.body.reason = reason;
  answer.body.value = value;
  return answer;
}

Session::JoinAnswer Session::pending(Reason reason, Instant now) const {
  JoinAnswer answer{.reply = MessageType::kPending, .body = {}};
  answer.body.reason = reason;
  answer.body.sources = static_cast<uint16_t>(config_.sources);
  answer.body.value = config_.rank_base;
  for (uint32_t source = 0; source < config_.sources; source++) {
    if (is_pending(source, now)) include(answer.body.mask, source);
  }
  return answer;
}

std::optional<Session::JoinAnswer> Session::refusal_of(uint32_t source,
                                                       const wire::ControlBody& request,
                                                       Instant now) const {
  if (source >= config_.sources) return refusal(Reason::kSourceOutsideJob, config_.sources);
  if (request.sources != 0 && request.sources != config_.ranks()) {
    return refusal(Reason::kWrongWorld, config_.ranks());
  }
  if (const auto rank = overlapping_rank(source, request.mask, now)) {
    return refusal(Reason::kRanksOverlap, *rank);
  }
  if (config_.clients == Clients::kPlain) return refusal(Reason::kPlainClients, 0);
  if (request.asynchronous != config_.asynchronous) {
    return refusal(Reason::kOtherTraining, config_.asynchronous ? 1 : 0);
  }
  if (request.gradients_max != 0 && request.gradients_max < gradients_min(config_)) {
    return refusal(Reason::kTooFewGradients, gradients_min(config_));
  }
  // A lower aggregator forwards its workers' request, and its welcome lowers the value for them.
  if (request.gradients_max > config_.block_grad_max && !config_.sources_are_aggregators) {
    return refusal(Reason::kTooManyGradients, config_.block_grad_max);
  }
  return std::nullopt;
}

void Session::store_request(Member& member, const wire::Message& message, const Endpoint& from,
                            Instant now) {
  const uint32_t source = message.header.src_id;
  const uint64_t nonce = message.extension.key;
  const wire::ControlBody& request = message.body;
  take_place(member, nonce);
  if (member.pending_nonce != nonce) {
    confirming_ = false;
    lists_differ_since_ = Instant::never();
  }
  member.pending_nonce = nonce;
  member.pending_at = now;
  member.pending_window = request.window;
  member.pending_gradients_max = request.gradients_max;
  member.pending_narrow_max = request.narrow_max;
  member.pending_channels = request.channels;
  member.pending_list = request.list_digest;
  if (config_.asynchronous) member.pending_share = request.share;
  member.list_refused = false;
  for (uint32_t i = 0; i < request.mask.size(); i++) {
    ranks_[source][i].store(request.mask[i], std::memory_order_relaxed);
  }
  takes_receipts_[source].store(request.receipts, std::memory_order_relaxed);
  member.address = from;
}

Session::JoinAnswer Session::join(const wire::Message& message, const Endpoint& from, Instant now) {
  const uint32_t source = message.header.src_id;
  const uint64_t nonce = message.extension.key;
  const wire::ControlBody& request = message.body;
  if (const auto refused = refusal_of(source, request, now)) return *refused;

  Member& member = members_[source];
  if (member.list_refused && member.pending_nonce == nonce) {
    return refusal(Reason::kListsDiffer, other_list_);
  }
  const bool running = number() != 0;
  const bool known = member.nonce == nonce && !TRIB_MUTANT(kWelcomeOnce);
  if (running &&
      (known || TRIB_MUTANT(kNonceIgnored))) {  // Its welcome was lost, or its address changed.
    member.address = from;
    JoinAnswer answer{.reply = MessageType::kWelcome, .body = welcome_body(source)};
    return answer;
  }
  if (draining_) return refusal(Reason::kJobRemoved, 0);
  if (const auto redirected = redirect(request, now)) {
    if (redirected->reply == MessageType::kRefusal) static_cast<void>(withdraw(source, nonce));
    return *redirected;
  }
  if (running && !is_gone(source, now)) return pending(Reason::kRankTaken, now);
  if (!running && member.pending_nonce != nonce && is_pending(source, now)) {
    return pending(Reason::kRankTaken, now);
  }
  if (!running && has_plain_clients(now)) return pending(Reason::kPlainClients, now);
  if (running) left_[source].store(true, std::memory_order_relaxed);  // Replaced by this newcomer.

  store_request(member, message, from, now);
  if (running && !expire(now)) return pending(Reason::kSessionRunning, now);
  return start_or_wait(source, now);
}

/// Answers a pending source: starts the session if all sources are pending and confirmed.
Session::JoinAnswer Session::start_or_wait(uint32_t source, Instant now) {
  if (!all_pending(now)) {
    confirming_ = false;
    return pending(Reason::kWaitingForPeers, now);
  }
  const bool newly = !confirming_;
  if (newly) {
    for (Member& each : members_) each.confirmed = false;
    confirming_ = true;
  }
  members_[source].confirmed = true;
  if (!all_confirmed()) {
    JoinAnswer answer = pending(Reason::kConfirm, now);
    answer.to_all_pending = newly;
    return answer;
  }
  // Not earlier: the list of a worker that has died must not count.
  if (const auto refused = refuse_other_list(now)) return *refused;

  if (config_.upstream.is_set()) return ask_upstream(now);
  start(now);
  JoinAnswer answer{.reply = MessageType::kWelcome, .body = welcome_body(source), .started = true};
  return answer;
}

uint32_t Session::least_pending_window() const {
  uint32_t least = 0;
  for (uint32_t source = 0; source < config_.sources; source++) {
    least = least_wish(least, members_[source].pending_window);
  }
  return least;
}

uint32_t Session::least_pending_gradients_max() const {
  uint32_t least = 0;
  for (uint32_t source = 0; source < config_.sources; source++) {
    least = least_wish(least, members_[source].pending_gradients_max);
  }
  return least;
}

/// Returns the most 16-bit gradients of a packet that this aggregator and those below it take; 0 if
/// one of them takes none.
uint32_t Session::narrow_max_below() const {
  uint32_t least = config_.block_grad_max;
  if (!config_.sources_are_aggregators) return least;
  for (uint32_t source = 0; source < config_.sources; source++) {
    least = std::min(least, members_[source].pending_narrow_max);
  }
  return least;
}

uint8_t Session::least_pending_channels() const {
  uint8_t least = UINT8_MAX;
  for (uint32_t source = 0; source < config_.sources; source++) {
    least = std::min(least, members_[source].pending_channels);
  }
  return least;
}

uint32_t Session::gradients_limit() const {
  return least_wish(config_.block_grad_max, config_.upstream_grad_max);
}

wire::ControlBody Session::upstream_request() const {
  wire::ControlBody body;
  body.sources = static_cast<uint16_t>(config_.ranks());
  body.key = upstream_cookie_;
  body.value = static_cast<uint32_t>(config_.auth.mode);
  body.gradients_max = least_wish(gradients_limit(), least_pending_gradients_max());
  const uint32_t room =
      wire::window_in_room(config_.room_bytes, body.gradients_max, config_.sources);
  body.window = least_wish(least_wish(config_.block_cnt_max, room), least_pending_window());
  body.channels =
      static_cast<uint8_t>(std::min<uint32_t>(config_.channels, least_pending_channels()));
  body.narrow_max = narrow_max_below();
  body.receipts = all_take_receipts();
  body.mask = ranks_below();
  body.list_digest = members_[0].pending_list;
  return body;
}

void Session::start(Instant now) {
  agreed_window_ = least_pending_window();
  agreed_gradients_max_ = least_pending_gradients_max();
  agreed_narrow_max_ = narrow_max_below();
  agreed_channels_ = least_pending_channels();
  agreed_share_ = members_[0].pending_share;
  for (uint32_t source = 0; source < config_.sources; source++) {
    Member& member = members_[source];
    member.nonce = member.pending_nonce;
    member.pending_nonce = 0;
    member.confirmed = false;
    if (!TRIB_MUTANT(kGoneStaysGone)) left_[source].store(false, std::memory_order_relaxed);
    lost_aggregators_[source].store(0, std::memory_order_relaxed);
    first_heard_ticks_[source].store(kNotHeard, std::memory_order_relaxed);
    heard_ticks_[source].store(now.since_start().ticks(), std::memory_order_relaxed);
    note_contribution(source, now);
    permanent_[source].store(0, std::memory_order_relaxed);
  }
  confirming_ = false;
  sessions_started_ = std::max(sessions_started_ + 1, 1U);
  // Release: a shard that sees the new number also sees the members above.
  number_.store(sessions_started_, std::memory_order_release);
}

wire::ControlBody Session::welcome_body(uint32_t source) const {
  wire::ControlBody body;
  body.source = static_cast<uint8_t>(source);
  body.sources = static_cast<uint16_t>(config_.sources);
  body.gradients_max =
      least_wish(gradients_limit(), least_wish(upstream_gradients_max_, agreed_gradients_max_));
  const uint32_t room =
      wire::window_in_room(config_.room_bytes, body.gradients_max, config_.sources);
  body.window = least_wish(least_wish(config_.block_cnt_max, room),
                           least_wish(upstream_window_, agreed_window_));
  body.job_window = config_.block_cnt_max;
  if (config_.asynchronous) {
    // At most one push of a source to each block is under way.
    const uint64_t blocks = (config_.parameters + body.gradients_max - 1) / body.gradients_max;
    const uint64_t kept = std::max<uint64_t>(wire::blocks_of(agreed_share_, blocks).count(), 1);
    body.window = static_cast<uint32_t>(std::min<uint64_t>(body.window, kept));
    body.share = agreed_share_;
  }
  const uint32_t above = config_.upstream.is_set() ? upstream_narrow_max_ : agreed_narrow_max_;
  body.narrow_max = std::min({agreed_narrow_max_, above, 2 * body.gradients_max});
  if (config_.mitigation) {
    body.timeout_us = static_cast<uint32_t>(in_microseconds(config_.timeout));
  }
  body.channels =
      static_cast<uint8_t>(std::min({config_.channels, agreed_channels_, upstream_channels_}));
  body.port_bits = static_cast<uint8_t>(std::countr_zero(config_.ports));
  body.value = config_.rank_base;
  body.key = key_of(source, number());
  body.result_key = result_key(number());
  if (config_.auth.mode != auth::Mode::kNone) {
    const auth::Salt session_salt = salt(number());
    body.salt_high = session_salt.high;
    body.salt_low = session_salt.low;
  }
  body.group = config_.group;
  body.reports = config_.reports;
  body.names_receiver = true;
  return body;
}

Session::Withdrawal Session::withdraw(uint32_t source, uint64_t nonce) {
  Member& member = members_[source];
  if (nonce != 0 && member.pending_nonce == nonce) {
    member.pending_nonce = 0;
    confirming_ = false;
    return Withdrawal::kPending;
  }
  // It was welcomed, but the welcome was lost.
  return number() != 0 && member.nonce == nonce ? Withdrawal::kMember : Withdrawal::kUnknown;
}

bool Session::leave(uint32_t source, uint32_t lost_aggregator) {
  if (!TRIB_MUTANT(kLossForgotten)) {
    lost_aggregators_[source].store(lost_aggregator, std::memory_order_relaxed);
  }
  left_[source].store(true, std::memory_order_relaxed);
  if (!all_have_left()) return false;
  end();
  return true;
}

bool Session::was_member(uint32_t source, uint64_t key) const {
  return key == key_of(source, number() == 0 ? sessions_started_ : sessions_started_ - 1);
}

bool Session::expire(Instant now) {
  const bool waits = config_.on_silence() == Silence::kWait;
  const bool over = waits ? all_have_left() : nobody_left(now);
  if (number() == 0 || !over || TRIB_MUTANT(kSessionNeverEnds)) return false;
  end();
  return true;
}

void Session::end() {
  number_.store(0, std::memory_order_release);
  upstream_key_.store(0, std::memory_order_release);
  upstream_nonce_ = next_upstream_nonce();
  upstream_cookie_ = 0;
  upstream_first_asked_at_ = Instant::never();
  upstream_reply_sealed_ = false;
  upstream_watch_.restart();
}

}  // namespace tributary::trio_ml
