// SPDX-License-Identifier: Apache-2.0
#include "server/switchml/session_book.h"

#include <fmt/format.h>

#include <algorithm>

namespace tributary::server {
namespace {

bool same_address(const Endpoint& a, const Endpoint& b) { return a.address == b.address; }

bool is_registered(const Endpoint& address) { return !same_address(address, Endpoint{}); }

std::string name_of(const SessionBook::Entry& entry) {
  return entry.configured ? std::string("a configured session")
                          : fmt::format("session {:#x}", entry.id);
}

}  // namespace

void SessionBook::begin(uint32_t place, Entry entry) {
  entry.workers.assign(entry.config.workers, Endpoint{});
  places_.begin(place, entry.config);
  entries_[place] = std::move(entry);
}

void SessionBook::set_worker(uint32_t place, uint32_t rank, const Endpoint& address, uint64_t mac) {
  places_.set_worker(place, rank, address, mac);
  entries_[place]->workers[rank] = address;
}

void SessionBook::end(uint32_t place) {
  places_.end(place);
  entries_[place].reset();
}

bool SessionBook::is_idle(uint32_t place, Instant now) {
  const Entry& entry = *entries_[place];
  if (entry.configured) return false;
  return now - std::max(entry.begun_at, places_.last_heard_at(place)) >= config_.idle_after;
}

Result<void> SessionBook::check_request(const Request& request) const {
  const switchml::SessionConfig wanted{.workers = request.num_workers,
                                       .elements = request.elements,
                                       .slots = config_.shard.slots_max};
  if (const auto good = check(wanted, config_.shard); !good) return good;
  if (request.rank >= request.num_workers) {
    return failure(fmt::format("rank={}; allowed: 0 to {}", request.rank, request.num_workers - 1));
  }
  if (!is_registered(request.address) || same_address(request.address, Endpoint::ipv4(0, 1))) {
    return failure(
        fmt::format("rank {}: ipv4=0.0.0.0; allowed: the address it sends from", request.rank));
  }
  for (const auto& entry : entries_) {
    if (!entry || entry->configured || entry->id != request.session_id) continue;
    const switchml::SessionConfig& known = entry->config;
    if (known.workers != request.num_workers || known.elements != request.elements) {
      return failure(
          fmt::format("rank {}: num_workers={} with {} elements; session {:#x} has {} with {}",
                      request.rank, request.num_workers, request.elements, request.session_id,
                      known.workers, known.elements));
    }
  }
  return {};
}

Result<void> SessionBook::free_address(const Request& request, Instant now) {
  for (uint32_t place = 0; place < entries_.size(); place++) {
    if (!entries_[place]) continue;
    const Entry& entry = *entries_[place];
    const bool same_session = !entry.configured && entry.id == request.session_id;
    for (uint32_t rank = 0; rank < entry.workers.size(); rank++) {
      if (!same_address(entry.workers[rank], request.address)) continue;
      if (same_session && rank == request.rank) continue;
      // The rank has returned with another session, perhaps of another size: the old one is over.
      const bool same_job = !same_session && !entry.configured && rank == request.rank;
      if (same_job || (!same_session && is_idle(place, now))) {
        end(place);
        break;
      }
      return failure(fmt::format("rank {}: {} is worker {} of {}, which is active", request.rank,
                                 request.address.host_text(), rank,
                                 same_session ? "the same session" : name_of(entry)));
    }
  }
  return {};
}

Result<uint32_t> SessionBook::place_for(const Request& request, Instant now) {
  std::optional<uint32_t> free;
  for (uint32_t place = 0; place < entries_.size(); place++) {
    if (!entries_[place]) {
      if (!free) free = place;
    } else if (!entries_[place]->configured && entries_[place]->id == request.session_id) {
      return place;
    }
  }
  for (uint32_t place = 0; place < entries_.size() && !free; place++) {
    if (!is_idle(place, now)) continue;
    end(place);
    free = place;
  }
  if (!free) {
    return failure(fmt::format("{} sessions are active; allowed: --sessions {}", entries_.size(),
                               entries_.size()));
  }
  begin(*free, {.id = request.session_id,
                .config = {.workers = request.num_workers,
                           .elements = request.elements,
                           .slots = config_.shard.slots_max},
                .begun_at = now});
  return *free;
}

Result<void> SessionBook::join(const Request& request, Instant now) {
  if (const auto good = check_request(request); !good) return good;
  if (const auto freed = free_address(request, now); !freed) return freed;
  const auto place = place_for(request, now);
  if (!place) return tl::unexpected(place.error());
  const Entry entry = *entries_[*place];
  // When rank 0 registers, the published controller clears everything; this clears only its
  // session.
  if (request.rank == 0 && is_registered(entry.workers[0])) {
    begin(*place, {.id = entry.id, .config = entry.config, .begun_at = now});
  }
  set_worker(*place, request.rank, request.address, request.mac);
  return {};
}

Result<void> SessionBook::configure(const switchml::SessionConfig& session,
                                    const std::vector<Endpoint>& workers, Instant now) {
  if (const auto good = check(session, config_.shard); !good) return good;
  const auto free =
      std::ranges::find_if(entries_, [](const auto& entry) { return !entry.has_value(); });
  if (free == entries_.end()) {
    return failure(fmt::format("more sessions than --sessions {}", entries_.size()));
  }
  for (size_t rank = 0; rank < workers.size(); rank++) {
    for (const auto& entry : entries_) {
      if (entry && std::ranges::any_of(entry->workers, [&](const Endpoint& known) {
            return same_address(known, workers[rank]);
          })) {
        return failure(fmt::format("{} is in another session", workers[rank].host_text()));
      }
    }
    for (size_t other = 0; other < rank; other++) {
      if (same_address(workers[other], workers[rank])) {
        return failure(fmt::format("{} is listed twice", workers[rank].host_text()));
      }
    }
  }
  const auto place = static_cast<uint32_t>(free - entries_.begin());
  // Workers of a configured session do not register, so watch their ports to detect a restart.
  switchml::SessionConfig watching = session;
  watching.watches_ports = true;
  begin(place, {.configured = true, .config = watching, .begun_at = now});
  for (uint32_t rank = 0; rank < workers.size(); rank++)
    set_worker(place, rank, workers[rank], /*mac=*/0);
  return {};
}

}  // namespace tributary::server
