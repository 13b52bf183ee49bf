// SPDX-License-Identifier: Apache-2.0
/// @file
/// What the handles of tributary.h point to.
///
/// Model:   A tributary_communicator and its tributary_operations share one Membership, so handles
///          may be freed in any order.
/// Threads: Any. An Operation's outcome is under its own mutex, the tensors on their way under the
///          Membership's; the first is never taken while the second is held.
/// Errors:  See fault.h.
/// Tests:   tests/host/c_api/c_api_test.cc
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "host/communicator.h"
#include "host/communicator_url.h"
#include "host/include/tributary.h"

namespace tributary::host {

/// Memory from `first` up to `end`; empty if they are equal.
struct AddressRange {
  uintptr_t first = 0;
  uintptr_t end = 0;
};

/// What becomes of the tensor.
struct Reduction {
  ReduceOp op = ReduceOp::kSum;
  bool receive_only = false;  ///< See AllReduceOptions.
};

/// One rank's membership in a job.
class Membership {
 public:
  /// Joins. @throws Fault with the status for the caller.
  static std::shared_ptr<Membership> join(const char* url);

  Membership(const CommunicatorUrl& url, std::unique_ptr<Communicator> communicator);

  /// Starts an all-reduce of `element_count` elements. @throws Fault if the tensor overlaps one on
  /// its way; then, and after any other exception, nothing has been started.
  Ticket submit(void* data, uint64_t element_count, int32_t type, Reduction reduction,
                AddressRange memory);
  /// The tensor of this ticket is its owner's again.
  void release(Ticket ticket, AddressRange memory);
  void close();

  /// In a process that was forked off there is no I/O thread, so nothing may be asked of it.
  [[nodiscard]] bool is_of_this_process() const;
  [[nodiscard]] Communicator& communicator() { return *communicator_; }
  [[nodiscard]] const CommunicatorConfig& config() const { return config_; }

 private:
  struct Busy {
    uintptr_t end;
    std::optional<Ticket> ticket;
  };
  Ticket start(void* data, uint64_t element_count, int32_t type, Reduction reduction);
  void refuse_overlap(AddressRange memory);

  const CommunicatorConfig config_;
  const AllReduceOptions reduction_;
  const pid_t process_;
  const std::unique_ptr<Communicator> communicator_;

  std::mutex mutex_;
  std::map<uintptr_t, Busy> busy_;  ///< By first address; of operations not known to be done.
  std::once_flag closed_;
};

/// An outcome in the shape of the C interface.
struct Report {
  tributary_report totals{};
  std::vector<tributary_degraded_range> ranges;
  std::string text;
};
[[nodiscard]] Report report_of(const Outcome& outcome, uint32_t world);

class Operation {
 public:
  explicit Operation(std::shared_ptr<Membership> membership) : membership_(std::move(membership)) {}

  /// As Membership::submit(). Once, before anything else.
  void start(void* data, uint64_t element_count, int32_t type, Reduction reduction,
             AddressRange memory);
  /// Waits. @return the report, or nullptr when the time is over.
  const Report* wait(Duration at_most);
  [[nodiscard]] const Membership& membership() const { return *membership_; }

 private:
  const std::shared_ptr<Membership> membership_;
  std::optional<Ticket> ticket_;
  AddressRange memory_;
  std::mutex mutex_;
  std::optional<Outcome> outcome_;  ///< Taken once, when done.
  std::optional<Report> report_;    ///< Made of it once.
};

}  // namespace tributary::host
