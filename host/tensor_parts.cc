// SPDX-License-Identifier: Apache-2.0
#include "host/tensor_parts.h"

#include <algorithm>
#include <utility>

namespace tributary::host {
namespace {

template <class T>
std::span<T> part_of(std::span<T> tensor, const TensorPart& part) {
  return tensor.empty() ? tensor : tensor.subspan(part.element_first, part.element_count);
}

}  // namespace

std::vector<TensorPart> tensor_parts(uint64_t element_count, uint32_t gradients,
                                     uint32_t channels) {
  const uint64_t blocks = (element_count + gradients - 1) / gradients;
  const uint64_t parts = std::clamp<uint64_t>(blocks / kPartBlocksMin, 1, channels);
  std::vector<TensorPart> cut;
  uint64_t first = 0;
  for (uint64_t i = 0; i < parts; i++) {
    const uint64_t part_blocks = blocks / parts + (i < blocks % parts ? 1 : 0);
    const uint64_t count = std::min(part_blocks * gradients, element_count - first);
    cut.push_back({.element_first = first, .element_count = count});
    first += count;
  }
  return cut;
}

Transfer transfer_of(const Transfer& whole, const TensorPart& part) {
  Transfer transfer;
  transfer.floats = part_of(whole.floats, part);
  transfer.integers = part_of(whole.integers, part);
  transfer.halves = {.bits = part_of(whole.halves.bits, part), .type = whole.halves.type};
  transfer.tensor_elements = whole.element_count();
  transfer.receive_only = whole.receive_only;
  transfer.op = whole.op;
  transfer.format = whole.format;
  transfer.scale = whole.scale;
  return transfer;
}

void add_outcome(Outcome& whole, Outcome part, uint64_t element_first) {
  whole.blocks += part.blocks;
  for (DegradedRange& range : part.degraded) {
    range.element_first += element_first;
    whole.degraded.push_back(range);
  }
  whole.underflow += part.underflow;
  const bool worse = whole.status == Status::kOk ||
                     (whole.status == Status::kOverflow && part.status != Status::kOk);
  if (!worse) return;
  whole.status = part.status;
  whole.text = std::move(part.text);
}

}  // namespace tributary::host
