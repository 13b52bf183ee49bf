// SPDX-License-Identifier: Apache-2.0
#include "io/wait_set.h"

#include <algorithm>
#include <ctime>

namespace tributary::io {

void WaitSet::wait(Duration at_most) {
  polled_.clear();
  const size_t begun = begin();
  if (begun == members_.size()) {
    const int64_t wait_ns = std::max<int64_t>(in_nanoseconds(at_most), 0);
    timespec limit{};
    limit.tv_sec = wait_ns / kNanosecondsPerSecond;
    limit.tv_nsec = wait_ns % kNanosecondsPerSecond;
    if (::ppoll(polled_.data(), polled_.size(), &limit, nullptr) < 0) {
      for (pollfd& each : polled_) each.revents = 0;
    }
  }
  size_t first = 0;
  for (size_t i = 0; i < begun; i++) {
    const Member& member = members_[i];
    const auto polled = std::span(polled_).subspan(first, member.polled_end - first);
    first = member.polled_end;
    member.source->end_wait(polled);
    if (std::any_of(polled.begin(), polled.end(), [](const pollfd& each) { return each.revents; }))
      *member.ready = true;
  }
}

/// Begins the wait of each queue, up to one that may have a packet already.
/// @return the number of queues that wait.
size_t WaitSet::begin() {
  for (size_t i = 0; i < members_.size(); i++) {
    if (!members_[i].source->begin_wait(polled_)) {
      *members_[i].ready = true;
      return i;
    }
    members_[i].polled_end = polled_.size();
  }
  return members_.size();
}

}  // namespace tributary::io
