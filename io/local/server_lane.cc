// SPDX-License-Identifier: Apache-2.0
#include "io/local/server_lane.h"

#include <sys/eventfd.h>
#include <sys/socket.h>

#include "io/local/local_socket.h"

namespace tributary::io {
namespace {

/// Wake-ups that one call reads. A core that finds more sleeps once less.
constexpr uint32_t kWakesMax = 16;

constexpr uint64_t bit(uint32_t place) { return uint64_t{1} << place; }

/// Calls `use` with each place whose bit is set, beginning with `first` and wrapping.
template <class Use>
void for_each_place(uint64_t places, uint32_t first, Use use) {
  uint64_t turned = std::rotr(places, static_cast<int>(first));
  for (; turned != 0; turned &= turned - 1) {
    use((first + static_cast<uint32_t>(std::countr_zero(turned))) % kLocalConnectionsMax);
  }
}

}  // namespace

/// Adopts the table's connections and drops those that have left it.
void ServerLane::take_version(uint64_t version) {
  version_ = version;
  // Acquire: pairs with the listener's release, so the places are complete.
  const uint64_t active = table_.active.load(std::memory_order_acquire);
  for (uint32_t place = 0; place < kLocalConnectionsMax; place++) {
    std::optional<Client>& client = clients_[place];
    const LocalConnection* connection =
        (active & bit(place)) != 0 ? &*table_.places[place] : nullptr;
    // A place gets another client only after every lane has seen it empty.
    if (client && connection == nullptr) {
      client.reset();
      in_use_ &= ~bit(place);
      written_ &= ~bit(place);
    }
    if (client || connection == nullptr) continue;
    client.emplace(
        Client{.from = RingReader(connection->memory.ring(core_, RingDirection::kToServer)),
               .to = RingWriter(connection->memory.ring(core_, RingDirection::kToClient)),
               .address = connection->client,
               .control = connection->control.get()});
    in_use_ |= bit(place);
  }
  // Release: pairs with seen_version(). The listener may then free connections that left the table.
  seen_version_.store(version, std::memory_order_release);
}

/// Ends the use of a client's rings. Its place stays taken until the listener has closed it.
void ServerLane::mark_broken(uint32_t place) {
  in_use_ &= ~bit(place);
  written_ &= ~bit(place);
  // Relaxed: the listener needs no other data with it.
  table_.broken.fetch_or(bit(place), std::memory_order_relaxed);
  counters_.system_calls.add(1);
  ::eventfd_write(listener_fd_, 1);
}

uint32_t ServerLane::receive(std::span<engine::Packet> burst) {
  stage_.clear();
  uint32_t filled = 0;
  uint64_t bytes = 0;
  uint32_t last = first_;
  for_each_place(in_use_, first_, [&](uint32_t place) {
    if (filled == burst.size()) return;
    Client& client = *clients_[place];
    const PacketStage::Taken taken =
        stage_.take(client.from, client.address, burst.subspan(filled));
    filled += taken.count;
    bytes += taken.bytes;
    if (taken.count > 0) last = place;
    if (taken.broken) mark_broken(place);
  });
  if (filled == 0) return 0;
  first_ = (last + 1) % kLocalConnectionsMax;
  counters_.rx_packets.add(filled);
  counters_.rx_bytes.add(bytes);
  return filled;
}

void ServerLane::transmit(const engine::TxPacket& packet) {
  const uint32_t place = place_of(packet.destination);
  const bool known = place < kLocalConnectionsMax && (in_use_ & bit(place)) != 0 &&
                     clients_[place]->address.is_same_peer(packet.destination);
  if (!known || packet.layer != engine::PacketLayer::kUdpPayload ||
      !clients_[place]->to.push({packet.data, packet.size})) {
    counters_.tx_refused.add(1);
    if (known && clients_[place]->to.broken()) mark_broken(place);
    return;
  }
  written_ |= bit(place);
  counters_.tx_packets.add(1);
  counters_.tx_bytes.add(packet.size);
}

void ServerLane::flush() {
  for_each_place(written_, 0, [this](uint32_t place) {
    if (!clients_[place]->to.publish()) return;
    counters_.system_calls.add(1);
    send_wake(clients_[place]->control);
  });
  written_ = 0;
}

bool ServerLane::prepare_sleep() {
  bool may_sleep = true;
  for_each_place(in_use_, 0, [&](uint32_t place) {
    may_sleep = may_sleep && clients_[place]->from.prepare_sleep();
  });
  if (!may_sleep) end_sleep();
  return may_sleep;
}

void ServerLane::end_sleep() {
  for_each_place(in_use_, 0, [this](uint32_t place) { clients_[place]->from.end_sleep(); });
}

void ServerLane::drain_wakes() {
  for (uint32_t i = 0; i < kWakesMax; i++) {
    char byte = 0;
    counters_.system_calls.add(1);
    if (::recv(wake_fd_, &byte, 1, MSG_DONTWAIT) < 0) return;
  }
}

}  // namespace tributary::io
