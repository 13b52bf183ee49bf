// SPDX-License-Identifier: Apache-2.0
#include "engine/model/reorder.h"

#include "base/assert.h"

namespace tributary::engine {

ReorderEngine::ReorderEngine(const Config& config)
    : packet_count_(config.packet_count), queues_(config.queue_count) {
  TRIB_ASSERT(config.packet_count > 0 && config.queue_count > 0);
}

uint32_t ReorderEngine::take_entry() {
  if (first_free_ == kNone) {
    entries_.emplace_back();
    return static_cast<uint32_t>(entries_.size() - 1);
  }
  const uint32_t index = first_free_;
  first_free_ = entries_[index].next;
  return index;
}

std::optional<ReorderTicket> ReorderEngine::arrive(uint64_t flow, uint32_t train) {
  if (train > packet_count_ - inside_count_) {
    counters_.refused++;
    return std::nullopt;
  }
  const uint32_t index = take_entry();
  Entry& entry = entries_[index];
  entry.next = kNone;
  entry.in_work = true;
  entry.train = train;
  entry.queue = static_cast<uint32_t>(flow % queues_.size());

  Queue& queue = queues_[entry.queue];
  (queue.first == kNone ? queue.first : entries_[queue.last].next) = index;
  queue.last = index;
  inside_count_ += train;
  counters_.arrived++;
  return ReorderTicket{index, entry.use};
}

ReorderEngine::Queue& ReorderEngine::finish_entry(ReorderTicket ticket, PacketHandle packet) {
  TRIB_ASSERT(ticket.entry < entries_.size());
  Entry& entry = entries_[ticket.entry];
  TRIB_ASSERT(entry.use == ticket.use && entry.in_work);  // Otherwise it was finished before.
  entry.in_work = false;
  entry.packet = packet;
  Queue& queue = queues_[entry.queue];
  if (queue.first != ticket.entry) counters_.held++;
  return queue;
}

PacketHandle ReorderEngine::pop(Queue& queue) {
  const uint32_t index = queue.first;
  Entry& entry = entries_[index];
  queue.first = entry.next;
  if (queue.first == kNone) queue.last = kNone;
  entry.use++;
  entry.next = first_free_;
  first_free_ = index;
  inside_count_ -= entry.train;
  (entry.packet.is_set() ? counters_.left : counters_.ended)++;
  return entry.packet;
}

}  // namespace tributary::engine
