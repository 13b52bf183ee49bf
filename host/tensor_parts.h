// SPDX-License-Identifier: Apache-2.0
/// @file
/// A tensor cut into parts, one for each thread of a rank, and what became of the parts put
/// together again.
///
/// Model:   Parts are whole blocks, one after another, so a tensor has the same blocks whatever the
///          number of threads, and its sums have the same bits. All ranks cut alike: the cut
///          depends on nothing but what they have agreed about.
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

/// Blocks of a part, at least. Assumed: with fewer, a second thread costs more to wake than it
/// saves.
inline constexpr uint64_t kPartBlocksMin = 32;

struct TensorPart {
  uint64_t element_first = 0;
  uint64_t element_count = 0;
};

/// @return 1 to `channels` parts, ascending; a part has a block more than a later one, or as many.
[[nodiscard]] std::vector<TensorPart> tensor_parts(uint64_t element_count, uint32_t gradients,
                                                   uint32_t channels);

/// What has to be done for a part of this transfer's tensor.
[[nodiscard]] Transfer transfer_of(const Transfer& whole, const TensorPart& part);

/// Adds what became of the next part. Of overflow and values that are not finite, which end in one
/// part, the second is told, as for a whole tensor.
void add_outcome(Outcome& whole, Outcome part, uint64_t element_first);

/// Whether a communicator can go on after it.
[[nodiscard]] constexpr bool goes_on_after(Status status) {
  return status == Status::kOk || status == Status::kOverflow || status == Status::kNotFinite;
}

}  // namespace tributary::host
