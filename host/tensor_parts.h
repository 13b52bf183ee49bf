// SPDX-License-Identifier: Apache-2.0
/// @file
/// Cuts a tensor into parts, one for each thread of a rank, and merges the parts' outcomes.
///
/// Model:   Parts are whole blocks in order. So a tensor has the same blocks, and its sums have the
///          same bits, for any number of threads. The cut only depends on terms that the ranks
///          agreed on, so all ranks cut alike.
/// Shapes:  Part c goes over channel c. A tensor of few blocks is one part, for channel 0.
/// Units:   Elements and blocks.
/// Threads: Pure functions.
/// Errors:  None.
/// Tests:   tests/host/tensor_parts_test.cc
#pragma once

#include <cstdint>
#include <vector>

#include "host/tensor_protocol.h"

namespace tributary::host {

/// Fewest blocks of a part. Assumed: with fewer, waking a second thread costs more than it saves.
inline constexpr uint64_t kPartBlocksMin = 32;

struct TensorPart {
  uint64_t element_first = 0;
  uint64_t element_count = 0;
};

/// Returns 1 to `channels` parts, ascending. Each has as many blocks as a later one, or one more.
[[nodiscard]] std::vector<TensorPart> tensor_parts(uint64_t element_count, uint32_t gradients,
                                                   uint32_t channels);

/// Returns the transfer of one part of this transfer's tensor.
[[nodiscard]] Transfer transfer_of(const Transfer& whole, const TensorPart& part);

/// Merges the outcome of the next part into `whole`. If one part overflowed and another one has
/// values that are not finite, the whole is kNotFinite, as it is for a single part.
void add_outcome(Outcome& whole, Outcome part, uint64_t element_first);

/// Returns true if a communicator can continue after this status.
[[nodiscard]] constexpr bool goes_on_after(Status status) {
  return status == Status::kOk || status == Status::kOverflow || status == Status::kNotFinite;
}

}  // namespace tributary::host
