// SPDX-License-Identifier: Apache-2.0
#include "host/communicator.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <stop_token>
#include <unordered_map>

#include "auth/keys.h"
#include "base/assert.h"
#include "base/clock.h"
#include "host/auto_terms.h"
#include "host/channel.h"
#include "host/tensor_parts.h"
#include "host/worker_errors.h"
#include "host/worker_protocol.h"
#include "io/udp/udp_port.h"
#include "wire/receive_room.h"

namespace tributary::host {
namespace {

Result<void> check(const CommunicatorConfig& config) {
  if (!config.server.is_set()) return failure("server: no address given; allowed is HOST:PORT");
  if (config.world < 1 || config.world > wire::kSourcesMax) {
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
  if (config.threads < 1 || config.threads > wire::kChannelsMax) {
    return failure(fmt::format("threads={} is not allowed; allowed is 1 to {}", config.threads,
                               wire::kChannelsMax));
  }
  if (config.deadline <= Duration()) return failure("deadline must be longer than 0");
  return {};
}

/// Limits the window to the results that the port can buffer while this process has no core.
CommunicatorConfig fitting(CommunicatorConfig config, const engine::Port& port) {
  const uint32_t room =
      wire::window_in_room(port.receive_room_bytes(), config.gradients, /*senders=*/1);
  if (room > 0) config.window = std::min(config.window, room);
  return config;
}

/// Replaces the automatic values (0) by numbers.
CommunicatorConfig with_terms(CommunicatorConfig config, const engine::Port& port) {
  if (config.gradients == 0) {
    const uint32_t fits =
        auto_gradients(port.path_mtu(config.server), config.server.is_ipv4(), config.auth.mode);
    const uint32_t taken =
        (port.payload_bytes_max() - wire::head_bytes_max(config.auth.mode)) / wire::kGradientBytes;
    config.gradients = std::min(fits, taken);
    config.gradients_flexible = true;
  }
  if (config.window == 0) {
    config.window = auto_window(config.gradients, config.world * config.threads);
  }
  return fitting(config, port);
}

/// Returns the configuration of a further channel of a rank.
CommunicatorConfig channel_config(CommunicatorConfig config, uint32_t channel,
                                  const Channel::Snapshot& first) {
  config.job_id = static_cast<uint8_t>(config.job_id + channel);
  config.gradients = first.gradients;  // All channels cut the tensor into the same blocks.
  config.gradients_flexible = false;
  config.threads = 1;
  return config;
}

Result<void> check_packets(const TensorProtocol& protocol, const engine::Port& port) {
  if (protocol.packet_bytes_max() <= port.payload_bytes_max()) return {};
  return failure(fmt::format("packets of {} bytes are not allowed; allowed is {}, by the port",
                             protocol.packet_bytes_max(), port.payload_bytes_max()));
}

}  // namespace

struct Communicator::Impl final : Channel::Owner {
  struct Entry {
    std::vector<Channel::Part> parts;  ///< Shape [channels that take part]; do not move.
    size_t parts_left = 0;             ///< Parts in flight.
  };
  struct Failure {
    Status status;
    std::string text;
  };

  ~Impl() override { close(); }

  // --- In a channel's thread ---

  void on_phase(Channel& channel) override {
    const std::lock_guard lock(mutex);
    note_end(channel);
    changed.notify_all();
  }

  void on_done(std::span<Channel::Part* const> parts) override {
    const std::lock_guard lock(mutex);
    for (const Channel::Part* part : parts) entries.at(part->number).parts_left--;
    changed.notify_all();
  }

  /// The first channel that has ended ends the others with its reason. @pre mutex is held.
  void note_end(const Channel& ended) {
    const Channel::Snapshot snapshot = ended.snapshot();
    if (snapshot.phase != TensorProtocol::Phase::kEnded || failure) return;
    failure = Failure{snapshot.status, snapshot.text};
    for (size_t i = 0; i < channels.size(); i++) {
      const bool is_ended = channels[i].get() == &ended;
      if (is_ended && i > 0 && failure->status != Status::kClosed) {
        failure->text += fmt::format(" (channel {} of job {})", i, job_id);
      }
    }
    for (const auto& channel : channels) {
      if (channel.get() != &ended) channel->fail(failure->status, failure->text);
    }
  }

  // --- Callers ---

  /// Adds a channel and starts its join; joins_are_over() tells when it has joined or ended.
  Result<void> add_channel(std::unique_ptr<TensorProtocol> protocol,
                           std::unique_ptr<engine::Port> port) {
    if (const auto fits = check_packets(*protocol, *port); !fits) return fits;
    const std::lock_guard lock(mutex);
    channels.push_back(std::make_unique<Channel>(std::move(protocol), std::move(port), *this));
    channels.back()->start();
    if (failure) channels.back()->fail(failure->status, failure->text);
    if (leaving) channels.back()->leave();
    return {};
  }

  /// Ends all channels, and those that are added later.
  void leave_all() {
    const std::lock_guard lock(mutex);
    leaving = true;
    for (const auto& channel : channels) channel->leave();
  }

  /// Returns true if every channel has joined, or one has ended. A channel may show its end before
  /// it calls on_phase(), so this checks for the end too. @pre mutex is held.
  bool joins_are_over() {
    bool joining = false;
    for (const auto& channel : channels) {
      joining = joining || channel->snapshot().phase == TensorProtocol::Phase::kJoining;
      note_end(*channel);
    }
    return failure || !joining;
  }

  /// Waits until every channel has joined, or one has failed. @return the result of the join.
  Result<void> wait_for_joins(Status* status) {
    std::unique_lock lock(mutex);
    changed.wait(lock, [this] { return joins_are_over(); });
    if (!failure) return {};
    if (status != nullptr) *status = failure->status;
    return tl::unexpected(Error{failure->text});
  }

  uint64_t submit(const Transfer& transfer) {
    std::unique_lock lock(mutex);
    const uint64_t number = next_number++;
    Entry& entry = entries[number];
    const auto cut =
        tensor_parts(transfer.element_count(), gradients, static_cast<uint32_t>(channels.size()));
    for (const TensorPart& part : cut) {
      entry.parts.push_back({.number = number,
                             .element_first = part.element_first,
                             .transfer = transfer_of(transfer, part)});
    }
    // Under the lock, so that every channel gets the parts in the order of the calls.
    for (size_t i = 0; i < cut.size(); i++) {
      if (!failure && channels[i]->submit(entry.parts[i])) {
        entry.parts_left++;
        continue;
      }
      note_end(*channels[i]);
      entry.parts[i].transfer.outcome.status = failure->status;
    }
    lock.unlock();
    for (size_t i = 0; i < cut.size(); i++) channels[i]->wake();
    return number;
  }

  Outcome wait(uint64_t number) {
    std::unique_lock lock(mutex);
    TRIB_ASSERT(entries.contains(number));  // wait() once for each ticket.
    Entry& entry = entries.at(number);      // Stays in place when others are added.
    changed.wait(lock, [&entry] { return entry.parts_left == 0; });
    Outcome outcome;
    bool failed = false;
    for (Channel::Part& part : entry.parts) {
      failed = failed || !goes_on_after(part.transfer.outcome.status);
      add_outcome(outcome, std::move(part.transfer.outcome), part.element_first);
    }
    if (failed) {
      outcome.status = failure->status;
      outcome.text = failure->text;
    }
    if (outcome.status == Status::kOk) {
      const Transfer& any = entry.parts.front().transfer;
      outcome.warning = precision_warning(outcome, any.format, any.scale);
    }
    entries.erase(number);
    return outcome;
  }

  bool wait_until_done(uint64_t number, Duration at_most) {
    std::unique_lock lock(mutex);
    const auto done = [this, number] {
      const auto found = entries.find(number);
      return found == entries.end() || found->second.parts_left == 0;
    };
    // Limit to a year: the range of the clock's type is smaller than Duration's.
    const auto wait_ns = std::chrono::nanoseconds(
        in_nanoseconds(std::clamp(at_most, Duration(), seconds(365LL * 24 * 3600))));
    return changed.wait_for(lock, wait_ns, done);
  }

  void close() {
    for (const auto& channel : channels) channel->leave();
    for (const auto& channel : channels) channel->join();
  }

  std::mutex mutex;
  std::condition_variable changed;  ///< Parts are done, or a channel has joined or ended.
  std::unordered_map<uint64_t, Entry> entries;  ///< Node-based: parts do not move.
  uint64_t next_number = 0;
  bool leaving = false;            ///< The caller has stopped the join.
  std::optional<Failure> failure;  ///< The first failure; it ends all channels.
  /// Complete before join() or drive() returns; only read after that.
  std::vector<std::unique_ptr<Channel>> channels;
  uint32_t gradients = 1;  ///< Set and read like `channels`.
  uint32_t job_id = 0;     ///< For texts.
};

Communicator::Communicator(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

Communicator::~Communicator() = default;

Result<std::unique_ptr<Communicator>> Communicator::join(const CommunicatorConfig& config,
                                                         Status* status) {
  const auto open_socket = [&config](uint32_t) -> Result<std::unique_ptr<engine::Port>> {
    io::UdpPortConfig port_config;
    port_config.peer = config.server;
    auto port = io::UdpPort::open(port_config);
    if (!port) return tl::unexpected(port.error());
    return std::move(*port);
  };
  return join(config, open_socket, status);
}

Result<std::unique_ptr<Communicator>> Communicator::join(const CommunicatorConfig& config,
                                                         const PortOpener& open_port,
                                                         Status* status) {
  if (const auto checked = check(config); !checked) return tl::unexpected(checked.error());
  auto impl = std::make_unique<Impl>();
  impl->job_id = config.job_id;
  const std::stop_callback stop(config.join_stop, [owner = impl.get()] { owner->leave_all(); });
  const Instant now = monotonic_now();  // The deadline counts for the join of all channels.
  CommunicatorConfig complete;
  Channel::Snapshot first;
  for (uint32_t channel = 0; channel < std::max(first.channels, 1U); channel++) {
    auto port = open_port(channel);
    if (!port) return tl::unexpected(port.error());
    if (channel == 0) complete = with_terms(config, **port);
    const CommunicatorConfig own =
        channel == 0 ? complete : fitting(channel_config(complete, channel, first), **port);
    const auto added = impl->add_channel(
        std::make_unique<WorkerProtocol>(own, auth::random_u64(), now), *std::move(port));
    if (!added) return tl::unexpected(added.error());
    if (channel > 0) continue;
    // The first channel's welcome tells the number of channels.
    if (const auto joined = impl->wait_for_joins(status); !joined) {
      return tl::unexpected(joined.error());
    }
    first = impl->channels.front()->snapshot();
    impl->gradients = first.gradients;
  }
  if (const auto joined = impl->wait_for_joins(status); !joined) {
    return tl::unexpected(joined.error());
  }
  return std::unique_ptr<Communicator>(new Communicator(std::move(impl)));
}

Result<std::unique_ptr<Communicator>> Communicator::join(const CommunicatorConfig& config,
                                                         std::unique_ptr<engine::Port> port,
                                                         Status* status) {
  if (config.threads > 1) {
    return failure(
        fmt::format("threads={} is not allowed over one port; allowed is 1", config.threads));
  }
  const auto take = [&port](uint32_t) -> Result<std::unique_ptr<engine::Port>> {
    return std::move(port);
  };
  return join(config, take, status);
}

Result<std::unique_ptr<Communicator>> Communicator::drive(std::unique_ptr<TensorProtocol> protocol,
                                                          std::unique_ptr<engine::Port> port,
                                                          Status* status) {
  auto impl = std::make_unique<Impl>();
  const auto added = impl->add_channel(std::move(protocol), std::move(port));
  if (!added) return tl::unexpected(added.error());
  if (const auto joined = impl->wait_for_joins(status); !joined) {
    return tl::unexpected(joined.error());
  }
  impl->gradients = impl->channels.front()->snapshot().gradients;
  return std::unique_ptr<Communicator>(new Communicator(std::move(impl)));
}

Ticket Communicator::all_reduce_async(std::span<float> tensor, const AllReduceOptions& options) {
  Transfer transfer;
  transfer.floats = tensor;
  transfer.op = options.op;
  transfer.receive_only = options.receive_only;
  transfer.scale = options.scale;
  transfer.format = options.format == FloatFormat::kFixedScale
                        ? wire::ElementFormat::kFixedScale
                        : wire::ElementFormat::kBlockExponent;
  return Ticket(impl_->submit(transfer));
}

Ticket Communicator::all_reduce_async(HalfTensor tensor, ReduceOp op, bool receive_only) {
  Transfer transfer;
  transfer.halves = tensor;
  transfer.op = op;
  transfer.receive_only = receive_only;
  transfer.format = wire::ElementFormat::kBlockExponent;
  return Ticket(impl_->submit(transfer));
}

Ticket Communicator::all_reduce_async(std::span<int32_t> tensor, ReduceOp op, bool receive_only) {
  Transfer transfer;
  transfer.integers = tensor;
  transfer.op = op;
  transfer.receive_only = receive_only;
  return Ticket(impl_->submit(transfer));
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
  CommunicatorCounters sum;
  for (const auto& channel : impl_->channels) sum += channel->snapshot().counters;
  return sum;
}

// The first channel's values hold for all: it has the largest part of every tensor.

Progress Communicator::progress() const { return impl_->channels.front()->progress(); }

uint32_t Communicator::window() const { return impl_->channels.front()->snapshot().window; }

Duration Communicator::straggler_timeout() const {
  return impl_->channels.front()->snapshot().straggler_timeout;
}

uint32_t Communicator::gradients() const { return impl_->gradients; }

uint32_t Communicator::threads() const { return static_cast<uint32_t>(impl_->channels.size()); }

}  // namespace tributary::host
