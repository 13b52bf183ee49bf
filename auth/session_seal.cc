// SPDX-License-Identifier: Apache-2.0
#include "auth/session_seal.h"

#include <array>
#include <string_view>

namespace tributary::auth {
namespace {

/// Returns a key that outlives the job's sessions.
Key256 lasting_key(const JobAuth& auth, std::string_view label, uint8_t job_id) {
  const std::array<uint64_t, 1> context{job_id};
  return derive(auth.key, label, context);
}

/// Returns the key of one direction of a session.
Key256 session_key(const JobAuth& auth, std::string_view label, uint8_t job_id, const Salt& salt) {
  const std::array<uint64_t, 3> context{job_id, salt.high, salt.low};
  return derive(auth.key, label, context);
}

// One label for each use of a key.
constexpr std::string_view kJoin = "join";
constexpr std::string_view kJoinReply = "join reply";
constexpr std::string_view kReset = "reset";
constexpr std::string_view kUpward = "session upward";
constexpr std::string_view kDownward = "session downward";

}  // namespace

MemberEnd::MemberEnd(const JobAuth& auth, uint8_t job_id, uint32_t lane)
    : auth_(auth), job_id_(job_id), lane_(lane) {
  if (!is_sealed()) return;
  join_.emplace(JoinKeys{Sealer(Mode::kHeader, lasting_key(auth, kJoin, job_id), lane),
                         Tagger(Mode::kHeader, lasting_key(auth, kJoinReply, job_id)),
                         Tagger(Mode::kHeader, lasting_key(auth, kReset, job_id))});
}

void MemberEnd::seal_join(std::span<std::byte> head) { join_->joins.seal(0, head, {}); }

bool MemberEnd::opens_join_reply(std::span<const std::byte> head) const {
  return join_->replies.matches(0, head, {});
}

bool MemberEnd::opens_reset(std::span<const std::byte> head) const {
  return join_->resets.matches(0, head, {});
}

void MemberEnd::start(const Salt& salt) {
  if (!is_sealed()) return;
  out_.emplace(auth_.mode, session_key(auth_, kUpward, job_id_, salt), lane_);
  in_.emplace(auth_.mode, session_key(auth_, kDownward, job_id_, salt), /*senders=*/1, kLanesMax);
}

void MemberEnd::seal(uint8_t source, std::span<std::byte> head,
                     std::span<const std::byte> payload) {
  out_->seal(source, head, payload);
}

OpenStatus MemberEnd::open(std::span<const std::byte> head, std::span<const std::byte> payload) {
  return in_ ? in_->open(0, head, payload) : OpenStatus::kForged;
}

AggregatorEnd::AggregatorEnd(const JobAuth& auth, uint8_t job_id, uint32_t lane, uint32_t sources,
                             uint32_t source_lanes)
    : auth_(auth), job_id_(job_id), lane_(lane), sources_(sources), source_lanes_(source_lanes) {
  if (!is_sealed()) return;
  join_.emplace(JoinKeys{Tagger(Mode::kHeader, lasting_key(auth, kJoin, job_id)),
                         Sealer(Mode::kHeader, lasting_key(auth, kJoinReply, job_id), lane),
                         Sealer(Mode::kHeader, lasting_key(auth, kReset, job_id), lane)});
}

bool AggregatorEnd::opens_join(std::span<const std::byte> head) const {
  return join_->joins.matches(0, head, {});
}

void AggregatorEnd::seal_join_reply(std::span<std::byte> head) { join_->replies.seal(0, head, {}); }

void AggregatorEnd::seal_reset(std::span<std::byte> head) { join_->resets.seal(0, head, {}); }

void AggregatorEnd::start(const Salt& salt) {
  if (!is_sealed()) return;
  out_.emplace(auth_.mode, session_key(auth_, kDownward, job_id_, salt), lane_);
  in_.emplace(auth_.mode, session_key(auth_, kUpward, job_id_, salt), sources_, source_lanes_);
}

void AggregatorEnd::seal(std::span<std::byte> head, std::span<const std::byte> payload) {
  out_->seal(0, head, payload);
}

OpenStatus AggregatorEnd::open(uint8_t source, std::span<const std::byte> head,
                               std::span<const std::byte> payload) {
  return in_ ? in_->open(source, head, payload) : OpenStatus::kForged;
}

}  // namespace tributary::auth
