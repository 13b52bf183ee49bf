// SPDX-License-Identifier: Apache-2.0
#include "host/c_api/handles.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>

#include "host/c_api/fault.h"
#include "host/communicator_join.h"
#include "host/worker_port.h"
#include "io/faults/impaired_port.h"
#include "io/udp/resolve.h"
#include "wire/trio_ml.h"

namespace tributary::host {
namespace {

// tributary.h and Status have the same numbers.
static_assert(TRIBUTARY_OVERFLOW == static_cast<int>(Status::kOverflow));
static_assert(TRIBUTARY_NOT_FINITE == static_cast<int>(Status::kNotFinite));
static_assert(TRIBUTARY_PEER_MISSING == static_cast<int>(Status::kPeerMissing));
static_assert(TRIBUTARY_PEER_LEFT == static_cast<int>(Status::kPeerLeft));
static_assert(TRIBUTARY_AGGREGATOR_GONE == static_cast<int>(Status::kAggregatorGone));
static_assert(TRIBUTARY_SESSION_LOST == static_cast<int>(Status::kSessionLost));
static_assert(TRIBUTARY_DESYNCHRONISED == static_cast<int>(Status::kDesynchronised));
static_assert(TRIBUTARY_MISMATCH == static_cast<int>(Status::kMismatch));
static_assert(TRIBUTARY_REFUSED == static_cast<int>(Status::kRefused));
static_assert(TRIBUTARY_CLOSED == static_cast<int>(Status::kClosed));

/// Returns the ranks below `world` that are not in `sources`.
SourceSet missing_from(const SourceSet& sources, uint32_t world) {
  SourceSet missing{};
  for (uint32_t rank = 0; rank < world; rank++) {
    if (!contains(sources, rank)) missing[rank / 64] |= uint64_t{1} << (rank % 64);
  }
  return missing;
}

static_assert(TRIBUTARY_EVENT_WAITING == static_cast<int>(WorkerEvent::Kind::kWaiting));
static_assert(TRIBUTARY_EVENT_DEGRADED == static_cast<int>(WorkerEvent::Kind::kDegraded));
static_assert(TRIBUTARY_EVENT_STRAGGLER == static_cast<int>(WorkerEvent::Kind::kStraggler));
static_assert(TRIBUTARY_EVENT_RETURNED == static_cast<int>(WorkerEvent::Kind::kReturned));

void announce(const WorkerEvent& event, tributary_on_event on_event, void* context) {
  tributary_event raw{};
  raw.kind = static_cast<int32_t>(event.kind);
  std::copy(event.ranks.begin(), event.ranks.end(), raw.ranks);
  raw.blocks = event.blocks;
  raw.waited_ms = static_cast<uint64_t>(in_milliseconds(event.waited));
  raw.text = event.text.c_str();
  on_event(&raw, context);
}

}  // namespace

Membership::Membership(const CommunicatorUrl& url, std::unique_ptr<Communicator> communicator)
    : config_(url.config),
      reduction_(url.reduction),
      process_(::getpid()),
      communicator_(std::move(communicator)) {}

namespace {

/// Joins over new ports. They drop packets if the URL has a loss.
Result<std::unique_ptr<Communicator>> join_job(const CommunicatorUrl& url, Status* status) {
  if (url.loss == 0) return Communicator::join(url.config, status);
  const auto open = [&url](uint32_t channel,
                           const Endpoint& server) -> Result<std::unique_ptr<engine::Port>> {
    auto port = open_worker_port(server, url.config.local);
    if (!port) return tl::unexpected(port.error());
    // Each rank and thread drops different packets.
    return io::ImpairedPort::make(*std::move(port),
                                  {.rx = {.loss = url.loss},
                                   .tx = {.loss = url.loss},
                                   .seed = url.config.rank + 1 + channel * wire::kSourcesMax});
  };
  return Communicator::join(url.config, open, status);
}

}  // namespace

std::shared_ptr<Membership> Membership::join(const char* url, tributary_on_event on_event,
                                             void* context) {
  auto parsed = parse_communicator_url(url == nullptr ? "" : url, process_environment);
  if (!parsed) throw Fault{TRIBUTARY_INVALID, parsed.error().text};
  if (const auto found = resolve(parsed->config.aggregators); !found) {
    throw Fault{TRIBUTARY_INVALID, found.error().text};
  }
  parsed->config.server = parsed->config.aggregators.front().address;
  if (const auto checked = check_config(parsed->config); !checked) {
    throw Fault{TRIBUTARY_INVALID, checked.error().text};
  }
  if (on_event != nullptr) {
    parsed->config.on_event = [on_event, context](const WorkerEvent& event) {
      announce(event, on_event, context);
    };
    parsed->config.on_join_wait = [on_event, context](const std::string& text) {
      announce({.kind = WorkerEvent::Kind::kWaiting, .text = text}, on_event, context);
    };
  }
  Status status = Status::kOk;
  auto communicator = join_job(*parsed, &status);
  if (!communicator) {
    // Without a status from the protocol, the system refused the socket.
    throw Fault{status == Status::kOk ? TRIBUTARY_SYSTEM : static_cast<tributary_status>(status),
                communicator.error().text};
  }
  return std::make_shared<Membership>(*parsed, *std::move(communicator));
}

bool Membership::is_of_this_process() const { return ::getpid() == process_; }

/// @pre mutex_ is held.
void Membership::refuse_overlap(AddressRange memory) {
  // Ranges in busy_ do not overlap each other. So only two kinds can overlap `memory`: the last one
  // that begins before it, and those that begin inside it.
  auto it = busy_.upper_bound(memory.first);
  if (it != busy_.begin()) --it;
  while (it != busy_.end() && it->first < memory.end) {
    if (it->second.end <= memory.first) {
      ++it;
    } else if (communicator_->wait_until_done(*it->second.ticket, Duration())) {
      it = busy_.erase(it);  // Done, but nobody has waited for it.
    } else {
      throw Fault{TRIBUTARY_OVERLAP,
                  fmt::format("the tensor at {:#x} of {} bytes overlaps one at {:#x} of {} bytes "
                              "that is still on its way; wait for that first",
                              memory.first, memory.end - memory.first, it->first,
                              it->second.end - it->first)};
    }
  }
}

Ticket Membership::start(void* data, uint64_t element_count, int32_t type, Reduction reduction) {
  switch (type) {
    case TRIBUTARY_INT32:
      return communicator_->all_reduce_async(std::span(static_cast<int32_t*>(data), element_count),
                                             reduction.op, reduction.receive_only,
                                             reduction.priority, reduction.owner);
    case TRIBUTARY_FLOAT32: {
      AllReduceOptions options = reduction_;
      options.op = reduction.op;
      options.receive_only = reduction.receive_only;
      options.owner = reduction.owner;
      options.priority = reduction.priority;
      return communicator_->all_reduce_async(std::span(static_cast<float*>(data), element_count),
                                             options);
    }
    default: {
      const HalfTensor tensor{
          .bits = std::span(static_cast<uint16_t*>(data), element_count),
          .type = type == TRIBUTARY_FLOAT16 ? HalfType::kFloat16 : HalfType::kBfloat16};
      return communicator_->all_reduce_async(tensor, reduction.op, reduction.receive_only,
                                             reduction.priority, reduction.owner);
    }
  }
}

Ticket Membership::submit(void* data, uint64_t element_count, int32_t type, Reduction reduction,
                          AddressRange memory) {
  const std::lock_guard lock(mutex_);
  if (memory.first == memory.end) return start(data, element_count, type, reduction);
  refuse_overlap(memory);
  // Insert the entry first: after the transfer has started nothing may fail.
  const auto entry = busy_.emplace(memory.first, Busy{memory.end, std::nullopt}).first;
  try {
    entry->second.ticket = start(data, element_count, type, reduction);
  } catch (...) {
    busy_.erase(entry);
    throw;
  }
  return *entry->second.ticket;
}

void Membership::release(Ticket ticket, AddressRange memory) {
  const std::lock_guard lock(mutex_);
  const auto entry = busy_.find(memory.first);
  // The entry may be gone, or belong to another operation.
  if (entry != busy_.end() && entry->second.ticket->number() == ticket.number()) {
    busy_.erase(entry);
  }
}

void Membership::close() {
  std::call_once(closed_, [this] { communicator_->close(); });
}

Report report_of(const Outcome& outcome, uint32_t world) {
  Report report;
  report.totals.status = static_cast<tributary_status>(outcome.status);
  report.totals.blocks = outcome.blocks;
  report.totals.degraded_blocks = outcome.degraded.size();
  report.totals.nonzero = outcome.underflow.nonzero;
  report.totals.underflowed = outcome.underflow.underflowed;
  report.totals.staleness_sum = outcome.staleness.pushes_sum;
  report.totals.staleness_max = outcome.staleness.pushes_max;
  report.text = outcome.text;
  report.warning = outcome.warning;
  for (const DegradedRange& block : outcome.degraded) {
    const SourceSet missing = missing_from(block.sources, world);
    for (size_t i = 0; i < missing.size(); i++) report.totals.missing[i] |= missing[i];
    const uint32_t imprecise = block.imprecise ? 1 : 0;
    report.totals.imprecise_blocks += imprecise;
    if (!report.ranges.empty()) {
      tributary_degraded_range& last = report.ranges.back();
      if (last.element_first + last.element_count == block.element_first &&
          last.imprecise == imprecise && std::equal(missing.begin(), missing.end(), last.missing)) {
        last.element_count += block.element_count;
        continue;
      }
    }
    tributary_degraded_range range{.element_first = block.element_first,
                                   .element_count = block.element_count,
                                   .missing = {},
                                   .imprecise = imprecise,
                                   .reserved = 0};
    std::copy(missing.begin(), missing.end(), range.missing);
    report.ranges.push_back(range);
  }
  report.totals.range_count = static_cast<uint32_t>(report.ranges.size());
  return report;
}

void Operation::start(void* data, uint64_t element_count, int32_t type, Reduction reduction,
                      AddressRange memory) {
  memory_ = memory;
  ticket_ = membership_->submit(data, element_count, type, reduction, memory);
}

const Report* Operation::wait(Duration at_most) {
  {
    const std::lock_guard lock(mutex_);
    if (report_) return &*report_;
  }
  if (!membership_->communicator().wait_until_done(*ticket_, at_most)) return nullptr;
  const std::lock_guard lock(mutex_);
  if (!outcome_) {  // Otherwise another thread has taken it.
    membership_->release(*ticket_, memory_);
    outcome_ = membership_->communicator().wait(*ticket_);
  }
  if (!report_) report_ = report_of(*outcome_, membership_->config().world);
  return &*report_;
}

}  // namespace tributary::host
