// SPDX-License-Identifier: Apache-2.0
#include "bench/member_traffic.h"

#include <algorithm>
#include <cstring>
#include <span>

#include "base/assert.h"
#include "base/byte_order.h"
#include "bench/measure.h"

namespace tributary::bench {
namespace {

using Header = wire::TrioMlHeader;

/// Consecutive packets of one source, as in combined datagrams.
constexpr uint32_t kRunBlocks = 16;
constexpr uint64_t kMemorySlackBytes = 1U << 20;
constexpr Instant kNow = Instant(seconds(10));
constexpr uint32_t kKeyByte = Header::kBytes + wire::kExtensionBytes - sizeof(uint64_t);

Endpoint address_of(uint32_t source) {
  return Endpoint::ipv4(0x0a000001 + source, static_cast<uint16_t>(4000 + source));
}

}  // namespace

trio_ml::JobConfig MemberTraffic::job_of(const TrafficShape& shape) {
  trio_ml::JobConfig job;
  job.sources = kSources;
  job.block_cnt_max = shape.window;
  const uint32_t head_bytes = Header::kBytes + wire::kExtensionBytes + auth::seal_bytes(shape.mode);
  TRIB_ASSERT(shape.packet_bytes >= head_bytes + wire::kGradientBytes);
  job.block_grad_max = (shape.packet_bytes - head_bytes) / wire::kGradientBytes;
  job.auth = {.mode = shape.mode, .key = auth::key_of_seed(1)};
  return job;
}

memory::SharedMemory MemberTraffic::memory_for(const trio_ml::JobConfig& job) {
  auto memory = memory::SharedMemory::create(
      {.sram_size_bytes = 0,
       .dram_size_bytes = kMemorySlackBytes + 2 * trio_ml::memory_bytes(job, 1),
       .huge_pages = true});
  TRIB_ASSERT(memory.has_value());
  return *std::move(memory);
}

MemberTraffic::MemberTraffic(const TrafficShape& shape)
    : shape_(shape),
      job_(job_of(shape)),
      session_(job_, auth::key_of_seed(2)),
      memory_(memory_for(job_)),
      shard_(0, 1, wire::kTrioMlPort, memory_),
      core_(0, queue_, make_app(), {}),
      end_(job_.auth, job_.id, /*lane=*/0) {
  start_session();
  make_packets();
}

trio_ml::App MemberTraffic::make_app() {
  const auto added = shard_.add_job(job_, session_, kNow);
  TRIB_ASSERT(added.has_value());
  return trio_ml::App(shard_);
}

void MemberTraffic::start_session() {
  // Twice: the second join of a source confirms its first one.
  for (uint32_t i = 0; i < 2 * kSources && session_.number() == 0; i++) {
    wire::Message join;
    join.header.src_id = static_cast<uint8_t>(i % kSources);
    join.extension.key = 1 + i % kSources;  // The nonce.
    static_cast<void>(session_.join(join, address_of(i % kSources), kNow));
  }
  TRIB_ASSERT(session_.number() != 0);
  end_.start(session_.salt(session_.number()));
}

void MemberTraffic::make_packets() {
  Prng prng(shape_.packet_bytes);
  const uint32_t gradients = job_.block_grad_max;
  wire::Message message;
  message.header = {.job_id = job_.id,
                    .extended = true,
                    .src_cnt = 1,
                    .grad_cnt = static_cast<uint16_t>(gradients)};
  message.extension = {.flags = wire::seal_flag(shape_.mode), .tensor_elements = gradients};
  head_bytes_ = encoded_head_bytes(message.header, message.extension);
  const size_t payload_bytes = size_t{gradients} * wire::kGradientBytes;
  const size_t stride = (head_bytes_ + payload_bytes + 63) / 64 * 64;
  bytes_.resize(2 * stride * shape_.window * kSources);
  std::byte* at = bytes_.data();
  for (uint32_t run = 0; run < shape_.window; run += kRunBlocks) {
    for (uint32_t i = 0; i < kRunBlocks * kSources; i++) {
      const uint32_t source = i / kRunBlocks;
      message.header.src_id = static_cast<uint8_t>(source);
      message.header.block_id = run + i % kRunBlocks;
      message.extension.key = session_.key_of(source, session_.number());
      encode_message(message, at);
      std::generate_n(at + head_bytes_, payload_bytes,
                      [&prng] { return static_cast<std::byte>(prng.any_u32()); });
      const auto size = static_cast<uint32_t>(head_bytes_ + payload_bytes);
      members_.push_back({at, size, engine::PacketLayer::kUdpPayload, address_of(source)});
      std::byte* const forged = at + stride;
      std::memcpy(forged, at, size);
      for (uint32_t byte = kKeyByte; byte < head_bytes_; byte++) {
        forged[byte] = static_cast<std::byte>(prng.any_u32());
      }
      flooded_.push_back(members_.back());
      flooded_.push_back({forged, size, engine::PacketLayer::kUdpPayload,
                          Endpoint::ipv4(prng.any_u32(), static_cast<uint16_t>(prng.any_u32()))});
      at = forged + stride;
    }
  }
}

void MemberTraffic::renew() {
  for (const engine::Packet& packet : members_) {
    const uint32_t block_id = Header::BlockId::load(packet.data) % shape_.window + block_next_;
    store_be<uint32_t>(packet.data + Header::BlockId::kFirstByte, block_id);
    if (!end_.is_sealed()) continue;
    const std::span<std::byte> bytes(packet.data, packet.size);
    end_.seal(static_cast<uint8_t>(Header::SourceId::load(packet.data)), bytes.first(head_bytes_),
              bytes.subspan(head_bytes_));
  }
  block_next_ += shape_.window;
}

double MemberTraffic::run(bool with_forged) {
  renew();
  queue_.load(with_forged ? &flooded_ : &members_);
  const double begin_s = thread_cpu_s();
  while (!queue_.done()) core_.run_once(kNow);
  return thread_cpu_s() - begin_s;
}

uint32_t MemberTraffic::Queue::receive(std::span<engine::Packet> burst) {
  const size_t count = std::min(burst.size(), packets_->size() - next_);
  std::memcpy(burst.data(), packets_->data() + next_, count * sizeof(engine::Packet));
  next_ += count;
  return static_cast<uint32_t>(count);
}

}  // namespace tributary::bench
