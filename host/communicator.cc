// SPDX-License-Identifier: Apache-2.0
#include "host/communicator.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <random>
#include <thread>
#include <unordered_map>

#include "base/assert.h"
#include "base/clock.h"
#include "engine/port.h"
#include "host/auto_terms.h"
#include "host/worker_protocol.h"
#include "io/udp_port.h"
#include "microcode/receive_room.h"

namespace tributary::host {
namespace {

/// Longest sleep of the I/O thread; bounds the harm should a wake-up be lost.
constexpr Duration kSleepMax = milliseconds(100);

/// With a multicast group the thread sleeps on the group's socket, where the results come in, and
/// looks at its own this often.
constexpr Duration kGroupSleepMax = milliseconds(2);

/// What the I/O thread shows to callers.
struct Shown {
  TensorProtocol::Phase phase = TensorProtocol::Phase::kJoining;
  Status status = Status::kOk;
  std::string text;
  uint32_t window = 0;
  uint32_t gradients = 0;
  Duration straggler_timeout;
  CommunicatorCounters counters;
};

uint32_t new_nonce() {
  std::random_device device;
  return device() | 1;
}

Result<void> check(const CommunicatorConfig& config) {
  if (!config.server.is_set()) return failure("server: no address given; allowed is HOST:PORT");
  if (config.world < 1 || config.world > microcode::kSourcesMax) {
    return failure(fmt::format("world={} is not allowed; allowed is 1 to 256", config.world));
  }
  if (config.rank >= config.world) {
    return failure(
        fmt::format("rank={} is not allowed; allowed is 0 to {}", config.rank, config.world - 1));
  }
  if (config.gradients > 4095) {
    return failure(fmt::format("gradients={} is not allowed; allowed is 1 to 4095, or 0 for auto",
                               config.gradients));
  }
  if (config.window > 65536) {
    return failure(fmt::format("window={} is not allowed; allowed is 1 to 65536, or 0 for auto",
                               config.window));
  }
  if (config.deadline <= Duration()) return failure("deadline must be longer than 0");
  return {};
}

/// With numbers for what was left to choose.
CommunicatorConfig with_terms(CommunicatorConfig config, const engine::Port& port) {
  if (config.gradients == 0) {
    const uint32_t fitting = auto_gradients(port.path_mtu(config.server), config.server.is_ipv4());
    const uint32_t taken =
        (port.payload_bytes_max() - microcode::kMessageHeadBytesMax) / microcode::kGradientBytes;
    config.gradients = std::min(fitting, taken);
    config.gradients_flexible = true;
  }
  if (config.window == 0) config.window = auto_window(config.gradients, config.world);
  return config;
}

}  // namespace

struct Communicator::Impl {
  Impl(std::unique_ptr<TensorProtocol> protocol_in, std::unique_ptr<engine::Port> port_in)
      : port(std::move(port_in)), queue(port->queue(0)), protocol(std::move(protocol_in)) {
    packet_bytes = protocol->packet_bytes_max();
    send_bytes.resize(size_t{engine::kBurstPackets} * packet_bytes);
    show();
  }

  struct Entry {
    Transfer transfer;
    bool done =
        false;  ///< As transfer.done was last seen; under the mutex, as the transfer is not.
  };

  // --- The I/O thread ---

  void loop() {
    while (true) {
      const Instant now = monotonic_now();
      take_submissions(now);
      const bool received = receive(now);
      protocol->on_time(now);
      const bool sent = send(now);
      finish_transfers();
      show_progress();
      if (protocol->phase() == TensorProtocol::Phase::kEnded && !sent) break;
      if (protocol->group().is_set() && !group_is_open) open_group();
      if (!received && !sent) sleep(now);
    }
    ended.store(true, std::memory_order_release);
    // Nobody serves submissions any more: fail those that came in meanwhile.
    take_submissions(monotonic_now());
    finish_transfers();
  }

  void take_submissions(Instant now) {
    const std::lock_guard lock(mutex);
    for (Entry* entry : submitted) {
      protocol->submit(entry->transfer, now);
      in_work.push_back(entry);
    }
    submitted.clear();
    if (close_wanted && protocol->phase() != TensorProtocol::Phase::kEnded) protocol->leave(now);
  }

  bool receive(Instant now) {
    const bool own = receive_from(queue, now);
    return (group_port != nullptr && receive_from(group_port->queue(0), now)) || own;
  }

  bool receive_from(engine::PortQueue& from, Instant now) {
    const uint32_t count = from.receive(burst);
    for (uint32_t i = 0; i < count; i++) {
      const engine::Packet& packet = burst[i];
      protocol->on_packet(
          {.from = packet.source, .stored = packet.bytes(), .size_bytes = packet.size}, now);
    }
    return count > 0;
  }

  /// The aggregator sends results to a multicast group: listens to it too.
  void open_group() {
    group_is_open = true;
    const auto joined = port->join_group(protocol->group());
    if (!joined) {
      protocol->fail(Status::kRefused,
                     fmt::format("results come by multicast, but {}", joined.error().text));
    }
    if (!joined || *joined) return;  // Else this port cannot, and a socket of its own does.
    io::UdpPortConfig config;
    config.local.port = protocol->group().port;
    // Joined on the interface that leads to the aggregator.
    config.multicast =
        io::UdpMulticast{.group = protocol->group(), .via = port->local(), .share = true};
    auto opened = io::UdpPort::open(config);
    if (opened) {
      group_port = *std::move(opened);
    } else {
      protocol->fail(Status::kRefused,
                     fmt::format("results come by multicast, but {}", opened.error().text));
    }
  }

  void sleep(Instant now) {
    const Duration until_due = std::max(protocol->next_deadline() - now, Duration());
    if (group_port != nullptr) {
      group_port->queue(0).wait(std::min(until_due, kGroupSleepMax));
    } else {
      queue.wait(std::min(until_due, kSleepMax));
    }
  }

  bool send(Instant now) {
    uint32_t count = 0;
    while (count < engine::kBurstPackets) {
      std::byte* bytes = send_bytes.data() + size_t{count} * packet_bytes;
      const Outgoing packet = protocol->next_packet({bytes, packet_bytes}, now);
      if (packet.size_bytes == 0) break;
      TRIB_ASSERT(packet.stored_bytes == packet.size_bytes);  // No tensor here is elided.
      sending[count++] = {bytes, packet.size_bytes, packet.to};
    }
    queue.transmit(std::span(sending).first(count));
    return count > 0;
  }

  /// Publishes what has changed and wakes those who wait for it.
  void finish_transfers() {
    const auto done = std::partition(in_work.begin(), in_work.end(),
                                     [](const Entry* entry) { return !entry->transfer.done; });
    if (done == in_work.end() && protocol->phase() == shown.phase) return;
    show_progress();
    const std::lock_guard lock(mutex);
    for (auto it = done; it != in_work.end(); ++it) (*it)->done = true;
    in_work.erase(done, in_work.end());
    show();
    finished.notify_all();
  }

  void show_progress() {
    const Progress progress = protocol->progress();
    progress_submitted.store(progress.submitted, std::memory_order_relaxed);
    progress_heard.store(progress.heard, std::memory_order_relaxed);
  }

  /// @pre mutex is held, or no other thread runs.
  void show() {
    shown = {.phase = protocol->phase(),
             .status = protocol->status(),
             .text = protocol->status_text(),
             .window = protocol->window(),
             .gradients = protocol->gradients(),
             .straggler_timeout = protocol->straggler_timeout(),
             .counters = protocol->counters()};
  }

  // --- Callers ---

  uint64_t submit(Transfer transfer) {
    std::unique_lock lock(mutex);
    const uint64_t number = next_number++;
    Entry& entry = entries[number];
    entry.transfer = std::move(transfer);
    if (ended.load(std::memory_order_acquire)) {
      entry.transfer.outcome.status = shown.status;
      entry.transfer.outcome.text = shown.text;
      entry.done = true;
      return number;
    }
    submitted.push_back(&entry);
    lock.unlock();
    queue.wake();
    return number;
  }

  Outcome wait(uint64_t number) {
    std::unique_lock lock(mutex);
    TRIB_ASSERT(entries.contains(number));  // A ticket is waited for once.
    Entry& entry = entries.at(number);      // Stays where it is when others are added.
    finished.wait(lock, [&entry] { return entry.done; });
    Outcome outcome = std::move(entry.transfer.outcome);
    entries.erase(number);
    return outcome;
  }

  bool wait_until_done(uint64_t number, Duration at_most) {
    std::unique_lock lock(mutex);
    const auto done = [this, number] {
      const auto found = entries.find(number);
      return found == entries.end() || found->second.done;
    };
    // Longer than a year is for ever: the clock's own type ends earlier than Duration's.
    const auto wait_ns = std::chrono::nanoseconds(
        in_nanoseconds(std::clamp(at_most, Duration(), seconds(365LL * 24 * 3600))));
    return finished.wait_for(lock, wait_ns, done);
  }

  void close() {
    {
      const std::lock_guard lock(mutex);
      close_wanted = true;
    }
    queue.wake();
    if (thread.joinable()) thread.join();
  }

  std::unique_ptr<engine::Port> port;
  engine::PortQueue& queue;
  bool group_is_open = false;                ///< Asked for; once is enough.
  std::unique_ptr<engine::Port> group_port;  ///< Owned by the I/O thread; null without a group.

  // Owned by the I/O thread.
  std::unique_ptr<TensorProtocol> protocol;
  std::vector<Entry*> in_work;
  std::array<engine::Packet, engine::kBurstPackets> burst{};
  std::array<engine::TxPacket, engine::kBurstPackets> sending{};
  uint32_t packet_bytes = 0;
  std::vector<std::byte> send_bytes;  ///< Shape [kBurstPackets][packet_bytes].

  // Under the mutex.
  std::mutex mutex;
  std::condition_variable finished;
  std::unordered_map<uint64_t, Entry> entries;  ///< Node-based: transfers do not move.
  std::vector<Entry*> submitted;
  uint64_t next_number = 0;
  bool close_wanted = false;
  Shown shown;
  std::atomic<bool> ended{false};  ///< Release by the I/O thread; acquire in submit().
  /// Progress, relaxed: a hint of how far others are. Written before an operation's end is told.
  std::atomic<uint64_t> progress_submitted{0};
  std::atomic<uint64_t> progress_heard{0};

  std::thread thread;
};

Communicator::Communicator(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

Communicator::~Communicator() { close(); }

Result<std::unique_ptr<Communicator>> Communicator::join(const CommunicatorConfig& config,
                                                         Status* status) {
  if (const auto checked = check(config); !checked) return tl::unexpected(checked.error());
  io::UdpPortConfig port_config;
  port_config.peer = config.server;
  auto port = io::UdpPort::open(port_config);
  if (!port) return tl::unexpected(port.error());
  CommunicatorConfig fitting = with_terms(config, **port);
  // Results of a whole window may come while this process has no core.
  fitting.window = std::min(
      fitting.window,
      microcode::window_in_room((*port)->receive_room_bytes(), fitting.gradients, /*senders=*/1));
  return join(fitting, *std::move(port), status);
}

Result<std::unique_ptr<Communicator>> Communicator::join(const CommunicatorConfig& config,
                                                         std::unique_ptr<engine::Port> port,
                                                         Status* status) {
  if (const auto checked = check(config); !checked) return tl::unexpected(checked.error());
  const CommunicatorConfig complete = with_terms(config, *port);
  return drive(std::make_unique<WorkerProtocol>(complete, new_nonce(), monotonic_now()),
               std::move(port), status);
}

Result<std::unique_ptr<Communicator>> Communicator::drive(std::unique_ptr<TensorProtocol> protocol,
                                                          std::unique_ptr<engine::Port> port,
                                                          Status* status) {
  if (protocol->packet_bytes_max() > port->payload_bytes_max()) {
    return failure(fmt::format("packets of {} bytes are not allowed; allowed is {}, by the port",
                               protocol->packet_bytes_max(), port->payload_bytes_max()));
  }
  auto impl = std::make_unique<Impl>(std::move(protocol), std::move(port));
  impl->thread = std::thread([&impl = *impl] { impl.loop(); });
  {
    std::unique_lock lock(impl->mutex);
    impl->finished.wait(lock,
                        [&impl] { return impl->shown.phase != TensorProtocol::Phase::kJoining; });
  }
  if (impl->shown.phase == TensorProtocol::Phase::kEnded) {
    impl->thread.join();
    if (status != nullptr) *status = impl->shown.status;
    return failure(impl->shown.text);
  }
  return std::unique_ptr<Communicator>(new Communicator(std::move(impl)));
}

Ticket Communicator::all_reduce_async(std::span<float> tensor, const AllReduceOptions& options) {
  Transfer transfer;
  transfer.floats = tensor;
  transfer.op = options.op;
  transfer.receive_only = options.receive_only;
  transfer.scale = options.scale;
  transfer.format = options.format == FloatFormat::kFixedScale
                        ? microcode::ElementFormat::kFixedScale
                        : microcode::ElementFormat::kBlockExponent;
  return Ticket(impl_->submit(std::move(transfer)));
}

Ticket Communicator::all_reduce_async(HalfTensor tensor, ReduceOp op, bool receive_only) {
  Transfer transfer;
  transfer.halves = tensor;
  transfer.op = op;
  transfer.receive_only = receive_only;
  transfer.format = microcode::ElementFormat::kBlockExponent;
  return Ticket(impl_->submit(std::move(transfer)));
}

Ticket Communicator::all_reduce_async(std::span<int32_t> tensor, ReduceOp op, bool receive_only) {
  Transfer transfer;
  transfer.integers = tensor;
  transfer.op = op;
  transfer.receive_only = receive_only;
  return Ticket(impl_->submit(std::move(transfer)));
}

Outcome Communicator::wait(Ticket ticket) { return impl_->wait(ticket.number()); }

Outcome Communicator::all_reduce(std::span<float> tensor, const AllReduceOptions& options) {
  return wait(all_reduce_async(tensor, options));
}

Outcome Communicator::all_reduce(std::span<int32_t> tensor, ReduceOp op) {
  return wait(all_reduce_async(tensor, op));
}

Outcome Communicator::all_reduce(HalfTensor tensor, ReduceOp op) {
  return wait(all_reduce_async(tensor, op));
}

bool Communicator::wait_until_done(Ticket ticket, Duration at_most) {
  return impl_->wait_until_done(ticket.number(), at_most);
}

void Communicator::close() { impl_->close(); }

CommunicatorCounters Communicator::counters() const {
  const std::lock_guard lock(impl_->mutex);
  return impl_->shown.counters;
}

Progress Communicator::progress() const {
  return {.submitted = impl_->progress_submitted.load(std::memory_order_relaxed),
          .heard = impl_->progress_heard.load(std::memory_order_relaxed)};
}

uint32_t Communicator::window() const {
  const std::lock_guard lock(impl_->mutex);
  return impl_->shown.window;
}

Duration Communicator::straggler_timeout() const {
  const std::lock_guard lock(impl_->mutex);
  return impl_->shown.straggler_timeout;
}

uint32_t Communicator::gradients() const {
  const std::lock_guard lock(impl_->mutex);
  return impl_->shown.gradients;
}

}  // namespace tributary::host
