// SPDX-License-Identifier: Apache-2.0
#include "bench/soak/worker_group.h"

#include "bench/race/client/lap_tensor.h"
#include "bench/race/client/tributary_client.h"
#include "io/udp/udp_port.h"

namespace tributary::soak {
namespace {

/// Longest wait for a peer or the aggregator.
constexpr Duration kDeadline = seconds(20);
constexpr auto kRelaxed = std::memory_order_relaxed;  // See Account for the reason.
/// All-reduces before rank 0 of a rude session leaves.
constexpr uint64_t kRudeAfter = 3;

bool is_somebody_gone(host::Status status) {
  return status == host::Status::kPeerLeft || status == host::Status::kSessionLost ||
         status == host::Status::kPeerMissing || status == host::Status::kClosed;
}

}  // namespace

void Account::fail(const std::string& text) {
  failed.fetch_add(1, kRelaxed);
  const std::lock_guard lock(mutex_);
  if (first_failure_.empty()) first_failure_ = text;
}

std::string Account::first_failure() const {
  const std::lock_guard lock(mutex_);
  return first_failure_;
}

WorkerGroup::WorkerGroup(const GroupConfig& config, Account& account)
    : config_(config),
      account_(account),
      meeting_(static_cast<std::ptrdiff_t>(config.workers), [this] { prepare_next_session(); }) {
  for (uint32_t rank = 0; rank < config.workers; rank++) {
    threads_.emplace_back([this, rank] { work(rank); });
  }
}

WorkerGroup::~WorkerGroup() { stop(); }

void WorkerGroup::prepare_next_session() noexcept {
  again_ = !stop_.load(kRelaxed) && (config_.sessions == 0 || session_ < config_.sessions);
  session_++;
  end_.store(config_.reductions_a_session == 0 ? UINT64_MAX : config_.reductions_a_session,
             kRelaxed);
}

void WorkerGroup::work(uint32_t rank) {
  std::vector<float> tensor(config_.bytes / sizeof(float));
  while (true) {
    meeting_.arrive_and_wait();  // Afterwards again_, session_ and end_ are equal for all.
    if (!again_) return;
    run_session(rank, tensor);
  }
}

void WorkerGroup::run_session(uint32_t rank, std::vector<float>& tensor) {
  host::CommunicatorConfig joining;
  joining.server = config_.server;
  joining.job_id = config_.job;
  joining.rank = rank;
  joining.world = config_.workers;
  joining.window = config_.window;
  joining.deadline = kDeadline;
  io::UdpPortConfig device;
  device.peer = config_.server;
  device.send_offload = config_.trains;
  auto port = io::UdpPort::open(device);
  if (!port) return account_.fail(port.error().text);
  const auto communicator = host::Communicator::join(joining, *std::move(port));
  if (!communicator) return account_.fail(communicator.error().text);
  account_.sessions.fetch_add(1, kRelaxed);
  for (uint64_t number = 0; number < end_.load(kRelaxed); number++) {
    // The others are at most one ahead, because they cannot finish number + 1 without this rank. So
    // they see the new end in time.
    if (rank == 0 && stop_.load(kRelaxed) && end_.load(kRelaxed) > number + 2) {
      end_.store(number + 2, kRelaxed);
    }
    if (!reduce(**communicator, rank, number, tensor)) break;
  }
  (*communicator)->close();
  const host::CommunicatorCounters counters = (*communicator)->counters();
  account_.packets_sent.fetch_add(counters.packets_sent, kRelaxed);
  account_.retransmitted.fetch_add(counters.retransmitted, kRelaxed);
}

bool WorkerGroup::reduce(host::Communicator& communicator, uint32_t rank, uint64_t number,
                         std::vector<float>& tensor) {
  const host::AllReduceOptions options{.op = host::ReduceOp::kSum,
                                       .format = host::FloatFormat::kFixedScale,
                                       .scale = race::kFixedScale};
  const auto pattern = static_cast<uint32_t>(session_ * 1000 + number);
  race::fill(tensor, rank, pattern);
  const host::Ticket ticket = communicator.all_reduce_async(std::span(tensor), options);
  const bool rude = config_.rude && session_ % 2 == 1;
  if (rude && rank == 0 && number == kRudeAfter) communicator.close();
  const host::Outcome outcome = communicator.wait(ticket);
  if (outcome.status != host::Status::kOk) {
    if (is_somebody_gone(outcome.status)) {
      account_.broken.fetch_add(1, kRelaxed);
    } else {
      account_.fail(outcome.text);
    }
    return false;
  }
  const auto partial = race::partial_sums(outcome.degraded, config_.workers);
  account_.wrong.fetch_add(race::count_wrong(tensor, config_.workers, pattern, partial), kRelaxed);
  account_.reduced_bytes.fetch_add(config_.bytes, kRelaxed);
  account_.reductions.fetch_add(1, kRelaxed);
  return true;
}

}  // namespace tributary::soak
