// SPDX-License-Identifier: Apache-2.0
// The functions of tributary.h. They check arguments and call handles.h.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <memory>

#include "host/c_api/fault.h"
#include "host/c_api/handles.h"
#include "host/c_api/version.h"
#include "host/include/tributary.h"

using tributary::Duration;
using tributary::host::AddressRange;
using tributary::host::CommunicatorConfig;
using tributary::host::CommunicatorCounters;
using tributary::host::Fault;
using tributary::host::guarded;
using tributary::host::keep;
using tributary::host::Membership;
using tributary::host::Operation;
using tributary::host::ReduceOp;
using tributary::host::Reduction;
using tributary::host::Report;

// The handles' definitions, for this file only.
struct tributary_communicator {
  std::shared_ptr<Membership> membership;
};
struct tributary_operation {
  explicit tributary_operation(std::shared_ptr<Membership> membership)
      : operation(std::move(membership)) {}
  mutable Operation operation;  ///< Queries may cache results in it.
};

namespace {

/// One year: the wait for an operation without a timeout.
constexpr int64_t kForEverMs = 365LL * 24 * 3600 * 1000;

/// Restores the thread's error text, for functions that return no status. Only moves the text, so
/// it never throws.
class ErrorTextKept {
 public:
  ErrorTextKept() : text_(std::move(tributary::host::error_text())) {}
  ~ErrorTextKept() { tributary::host::error_text() = std::move(text_); }
  ErrorTextKept(const ErrorTextKept&) = delete;
  ErrorTextKept& operator=(const ErrorTextKept&) = delete;

 private:
  std::string text_;
};

[[noreturn]] void refuse(std::string text) { throw Fault{TRIBUTARY_INVALID, std::move(text)}; }

void check_process(const Membership& membership) {
  if (!membership.is_of_this_process()) {
    refuse("the communicator belongs to the process that made it, not to one forked off");
  }
}

Membership& membership_of(const tributary_communicator* communicator) {
  if (communicator == nullptr) refuse("communicator is NULL");
  check_process(*communicator->membership);
  return *communicator->membership;
}

Operation& operation_of(const tributary_operation* handle) {
  if (handle == nullptr) refuse("operation is NULL");
  check_process(handle->operation.membership());
  return handle->operation;
}

/// Returns the bytes of an element. Refuses unknown types.
uint64_t element_bytes(int32_t type) {
  switch (type) {
    case TRIBUTARY_INT32:
    case TRIBUTARY_FLOAT32:
      return 4;
    case TRIBUTARY_FLOAT16:
    case TRIBUTARY_BFLOAT16:
      return 2;
    default:
      refuse(fmt::format(
          "type={} is not allowed; allowed: TRIBUTARY_INT32, _FLOAT32, _FLOAT16 or _BFLOAT16",
          type));
  }
}

ReduceOp op_of(int32_t op) {
  switch (op) {
    case TRIBUTARY_SUM:
      return ReduceOp::kSum;
    case TRIBUTARY_MEAN:
      return ReduceOp::kMean;
    default:
      refuse(fmt::format("op={} is not allowed; allowed: TRIBUTARY_SUM or TRIBUTARY_MEAN", op));
  }
}

AddressRange memory_of(const void* data, uint64_t element_count, int32_t type) {
  const uint64_t bytes_each = element_bytes(type);
  const auto first = reinterpret_cast<uintptr_t>(data);
  if (element_count == 0) return {};
  if (data == nullptr) refuse("data is NULL");
  if (first % bytes_each != 0) {
    refuse(
        fmt::format("data at {:#x} is not aligned to its elements of {} bytes", first, bytes_each));
  }
  if (element_count > (UINTPTR_MAX - first) / bytes_each) {
    refuse(fmt::format("{} elements do not fit into memory", element_count));
  }
  return {first, first + element_count * bytes_each};
}

/// Copies the fields of `from` that the caller knows. Fields unknown to the library become 0.
template <class Struct>
void copy_out(const Struct& from, void* to, size_t to_bytes, const char* what) {
  if (to == nullptr) refuse(fmt::format("{} is NULL", what));
  std::memset(to, 0, to_bytes);
  std::memcpy(to, &from, std::min(to_bytes, sizeof from));
}

/// Returns the report of an operation that is done, else nullptr. Keeps the thread's error text.
const Report* report_if_done(const tributary_operation* operation) {
  const Report* done = nullptr;
  const ErrorTextKept kept;
  (void)guarded([&]() -> tributary_status {
    done = operation_of(operation).wait(Duration());
    return TRIBUTARY_OK;
  });
  return done;
}

/// Waits for the operation and returns its outcome.
tributary_status outcome_of(Operation& operation, Duration at_most) {
  const Report* report = operation.wait(at_most);
  if (report == nullptr) return keep(TRIBUTARY_PENDING, "the operation is still on its way");
  if (report->totals.status == TRIBUTARY_OK) return TRIBUTARY_OK;
  return keep(report->totals.status, report->text.c_str());
}

Duration at_most_of(int64_t timeout_ms) {
  return tributary::milliseconds(timeout_ms < 0 ? kForEverMs : std::min(timeout_ms, kForEverMs));
}

/// Refuses a root that no reduction of this job can have.
void check_root(const CommunicatorConfig& config, uint32_t root) {
  if (config.asynchronous) {
    refuse(
        "a reduction to one rank is not allowed with asynchronous=on, where each rank gets the "
        "parameters; use tributary_all_reduce_async()");
  }
  if (root < config.world) return;
  refuse(fmt::format("root={} is not allowed; allowed: 0 to {}", root, config.world - 1));
}

/// Refuses an operation without a contribution where no result can come of it.
void check_receives(const CommunicatorConfig& config) {
  if (!config.asynchronous) return;
  refuse(
      "an operation that only receives is not allowed with asynchronous=on, where each push is "
      "answered by itself; push zeros with tributary_all_reduce_async()");
}

std::unique_ptr<tributary_operation> started(tributary_communicator* communicator, void* data,
                                             uint64_t element_count, int32_t type,
                                             Reduction reduction) {
  (void)membership_of(communicator);
  const AddressRange memory = memory_of(data, element_count, type);
  auto handle = std::make_unique<tributary_operation>(communicator->membership);
  handle->operation.start(data, element_count, type, reduction, memory);
  return handle;
}

}  // namespace

extern "C" {

uint32_t tributary_abi(void) { return TRIBUTARY_ABI; }

const char* tributary_version(void) { return tributary::host::kVersion; }

const char* tributary_status_name(tributary_status status) {
  if (status >= TRIBUTARY_OK && status <= TRIBUTARY_CLOSED) {
    return to_string(static_cast<tributary::host::Status>(status));
  }
  switch (status) {
    case TRIBUTARY_PENDING:
      return "pending";
    case TRIBUTARY_INVALID:
      return "invalid";
    case TRIBUTARY_OVERLAP:
      return "overlap";
    case TRIBUTARY_SYSTEM:
      return "system";
    case TRIBUTARY_INTERNAL:
      return "internal";
    default:
      return "unknown";
  }
}

const char* tributary_error_text(void) { return tributary::host::error_text().c_str(); }

tributary_status tributary_join(const char* url, tributary_communicator** out) {
  return tributary_join_watched(url, nullptr, nullptr, out);
}

tributary_status tributary_join_watched(const char* url, tributary_on_event on_event, void* context,
                                        tributary_communicator** out) {
  if (out != nullptr) *out = nullptr;
  return guarded([&]() -> tributary_status {
    if (out == nullptr) refuse("out is NULL");
    auto handle = std::make_unique<tributary_communicator>();
    handle->membership = Membership::join(url, on_event, context);
    *out = handle.release();
    return TRIBUTARY_OK;
  });
}

tributary_status tributary_close(tributary_communicator* communicator) {
  return guarded([&]() -> tributary_status {
    membership_of(communicator).close();
    return TRIBUTARY_OK;
  });
}

void tributary_free(tributary_communicator* communicator) {
  if (communicator == nullptr) return;
  if (!communicator->membership->is_of_this_process())
    return;  // A forked process has no I/O thread to end.
  const ErrorTextKept kept;
  (void)tributary_close(communicator);
  delete communicator;
}

tributary_status tributary_get_info(const tributary_communicator* communicator,
                                    tributary_info* info, size_t info_bytes) {
  return guarded([&]() -> tributary_status {
    Membership& membership = membership_of(communicator);
    const auto& config = membership.config();
    const auto& agreed = membership.communicator();
    const tributary_info all{
        .rank = config.rank,
        .world = config.world,
        .job = config.job_id,
        .gradients = agreed.gradients(),
        .window = agreed.window(),
        .straggler_timeout_us = static_cast<uint32_t>(in_microseconds(agreed.straggler_timeout())),
        .deadline_ms = static_cast<uint64_t>(in_milliseconds(config.deadline)),
        .threads = agreed.threads(),
        .reserved = 0};
    copy_out(all, info, info_bytes, "info");
    return TRIBUTARY_OK;
  });
}

tributary_status tributary_get_counters(const tributary_communicator* communicator,
                                        tributary_counters* counters, size_t counters_bytes) {
  return guarded([&]() -> tributary_status {
    const CommunicatorCounters now = membership_of(communicator).communicator().counters();
    const tributary_counters all{.packets_sent = now.packets_sent,
                                 .packets_received = now.packets_received,
                                 .retransmitted = now.retransmitted,
                                 .probes = now.probes,
                                 .blocks = now.blocks,
                                 .degraded_blocks = now.degraded_blocks,
                                 .duplicate_results = now.duplicate_results,
                                 .invalid_packets = now.invalid_packets,
                                 .underflowed = now.underflowed};
    copy_out(all, counters, counters_bytes, "counters");
    return TRIBUTARY_OK;
  });
}

tributary_status tributary_all_reduce(tributary_communicator* communicator, void* data,
                                      uint64_t element_count, int32_t type, int32_t op) {
  return guarded([&]() -> tributary_status {
    const auto handle = started(communicator, data, element_count, type, {.op = op_of(op)});
    return outcome_of(handle->operation, at_most_of(-1));
  });
}

tributary_status tributary_all_reduce_async(tributary_communicator* communicator, void* data,
                                            uint64_t element_count, int32_t type, int32_t op,
                                            tributary_operation** out) {
  if (out != nullptr) *out = nullptr;
  return guarded([&]() -> tributary_status {
    if (out == nullptr) refuse("out is NULL");
    *out = started(communicator, data, element_count, type, {.op = op_of(op)}).release();
    return TRIBUTARY_OK;
  });
}

tributary_status tributary_all_reduce_priority_async(tributary_communicator* communicator,
                                                     void* data, uint64_t element_count,
                                                     int32_t type, int32_t op, uint32_t priority,
                                                     tributary_operation** out) {
  if (out != nullptr) *out = nullptr;
  return guarded([&]() -> tributary_status {
    if (out == nullptr) refuse("out is NULL");
    const Reduction reduction{.op = op_of(op), .priority = priority};
    *out = started(communicator, data, element_count, type, reduction).release();
    return TRIBUTARY_OK;
  });
}

tributary_status tributary_reduce_async(tributary_communicator* communicator, void* data,
                                        uint64_t element_count, int32_t type, int32_t op,
                                        uint32_t root, uint32_t priority,
                                        tributary_operation** out) {
  if (out != nullptr) *out = nullptr;
  return guarded([&]() -> tributary_status {
    if (out == nullptr) refuse("out is NULL");
    check_root(membership_of(communicator).config(), root);
    const Reduction reduction{.op = op_of(op), .priority = priority, .owner = root};
    *out = started(communicator, data, element_count, type, reduction).release();
    return TRIBUTARY_OK;
  });
}

tributary_status tributary_receive_async(tributary_communicator* communicator, void* data,
                                         uint64_t element_count, int32_t type, int32_t op,
                                         tributary_operation** out) {
  if (out != nullptr) *out = nullptr;
  return guarded([&]() -> tributary_status {
    if (out == nullptr) refuse("out is NULL");
    check_receives(membership_of(communicator).config());
    *out = started(communicator, data, element_count, type, {.op = op_of(op), .receive_only = true})
               .release();
    return TRIBUTARY_OK;
  });
}

tributary_status tributary_get_progress(const tributary_communicator* communicator,
                                        tributary_progress* progress, size_t progress_bytes) {
  return guarded([&]() -> tributary_status {
    const auto& member = membership_of(communicator).communicator();
    const auto now = member.progress();
    tributary_progress all{
        .submitted = now.submitted, .heard = now.heard, .permanent_stragglers = {}};
    std::ranges::copy(member.permanent_stragglers(), all.permanent_stragglers);
    copy_out(all, progress, progress_bytes, "progress");
    return TRIBUTARY_OK;
  });
}

tributary_status tributary_wait(tributary_operation* operation, int64_t timeout_ms) {
  return guarded([&]() -> tributary_status {
    return outcome_of(operation_of(operation), at_most_of(timeout_ms));
  });
}

tributary_status tributary_operation_report(const tributary_operation* operation,
                                            tributary_report* report, size_t report_bytes) {
  return guarded([&]() -> tributary_status {
    const Report* done = operation_of(operation).wait(Duration());
    if (done == nullptr) return keep(TRIBUTARY_PENDING, "the operation is still on its way");
    copy_out(done->totals, report, report_bytes, "report");
    return TRIBUTARY_OK;
  });
}

tributary_status tributary_operation_degraded(const tributary_operation* operation, uint32_t index,
                                              tributary_degraded_range* range, size_t range_bytes) {
  return guarded([&]() -> tributary_status {
    const Report* done = operation_of(operation).wait(Duration());
    if (done == nullptr) return keep(TRIBUTARY_PENDING, "the operation is still on its way");
    if (index >= done->ranges.size()) {
      refuse(fmt::format("index={} is not allowed; the operation has {} degraded ranges", index,
                         done->ranges.size()));
    }
    copy_out(done->ranges[index], range, range_bytes, "range");
    return TRIBUTARY_OK;
  });
}

const char* tributary_operation_text(const tributary_operation* operation) {
  const Report* done = report_if_done(operation);
  return done == nullptr ? "" : done->text.c_str();
}

const char* tributary_operation_warning(const tributary_operation* operation) {
  const Report* done = report_if_done(operation);
  return done == nullptr ? "" : done->warning.c_str();
}

void tributary_operation_free(tributary_operation* operation) {
  if (operation == nullptr) return;
  if (!operation->operation.membership().is_of_this_process()) return;
  const ErrorTextKept kept;
  (void)tributary_wait(operation, -1);
  delete operation;
}

}  // extern "C"
