// SPDX-License-Identifier: Apache-2.0
#include "host/tensor_parts.h"

#include <utility>

#include "base/mutant.h"

namespace tributary::host {
namespace {

template <class T>
std::span<T> part_of(std::span<T> tensor, const plan::Part& part) {
  return tensor.empty() ? tensor : tensor.subspan(part.element_first, part.element_count);
}

}  // namespace

Transfer transfer_of(const Transfer& whole, const plan::Part& part) {
  Transfer transfer;
  transfer.floats = part_of(whole.floats, part);
  transfer.integers = part_of(whole.integers, part);
  transfer.halves = {.bits = part_of(whole.halves.bits, part), .type = whole.halves.type};
  transfer.tensor_elements = whole.element_count();
  transfer.receive_only = whole.receive_only;
  transfer.owner = whole.owner;
  transfer.op = whole.op;
  transfer.priority = whole.priority;
  transfer.format = whole.format;
  transfer.scale = whole.scale;
  return transfer;
}

void add_outcome(Outcome& whole, Outcome part, uint64_t element_first) {
  whole.blocks += part.blocks;
  for (DegradedRange& range : part.degraded) {
    if (!TRIB_MUTANT(kPartUnshifted)) range.element_first += element_first;
    whole.degraded.push_back(range);
  }
  whole.underflow += part.underflow;
  whole.staleness += part.staleness;
  const bool worse = whole.status == Status::kOk ||
                     (whole.status == Status::kOverflow && part.status != Status::kOk);
  if (!worse) return;
  whole.status = part.status;
  whole.text = std::move(part.text);
}

}  // namespace tributary::host
