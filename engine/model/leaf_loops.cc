// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "engine/model/model_machine.h"
#include "memory/lanes.h"

namespace tributary::engine {

using memory::RmwKind;
using microcode::Accumulate;
using microcode::XtxnKind;

// --- Any request --------------------------------------------------------------------------------

ModelRequest::ModelRequest(ModelMachine& machine, XtxnKind kind)
    : machine_(machine), thread_(machine.current()), next_at_(thread_.local_at) {
  if (kind == XtxnKind::kHashDelete) {
    thread_.deletes_issued++;
    machine.deletes_answered_++;
  }
}

void ModelRequest::submit() {
  if (machine_.trace_.on()) [[unlikely]]
    machine_.trace_request(thread_, view(), !is_post_);
  if (machine_.exact_) {
    machine_.schedule(thread_.local_at, machine_.request_, this);
  } else if (!advance_far()) {
    machine_.schedule(next_at_, machine_.request_, this);
  }
}

bool ModelRequest::advance_far() {
  for (uint32_t step = 0; step < kStepsAhead; step++) {
    if (!advance(next_at_)) continue;
    complete_ = true;
    done_at_ = next_at_;
    return true;
  }
  return false;
}

// --- Adding a payload ---------------------------------------------------------------------------

ModelMachine::AccumulateLoop::AccumulateLoop(ModelMachine& machine, int32_t* lanes,
                                             uint32_t offset_bytes, uint32_t count, Accumulate how,
                                             microcode::LaneWidth width)
    : ModelRequest(machine, XtxnKind::kTailRead),
      lanes_(lanes),
      address_(machine.timing_.address_of(lanes)),
      bank_(machine.timing_.bank_of(address_)),
      left_count_(count),
      how_(how),
      gradient_bytes_(static_cast<uint8_t>(bytes_of(width))) {
  const ArrivedPacket& packet = thread_.packet;
  TRIB_ASSERT(thread_.has_packet);
  TRIB_ASSERT(uint64_t{offset_bytes} + uint64_t{count} * gradient_bytes_ <= packet.size_bytes);
  const std::span<const std::byte> stored = machine.packets_.bytes(packet.stored);
  const bool whole = stored.size() >= packet.size_bytes;
  payload_ = whole ? stored.data() + offset_bytes : nullptr;
  machine.lanes_seen_ |= whole && count > 0;
  const uint32_t head_bytes = packet.layer == PacketLayer::kFrame
                                  ? machine.packets_.head_bytes_max(packet.stored)
                                  : parameters().head_payload_bytes();
  const uint32_t in_head = std::min(packet.size_bytes, head_bytes);
  loaded_bytes_ = std::min(in_head - std::min(in_head, offset_bytes), count * gradient_bytes_);
  thread_.gradients += count;
  if (count == 0) {
    complete_empty();
  } else {
    submit();
  }
}

bool ModelMachine::AccumulateLoop::advance(Instant at) {
  if (piece_count_ == 0) {
    load(at);
    return false;
  }
  add(at);
  return left_count_ == 0;
}

void ModelMachine::AccumulateLoop::load(Instant at) {
  constexpr uint32_t kLineBytes = memory::kInterleaveBytes;
  const auto room_bytes = static_cast<uint32_t>(kLineBytes - address_.value() % kLineBytes);
  piece_count_ = std::min((room_bytes + 3) / 4, left_count_);
  uint32_t reads = 0;
  for (; loaded_bytes_ < piece_count_ * gradient_bytes_; reads++) {
    loaded_bytes_ +=
        std::min(microcode::kTailChunkBytes, left_count_ * gradient_bytes_ - loaded_bytes_);
  }
  const Duration waited = parameters().tail_read_latency * reads;
  // A turn that needs nothing from the tail still counts, advances and branches.
  const uint32_t instructions = parameters().instructions_per_gradient * piece_count_ +
                                parameters().instructions_per_chunk * std::max(reads, 1U);
  next_at_ = run_instructions(at + waited, instructions);
  spent_[LatencyPart::kTail] += waited;
  spent_[LatencyPart::kInstructions] += next_at_ - (at + waited);
  loop_counters().add_instructions += uint64_t{instructions} * thread_.packet.train;
  loop_counters().gradients += uint64_t{piece_count_} * thread_.packet.train;
}

void ModelMachine::AccumulateLoop::add(Instant at) {
  // Requests are whole words, as banks take them: even a single lane moves eight bytes.
  constexpr uint32_t kWordBytes = memory::kRequestBytesMin;
  const auto lead_bytes = static_cast<uint32_t>(address_.value() % kWordBytes);
  const uint32_t size_bytes =
      (lead_bytes + piece_count_ * 4 + kWordBytes - 1) / kWordBytes * kWordBytes;
  const memory::Address begin(address_.value() - lead_bytes);
  const uint32_t train = thread_.packet.train;
  const MemoryReply reply =
      timing().access_line(RmwKind::kAdd, begin, bank_, size_bytes, at, train);
  thread_.bank_busy += timing().service_time(RmwKind::kAdd, size_bytes) * train;
  thread_.crossbar_bytes += uint64_t{size_bytes} * train;
  count_add();
  if (payload_ != nullptr) add_values();
  next_at_ = reply.done_at;
  spent_[LatencyPart::kBankQueue] += reply.queued;
  spent_[reply.part] += reply.done_at - at - reply.queued;
  lanes_ += piece_count_;
  address_ = address_ + uint64_t{piece_count_} * 4;
  if (address_.value() % memory::kInterleaveBytes == 0) {
    bank_ = bank_ + 1 == timing().bank_count() ? 0 : bank_ + 1;
  }
  left_count_ -= piece_count_;
  loaded_bytes_ -= piece_count_ * gradient_bytes_;
  piece_count_ = 0;
}

void ModelMachine::AccumulateLoop::add_values() {
  const bool narrow = gradient_bytes_ == bytes_of(microcode::LaneWidth::k16);
  if (how_ == Accumulate::kFirst && narrow) {
    memory::store_be16(lanes_, payload_, piece_count_);
  } else if (narrow) {
    memory::add_be16(lanes_, payload_, piece_count_);
  } else if (how_ == Accumulate::kFirst) {
    memory::store_be32(lanes_, payload_, piece_count_);
  } else {
    memory::add_be32(lanes_, payload_, piece_count_);
  }
  payload_ += size_t{piece_count_} * gradient_bytes_;
}

void ModelMachine::AccumulateLoop::account(Instant since, Instant until) {
  TRIB_ASSERT(until - since == spent_.sum());  // A leaf is awaited where it is called.
  for (uint32_t i = 0; i < kLatencyPartCount; i++) thread_.parts.spent[i] += spent_.spent[i];
}

// --- Making a result ----------------------------------------------------------------------------

ModelMachine::FinishLoop::FinishLoop(ModelMachine& machine, int32_t* lanes, uint32_t count,
                                     microcode::ResultLanes result)
    : ModelRequest(machine, XtxnKind::kWrite),
      lanes_(lanes),
      to_(reinterpret_cast<std::byte*>(lanes)),
      left_count_(count),
      result_(result),
      has_values_(machine.has_values(thread_)) {
  if (count == 0) {
    complete_empty();
  } else {
    submit();
  }
}

bool ModelMachine::FinishLoop::advance(Instant at) {
  const uint32_t count = std::min(left_count_, microcode::kResultChunkBytes / 4);
  const bool is_narrow = result_.width == microcode::LaneWidth::k16;
  reading_ = !reading_;
  if (reading_) {
    uint32_t instructions = parameters().instructions_per_result_chunk;
    if (is_narrow) instructions += parameters().instructions_per_narrow_lane * count;
    next_at_ = run_instructions(at, instructions);
    spent_[LatencyPart::kInstructions] += next_at_ - at;
    loop_counters().finish_instructions += uint64_t{instructions} * thread_.packet.train;
    return false;
  }
  // Four reads at once; the writes to the packet buffer need no reply.
  const MemoryReply reply = price(RmwKind::kRead, lanes_, count * 4, at);
  if (has_values_ && is_narrow) {
    memory::to_be16(to_, lanes_, count, result_.shift);
  } else if (has_values_) {
    memory::to_be32_in_place(lanes_, count);
  }
  to_ += size_t{count} * bytes_of(result_.width);
  next_at_ = reply.done_at;
  spent_[LatencyPart::kBankQueue] += reply.queued;
  spent_[reply.part] += reply.done_at - at - reply.queued;
  lanes_ += count;
  left_count_ -= count;
  return left_count_ == 0;
}

void ModelMachine::FinishLoop::account(Instant since, Instant until) {
  TRIB_ASSERT(until - since == spent_.sum());
  for (uint32_t i = 0; i < kLatencyPartCount; i++) thread_.parts.spent[i] += spent_.spent[i];
}

}  // namespace tributary::engine
