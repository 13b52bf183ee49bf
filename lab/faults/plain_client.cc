// SPDX-License-Identifier: Apache-2.0
#include "lab/faults/plain_client.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "base/prng.h"

namespace tributary::lab {
namespace {

using Bytes = std::vector<std::byte>;

void put(Bytes& bytes, uint64_t value, uint32_t byte_count) {
  for (uint32_t i = byte_count; i-- > 0;) bytes.push_back(static_cast<std::byte>(value >> (8 * i)));
}

uint32_t get(std::span<const std::byte> bytes, size_t at, uint32_t byte_count) {
  uint32_t value = 0;
  for (uint32_t i = 0; i < byte_count; i++) {
    value = value << 8 | std::to_integer<uint32_t>(bytes[at + i]);
  }
  return value;
}

Bytes to_bytes(const PaperHeader& header, std::span<const int32_t> gradients) {
  Bytes bytes;
  put(bytes, header.job_id, 1);
  put(bytes, header.block_id, 4);
  put(bytes, 0, 1);
  put(bytes, header.src_id, 1);
  put(bytes, header.src_cnt, 1);
  put(bytes, header.gen_id, 2);
  put(bytes, header.grad_cnt, 2);
  for (const int32_t gradient : gradients) put(bytes, static_cast<uint32_t>(gradient), 4);
  return bytes;
}

PaperHeader from_bytes(std::span<const std::byte> bytes) {
  return {.job_id = static_cast<uint8_t>(get(bytes, 0, 1)),
          .block_id = get(bytes, 1, 4),
          .degraded = (get(bytes, 5, 1) & 4) != 0,
          .src_id = static_cast<uint8_t>(get(bytes, 6, 1)),
          .src_cnt = static_cast<uint8_t>(get(bytes, 7, 1)),
          .gen_id = static_cast<uint16_t>(get(bytes, 8, 2)),
          .grad_cnt = static_cast<uint16_t>(get(bytes, 10, 2) & 0xfff)};
}

}  // namespace

int32_t PlainClient::gradient(uint32_t source, uint32_t generation, uint32_t element) {
  return Prng(uint64_t{source} << 40 ^ uint64_t{generation} << 20 ^ element).any_i32();
}

void PlainClient::run() {
  const uint32_t end = std::min(first_ + config_.window, config_.blocks);
  for (uint32_t block = first_; block < end; block++) {
    if (blocks_.contains(block)) continue;
    std::vector<int32_t> gradients(config_.gradients);
    for (uint32_t i = 0; i < config_.gradients; i++) {
      gradients[i] = gradient(config_.source, generation_, block * config_.gradients + i);
    }
    send_(to_bytes({.job_id = config_.job_id,
                    .block_id = block,
                    .src_id = config_.source,
                    .src_cnt = 1,
                    .gen_id = gen_id(),
                    .grad_cnt = static_cast<uint16_t>(config_.gradients)},
                   gradients));
  }
  const uint64_t round = ++round_;
  later_(config_.retry_after, [this, round] {
    if (round == round_ && !done()) run();  // No progress: retransmit.
  });
}

void PlainClient::receive(std::span<const std::byte> payload) {
  if (payload.size() < PaperHeader::kBytes) return;
  const PaperHeader header = from_bytes(payload);
  if (done() || header.grad_cnt == 0 || header.gen_id != gen_id() ||
      !blocks_.insert(header.block_id).second) {
    return;
  }
  Result& result = results_.emplace_back(Result{header, generation_, {}});
  for (size_t at = PaperHeader::kBytes; at + 4 <= payload.size(); at += 4) {
    result.sums.push_back(static_cast<int32_t>(get(payload, at, 4)));
  }
  const uint32_t first_before = first_;
  while (blocks_.contains(first_)) first_++;
  if (first_ == config_.blocks) {
    first_ = 0;
    blocks_.clear();
    generation_++;
  }
  if (first_ != first_before && !done()) run();
}

void PlainClient::start_over(uint32_t generation) {
  generation_ = generation;
  config_.generations = std::max(config_.generations, generation + 1);
  first_ = 0;
  blocks_.clear();
  run();
}

std::string PlainClient::check(const Result& result, uint64_t mask, bool degraded) const {
  const PaperHeader& header = result.header;
  const auto sources = static_cast<uint32_t>(std::popcount(mask));
  if (header.degraded != degraded || header.src_cnt != sources ||
      header.grad_cnt != config_.gradients || result.sums.size() != config_.gradients) {
    return fmt::format("block {} has {} of {} sources and {} sums", header.block_id, header.src_cnt,
                       sources, result.sums.size());
  }
  for (uint32_t i = 0; i < config_.gradients; i++) {
    uint32_t sum = 0;  // Unsigned, so it wraps.
    for (uint64_t left = mask; left != 0; left &= left - 1) {
      const auto source = static_cast<uint32_t>(std::countr_zero(left));
      sum += static_cast<uint32_t>(
          gradient(source, result.generation, header.block_id * config_.gradients + i));
    }
    if (result.sums[i] == static_cast<int32_t>(sum)) continue;
    return fmt::format("block {} of generation {} is not the sum of its {} sources",
                       header.block_id, result.generation, sources);
  }
  return {};
}

}  // namespace tributary::lab
