// SPDX-License-Identifier: Apache-2.0
#include "lab/backends/live_host.h"

#include <algorithm>
#include <deque>
#include <vector>

#include "base/assert.h"

namespace tributary::lab {
namespace {

/// From a datagram's arrival to its reading, at most. Assumed: a polling core's round.
constexpr Duration kReadWithin = microseconds(5);
/// Datagrams that wait to be read. Assumed: a socket's 4 MiB hold about as many of the larger ones.
constexpr size_t kBacklogMax = 4096;

}  // namespace

/// The queue of the core's loop.
class LiveHost::Queue final : public engine::PortQueue {
 public:
  explicit Queue(LiveHost& host) : host_(host) {}

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
      const bool apart = host_.watch_ != nullptr && host_.watch_->is_apart(host_, *packet);
      if (apart && !reading_.empty()) break;
      engine::Packet& to = burst[reading_.size()];
      to.data = packet->stored.data();
      to.size = static_cast<uint32_t>(packet->stored.size());
      to.layer = engine::PacketLayer::kUdpPayload;
      to.source = packet->source;
      reading_.push_back(std::move(packet));
      backlog_.pop_front();
      if (apart) break;
    }
    return static_cast<uint32_t>(reading_.size());
  }
  void transmit(std::span<const engine::TxPacket> packets) override {
    for (const engine::TxPacket& packet : packets) {
      host_.send({packet.data, packet.size}, packet.size, {&packet.destination, 1});
    }
  }
  /// Returns the datagrams of the last receive().
  [[nodiscard]] std::span<const net::PacketRef> burst() const { return reading_; }
  /// The burst's packets have been dealt with.
  void forget_burst() { reading_.clear(); }
  void wait(Duration) override {}
  void wake() override {}
  [[nodiscard]] engine::PortCounters counters() const override { return {}; }

 private:
  LiveHost& host_;
  std::deque<net::PacketRef> backlog_;
  std::vector<net::PacketRef> reading_;  ///< Packets of the last receive().
};

LiveHost::LiveHost(net::Network& network, const AggregatorSpec& spec)
    : AggregatorNode(network, spec) {}

LiveHost::~LiveHost() = default;

Result<void> LiveHost::begin_process() {
  auto queue = std::make_unique<Queue>(*this);
  auto process = make_process(*queue, local_now());
  if (!process) return tl::unexpected(process.error());
  process_ = *std::move(process);
  queue_ = std::move(queue);
  schedule(core().now());
  return {};
}

void LiveHost::stop() {
  process_.reset();
  queue_.reset();
}

void LiveHost::start() {
  stop();
  TRIB_ASSERT(begin_process().has_value());  // Accepted before.
}

void LiveHost::pause(Duration length) {
  paused_until_ = std::max(paused_until_, core().now() + length);
}

void LiveHost::step_clock(Duration ahead) {
  clock_ahead_ = clock_ahead_ + ahead;
  if (runs()) schedule(core().now());
}

void LiveHost::aggregate(net::PacketRef packet) {
  if (!runs() || !queue_->offer(std::move(packet))) {
    lost_++;
    return;
  }
  packets_++;
  schedule(core().now() + kReadWithin);
}

void LiveHost::schedule(Instant at) {
  at = std::max({at, core().now(), paused_until_});
  if (wake_at_ <= at) return;
  wake_at_ = at;
  core().schedule(at, EventPriority::kMachine, *this,
                  static_cast<uint64_t>(at.since_start().ticks()));
}

void LiveHost::on_event(uint64_t argument) {
  // An earlier wake-up may have been asked for since; this one is void then.
  if (static_cast<uint64_t>(wake_at_.since_start().ticks()) != argument) return;
  wake_at_ = Instant::never();
  if (!runs()) return;
  if (paused_until_ > core().now()) {
    schedule(paused_until_);
    return;
  }
  process_->run_once(local_now());
  if (watch_ != nullptr) watch_->on_burst(*this, queue_->burst());
  queue_->forget_burst();
  const bool more = queue_->waiting_count() > 0;
  const Instant due = process_->next_due();
  if (more) {
    schedule(core().now());
  } else if (due != Instant::never()) {
    schedule(due - clock_ahead_);
  }
  on_round();
}

AggregatorResult LiveHost::result(Duration) const {
  AggregatorResult result;
  result.name = name();
  result.packets = packets_;
  result.dropped = lost_ + unroutable();
  result.bottleneck = "none: the live engine takes no time in virtual time";
  return result;
}

}  // namespace tributary::lab
