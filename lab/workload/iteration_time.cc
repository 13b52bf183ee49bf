// SPDX-License-Identifier: Apache-2.0
#include "lab/workload/iteration_time.h"

#include <algorithm>

#include "base/assert.h"

namespace tributary::lab {
namespace {

/// Returns the largest r_k + T_k + T_(k+1) + ... + left(k), and no less than the computation.
template <class F>
Duration longest(const Workload& workload, std::span<const Duration> transfers, F left) {
  TRIB_ASSERT(transfers.size() == workload.buckets.size());
  Duration time = workload.forward + workload.backward;
  Duration carried;
  for (size_t k = transfers.size(); k-- > 0;) {
    carried = carried + transfers[k];
    time = std::max(time, workload.buckets[k].ready_at + carried + left(k));
  }
  return time;
}

}  // namespace

Duration waiting_iteration(const Workload& workload, std::span<const Duration> transfers) {
  return longest(workload, transfers, [&](size_t) { return workload.forward; });
}

Duration least_iteration(const Workload& workload, std::span<const Duration> transfers) {
  const std::vector<Duration> ends = workload.forward_ends();
  return longest(workload, transfers, [&](size_t k) {
    const Duration begins = k + 1 < ends.size() ? ends[k + 1] : Duration();
    return workload.forward - begins;
  });
}

}  // namespace tributary::lab
