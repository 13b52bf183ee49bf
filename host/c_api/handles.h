// SPDX-License-Identifier: Apache-2.0
/// @file
/// The objects behind the handles of tributary.h.
///
/// Model:   A tributary_communicator and its tributary_operations share one Membership, so handles
///          may be freed in any order.
/// Threads: Any. An Operation's mutex protects its outcome; the Membership's mutex protects the
///          list of tensors in flight. A thread that holds the second never takes the first.
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

/// Memory from `first` up to, not including, `end`.
struct AddressRange {
  uintptr_t first = 0;
  uintptr_t end = 0;
};

/// The operation on the tensor.
struct Reduction {
  ReduceOp op = ReduceOp::kSum;
  bool receive_only = false;           ///< See AllReduceOptions.
  uint32_t priority = 0;               ///< See AllReduceOptions.
  std::optional<uint32_t> owner = {};  ///< See AllReduceOptions.
};

/// One rank's membership in a job.
class Membership {
 public:
  /// Joins. @throws Fault with the status for the caller.
  /// @param on_event May be null.
  static std::shared_ptr<Membership> join(const char* url, tributary_on_event on_event,
                                          void* context);

  Membership(const CommunicatorUrl& url, std::unique_ptr<Communicator> communicator);

  /// Starts an all-reduce of `element_count` elements. @throws Fault if the tensor overlaps one
  /// in flight. After any exception nothing has been started.
  Ticket submit(void* data, uint64_t element_count, int32_t type, Reduction reduction,
                AddressRange memory);
  /// Releases the tensor of this ticket.
  void release(Ticket ticket, AddressRange memory);
  void close();

  /// Returns false in a forked process. It has no I/O thread, so it must not use the membership.
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
  std::map<uintptr_t, Busy> busy_;  ///< By first address; operations not known to be done.
  std::once_flag closed_;
};

/// An outcome in the shape of the C interface.
struct Report {
  tributary_report totals{};
  std::vector<tributary_degraded_range> ranges;
  std::string text;
  std::string warning;
};
[[nodiscard]] Report report_of(const Outcome& outcome, uint32_t world);

class Operation {
 public:
  explicit Operation(std::shared_ptr<Membership> membership) : membership_(std::move(membership)) {}

  /// Calls Membership::submit(). Call it once, before anything else.
  void start(void* data, uint64_t element_count, int32_t type, Reduction reduction,
             AddressRange memory);
  /// Waits. @return the report, or nullptr after the timeout.
  const Report* wait(Duration at_most);
  [[nodiscard]] const Membership& membership() const { return *membership_; }

 private:
  const std::shared_ptr<Membership> membership_;
  std::optional<Ticket> ticket_;
  AddressRange memory_;
  std::mutex mutex_;
  std::optional<Outcome> outcome_;  ///< Set once, when done.
  std::optional<Report> report_;    ///< Made from the outcome, once.
};

}  // namespace tributary::host
