// SPDX-License-Identifier: Apache-2.0
/// @file
/// The thread of a contribution to an asynchronous job (a push), and of a probe about one. The rest
/// of a session is as in a synchronous job: control.h.
///
/// Model:    Adds a push at once and answers its sender alone, with the block's value. Until source
///           0 has pushed the initial values, answers wait; a probe is answered with a kHave.
/// Contract: One XTXN adds a push. Only a machine that has the whole packet at hand serves it.
/// Tests:    tests/apps/trio_ml/asynchronous/asynchronous_test.cc
#pragma once

#include <optional>

#include "apps/arrival.h"
#include "apps/trio_ml/asynchronous/parameter_store.h"
#include "apps/trio_ml/emit.h"
#include "apps/trio_ml/session/control.h"
#include "apps/trio_ml/shard.h"

namespace tributary::trio_ml {

using Place = ParameterStore::Place;

/// Checks a push against the job's parameters and against the terms of the session's first push.
[[nodiscard]] Verdict check_push(const Job& job, const MessageHead& push);

/// Records that the push is added: the session's first one sets the terms for all others.
void note_terms(ParameterStore& store, const MessageHead& push);

/// Writes the head of an answer in front of its lanes. @return the whole message.
[[nodiscard]] std::span<const std::byte> build_answer(Job& job, uint32_t source,
                                                      const Place& place);

/// Returns the record for a kHave about a push. A push that has arrived waits for source 0.
[[nodiscard]] BlockRecord waiting_block(const Job& job, bool has_push);

/// Sends the block's value to a source.
template <microcode::Machine M>
void send_value(M& m, Shard& shard, Job& job, uint32_t source, const Place& place) {
  ParameterStore& store = *job.parameters;
  if (!store.has_free_answer()) {
    m.release_payload({});
    store.free_answers();
  }
  const auto message = build_answer(job, source, place);
  m.send(message, std::span<const Endpoint>(&job.sources[source].address, 1));
  count(m, shard, Outcome::kResultSent, static_cast<uint32_t>(message.size()));
}

/// Answers every source whose push has waited for the block's initial values.
template <microcode::Machine M>
void answer_held(M& m, Shard& shard, Job& job, uint32_t block) {
  for (uint32_t source = 0; source < job.config.sources; source++) {
    const auto place = job.parameters->held_push(source, block);
    if (place && job.sources[source].address.is_set()) send_value(m, shard, job, source, *place);
  }
}

/// Answers a push that was added before.
template <microcode::Machine M>
void repeat_value(M& m, Shard& shard, Job& job, const MessageHead& message, const Place& place,
                  const Endpoint& from) {
  const uint32_t source = message.header.src_id;
  if (!job.take_reply_token(source, m.now())) return count(m, shard, Outcome::kSourceQuota);
  if (job.parameters->has_initial(place.block)) return send_value(m, shard, job, source, place);
  send_have(m, shard, job, waiting_block(job, /*has_push=*/true), message, from);
}

/// Tells the sender of a push why it cannot be added.
template <microcode::Machine M>
void refuse_push(M& m, Shard& shard, Job& job, const MessageHead& message, Outcome why,
                 const Endpoint& from) {
  if (why == Outcome::kTensorDiffers) {
    tell_mismatch(m, shard, job, job.parameters->terms(), message);
  } else if (job.take_reply_token(message.header.src_id, m.now())) {
    Message notice = control_message(job, message, MessageType::kNotice);
    notice.body.reason = Reason::kNotParameters;
    notice.body.value = static_cast<uint32_t>(job.parameters->elements());
    send_control(m, job, notice, from);
    count(m, shard, Outcome::kNoticeSent);
  }
  refuse(m, shard, why);
}

/// Returns the reason to refuse a position that is not among those of its source.
[[nodiscard]] constexpr Outcome refusal_of(ParameterStore::Where where) {
  return where == ParameterStore::Where::kBefore ? Outcome::kLate : Outcome::kWindowExceeded;
}

/// Serves a push. @pre The message is checked against its job and opened, its source located.
template <microcode::Machine M>
void serve_push(M& m, Shard& shard, Job& job, const MessageHead& message, const Arrival& arrival) {
  if constexpr (!requires { m.packet_bytes(); }) {
    refuse(m, shard, Outcome::kNotExpectedHere);
  } else {
    const uint32_t source = message.header.src_id;
    ParameterStore& store = *job.parameters;
    if (const Verdict verdict = check_push(job, message); verdict.is_refused()) {
      return refuse_push(m, shard, job, message, verdict.reason(), arrival.source);
    }
    Place place;
    const auto where = store.find(source, message.header.block_id, place);
    if (where != ParameterStore::Where::kInside) return refuse(m, shard, refusal_of(where));
    if (message.header.grad_cnt != store.lane_count(place.block)) {
      return refuse(m, shard, Outcome::kGradCntDiffers);
    }
    const auto state = store.state_of(source, place);
    if (state == ParameterStore::State::kPast) return refuse(m, shard, Outcome::kLate);
    if (state != ParameterStore::State::kMissing) {
      refuse(m, shard, Outcome::kDuplicate);
      return repeat_value(m, shard, job, message, place, arrival.source);
    }
    const auto lanes =
        m.packet_bytes().subspan(arrival.offset + message.head_bytes,
                                 size_t{message.header.grad_cnt} * wire::kGradientBytes);
    bool fits = true;
    const auto add = [&] {
      fits = store.push(source, place, message.header.gen_id, message.extension.flags, lanes);
      note_terms(store, message);
    };
    static_cast<void>(
        m.issue(microcode::Xtxn{microcode::XtxnKind::kFetchAndOp, &store, arrival.size}, add));
    count(m, shard, Outcome::kAggregated, arrival.size);
    record_arrival(shard, job, message.header, m.now());
    if (!fits) count(m, shard, Outcome::kParameterOverflow);
    if (source == 0 && place.push == 0) return answer_held(m, shard, job, place.block);
    if (store.has_initial(place.block)) send_value(m, shard, job, source, place);
  }
}

/// Answers a probe about a push, and about the pushes to the rest of the run.
template <microcode::Machine M>
void serve_push_probe(M& m, Shard& shard, Job& job, const Message& message, const Endpoint& from) {
  const uint32_t source = message.header.src_id;
  const ParameterStore& store = *job.parameters;
  Place place;
  const auto where = store.find(source, message.header.block_id, place);
  if (where != ParameterStore::Where::kInside) return count(m, shard, refusal_of(where));
  const auto state = store.state_of(source, place);
  if (state == ParameterStore::State::kPast) return;
  const bool has_push = state != ParameterStore::State::kMissing;
  if (has_push && store.has_initial(place.block)) {
    return send_value(m, shard, job, source, place);
  }
  std::optional<RunReport> run;
  if ((message.extension.flags & wire::kFlagRun) != 0) {
    run.emplace();
    const uint32_t block_count = wire::blocks_to_run_end(message.header.block_id);
    for (uint32_t i = 0; i < block_count; i++) {
      Place other;
      if (store.find(source, message.header.block_id + i, other) !=
          ParameterStore::Where::kInside) {
        break;
      }
      if (store.state_of(source, other) == ParameterStore::State::kMissing) continue;
      run->present[i / 64] |= uint64_t{1} << (i % 64);
      if (store.has_initial(other.block)) run->complete[i / 64] |= uint64_t{1} << (i % 64);
    }
  }
  send_have(m, shard, job, waiting_block(job, has_push), message, from, run);
}

}  // namespace tributary::trio_ml
