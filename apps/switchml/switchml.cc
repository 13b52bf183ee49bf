// SPDX-License-Identifier: Apache-2.0
#include "apps/switchml/switchml.h"

#include <fmt/format.h>

#include <bit>

#include "base/assert.h"
#include "microcode/hash.h"

namespace tributary::switchml {

Result<void> check(const ShardConfig& config) {
  if (config.sessions_max < 1 || config.sessions_max > kSessionsLimit) {
    return failure(
        fmt::format("sessions={}; allowed: 1 to {}", config.sessions_max, kSessionsLimit));
  }
  if (config.slots_max < 1 || config.slots_max > kSlotsLimit) {
    return failure(fmt::format("slots={}; allowed: 1 to {} (14 bits of the pool index)",
                               config.slots_max, kSlotsLimit));
  }
  return {};
}

Result<void> check(const SessionConfig& session, const ShardConfig& config) {
  if (session.workers < 1 || session.workers > kWorkersMax) {
    return failure(fmt::format("workers={}; allowed: 1 to {} (bits of a slot's bitmap)",
                               session.workers, kWorkersMax));
  }
  if (session.elements != 64 && session.elements != kElementsMax) {
    return failure(fmt::format("elements={}; allowed: 64 or 256", session.elements));
  }
  if (session.slots < 1 || session.slots > config.slots_max) {
    return failure(fmt::format("slots={}; allowed: 1 to {}", session.slots, config.slots_max));
  }
  return {};
}

uint64_t memory_bytes(const ShardConfig& config, uint32_t shard_count) {
  return config.sessions_max * SlotPool::memory_bytes(config.slots_max, shard_count);
}

Shard::Shard(const ShardConfig& config, uint32_t index)
    : config_(config),
      index_(index),
      senders_(std::bit_ceil(size_t{2} * config.sessions_max * kWorkersMax)) {}

Result<std::unique_ptr<Shard>> Shard::create(const ShardConfig& config, uint32_t index,
                                             uint32_t shard_count, memory::SharedMemory& memory) {
  if (const auto good = check(config); !good) return tl::unexpected(good.error());
  std::unique_ptr<Shard> shard(new Shard(config, index));
  shard->sessions_.reserve(config.sessions_max);
  for (uint32_t place = 0; place < config.sessions_max; place++) {
    const auto pool = SlotPool::create(config.slots_max, shard_count, memory);
    if (!pool) {
      return failure(fmt::format("sessions={} with slots={} need {} bytes on each core: {}",
                                 config.sessions_max, config.slots_max,
                                 memory_bytes(config, shard_count), pool.error().text));
    }
    shard->sessions_.emplace_back(*pool);
    shard->sessions_.back().destinations.reserve(kWorkersMax);
  }
  return shard;
}

void Shard::begin_session(uint32_t place, const SessionConfig& config) {
  TRIB_ASSERT(place < sessions_.size() && check(config, config_).has_value());
  end_session(place);
  Session& session = sessions_[place];
  session.config = config;
  session.active = true;
  session.epoch++;
  session.registered = 0;
  session.packets = 0;
  session.slots_completed = 0;
  session.last_heard_at.fill(Instant());
  session.generation = 0;
  session.ports.fill({});
  session.destinations.assign(config.workers, Endpoint{});
}

void Shard::end_session(uint32_t place) {
  TRIB_ASSERT(place < sessions_.size());
  Session& session = sessions_[place];
  if (!session.active) return;
  remove_senders(session, 0, kWorkersMax - 1);
  session.active = false;
}

Result<void> Shard::set_worker(uint32_t place, uint32_t worker, const Endpoint& address) {
  TRIB_ASSERT(place < sessions_.size() && sessions_[place].active);
  Session& session = sessions_[place];
  if (worker >= session.config.workers) {
    return failure(fmt::format("rank={}; allowed: 0 to {}", worker, session.config.workers - 1));
  }
  const Sender* const owner = find(address);
  if (owner != nullptr && (owner->session != &session || owner->worker != worker)) {
    return failure(fmt::format("rank={}: its address belongs to worker {} of {} session", worker,
                               owner->worker, owner->session == &session ? "the same" : "another"));
  }
  remove_senders(session, worker, worker);
  add_sender({.address = address.address, .session = &session, .worker = worker});
  session.destinations[worker] = address;
  session.registered |= uint32_t{1} << worker;
  return {};
}

size_t Shard::first_place(const std::array<uint8_t, 16>& address) const {
  return microcode::FieldHash().include_bytes(address).value() & (senders_.size() - 1);
}

const Sender* Shard::find(const Endpoint& source) const {
  for (size_t i = first_place(source.address);; i = (i + 1) & (senders_.size() - 1)) {
    if (senders_[i].session == nullptr) return nullptr;
    if (senders_[i].address == source.address) return &senders_[i];
  }
}

void Shard::add_sender(const Sender& sender) {
  size_t i = first_place(sender.address);
  while (senders_[i].session != nullptr) i = (i + 1) & (senders_.size() - 1);
  senders_[i] = sender;
}

void Shard::remove_senders(const Session& session, uint32_t worker_first, uint32_t worker_last) {
  // Rebuilds the table, so that no search meets a gap.
  std::vector<Sender> old(senders_.size());
  old.swap(senders_);
  for (const Sender& sender : old) {
    const bool gone =
        sender.session == &session && sender.worker >= worker_first && sender.worker <= worker_last;
    if (sender.session != nullptr && !gone) add_sender(sender);
  }
}

}  // namespace tributary::switchml
