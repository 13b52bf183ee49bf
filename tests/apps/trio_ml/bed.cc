// SPDX-License-Identifier: Apache-2.0
#include "tests/apps/trio_ml/bed.h"

#include <algorithm>

#include "base/assert.h"
#include "base/byte_order.h"

namespace tributary::trio_ml {
namespace {

constexpr uint64_t kKeySeed = 7;
/// Room for the largest block: head, 4095 gradients.
constexpr uint32_t kPayloadBytesMax = wire::kMessageHeadBytesMax + kBlockGradLimit * 4;

io::InMemoryPortConfig port_config(const BedConfig& config) {
  uint32_t gradients_max = 0;
  for (const JobConfig& job : config.jobs) {
    gradients_max = std::max(gradients_max, job.block_grad_max);
  }
  // One gradient more than allowed, so that a test can send too many.
  const uint32_t wanted = wire::kControlMessageBytes + (gradients_max + 1) * 4;
  return {.layer = config.layer,
          .local = config.local,
          .payload_bytes_max = std::min(wanted, kPayloadBytesMax),
          .rx_packets_max = config.packets_max,
          .tx_packets_max = config.packets_max};
}

memory::SharedMemory made_memory(uint64_t dram_bytes) {
  auto memory =
      memory::SharedMemory::create({.sram_size_bytes = 4096, .dram_size_bytes = dram_bytes});
  TRIB_ASSERT(memory.has_value());
  return *std::move(memory);
}

}  // namespace

Endpoint worker(uint32_t source) {
  return Endpoint::ipv4(0x0a000100 + source, static_cast<uint16_t>(40000 + source));
}

Endpoint stranger() { return Endpoint::ipv4(0x0a0000fe, 666); }

Bytes encoded(const Message& message, const Values& gradients) {
  Bytes bytes(wire::kControlMessageBytes);
  bytes.resize(encode_message(message, bytes.data()));
  const size_t head_bytes = bytes.size();
  const uint32_t width = wire::gradient_bytes(message.extension.format);
  bytes.resize(head_bytes + gradients.size() * width);
  for (size_t i = 0; i < gradients.size(); i++) {
    std::byte* to = bytes.data() + head_bytes + i * width;
    if (width == 2) {
      store_be(to, static_cast<uint16_t>(gradients[i]));
    } else {
      store_be(to, static_cast<uint32_t>(gradients[i]));
    }
  }
  return bytes;
}

Message plain(uint32_t source, uint32_t block_id, uint16_t gen_id, const Values& gradients) {
  Message message;
  message.header.job_id = 1;
  message.header.block_id = block_id;
  message.header.src_id = static_cast<uint8_t>(source);
  message.header.gen_id = gen_id;
  message.header.grad_cnt = static_cast<uint16_t>(gradients.size());
  return message;
}

Bytes plain_bytes(uint32_t source, uint32_t block_id, uint16_t gen_id, const Values& gradients) {
  return encoded(plain(source, block_id, gen_id, gradients), gradients);
}

Bed::Bed(const BedConfig& config)
    : config_(config),
      now_(Instant(seconds(10))),
      port_(port_config(config)),
      memory_(made_memory(config.dram_bytes)),
      shard_(config.shard_index, config.shard_count, config.local.port, memory_),
      core_(config.shard_index, port_.queue(0), App(shard_), {}) {
  for (const JobConfig& job : config.jobs) {
    if (config.session == nullptr) {
      sessions_.push_back(std::make_unique<Session>(job, auth::key_of_seed(kKeySeed)));
    }
    Session& session = config.session == nullptr ? *sessions_.back() : *config.session;
    const auto added = shard_.add_job(job, session, now_);
    TRIB_ASSERT(added.has_value());
  }
}

void Bed::inject(const Bytes& payload, const Endpoint& from) {
  const bool taken = port_.inject_payload(0, payload, from);
  TRIB_ASSERT(taken);
}

void Bed::inject_raw(const Bytes& bytes) {
  const bool taken = port_.inject(0, bytes, Endpoint{});
  TRIB_ASSERT(taken);
}

void Bed::run() {
  do {
    static_cast<void>(core_.run_once(now_));
  } while (port_.waiting_count(0) > 0);
}

void Bed::deliver(const Bytes& payload, const Endpoint& from) {
  inject(payload, from);
  run();
}

void Bed::step(Instant until) {
  now_ = now_ + core_.idle_time(now_, until - now_);
  run();
}

void Bed::run_until(Instant until) {
  do {
    step(until);
  } while (now_ < until);
}

std::vector<Reply> Bed::take() {
  std::vector<Reply> replies;
  for (const io::SentPacket& sent : port_.take_sent(0)) {
    const bool frame = config_.layer == engine::PacketLayer::kFrame;
    const uint32_t skip = !frame                       ? 0
                          : sent.destination.is_ipv4() ? io::kUdpFrameHeaderBytesIpv4
                                                       : io::kUdpFrameHeaderBytesIpv6;
    Reply reply;
    reply.to = sent.destination;
    reply.bytes.assign(sent.bytes.begin() + skip, sent.bytes.end());
    const auto status =
        decode_message(reply.bytes, static_cast<uint32_t>(reply.bytes.size()), reply.message);
    EXPECT_EQ(status, wire::DecodeStatus::kOk);
    const uint32_t width = wire::gradient_bytes(reply.message.extension.format);
    for (size_t i = reply.message.head_bytes; i < reply.bytes.size(); i += width) {
      const std::byte* from = reply.bytes.data() + i;
      reply.gradients.push_back(width == 2 ? static_cast<int16_t>(load_be<uint16_t>(from))
                                           : static_cast<int32_t>(load_be<uint32_t>(from)));
    }
    replies.push_back(std::move(reply));
  }
  return replies;
}

Reply Bed::take_result(uint32_t source) {
  std::vector<Reply> mine;
  for (Reply& reply : take()) {
    if (reply.to == worker(source)) mine.push_back(std::move(reply));
  }
  EXPECT_EQ(mine.size(), 1U) << "for source " << source;
  return mine.empty() ? Reply{} : mine.front();
}

Counts Bed::counts() const { return apps::counts_of<Outcome>(shard_.counters()); }

Counts Bed::counted_since(const Counts& before) const {
  return apps::counted_between(before, counts());
}

Message Member::message(MessageType type, uint32_t block_id) const {
  Message message;
  message.header.job_id = job_id;
  message.header.block_id = block_id;
  message.header.extended = true;
  message.header.src_id = static_cast<uint8_t>(source);
  message.header.gen_id = 1;
  message.extension.type = type;
  message.extension.key = key;
  return message;
}

Message Member::contribution(uint32_t block_id, const Values& gradients) const {
  Message contribution = message(MessageType::kContribution, block_id);
  contribution.header.grad_cnt = static_cast<uint16_t>(gradients.size());
  contribution.extension.tensor_elements = static_cast<uint32_t>(gradients.size());
  return contribution;
}

Message join_message(uint32_t source, uint64_t nonce, uint32_t world, uint8_t job_id) {
  Message join;
  join.header.job_id = job_id;
  join.header.extended = true;
  join.header.src_id = static_cast<uint8_t>(source);
  join.extension.type = MessageType::kJoin;
  join.extension.key = nonce;
  join.body.sources = static_cast<uint16_t>(world);
  join.body.receipts = true;
  return join;
}

std::vector<Reply> deliver_join(Bed& bed, Message join, const Endpoint& from) {
  bed.deliver(encoded(join), from);
  std::vector<Reply> replies = bed.take();
  if (replies.size() != 1 || replies[0].message.extension.type != MessageType::kCookie) {
    return replies;
  }
  EXPECT_EQ(replies[0].to, from);
  EXPECT_EQ(replies[0].message.extension.key, join.extension.key);
  join.body.key = replies[0].message.body.key;
  bed.deliver(encoded(join), from);
  return bed.take();
}

std::vector<Member> join_all(Bed& bed, uint64_t nonce_base, uint8_t job_id) {
  const uint32_t sources = bed.job(job_id).config.sources;
  const uint32_t world = bed.job(job_id).config.ranks();
  std::vector<Member> members(sources);
  uint32_t welcomed = 0;
  // Twice: the second join of a source confirms its first one.
  for (uint32_t round = 0; round < 2 && welcomed == 0; round++) {
    for (uint32_t source = 0; source < sources && welcomed == 0; source++) {
      Message join = join_message(source, nonce_base + source, world, job_id);
      join.body.asynchronous = bed.job(job_id).config.asynchronous;
      for (const Reply& reply : deliver_join(bed, join, worker(source))) {
        if (reply.message.extension.type != MessageType::kWelcome) continue;
        const uint32_t who = reply.message.body.source;
        EXPECT_EQ(reply.to, worker(who));
        EXPECT_EQ(reply.message.extension.key, nonce_base + who);
        members[who] = {.source = who,
                        .key = reply.message.body.key,
                        .result_key = reply.message.body.result_key,
                        .job_id = job_id};
        welcomed++;
      }
    }
  }
  EXPECT_EQ(welcomed, sources);
  return members;
}

void expect_refused(Bed& bed, const Bytes& payload, const Endpoint& from, Outcome reason) {
  expect_refused(
      bed, [&] { bed.inject(payload, from); }, reason);
}

void expect_refused(Bed& bed, const std::function<void()>& inject, Outcome reason) {
  bed.run();  // Buffers released in the last burst become free in this one.
  const Counts before = bed.counts();
  const uint32_t blocks = bed.job().record.block_curr_cnt;
  const uint32_t buffers = bed.job().window.buffers_free();
  const uint64_t dropped = bed.core().machine_counters().dropped;
  inject();
  bed.run();
  EXPECT_EQ(bed.counted_since(before), (Counts{{to_string(reason), 1}}));
  EXPECT_TRUE(bed.take().empty()) << "something was sent";
  EXPECT_EQ(bed.job().record.block_curr_cnt, blocks);
  EXPECT_EQ(bed.job().window.buffers_free(), buffers);
  EXPECT_EQ(bed.core().machine_counters().dropped, dropped + 1);
}

}  // namespace tributary::trio_ml
