// SPDX-License-Identifier: Apache-2.0
#include "io/dpdk/tx_lane.h"

#include <rte_ethdev.h>
#include <rte_mbuf.h>
#include <sched.h>

#include <cstring>
#include <mutex>

#include "base/clock.h"

namespace tributary::io {

rte_mbuf* copy_frame(std::span<const std::byte> frame, rte_mempool* pool) {
  rte_mbuf* mbuf = frame.size() > UINT16_MAX ? nullptr : rte_pktmbuf_alloc(pool);
  if (mbuf == nullptr) return nullptr;
  char* const at = rte_pktmbuf_append(mbuf, static_cast<uint16_t>(frame.size()));
  if (at == nullptr) {
    rte_pktmbuf_free(mbuf);
    return nullptr;
  }
  std::memcpy(at, frame.data(), frame.size());
  return mbuf;
}

TxLane::TxLane(DpdkDevice& device, uint32_t core, PortCounterCells& counters)
    : device_(device),
      counters_(counters),
      queue_(static_cast<uint16_t>(core % device.tx_queues())) {}

void TxLane::append(rte_mbuf* frame, uint32_t payload_bytes) {
  if (count_ == kBurst) flush();
  payload_bytes_[count_] = payload_bytes;
  frames_[count_++] = frame;
}

void TxLane::flush() {
  if (count_ == 0) return;
  const std::span<rte_mbuf*> frames(frames_.data(), count_);
  uint32_t done = 0;
  Instant full_until = Instant::never();
  while (true) {
    const Offered offered = offer_to_device(frames.subspan(done));
    count_sent({payload_bytes_.data() + done, offered.sent});
    done += offered.sent;
    if (offered.refuses_next) drop(frames.subspan(done++, 1));
    const bool moved = offered.sent > 0 || offered.refuses_next;
    if (moved) stuck_ = false;
    if (done == count_ || stuck_) break;
    const Instant now = monotonic_now();
    if (full_until == Instant::never() || moved) full_until = now + kFullWait;
    if (now >= full_until) {
      stuck_ = true;
      break;
    }
    if (!offered.refuses_next) sched_yield();  // The process that empties the device may need it.
  }
  drop(frames.subspan(done));
  count_ = 0;
}

Offered TxLane::offer_to_device(std::span<rte_mbuf*> frames) {
  const auto prepare = [&](std::span<rte_mbuf*> all) -> uint32_t {
    const auto count = static_cast<uint16_t>(all.size());
    return device_.tx_checksum() ? rte_eth_tx_prepare(device_.port_id(), queue_, all.data(), count)
                                 : count;
  };
  const auto send = [&](std::span<rte_mbuf*> ready) -> uint32_t {
    return rte_eth_tx_burst(device_.port_id(), queue_, ready.data(),
                            static_cast<uint16_t>(ready.size()));
  };
  if (!device_.shares_tx_queues()) return offer(frames, prepare, send);
  const std::lock_guard lock(device_.tx_lock(queue_));
  return offer(frames, prepare, send);
}

void TxLane::count_sent(std::span<const uint32_t> payload_bytes) {
  uint64_t packets = 0;
  uint64_t bytes = 0;
  for (const uint32_t size : payload_bytes) {
    packets += size == kNoPayload ? 0 : 1;
    bytes += size == kNoPayload ? 0 : size;
  }
  counters_.tx_packets.add(packets);
  counters_.tx_bytes.add(bytes);
}

void TxLane::drop(std::span<rte_mbuf*> frames) {
  if (frames.empty()) return;
  rte_pktmbuf_free_bulk(frames.data(), static_cast<unsigned>(frames.size()));
  counters_.tx_refused.add(frames.size());
}

}  // namespace tributary::io
