// SPDX-License-Identifier: Apache-2.0
#include "tofino/pipeline/packet_generator.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/assert.h"
#include "base/byte_order.h"
#include "tofino/limits.h"

namespace tributary::tofino {
namespace {

constexpr int64_t kTicksPerNs = nanoseconds(1).ticks();
/// Byte offsets of the header's batch and packet numbers.
constexpr uint32_t kBatchByte = 2;
constexpr uint32_t kPacketByte = 4;

Result<void> refuse(const GeneratorConfig& config, const std::string& what) {
  return failure(fmt::format("packet generator of pipe {}, application {}: {}", config.pipe,
                             config.application, what));
}

}  // namespace

Duration PacketGenerators::packet_time(uint32_t size_bytes) {
  return kPortByteTime * (int64_t{size_bytes} + kFrameOverheadBytes);
}

Result<void> PacketGenerators::set(const GeneratorConfig& config, uint32_t pipes) {
  if (config.pipe >= pipes) {
    return refuse(config, fmt::format("allowed pipes: 0 to {}", pipes - 1));
  }
  if (config.application >= kGeneratorApplications) {
    return refuse(config, fmt::format("allowed applications: 0 to {}", kGeneratorApplications - 1));
  }
  for (const auto& [name, count] :
       {std::pair{"batches", config.batches}, {"packets", config.packets}}) {
    if (count < 1 || count > kGeneratorNumbers) {
      return refuse(config, fmt::format("{}={}; allowed: 1 to {}", name, count, kGeneratorNumbers));
    }
  }
  size_t buffered = config.packet.stored.size();
  for (const Application& other : applications_) {
    const bool same = other.config.application == config.application;
    if (other.config.pipe == config.pipe && !same) buffered += other.bytes.size() - kHeaderBytes;
  }
  if (buffered > kGeneratorBufferBytes) {
    return refuse(config, fmt::format("packets of {} bytes in the pipe's buffer; it has {}",
                                      buffered, kGeneratorBufferBytes));
  }
  Application one{.config = config,
                  .bytes = std::vector<std::byte>(kHeaderBytes),
                  .size_bytes = kHeaderBytes + config.packet.size_bytes,
                  .sweep_at = config.first_at};
  const Duration sweep =
      packet_time(one.size_bytes) * (int64_t{config.batches} * int64_t{config.packets});
  if (config.period < sweep) {
    return refuse(config, fmt::format("period {} ns; its {} packets take {} ns of the port",
                                      config.period.ticks() / kTicksPerNs,
                                      uint64_t{config.batches} * config.packets,
                                      (sweep.ticks() + kTicksPerNs - 1) / kTicksPerNs));
  }
  one.bytes[0] = static_cast<std::byte>(config.pipe << 3 | config.application);
  one.bytes.insert(one.bytes.end(), config.packet.stored.begin(), config.packet.stored.end());
  one.config.packet = {};  // The bytes belong to the caller.
  stop(config.pipe, config.application);
  const auto behind =
      std::find_if(applications_.begin(), applications_.end(), [&](const Application& other) {
        return std::pair(other.config.pipe, other.config.application) >
               std::pair(config.pipe, config.application);
      });
  applications_.insert(behind, std::move(one));
  find_next();
  return {};
}

void PacketGenerators::stop(uint32_t pipe, uint32_t application) {
  std::erase_if(applications_, [&](const Application& one) {
    return one.config.pipe == pipe && one.config.application == application;
  });
  find_next();
}

PacketGenerators::Packet PacketGenerators::take() {
  TRIB_ASSERT(next_ < applications_.size());
  Application& one = applications_[next_];
  store_be(&one.bytes[kBatchByte], static_cast<uint16_t>(one.sent / one.config.packets));
  store_be(&one.bytes[kPacketByte], static_cast<uint16_t>(one.sent % one.config.packets));
  one.sent++;
  if (one.sent == one.config.batches * one.config.packets) {
    one.sent = 0;
    one.sweep_at = one.sweep_at + one.config.period;
  }
  const uint32_t port = one.config.pipe * kPortsPerPipe + kLoopLocalPortSecond;
  const Packet packet{port, {one.bytes, one.size_bytes}};
  find_next();
  return packet;
}

void PacketGenerators::find_next() {
  next_at_ = Instant::never();
  for (size_t i = 0; i < applications_.size(); i++) {
    if (applications_[i].next_at() >= next_at_) continue;
    next_at_ = applications_[i].next_at();
    next_ = i;
  }
}

}  // namespace tributary::tofino
