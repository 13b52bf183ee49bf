// SPDX-License-Identifier: Apache-2.0
#include "host/communicator.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <stop_token>
#include <thread>
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
#include "plan/part_cutter.h"
#include "wire/receive_room.h"

namespace tributary::host {
namespace {

/// Most lists that a join tries. Assumed: a directory changes its list when an aggregator comes or
/// goes, which is rare beside a join.
constexpr uint32_t kListsMax = 16;
/// Time after which the directory is asked again. Assumed; short beside a join.
constexpr std::chrono::milliseconds kListRetryAfter{50};

Result<void> check(const CommunicatorConfig& config) {
  if (!config.server.is_set() && config.aggregators.empty()) {
    return failure("server: no address given; allowed is HOST:PORT");
  }
  if (const auto distinct = check_addresses(config.aggregators); !distinct) return distinct;
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

/// Returns the elements of a packet that fits the path from this port to the aggregator.
uint32_t gradients_on(const CommunicatorConfig& config, const Endpoint& server,
                      const engine::Port& port) {
  const uint32_t fits = auto_gradients(port.path_mtu(server), server.is_ipv4(), config.auth.mode);
  const uint32_t taken =
      (port.payload_bytes_max() - wire::head_bytes_max(config.auth.mode)) / wire::kGradientBytes;
  return std::min(fits, taken);
}

/// Returns the configuration of the channel to one aggregator, without automatic values (0).
/// @param weight_sum Of all aggregators.
CommunicatorConfig with_terms(CommunicatorConfig config, const Aggregator& aggregator,
                              uint64_t weight_sum, const engine::Port& port) {
  config.server = aggregator.address;
  if (config.window == 0) {
    config.window = weighted_window(auto_window(config.gradients, config.world * config.threads),
                                    aggregator.weight, weight_sum);
  }
  return fitting(config, port);
}

/// Returns the configuration of a rank's further channel to the same aggregator.
CommunicatorConfig further_channel(CommunicatorConfig config, uint32_t channel) {
  config.job_id = static_cast<uint8_t>(config.job_id + channel);
  config.gradients_flexible = false;
  config.threads = 1;
  return config;
}

/// Returns the aggregators that this job uses: those with a weight, or `server`.
std::vector<Aggregator> used_aggregators(const CommunicatorConfig& config) {
  std::vector<Aggregator> used;
  for (const Aggregator& each : config.aggregators) {
    if (each.weight > 0) used.push_back(each);
  }
  if (used.empty()) used.push_back({.name = config.server.to_string(), .address = config.server});
  return used;
}

Result<void> check_packets(const TensorProtocol& protocol, const engine::Port& port) {
  if (protocol.packet_bytes_max() <= port.payload_bytes_max()) return {};
  return failure(fmt::format("packets of {} bytes are not allowed; allowed is {}, by the port",
                             protocol.packet_bytes_max(), port.payload_bytes_max()));
}

}  // namespace

/// The other end of a channel, for texts.
struct ChannelPlace {
  std::string text = {};    ///< Empty if there is one channel only.
  uint32_t aggregator = 0;  ///< Its place in the job's list, from 1 on; 0: there is no list.
};

struct Communicator::Impl final : Channel::Owner {
  struct Entry {
    std::vector<Channel::Part> parts;  ///< Shape [channels that take part]; do not move.
    size_t parts_left = 0;             ///< Parts in flight.
  };
  struct Failure {
    Status status;
    std::string text;
    uint32_t lost_aggregator;  ///< Its place in the job's list, from 1 on; 0: none.
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
    failure = Failure{snapshot.status, snapshot.text, 0};
    for (size_t i = 0; i < channels.size(); i++) {
      if (channels[i].get() != &ended || failure->status == Status::kClosed) continue;
      failure->text += places[i].text;
      if (failure->status == Status::kAggregatorGone) {
        failure->lost_aggregator = places[i].aggregator;
      }
    }
    for (const auto& channel : channels) {
      if (channel.get() == &ended) continue;
      channel->fail(failure->status, failure->text, failure->lost_aggregator);
    }
  }

  // --- Callers ---

  /// Adds a channel and starts its join; joins_are_over() tells when it has joined or ended.
  Result<void> add_channel(std::unique_ptr<TensorProtocol> protocol,
                           std::unique_ptr<engine::Port> port, ChannelPlace place = {}) {
    if (const auto fits = check_packets(*protocol, *port); !fits) return fits;
    const std::lock_guard lock(mutex);
    places.push_back(std::move(place));
    channels.push_back(std::make_unique<Channel>(std::move(protocol), std::move(port), *this));
    channels.back()->start();
    if (failure) {
      channels.back()->fail(failure->status, failure->text, failure->lost_aggregator);
    }
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
    const auto cut = cutter->cut(transfer.element_count(), gradients, wire::kGradientBytes);
    for (const plan::Part& part : cut) {
      entry.parts.push_back({.number = number,
                             .element_first = part.element_first,
                             .transfer = transfer_of(transfer, part)});
    }
    // Under the lock, so that every channel gets the parts in the order of the calls.
    for (size_t i = 0; i < cut.size(); i++) {
      Channel& channel = *channels[cut[i].aggregator];
      if (!failure && channel.submit(entry.parts[i])) {
        entry.parts_left++;
        continue;
      }
      note_end(channel);
      entry.parts[i].transfer.outcome.status = failure->status;
    }
    lock.unlock();
    for (size_t i = 0; i < cut.size(); i++) {
      const bool is_last = i + 1 == cut.size() || cut[i + 1].aggregator != cut[i].aggregator;
      if (is_last) channels[cut[i].aggregator]->wake();
    }
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

  /// Returns the list to join with after a refusal: the directory's. Empty: the ranks have different
  /// lists, so their directory has changed its list meanwhile. Not set: another refusal.
  std::optional<std::vector<Aggregator>> next_list() {
    const std::lock_guard lock(mutex);
    bool differ = false;
    for (const auto& channel : channels) {
      const Channel::Snapshot snapshot = channel->snapshot();
      if (!snapshot.redirection.empty()) return snapshot.redirection;
      differ = differ || snapshot.refusal == wire::Reason::kListsDiffer;
    }
    if (differ) return std::vector<Aggregator>{};
    return {};
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
  std::vector<ChannelPlace> places;  ///< Shape [channels], like `channels`.
  uint32_t gradients = 1;     ///< Set and read like `channels`.
  /// Chooses a channel for each part. Set before join() or drive() returns; under the mutex.
  std::optional<plan::PartCutter> cutter;
};

Communicator::Communicator(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

Communicator::~Communicator() = default;

/// Joins all channels of a rank: one to each aggregator, and then the further ones of its threads.
class Communicator::Joining {
 public:
  /// @param began_at The deadline counts for the join of all channels.
  Joining(Impl& impl, const CommunicatorConfig& config, const PortOpener& open_port,
          Instant began_at)
      : impl_(impl),
        common_(config),
        aggregators_(used_aggregators(config)),
        open_port_(open_port),
        began_at_(began_at) {
    // A single aggregator may have several names, unless a directory gave it.
    if (config.aggregators.size() > 1) common_.list_digest = list_digest(config.aggregators);
    common_.aggregators = aggregators_;  // By their places in the texts.
  }

  Result<void> run(Status* status) {
    if (const auto opened = open_ports(); !opened) return opened;
    uint64_t weight_sum = 0;
    for (const Aggregator& each : aggregators_) weight_sum += each.weight;
    for (size_t i = 0; i < aggregators_.size(); i++) {
      configs_.push_back(with_terms(common_, aggregators_[i], weight_sum, *ports_[i]));
      if (const auto added = add(configs_[i], std::move(ports_[i]), i, 0); !added) return added;
    }
    if (const auto joined = impl_.wait_for_joins(status); !joined) return joined;
    if (const auto agreed = agree(); !agreed) return agreed;
    for (uint32_t channel = 1; channel < channels_; channel++) {
      for (size_t i = 0; i < aggregators_.size(); i++) {
        auto port = open_port_(next_port_++, aggregators_[i].address);
        if (!port) return tl::unexpected(port.error());
        const auto own = fitting(further_channel(configs_[i], channel), **port);
        if (const auto added = add(own, *std::move(port), i, channel); !added) return added;
      }
    }
    if (const auto joined = impl_.wait_for_joins(status); !joined) return joined;
    std::vector<uint32_t> weights;
    for (uint32_t channel = 0; channel < channels_; channel++) {
      for (const Aggregator& each : aggregators_) weights.push_back(each.weight);
    }
    impl_.cutter.emplace(std::move(weights));
    return {};
  }

 private:
  /// Opens a port to each aggregator, and chooses packets that fit all paths.
  Result<void> open_ports() {
    uint32_t gradients = UINT32_MAX;
    for (const Aggregator& each : aggregators_) {
      auto port = open_port_(next_port_++, each.address);
      if (!port) return tl::unexpected(port.error());
      if (common_.gradients == 0) {
        gradients = std::min(gradients, gradients_on(common_, each.address, **port));
      }
      ports_.push_back(*std::move(port));
    }
    if (common_.gradients == 0) {
      common_.gradients = gradients;
      common_.gradients_flexible = true;
    }
    return {};
  }

  Result<void> add(const CommunicatorConfig& config, std::unique_ptr<engine::Port> port,
                   size_t aggregator, uint32_t channel) {
    ChannelPlace place;
    if (aggregators_.size() > 1) {
      place.aggregator = static_cast<uint32_t>(aggregator + 1);
      place.text = fmt::format(" (aggregator {} of {}, {})", aggregator + 1, aggregators_.size(),
                               aggregators_[aggregator].name);
    }
    if (channel > 0) place.text += fmt::format(" (channel {} of job {})", channel, common_.job_id);
    return impl_.add_channel(
        std::make_unique<WorkerProtocol>(config, auth::random_u64(), began_at_), std::move(port),
        std::move(place));
  }

  /// Takes the terms of the sessions. All must have the same blocks, because the tensor is cut into
  /// blocks first.
  Result<void> agree() {
    const Channel::Snapshot first = impl_.channels.front()->snapshot();
    channels_ = first.channels;
    for (size_t i = 0; i < aggregators_.size(); i++) {
      const Channel::Snapshot other = impl_.channels[i]->snapshot();
      channels_ = std::min(channels_, other.channels);
      if (other.gradients == first.gradients) continue;
      return failure(fmt::format(
          "aggregator {} takes {} gradients a packet, and {} takes {}; give their jobs the same "
          "block_grad_max, or ask for gradients={}",
          aggregators_[0].name, first.gradients, aggregators_[i].name, other.gradients,
          std::min(first.gradients, other.gradients)));
    }
    impl_.gradients = first.gradients;
    for (CommunicatorConfig& config : configs_) config.gradients = first.gradients;
    return {};
  }

  Impl& impl_;
  CommunicatorConfig common_;
  const std::vector<Aggregator> aggregators_;
  const PortOpener& open_port_;
  const Instant began_at_;
  std::vector<std::unique_ptr<engine::Port>> ports_;
  std::vector<CommunicatorConfig> configs_;  ///< Shape [aggregators].
  uint32_t next_port_ = 0;
  uint32_t channels_ = 1;
};

Result<std::unique_ptr<Communicator>> Communicator::join(const CommunicatorConfig& config,
                                                         Status* status) {
  const auto open_socket = [](uint32_t,
                              const Endpoint& server) -> Result<std::unique_ptr<engine::Port>> {
    io::UdpPortConfig port_config;
    port_config.peer = server;
    auto port = io::UdpPort::open(port_config);
    if (!port) return tl::unexpected(port.error());
    return std::move(*port);
  };
  return join(config, open_socket, status);
}

Result<std::unique_ptr<Communicator>> Communicator::join(const CommunicatorConfig& config,
                                                         const PortOpener& open_port,
                                                         Status* status) {
  const Instant now = monotonic_now();
  CommunicatorConfig wanted = config;
  bool has_directory = false;
  for (uint32_t attempt = 0;; attempt++) {
    if (const auto checked = check(wanted); !checked) return tl::unexpected(checked.error());
    auto impl = std::make_unique<Impl>();
    const std::stop_callback stop(config.join_stop, [owner = impl.get()] { owner->leave_all(); });
    const auto joined = Joining(*impl, wanted, open_port, now).run(status);
    if (joined) return std::unique_ptr<Communicator>(new Communicator(std::move(impl)));
    const auto next = impl->next_list();
    has_directory = has_directory || (next && !next->empty());
    if (!next || !has_directory || attempt == kListsMax) return tl::unexpected(joined.error());
    impl->close();
    if (next->empty()) std::this_thread::sleep_for(kListRetryAfter);
    wanted.aggregators = next->empty() ? config.aggregators : *next;
    wanted.list_digest = next->empty() ? 0 : list_digest(*next);
  }
}

Result<std::unique_ptr<Communicator>> Communicator::join(const CommunicatorConfig& config,
                                                         std::unique_ptr<engine::Port> port,
                                                         Status* status) {
  if (config.threads > 1) {
    return failure(
        fmt::format("threads={} is not allowed over one port; allowed is 1", config.threads));
  }
  if (config.aggregators.size() > 1) {
    return failure(fmt::format("{} aggregators are not allowed over one port; allowed is 1",
                               config.aggregators.size()));
  }
  const auto take = [&port](uint32_t, const Endpoint&) -> Result<std::unique_ptr<engine::Port>> {
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
  impl->cutter.emplace(std::vector<uint32_t>{1});
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
