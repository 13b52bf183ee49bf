// SPDX-License-Identifier: Apache-2.0
/// @file
/// The transfers of a tensor's parts, and the merge of their outcomes.
///
/// Model:   plan::PartCutter cuts. Parts are whole blocks, so a tensor has the same blocks, and its
///          sums have the same bits, for any number of aggregators and threads.
/// Units:   Elements and blocks.
/// Threads: Pure functions.
/// Errors:  None.
/// Tests:   tests/host/tensor_parts_test.cc
#pragma once

#include <cstdint>

#include "host/tensor_protocol.h"
#include "plan/part_cutter.h"

namespace tributary::host {

/// The part of an all-reduce that goes over one channel.
struct TensorPart {
  uint64_t number = 0;  ///< The owner's number of the all-reduce.
  uint64_t element_first = 0;
  Transfer transfer;
};

/// Returns the transfer of one part of this transfer's tensor.
[[nodiscard]] Transfer transfer_of(const Transfer& whole, const plan::Part& part);

/// Merges the outcome of the next part into `whole`. If one part overflowed and another one has
/// values that are not finite, the whole is kNotFinite, as it is for a single part.
void add_outcome(Outcome& whole, Outcome part, uint64_t element_first);

/// Returns true if a communicator can continue after this status.
[[nodiscard]] constexpr bool goes_on_after(Status status) {
  return status == Status::kOk || status == Status::kOverflow || status == Status::kNotFinite;
}

}  // namespace tributary::host
