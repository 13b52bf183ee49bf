// SPDX-License-Identifier: Apache-2.0
#include "lab/faults/attackers.h"

#include <algorithm>

#include "auth/session_seal.h"
#include "wire/trio_ml.h"

namespace tributary::lab {

using auth::Mode;
using wire::MessageType;

namespace {

/// Most datagrams and cookies that attackers keep.
constexpr uint32_t kRecordedMax = 256;
constexpr uint32_t kCookiesMax = 64;
constexpr uint64_t kSeedOfAttackers = 0xa77ac4;

template <size_t... I>
std::array<Prng, sizeof...(I)> generators(uint64_t seed, std::index_sequence<I...>) {
  Prng seeds(seed);
  return {((void)I, Prng(seeds.any_u64()))...};
}

/// Returns a key as a party guesses it that has never seen one.
uint64_t guess_key(Prng& draws) {
  switch (draws.below(4)) {
    case 0:
      return 0;
    case 1:
      return UINT64_MAX;
    case 2:
      return 1 + draws.below(1000);
    default:
      return draws.any_u64();
  }
}

template <class T>
const T& pick(const std::vector<T>& all, Prng& draws) {
  return all[draws.below(static_cast<uint32_t>(all.size()))];
}

}  // namespace

Attackers::Attackers(const FaultPlan& plan, FaultWorld& world, Journal& journal)
    : plan_(plan),
      world_(world),
      judge_(world, journal),
      node_(world, judge_, journal),
      draws_(generators(plan.seed ^ kSeedOfAttackers, std::make_index_sequence<kFaultKindCount>())),
      recording_(plan.seed ^ kSeedOfAttackers ^ 1) {
  if (plan.kinds.has(FaultKind::kReplayer)) {
    judge_.set_listener(
        [this](const net::PacketRef& packet, const WorkerNode* worker) { record(packet, worker); });
  }
  node_.set_cookie_listener(
      [this](uint32_t aggregator, const net::Packet& packet, const wire::Message& reply) {
        if (cookies_.size() < kCookiesMax) {
          cookies_.push_back({packet.destination, aggregator, reply});
        }
      });
}

void Attackers::start() {
  for (uint32_t i = 0; i < kFaultKindCount; i++) {
    const auto kind = static_cast<FaultKind>(i);
    if (is_attacker(kind) && plan_.kinds.has(kind) && kind != FaultKind::kTamperer) {
      step_later(kind);
    }
  }
}

void Attackers::finish() {
  node_.check_bytes();
  recorded_.clear();
  judge_.set_listener({});
  judge_.release();
}

void Attackers::step_later(FaultKind kind) {
  const auto index = static_cast<uint32_t>(kind);
  const Instant next = world_.core().now() + plan_.attack->every[index];
  if (next >= Instant() + plan_.calm_at) return;
  world_.at(next, [this, kind, index] {
    step(kind, draws_[index]);
    step_later(kind);
  });
}

void Attackers::step(FaultKind kind, Prng& draws) {
  switch (kind) {
    case FaultKind::kForger:
      return forge(draws);
    case FaultKind::kReplayer:
      return replay(draws);
    case FaultKind::kFlooder:
      return flood(draws);
    case FaultKind::kHalfOpenJoiner:
      return join_half(draws);
    case FaultKind::kForeignMember:
      return attack_as_member(draws);
    default:
      return;
  }
}

// --- What attackers know ---

Attackers::Target Attackers::draw_target(Prng& draws) const {
  Target target;
  target.job = draws.below(world_.job_count());
  const uint32_t rank = draws.below(world_.world_of(target.job));
  target.aggregator = world_.leaf_of(target.job, rank);
  if (draws.chance(0.3)) {
    target.rank = rank;
    return target;
  }
  // Any aggregator on the rank's way to the root.
  while (target.aggregator != world_.root_of(target.job) && draws.chance(0.5)) {
    target.aggregator = plan_.parent[target.aggregator];
  }
  target.source = draws.below(world_.job_config(target.aggregator, target.job).sources);
  return target;
}

Endpoint Attackers::genuine_address(const Target& target) const {
  if (target.rank) return world_.address_of(target.aggregator);
  const trio_ml::JobConfig config = world_.job_config(target.aggregator, target.job);
  // A cookie may name a source that this aggregator does not have: a join is replayed anywhere.
  if (target.source >= config.sources) return world_.address_of(target.aggregator);
  if (config.sources_are_aggregators) {
    return world_.address_of(world_.children_of(target.aggregator)[target.source]);
  }
  for (uint32_t rank = 0; rank < world_.world_of(target.job); rank++) {
    const bool is_here = world_.leaf_of(target.job, rank) == target.aggregator;
    if (is_here && rank == config.rank_base + target.source) {
      return FaultWorld::worker_address(target.job, rank);
    }
  }
  return world_.address_of(target.aggregator);
}

Endpoint Attackers::destination_of(const Target& target, Prng& draws) const {
  if (!target.rank) return world_.address_of(target.aggregator);
  const Endpoint& group = plan_.jobs[target.job].config.group;
  if (group.is_set() && draws.chance(0.5)) return group;
  return FaultWorld::worker_address(target.job, *target.rank);
}

wire::Message Attackers::draw_message(const Target& target, MessageType type, Prng& draws) const {
  const JobPlan& job = plan_.jobs[target.job];
  const Collective& work = pick(job.work, draws);
  wire::Message message;
  message.header = {.job_id = job.config.id,
                    .block_id = draws.below(64),
                    .degraded = draws.chance(0.2),
                    .extended = true,
                    .src_id = static_cast<uint8_t>(target.source),
                    .src_cnt = static_cast<uint8_t>(job.world),
                    .gen_id = static_cast<uint16_t>(draws.below(2)),
                    .grad_cnt = static_cast<uint16_t>(job.gradients)};
  message.extension = {.type = type,
                       .format = work.format,
                       .tensor_elements = work.element_count,
                       .key = guess_key(draws)};
  if (draws.chance(0.3)) message.extension.flags |= wire::kFlagRetransmission;
  if (draws.chance(0.8)) {
    const bool lasting = is_join_reply(type) || type == MessageType::kJoin ||
                         type == MessageType::kReset || type == MessageType::kLeave;
    const Mode mode = job.config.auth.mode;
    message.extension.flags |=
        wire::seal_flag(lasting && mode == Mode::kFull ? Mode::kHeader : mode);
  }
  message.mask = {draws.any_u64()};
  message.body.reason = static_cast<wire::Reason>(draws.below(wire::kReasonLast + 1));
  message.body.source = static_cast<uint8_t>(target.source);
  message.body.sources = static_cast<uint16_t>(job.world);
  message.body.window = job.window;
  message.body.gradients_max = job.gradients;
  message.body.value = static_cast<uint32_t>(job.config.auth.mode);
  message.body.key = guess_key(draws);
  message.body.result_key = guess_key(draws);
  message.body.mask = {draws.any_u64()};
  return message;
}

std::vector<std::byte> Attackers::bytes_of(const wire::Message& message, Prng& draws) {
  std::vector<std::byte> bytes(wire::kControlMessageBytes);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(draws.below(256));
  size_t size = encode_message(message, bytes.data());
  const bool has_gradients = !message.header.extended || !is_control(message.extension.type);
  if (has_gradients) size += size_t{message.header.grad_cnt} * wire::kGradientBytes;
  const size_t drawn = bytes.size();
  bytes.resize(size);
  for (size_t i = drawn; i < size; i++) bytes[i] = static_cast<std::byte>(draws.below(256));
  return bytes;
}

void Attackers::send(FaultKind kind, const Target& target, const Endpoint& from, const Endpoint& to,
                     std::span<const std::byte> bytes) {
  counts_[static_cast<uint32_t>(kind)]++;
  node_.send(target.aggregator, from, to, bytes);
}

// --- The attackers ---

void Attackers::forge(Prng& draws) {
  const Target target = draw_target(draws);
  wire::Message message = draw_message(
      target, static_cast<MessageType>(draws.below(wire::kMessageTypeLast + 1)), draws);
  const JobPlan& job = plan_.jobs[target.job];
  // Plain packets are a stranger's right where a job takes them.
  const bool plain_refused = target.rank || job.config.clients == trio_ml::Clients::kSessions ||
                             job.config.auth.mode != Mode::kNone;
  if (plain_refused && draws.chance(0.15)) message.header.extended = false;
  const bool genuine = target.rank || draws.chance(0.6);
  Endpoint from = genuine ? genuine_address(target) : own_address(draws);
  const uint32_t parent = plan_.parent[target.aggregator];
  if (!target.rank && target.aggregator != 0 && draws.chance(0.3)) from = world_.address_of(parent);
  send(FaultKind::kForger, target, from, destination_of(target, draws), bytes_of(message, draws));
}

void Attackers::flood(Prng& draws) {
  const Target target = draw_target(draws);
  constexpr std::array kTypes{MessageType::kContribution, MessageType::kProbe, MessageType::kJoin,
                              MessageType::kKeepAlive, MessageType::kLeave};
  for (uint32_t i = 0; i < plan_.attack->flood_packets; i++) {
    const wire::Message message = draw_message(target, kTypes[draws.below(kTypes.size())], draws);
    const Endpoint from = draws.chance(0.5) ? own_address(draws) : genuine_address(target);
    std::vector<std::byte> bytes = bytes_of(message, draws);
    if (draws.chance(0.1)) bytes.resize(draws.below(static_cast<uint32_t>(bytes.size())));
    send(FaultKind::kFlooder, target, from, destination_of(target, draws), bytes);
  }
}

void Attackers::join_half(Prng& draws) {
  Target target = draw_target(draws);
  wire::Message join;
  Endpoint from = own_address(draws);
  if (!cookies_.empty() && draws.chance(0.5)) {
    // A cookie under another address, for another source, or of another process.
    const Cookie& cookie = pick(cookies_, draws);
    target.aggregator = cookie.aggregator;
    target.rank.reset();
    join.header = cookie.reply.header;
    join.extension.key = cookie.reply.extension.key;
    join.body.key = cookie.reply.body.key;
    for (uint32_t job = 0; job < plan_.jobs.size(); job++) {
      if (plan_.jobs[job].config.id == join.header.job_id) target.job = job;
    }
    target.source = join.header.src_id;
    switch (draws.below(3)) {
      case 0:
        from = draws.chance(0.5) ? genuine_address(target) : own_address(draws);
        if (from == cookie.address) join.extension.key++;
        break;
      case 1:
        from = cookie.address;
        join.extension.key ^= uint64_t{1} << draws.below(64);
        break;
      default:
        from = cookie.address;
        join.header.src_id ^= 1;
    }
  } else {
    target.rank.reset();
    join = draw_message(target, MessageType::kJoin, draws);
    join.extension.key = draws.any_u64() | 1;
    if (draws.chance(0.5)) join.body.key = 0;
  }
  join.extension.type = MessageType::kJoin;
  join.header.extended = true;
  join.header.grad_cnt = 0;
  join.body.sources = 0;
  join.body.mask = {};
  send(FaultKind::kHalfOpenJoiner, target, from, world_.address_of(target.aggregator),
       bytes_of(join, draws));
}

void Attackers::record(const net::PacketRef& packet, const WorkerNode* worker) {
  const auto job = std::find_if(plan_.jobs.begin(), plan_.jobs.end(), [&](const JobPlan& each) {
    return !packet->stored.empty() && packet->stored[0] == static_cast<std::byte>(each.config.id);
  });
  if (job == plan_.jobs.end() || job->config.auth.mode == Mode::kNone) return;
  wire::MessageHead message;
  const bool is_extended =
      decode_head(packet->stored, packet->size_bytes, message) == wire::DecodeStatus::kOk &&
      message.header.extended;
  const MessageType type = message.extension.type;
  Recorded recorded{
      .packet = packet,
      .job = static_cast<uint32_t>(job - plan_.jobs.begin()),
      .to_worker = worker != nullptr,
      .is_result = is_extended && (type == MessageType::kResult || type == MessageType::kReceipt),
      .is_have = is_extended && type == MessageType::kHave};
  const Endpoint& aggregator = worker != nullptr ? packet->source : packet->destination;
  while (world_.address_of(recorded.aggregator) != aggregator) recorded.aggregator++;
  // Replayed to this worker, even if it came through a group: others may have lost their copies.
  if (worker != nullptr) recorded.packet->destination = worker->config().address;
  recorded_count_++;
  if (recorded_.size() < kRecordedMax) {
    recorded_.push_back(std::move(recorded));
  } else if (recording_.chance(0.3)) {
    recorded_[recording_.below(kRecordedMax)] = std::move(recorded);
  }
}

void Attackers::replay(Prng& draws) {
  if (recorded_.empty()) return;
  const Recorded& chosen = pick(recorded_, draws);
  const net::Packet& packet = *chosen.packet;
  Target target{.aggregator = chosen.aggregator};
  Endpoint from = packet.source;
  Endpoint to = packet.destination;
  if (!chosen.to_worker) {
    if (draws.chance(0.4)) from = own_address(draws);
    // A result or a receipt is sealed for all members. Another member would take it in place of a
    // lost copy.
    if (!chosen.is_result && draws.chance(0.2)) {
      target.aggregator = draws.below(world_.aggregator_count());
      to = world_.address_of(target.aggregator);
    }
  } else if (chosen.is_have && draws.chance(0.5)) {
    // It is for one rank alone, so no other one may take it.
    to = FaultWorld::worker_address(chosen.job, draws.below(world_.world_of(chosen.job)));
  }
  // Reflected to its sender.
  if (from == packet.source && draws.chance(0.1)) std::swap(from, to);
  send(FaultKind::kReplayer, target, from, to, packet.stored);
}

void Attackers::attack_as_member(Prng& draws) {
  Target target = draw_target(draws);
  const uint32_t own_job =
      (target.job + 1 + draws.below(world_.job_count() - 1)) % world_.job_count();
  const uint32_t home = world_.leaf_of(own_job, draws.below(world_.world_of(own_job)));
  const trio_ml::Job* at = world_.job_at(home, own_job);
  if (at == nullptr || at->session.number() == 0) return;
  const trio_ml::Session& session = at->session;
  const uint32_t number = session.number();
  const auth::JobAuth& own_auth = plan_.jobs[own_job].config.auth;
  const auth::Salt salt = session.salt(number);
  const uint8_t job_id = plan_.jobs[target.job].config.id;

  constexpr std::array kUpward{MessageType::kContribution, MessageType::kProbe, MessageType::kLeave,
                               MessageType::kKeepAlive};
  constexpr std::array kDownward{MessageType::kResult, MessageType::kHave, MessageType::kNotice,
                                 MessageType::kReset};
  wire::Message message = draw_message(
      target, target.rank ? kDownward[draws.below(4)] : kUpward[draws.below(4)], draws);
  message.extension.flags &= static_cast<uint8_t>(~wire::kFlagsOfSeal);
  message.extension.flags |= wire::seal_flag(own_auth.mode);
  message.extension.key = target.rank ? session.result_key(number)
                                      : session.key_of(draws.below(at->config.sources), number);
  std::vector<std::byte> bytes = bytes_of(message, draws);
  if (own_auth.mode != Mode::kNone) {
    const auto head_bytes = encoded_head_bytes(message.header, message.extension);
    const auto head = std::span(bytes).first(head_bytes);
    const auto payload = std::span(bytes).subspan(head_bytes);
    if (target.rank) {
      auth::AggregatorEnd end(own_auth, job_id, 0, 1, 1);
      end.start(salt);
      end.seal(head, payload);
    } else {
      auth::MemberEnd end(own_auth, job_id, 0);
      end.start(salt);
      end.seal(message.header.src_id, head, payload);
    }
  }
  const bool genuine = target.rank || draws.chance(0.7);
  const Endpoint from = genuine ? genuine_address(target) : own_address(draws);
  send(FaultKind::kForeignMember, target, from, destination_of(target, draws), bytes);
}

}  // namespace tributary::lab
