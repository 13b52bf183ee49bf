// SPDX-License-Identifier: Apache-2.0
#include "lab/cluster/live_node.h"

#include <algorithm>

#include "base/assert.h"

namespace tributary::lab {
namespace {

/// From a datagram's arrival to its reading, at most. Assumed: a polling core's round.
constexpr Duration kReadWithin = microseconds(5);
/// Datagrams that wait to be read. Assumed: about what a socket's 4 MiB hold of the larger ones.
constexpr size_t kBacklogMax = 4096;

/// What the core's loop reads from and writes to.
class VirtualQueue final : public engine::PortQueue {
 public:
  using Send = void (*)(void* node, const engine::TxPacket& packet);
  VirtualQueue(void* node, Send send) : node_(node), send_(send) {}

  [[nodiscard]] bool offer(net::PacketRef packet) {
    if (backlog_.size() == kBacklogMax) return false;
    backlog_.push_back(std::move(packet));
    return true;
  }
  [[nodiscard]] size_t waiting_count() const { return backlog_.size(); }

  uint32_t receive(std::span<engine::Packet> burst) override {
    reading_.clear();
    while (reading_.size() < burst.size() && !backlog_.empty()) {
      net::PacketRef& packet = backlog_.front();
      engine::Packet& to = burst[reading_.size()];
      to.data = packet->stored.data();
      to.size = static_cast<uint32_t>(packet->stored.size());
      to.layer = engine::PacketLayer::kUdpPayload;
      to.source = packet->source;
      reading_.push_back(std::move(packet));
      backlog_.pop_front();
    }
    return static_cast<uint32_t>(reading_.size());
  }
  void transmit(std::span<const engine::TxPacket> packets) override {
    for (const engine::TxPacket& packet : packets) send_(node_, packet);
  }
  /// The burst's packets have been dealt with.
  void forget_burst() { reading_.clear(); }
  void wait(Duration) override {}
  void wake() override {}
  [[nodiscard]] engine::PortCounters counters() const override { return {}; }

 private:
  void* const node_;
  const Send send_;
  std::deque<net::PacketRef> backlog_;
  std::vector<net::PacketRef> reading_;  ///< Those of the last receive().
};

uint64_t memory_needed(const std::vector<trio_ml::JobConfig>& jobs) {
  // Each of a job's few arrays may be aligned to a page.
  constexpr uint64_t kSlackBytes = 64 << 10;
  uint64_t size = kSlackBytes;
  for (const trio_ml::JobConfig& job : jobs) {
    size += trio_ml::memory_bytes(job, /*shard_count=*/1) + kSlackBytes;
  }
  return size;
}

}  // namespace

/// All that is lost when a process ends.
struct LiveNode::Process {
  Process(LiveNode& node, memory::SharedMemory memory_in)
      : memory(std::move(memory_in)),
        queue(&node,
              [](void* to, const engine::TxPacket& packet) {
                static_cast<LiveNode*>(to)->send({packet.data, packet.size}, packet.size,
                                                 {&packet.destination, 1});
              }),
        shard(0, 1, node.address().port, memory),
        core(0, queue, trio_ml::App(shard), {}) {}

  memory::SharedMemory memory;
  VirtualQueue queue;
  std::vector<std::unique_ptr<trio_ml::Session>> sessions;
  trio_ml::Shard shard;
  engine::LiveCore<trio_ml::App> core;
};

LiveNode::LiveNode(net::Network& network, const AggregatorSpec& spec,
                   std::vector<trio_ml::JobConfig> jobs)
    : AggregatorNode(network, spec), jobs_(std::move(jobs)), seeds_(spec.seed) {}

LiveNode::~LiveNode() = default;

Result<std::unique_ptr<LiveNode>> LiveNode::create(
    net::Network& network, const AggregatorSpec& spec,
    const std::vector<trio_ml::JobConfig>& more_jobs) {
  std::vector<trio_ml::JobConfig> jobs{spec.job};
  jobs.insert(jobs.end(), more_jobs.begin(), more_jobs.end());
  std::unique_ptr<LiveNode> node(new LiveNode(network, spec, std::move(jobs)));
  if (const auto begun = node->begin_process(); !begun) return tl::unexpected(begun.error());
  return node;
}

Result<void> LiveNode::begin_process() {
  auto memory =
      memory::SharedMemory::create({.sram_size_bytes = 0, .dram_size_bytes = memory_needed(jobs_)});
  if (!memory) return tl::unexpected(memory.error());
  auto process = std::make_unique<Process>(*this, *std::move(memory));
  for (const trio_ml::JobConfig& job : jobs_) {
    process->sessions.push_back(std::make_unique<trio_ml::Session>(job, seeds_.any_u64()));
    const auto added = process->shard.add_job(job, *process->sessions.back(), local_now());
    if (!added) return added;
  }
  process_ = std::move(process);
  schedule(core().now());
  return {};
}

void LiveNode::stop() { process_.reset(); }

void LiveNode::start() {
  stop();
  TRIB_ASSERT(begin_process().has_value());  // The same jobs were accepted before.
}

void LiveNode::pause(Duration length) {
  paused_until_ = std::max(paused_until_, core().now() + length);
}

void LiveNode::step_clock(Duration ahead) {
  clock_ahead_ = clock_ahead_ + ahead;
  if (runs()) schedule(core().now());
}

trio_ml::Shard& LiveNode::shard() { return process_->shard; }
const trio_ml::Shard& LiveNode::shard() const { return process_->shard; }

void LiveNode::aggregate(net::PacketRef packet) {
  if (!runs() || !process_->queue.offer(std::move(packet))) {
    lost_++;
    return;
  }
  packets_++;
  schedule(core().now() + kReadWithin);
}

void LiveNode::schedule(Instant at) {
  at = std::max({at, core().now(), paused_until_});
  if (wake_at_ <= at) return;
  wake_at_ = at;
  core().schedule(at, EventPriority::kMachine, *this,
                  static_cast<uint64_t>(at.since_start().ticks()));
}

void LiveNode::on_event(uint64_t argument) {
  // An earlier wake-up may have been asked for since; this one is void then.
  if (static_cast<uint64_t>(wake_at_.since_start().ticks()) != argument) return;
  wake_at_ = Instant::never();
  if (!runs()) return;
  if (paused_until_ > core().now()) {
    schedule(paused_until_);
    return;
  }
  process_->core.run_once(local_now());
  process_->queue.forget_burst();
  const bool more = process_->queue.waiting_count() > 0;
  const Instant due = process_->core.program().next_due();
  if (more) {
    schedule(core().now());
  } else if (due != Instant::never()) {
    schedule(due - clock_ahead_);
  }
  if (observer_ != nullptr) observer_->on_round(*this);
}

AggregatorResult LiveNode::result(Duration) const {
  AggregatorResult result;
  result.name = name();
  result.packets = packets_;
  result.dropped = lost_ + unroutable();
  result.bottleneck = "none: the live engine takes no time in virtual time";
  return result;
}

}  // namespace tributary::lab
