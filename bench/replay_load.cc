// SPDX-License-Identifier: Apache-2.0
#include "bench/replay_load.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "apps/trio_ml/block_window.h"
#include "base/byte_order.h"
#include "base/prng.h"
#include "wire/trio_ml.h"

namespace tributary::bench {
namespace {

/// Consecutive packets of one source, as in combined datagrams.
constexpr uint32_t kRunBlocks = 16;

using Header = wire::TrioMlHeader;

/// A run of one source in one job.
struct Run {
  uint32_t job;
  uint32_t source;
  uint32_t block_first;
};

uint32_t blocks_of(const ReplayShape& shape) {
  return shape.blocks != 0 ? shape.blocks : shape.window;
}

/// Returns all runs in order: all sources of a job, then the next job, then the next blocks.
std::vector<Run> runs_of(const ReplayShape& shape) {
  std::vector<Run> runs;
  for (uint32_t block = 0; block < blocks_of(shape); block += kRunBlocks) {
    if (trio_ml::owner_of(block, shape.owner_count) != shape.owner) continue;
    for (uint32_t job = 1; job <= shape.jobs; job++) {
      for (uint32_t source = 0; source < shape.sources; source++) {
        runs.push_back({job, source, block});
      }
    }
  }
  if (!shape.shuffled) return runs;
  Prng prng(shape.jobs);
  for (size_t left = runs.size(); left > 1; left--) {
    std::swap(runs[left - 1], runs[prng.below(static_cast<uint32_t>(left))]);
  }
  return runs;
}

}  // namespace

ReplayLoad::ReplayLoad(const ReplayShape& shape)
    : shape_(shape), stride_((packet_bytes() + 63) / 64 * 64) {
  const std::vector<Run> runs = runs_of(shape);
  bytes_.resize(stride_ * runs.size() * kRunBlocks);
  packets_.reserve(runs.size() * kRunBlocks);
  for (const Run& run : runs) add_run(run.job, run.source, run.block_first);
}

uint32_t ReplayLoad::packet_bytes() const {
  return Header::kBytes + shape_.gradients * wire::kGradientBytes;
}

void ReplayLoad::add_run(uint32_t job, uint32_t source, uint32_t block_first) {
  Prng prng(uint64_t{job} << 40 | uint64_t{source} << 32 | block_first);
  const uint32_t block_end = std::min(block_first + kRunBlocks, blocks_of(shape_));
  for (uint32_t block = block_first; block < block_end; block++) {
    std::byte* const at = bytes_.data() + stride_ * packets_.size();
    wire::encode_header({.job_id = static_cast<uint8_t>(job),
                         .block_id = block,
                         .src_id = static_cast<uint8_t>(source),
                         .src_cnt = 1,
                         .grad_cnt = static_cast<uint16_t>(shape_.gradients)},
                        at);
    for (uint32_t i = 0; i < shape_.gradients; i++) {
      store_be<uint32_t>(at + Header::kBytes + wire::kGradientBytes * i, prng.any_u32());
    }
    packets_.push_back({at, packet_bytes(), engine::PacketLayer::kUdpPayload,
                        Endpoint::ipv4(0x0a000001 + source, static_cast<uint16_t>(4000 + job))});
  }
}

uint32_t ReplayQueue::receive(std::span<engine::Packet> burst) {
  const auto rest = load_.packets().subspan(next_);
  const size_t count = std::min(burst.size(), rest.size());
  std::memcpy(burst.data(), rest.data(), count * sizeof(engine::Packet));
  for (const engine::Packet& packet : burst.first(count)) {
    store_be<uint16_t>(packet.data + Header::GenerationId::kFirstByte, gen_id_);
  }
  next_ += count;
  return static_cast<uint32_t>(count);
}

void ReplayQueue::transmit(std::span<const engine::TxPacket> packets) {
  // All sources get the same payload, so add each result once, as the plain loop does.
  for (size_t i = 0; i < packets.size(); i += load_.shape().sources) {
    checksum_ += load_be<uint64_t>(packets[i].data + Header::kBytes);
    results_++;
  }
}

}  // namespace tributary::bench
