// SPDX-License-Identifier: Apache-2.0
#include "lab/faults/attack_judge.h"

#include <fmt/format.h>

#include <algorithm>

#include "wire/trio_ml.h"

namespace tributary::lab {

using trio_ml::Outcome;
using wire::MessageType;

namespace {

/// Outcomes of accepted datagrams. Timers cause none of them.
constexpr std::array kAccepted{
    Outcome::kAggregated,     Outcome::kDuplicate,     Outcome::kLate,  Outcome::kProbe,
    Outcome::kJoin,           Outcome::kWelcome,       Outcome::kLeave, Outcome::kKeepAlive,
    Outcome::kSessionStarted, Outcome::kUpstreamResult};

/// Decodes a message. @return false if it is none.
bool decode(const net::Packet& packet, wire::Message& message) {
  const std::span<const std::byte> bytes = packet.stored;
  const auto head = bytes.first(std::min<size_t>(bytes.size(), wire::kControlMessageBytes));
  return decode_message(head, packet.size_bytes, message) == wire::DecodeStatus::kOk;
}

}  // namespace

std::string describe_message(const net::Packet& packet) {
  constexpr const char* kNames[] = {"contribution", "result",  "probe",   "have",   "join",
                                    "welcome",      "pending", "refusal", "notice", "leave",
                                    "keep-alive",   "cookie",  "reset",   "report", "receipt"};
  static_assert(std::size(kNames) == wire::kMessageTypeLast + 1);
  wire::Message message;
  if (!decode(packet, message)) return "a malformed datagram";
  const auto type = static_cast<uint32_t>(message.extension.type);
  return fmt::format("a {} of source {} of job {}, block {}, from {}",
                     message.header.extended ? kNames[type] : "plain packet", message.header.src_id,
                     message.header.job_id, message.header.block_id, packet.source.to_string());
}

AttackJudge::AttackJudge(FaultWorld& world, Journal& journal) : world_(world), journal_(journal) {
  for (uint32_t i = 0; i < world.aggregator_count(); i++) {
    if (LiveHost* host = world.server(i)) host->set_watch(this);
  }
  for (uint32_t job = 0; job < world.job_count(); job++) {
    for (uint32_t rank = 0; rank < world.world_of(job); rank++) {
      world.worker(job, rank).set_watch(this);
    }
  }
  world.watch_tampered([this](const net::PacketRef& packet) { mark(packet); });
}

AttackJudge::~AttackJudge() {
  for (uint32_t i = 0; i < world_.aggregator_count(); i++) {
    if (LiveHost* host = world_.server(i)) host->set_watch(nullptr);
  }
}

AttackJudge::Counts AttackJudge::counts_at(const LiveHost& host) {
  Counts counts{};
  for (uint32_t i = 0; i < world_.aggregator_count(); i++) {
    if (world_.server(i) != &host || !host.runs()) continue;
    const trio_ml::Counters& counters = world_.live(i)->shard().counters();
    for (uint32_t k = 0; k < counts.size(); k++) counts[k] = counters[k].packets;
  }
  return counts;
}

bool AttackJudge::is_apart(LiveHost& host, const net::Packet& packet) {
  if (!is_marked(packet)) return false;
  before_ = counts_at(host);
  return true;
}

void AttackJudge::on_burst(LiveHost& host, std::span<const net::PacketRef> burst) {
  if (burst.size() == 1 && is_marked(*burst[0])) {
    const Counts after = counts_at(host);
    for (const Outcome outcome : kAccepted) {
      const auto k = static_cast<uint32_t>(outcome);
      if (after[k] == before_[k]) continue;
      journal_.breach(Breach::kForged,
                      fmt::format("{} counts {} for {} of an attacker", host.name(),
                                  to_string(outcome), describe_message(*burst[0])));
    }
    return;
  }
  if (!listener_) return;
  for (const net::PacketRef& packet : burst) listener_(packet, nullptr);
}

void AttackJudge::on_taken(WorkerNode& worker, const net::Packet& packet, bool accepted) {
  if (!accepted) return;
  wire::Message message;
  if (!decode(packet, message)) return;
  const bool is_reply = is_join_reply(message.extension.type);
  if (is_marked(packet)) {
    // While the worker joins, a reply may come twice: it changes nothing the second time.
    if (is_reply && worker.protocol().phase() == host::TensorProtocol::Phase::kJoining) return;
    journal_.breach(Breach::kForged, fmt::format("{} accepts {} of an attacker",
                                                 worker.config().name, describe_message(packet)));
    return;
  }
  if (!listener_) return;
  listener_(world_.network().packets().copy(packet), &worker);
}

}  // namespace tributary::lab
