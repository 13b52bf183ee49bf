// SPDX-License-Identifier: Apache-2.0
#include "host/communicator_join.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <stop_token>
#include <thread>

#include "auth/keys.h"
#include "base/clock.h"
#include "host/auto_terms.h"
#include "host/worker_protocol.h"
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

/// Joins all channels of a rank: one to each aggregator, and then the further ones of its threads.
class Joining {
 public:
  /// @param began_at The deadline counts for the join of all channels.
  Joining(ChannelGroup& group, const CommunicatorConfig& config,
          const Communicator::PortOpener& open_port, Instant began_at)
      : group_(group),
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
    if (const auto joined = group_.wait_for_joins(status); !joined) return joined;
    if (const auto agreed = agree(); !agreed) return agreed;
    for (uint32_t channel = 1; channel < channels_; channel++) {
      for (size_t i = 0; i < aggregators_.size(); i++) {
        auto port = open_port_(next_port_++, aggregators_[i].address);
        if (!port) return tl::unexpected(port.error());
        const auto own = fitting(further_channel(configs_[i], channel), **port);
        if (const auto added = add(own, *std::move(port), i, channel); !added) return added;
      }
    }
    if (const auto joined = group_.wait_for_joins(status); !joined) return joined;
    std::vector<uint32_t> weights;
    for (uint32_t channel = 0; channel < channels_; channel++) {
      for (const Aggregator& each : aggregators_) weights.push_back(each.weight);
    }
    group_.set_cut(gradients_, std::move(weights));
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
    return group_.add_channel(
        std::make_unique<WorkerProtocol>(config, auth::random_u64(), began_at_), std::move(port),
        std::move(place));
  }

  /// Takes the terms of the sessions. All must have the same blocks, because the tensor is cut into
  /// blocks first.
  Result<void> agree() {
    const Channel::Snapshot first = group_.channels().front()->snapshot();
    channels_ = first.channels;
    for (size_t i = 0; i < aggregators_.size(); i++) {
      const Channel::Snapshot other = group_.channels()[i]->snapshot();
      channels_ = std::min(channels_, other.channels);
      if (other.gradients == first.gradients) continue;
      return failure(fmt::format(
          "aggregator {} takes {} gradients a packet, and {} takes {}; give their jobs the same "
          "block_grad_max, or ask for gradients={}",
          aggregators_[0].name, first.gradients, aggregators_[i].name, other.gradients,
          std::min(first.gradients, other.gradients)));
    }
    gradients_ = first.gradients;
    for (CommunicatorConfig& config : configs_) config.gradients = first.gradients;
    return {};
  }

  ChannelGroup& group_;
  CommunicatorConfig common_;
  const std::vector<Aggregator> aggregators_;
  const Communicator::PortOpener& open_port_;
  const Instant began_at_;
  std::vector<std::unique_ptr<engine::Port>> ports_;
  std::vector<CommunicatorConfig> configs_;  ///< Shape [aggregators].
  uint32_t next_port_ = 0;
  uint32_t channels_ = 1;
  uint32_t gradients_ = 1;  ///< Of all channels.
};

}  // namespace

Result<std::unique_ptr<ChannelGroup>> join_channels(const CommunicatorConfig& config,
                                                    const Communicator::PortOpener& open_port,
                                                    Status* status) {
  const Instant now = monotonic_now();
  CommunicatorConfig wanted = config;
  bool has_directory = false;
  for (uint32_t attempt = 0;; attempt++) {
    if (const auto checked = check(wanted); !checked) return tl::unexpected(checked.error());
    auto group = std::make_unique<ChannelGroup>();
    const std::stop_callback stop(config.join_stop, [owner = group.get()] { owner->leave_all(); });
    const auto joined = Joining(*group, wanted, open_port, now).run(status);
    if (joined) return group;
    const auto next = group->next_list();
    has_directory = has_directory || (next && !next->empty());
    if (!next || !has_directory || attempt == kListsMax) return tl::unexpected(joined.error());
    group->close();
    if (next->empty()) std::this_thread::sleep_for(kListRetryAfter);
    wanted.aggregators = next->empty() ? config.aggregators : *next;
    wanted.list_digest = next->empty() ? 0 : list_digest(*next);
  }
}

}  // namespace tributary::host
