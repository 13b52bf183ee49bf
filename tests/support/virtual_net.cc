// SPDX-License-Identifier: Apache-2.0
#include "tests/support/virtual_net.h"

#include <algorithm>
#include <deque>

#include "base/assert.h"
#include "engine/live/live_core.h"
#include "io/in_memory_port.h"
#include "memory/shared_memory.h"

namespace tributary::testing {
namespace {

/// A node takes so long from a datagram's arrival to reading it, at most; what arrives meanwhile is
/// read in the same burst.
constexpr Duration kReadWithin = microseconds(5);
/// Datagrams of one link follow each other at this distance at least.
constexpr Duration kSpacing = nanoseconds(200);
/// Datagrams that wait in a worker's receive buffer at most.
constexpr size_t kWorkerBacklogMax = 512;
constexpr uint32_t kAggregatorBacklogMax = 4096;
constexpr uint32_t kPayloadBytesMax = 512;
constexpr uint64_t kDramBytes = uint64_t{4} << 20;
/// More events without any time between them are a node that never rests: a bug of the node.
constexpr uint64_t kActsAtOnceMax = 1'000'000;

}  // namespace

// --- An aggregator ------------------------------------------------------------------------------

class VirtualAggregator {
 public:
  using Core = engine::LiveCore<trio_ml::App>;

  VirtualAggregator(const trio_ml::JobConfig& job_config, const Endpoint& address)
      : job_config_(job_config), address_(address) {}

  /// Begins with empty memory.
  void start(uint64_t nonce_seed, Instant now) {
    auto memory =
        memory::SharedMemory::create({.sram_size_bytes = 0, .dram_size_bytes = kDramBytes});
    TRIB_ASSERT(memory.has_value());
    process_ = std::make_unique<Process>(job_config_, address_, nonce_seed, *std::move(memory));
    TRIB_ASSERT(process_->shard.add_job(job_config_, process_->session, now).has_value());
  }
  void stop() { process_.reset(); }

  [[nodiscard]] bool runs() const { return process_ != nullptr; }
  [[nodiscard]] const Endpoint& address() const { return address_; }
  [[nodiscard]] io::InMemoryPort& port() { return process_->port; }
  [[nodiscard]] Core& core() { return process_->core; }
  [[nodiscard]] trio_ml::Shard& shard() { return process_->shard; }
  [[nodiscard]] trio_ml::Job& job() { return *process_->shard.job(job_config_.id); }

  Instant wake_at = Instant::never();  ///< The one wake-up that counts.

 private:
  struct Process {
    Process(const trio_ml::JobConfig& config, const Endpoint& address, uint64_t nonce_seed,
            memory::SharedMemory memory_in)
        : memory(std::move(memory_in)),
          port({.layer = engine::PacketLayer::kUdpPayload,
                .local = address,
                .payload_bytes_max = kPayloadBytesMax,
                .rx_packets_max = kAggregatorBacklogMax,
                .tx_packets_max = kAggregatorBacklogMax}),
          session(config, nonce_seed),
          shard(0, 1, address.port, memory),
          core(0, port.queue(0), trio_ml::App(shard), {}) {}

    memory::SharedMemory memory;
    io::InMemoryPort port;
    trio_ml::Session session;
    trio_ml::Shard shard;
    Core core;
  };

  const trio_ml::JobConfig job_config_;
  const Endpoint address_;
  std::unique_ptr<Process> process_;
};

// --- A worker -----------------------------------------------------------------------------------

struct VirtualNet::Worker {
  Worker(const host::CommunicatorConfig& config, uint32_t nonce, Instant now, const Endpoint& at)
      : protocol(config, nonce, now), address(at), server(config.server) {}

  host::WorkerProtocol protocol;
  const Endpoint address;
  const Endpoint server;
  std::deque<std::vector<std::byte>> backlog;
  Instant wake_at = Instant::never();  ///< The one wake-up that counts.
  Instant paused_until;
  bool crashed = false;
};

// --- Events -------------------------------------------------------------------------------------

VirtualNet::VirtualNet(uint64_t seed, const LinkFaults& faults)
    : faults_(faults), link_draws_(seed), seeds_(~seed) {}

VirtualNet::~VirtualNet() = default;

bool VirtualNet::Later::operator()(const Event& a, const Event& b) const {
  if (a.at != b.at) return a.at > b.at;
  if (a.priority != b.priority) return a.priority > b.priority;
  return a.sequence > b.sequence;
}

void VirtualNet::push(Instant at, Priority priority, std::function<void()> act) {
  events_.push_back({std::max(at, now_), priority, sequence_++, std::move(act)});
  std::push_heap(events_.begin(), events_.end(), Later());
}

void VirtualNet::step() {
  std::pop_heap(events_.begin(), events_.end(), Later());
  const Event event = std::move(events_.back());
  events_.pop_back();
  acts_at_once_ = event.at == now_ ? acts_at_once_ + 1 : 0;
  TRIB_ASSERT(acts_at_once_ < kActsAtOnceMax);
  now_ = event.at;
  event.act();
}

bool VirtualNet::run_until(Instant limit, const std::function<bool()>& until) {
  while (!until()) {
    if (events_.empty() || events_.front().at > limit) {
      now_ = std::max(now_, limit);
      return until();
    }
    step();
  }
  return true;
}

void VirtualNet::run_for(Duration length) {
  run_until(now_ + length, [] { return false; });
}

void VirtualNet::at(Instant time, std::function<void()> action) {
  push(time, Priority::kAction, std::move(action));
}

// --- Links --------------------------------------------------------------------------------------

Endpoint VirtualNet::address(uint32_t kind, uint32_t index) {
  constexpr uint32_t kPrivateNet = 10U << 24;
  return Endpoint::ipv4(kPrivateNet | kind << 16 | (index + 1), microcode::kTrioMlPort);
}

VirtualNet::Link& VirtualNet::link(const Endpoint& from, const Endpoint& to) {
  const auto known = std::find_if(links_.begin(), links_.end(), [&](const Link& candidate) {
    return candidate.from == from && candidate.to == to;
  });
  if (known != links_.end()) return *known;
  return links_.emplace_back(Link{from, to, now_});
}

void VirtualNet::send(const Endpoint& from, const Endpoint& to,
                      std::span<const std::byte> payload) {
  counters_.sent++;
  const std::vector<std::byte> bytes(payload.begin(), payload.end());
  // Each kind of fault draws whether or not it is switched on: rates do not shift each other.
  const bool lost = link_draws_.chance(faults_.loss);
  const bool corrupted = link_draws_.chance(faults_.corrupt);
  const bool doubled = link_draws_.chance(faults_.duplicate);
  if (lost || corrupted) {
    (lost ? counters_.lost : counters_.corrupted)++;
    return;
  }
  put_on_link(from, to, bytes);
  if (!doubled) return;
  counters_.duplicated++;
  put_on_link(from, to, bytes);
}

void VirtualNet::put_on_link(const Endpoint& from, const Endpoint& to,
                             const std::vector<std::byte>& payload) {
  const auto part_of = [this](Duration longest) {
    return Duration::from_ticks(
        static_cast<int64_t>(link_draws_.unit() * static_cast<double>(longest.ticks())));
  };
  Instant arrives_at = now_ + faults_.delay + part_of(faults_.jitter);
  const bool held_back = link_draws_.chance(faults_.reorder);
  const Duration held = part_of(faults_.reorder_max);
  if (held_back) {
    counters_.reordered++;
    arrives_at = arrives_at + held;
  } else {
    Link& path = link(from, to);
    arrives_at = std::max(arrives_at, path.free_at);
    path.free_at = arrives_at + kSpacing;
  }
  push(arrives_at, Priority::kDelivery, [this, from, to, payload] { deliver(from, to, payload); });
}

bool VirtualNet::offer_to_worker(const Endpoint& to, const std::vector<std::byte>& payload) {
  // The youngest process at an address has its port.
  for (uint32_t i = worker_count(); i-- > 0;) {
    Worker& worker = *workers_[i];
    if (worker.address != to) continue;
    if (worker.crashed || worker.backlog.size() == kWorkerBacklogMax) return false;
    worker.backlog.push_back(payload);
    schedule_worker(i, now_);
    return true;
  }
  return false;
}

void VirtualNet::deliver(const Endpoint& from, const Endpoint& to,
                         const std::vector<std::byte>& payload) {
  add_to_digest(from, to, payload);
  counters_.delivered++;
  for (uint32_t i = 0; i < aggregators_.size(); i++) {
    VirtualAggregator& aggregator = *aggregators_[i];
    if (aggregator.address() != to) continue;
    if (!aggregator.runs() || !aggregator.port().inject(0, payload, from)) counters_.nobody++;
    const auto delay_ticks =
        static_cast<int64_t>(link_draws_.unit() * static_cast<double>(kReadWithin.ticks()));
    schedule_aggregator(i, now_ + Duration::from_ticks(delay_ticks));
    return;
  }
  for (const ReceiverNode& node : receivers_) {
    if (node.at == to) return node.receive(payload, from);
  }
  if (!offer_to_worker(to, payload)) counters_.nobody++;
}

void VirtualNet::add_to_digest(const Endpoint& from, const Endpoint& to,
                               std::span<const std::byte> payload) {
  constexpr uint64_t kFnvPrime = 0x100000001b3;  // FNV-1a, 64 bits.
  const auto add = [this](uint64_t value) { digest_ = (digest_ ^ value) * kFnvPrime; };
  add(static_cast<uint64_t>(now_.since_start().ticks()));
  for (const uint8_t byte : from.address) add(byte);
  for (const uint8_t byte : to.address) add(byte);
  for (const std::byte byte : payload) add(std::to_integer<uint64_t>(byte));
}

// --- Aggregators --------------------------------------------------------------------------------

uint32_t VirtualNet::add_aggregator(const trio_ml::JobConfig& job, const Endpoint& at) {
  const auto index = static_cast<uint32_t>(aggregators_.size());
  aggregators_.push_back(std::make_unique<VirtualAggregator>(job, at));
  restart_aggregator(index);
  return index;
}

void VirtualNet::stop_aggregator(uint32_t aggregator) { aggregators_.at(aggregator)->stop(); }

void VirtualNet::restart_aggregator(uint32_t aggregator) {
  aggregators_.at(aggregator)->start(seeds_.any_u64(), now_);
  schedule_aggregator(aggregator, now_);
}

void VirtualNet::schedule_aggregator(uint32_t index, Instant at) {
  VirtualAggregator& aggregator = *aggregators_[index];
  if (aggregator.wake_at <= at) return;
  aggregator.wake_at = at;
  push(at, Priority::kNode, [this, index, at] {
    if (aggregators_[index]->wake_at == at) run_aggregator(index);
  });
}

void VirtualNet::run_aggregator(uint32_t index) {
  VirtualAggregator& aggregator = *aggregators_[index];
  aggregator.wake_at = Instant::never();
  if (!aggregator.runs()) return;
  aggregator.core().run_once(now_);
  for (const io::SentPacket& packet : aggregator.port().take_sent(0)) {
    send(aggregator.address(), packet.destination, packet.bytes);
  }
  const bool more = aggregator.port().waiting_count(0) > 0;
  schedule_aggregator(index, more ? now_ : aggregator.core().program().next_due());
}

trio_ml::Job& VirtualNet::job(uint32_t aggregator) { return aggregators_.at(aggregator)->job(); }

uint64_t VirtualNet::count(uint32_t aggregator, trio_ml::Outcome outcome) const {
  return aggregators_.at(aggregator)->shard().counters()[static_cast<uint32_t>(outcome)].packets;
}

// --- Workers and others -------------------------------------------------------------------------

uint32_t VirtualNet::add_worker(const host::CommunicatorConfig& config, const Endpoint& at) {
  const uint32_t nonce = seeds_.any_u32() | 1;
  workers_.push_back(std::make_unique<Worker>(config, nonce, now_, at));
  const uint32_t index = worker_count() - 1;
  schedule_worker(index, now_);
  return index;
}

void VirtualNet::add_receiver(const Endpoint& at, Receiver receiver) {
  receivers_.push_back({at, std::move(receiver)});
}

const host::WorkerProtocol& VirtualNet::worker(uint32_t index) const {
  return workers_.at(index)->protocol;
}

void VirtualNet::submit(uint32_t worker, host::Transfer& transfer) {
  workers_.at(worker)->protocol.submit(transfer, now_);
  schedule_worker(worker, now_);
}

void VirtualNet::leave(uint32_t worker) {
  workers_.at(worker)->protocol.leave(now_);
  schedule_worker(worker, now_);
}

void VirtualNet::pause(uint32_t worker, Duration length) {
  Worker& paused = *workers_.at(worker);
  paused.paused_until = std::max(paused.paused_until, now_ + length);
}

void VirtualNet::crash(uint32_t worker) { workers_.at(worker)->crashed = true; }

void VirtualNet::schedule_worker(uint32_t index, Instant at) {
  Worker& worker = *workers_[index];
  at = std::max({at, now_, worker.paused_until});
  if (worker.wake_at <= at) return;
  worker.wake_at = at;
  push(at, Priority::kNode, [this, index, at] {
    if (workers_[index]->wake_at == at) run_worker(index);
  });
}

/// One round of a worker's I/O loop.
void VirtualNet::run_worker(uint32_t index) {
  Worker& worker = *workers_[index];
  worker.wake_at = Instant::never();
  if (worker.crashed) return;
  if (worker.paused_until > now_) return schedule_worker(index, now_);
  for (; !worker.backlog.empty(); worker.backlog.pop_front()) {
    worker.protocol.on_packet(worker.backlog.front(), now_);
  }
  worker.protocol.on_time(now_);
  std::vector<std::byte> packet(worker.protocol.packet_bytes_max());
  while (const uint32_t size = worker.protocol.next_packet(packet, now_)) {
    send(worker.address, worker.server, std::span(packet).first(size));
  }
  const Instant next = worker.protocol.next_deadline();
  if (next != Instant::never()) schedule_worker(index, next);
}

}  // namespace tributary::testing
