// SPDX-License-Identifier: Apache-2.0
#include "engine/model/reorder.h"

#include "base/assert.h"

namespace tributary::engine {

ReorderEngine::ReorderEngine(const Config& config)
    : entries_(config.packet_count), queues_(config.queue_count) {
  TRIB_ASSERT(config.packet_count > 0 && config.queue_count > 0);
  for (uint32_t i = config.packet_count; i > 0; i--) {
    entries_[i - 1].next = first_free_;
    first_free_ = i - 1;
  }
}

std::optional<ReorderTicket> ReorderEngine::arrive(uint64_t flow) {
  if (first_free_ == kNone) {
    counters_.refused++;
    return std::nullopt;
  }
  const uint32_t index = first_free_;
  Entry& entry = entries_[index];
  first_free_ = entry.next;
  entry.next = kNone;
  entry.in_work = true;
  entry.queue = static_cast<uint32_t>(flow % queues_.size());

  Queue& queue = queues_[entry.queue];
  (queue.first == kNone ? queue.first : entries_[queue.last].next) = index;
  queue.last = index;
  inside_count_++;
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
  inside_count_--;
  (entry.packet.is_set() ? counters_.left : counters_.ended)++;
  return entry.packet;
}

}  // namespace tributary::engine
