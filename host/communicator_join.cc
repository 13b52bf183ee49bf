// SPDX-License-Identifier: Apache-2.0
#include "host/communicator_join.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <mutex>
#include <stop_token>
#include <thread>

#include "auth/keys.h"
#include "base/clock.h"
#include "host/auto_terms.h"
#include "host/join_plan.h"
#include "host/send_gate.h"
#include "host/trio_ml/worker_protocol.h"
#include "host/worker_recorder.h"
#include "wire/receive_room.h"

namespace tributary::host {
namespace {

/// Most lists that a join tries until one of their aggregators is lost. Assumed: a directory
/// changes its list when an aggregator comes or goes, which is rare beside a join.
constexpr uint32_t kListsMax = 16;
/// Time after which the directory is asked again. Assumed; short beside a join.
constexpr std::chrono::milliseconds kListRetryAfter{50};

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

/// Joins all channels of a rank: one to each aggregator, and then the further ones of its threads.
class Joining {
 public:
  /// @param began_at The deadline counts for the join of all channels.
  Joining(ChannelGroup& group, const CommunicatorConfig& config,
          const Communicator::PortOpener& open_port, Instant began_at)
      : group_(group), config_(config), plan_(config), open_port_(open_port), began_at_(began_at) {}

  Result<void> run(Status* status) {
    if (config_.priorities > 1) group_.use_priorities();
    if (const auto opened = open_ports(); !opened) return opened;
    for (size_t i = 0; i < aggregators().size(); i++) {
      if (const auto added = add(plan_.first_channel(i), std::move(ports_[i]), plan_.place(i, 0));
          !added) {
        return added;
      }
    }
    if (const auto joined = group_.wait_for_joins(status); !joined) return joined;
    if (const auto agreed = agree(); !agreed) {
      if (status != nullptr) *status = Status::kRefused;  // By this rank: their jobs do not fit.
      return agreed;
    }
    for (uint32_t channel = 1; channel < plan_.channels(); channel++) {
      for (size_t i = 0; i < aggregators().size(); i++) {
        auto port = open_port_(next_port_++, aggregators()[i].address);
        if (!port) return tl::unexpected(port.error());
        const auto added =
            add(plan_.further_channel(i, channel), *std::move(port), plan_.place(i, channel));
        if (!added) return added;
      }
    }
    if (const auto joined = group_.wait_for_joins(status); !joined) return joined;
    group_.set_cut(plan_.gradients(), plan_.narrow_gradients(), plan_.weights());
    if (config_.asynchronous) group_.fix_shares(plan_.shares());
    return {};
  }

 private:
  [[nodiscard]] const std::vector<Aggregator>& aggregators() const { return plan_.aggregators(); }

  /// Opens a port to each aggregator, and chooses packets that fit all paths.
  Result<void> open_ports() {
    uint32_t gradients = UINT32_MAX;
    for (const Aggregator& each : aggregators()) {
      auto port = open_port_(next_port_++, each.address);
      if (!port) return tl::unexpected(port.error());
      if (config_.gradients == 0) {
        gradients = std::min(gradients, gradients_on(config_, each.address, **port));
      }
      ports_.push_back(*std::move(port));
    }
    if (config_.gradients == 0) plan_.set_gradients(gradients);
    return {};
  }

  Result<void> add(const CommunicatorConfig& config, std::unique_ptr<engine::Port> port,
                   ChannelPlace place) {
    auto protocol =
        std::make_unique<WorkerProtocol>(fitting(config, *port), auth::random_u64(), began_at_);
    return group_.add_channel(std::move(protocol), std::move(port), std::move(place));
  }

  /// Takes the terms of the sessions.
  Result<void> agree() {
    std::vector<JoinPlan::Terms> terms;
    for (const auto& channel : group_.channels()) {
      const Channel::Snapshot snapshot = channel->snapshot();
      terms.push_back({.gradients = snapshot.gradients,
                       .narrow_gradients = snapshot.narrow_gradients,
                       .channels = snapshot.channels,
                       .job_window = snapshot.job_window,
                       .straggler_timeout = snapshot.straggler_timeout});
    }
    if (const auto agreed = plan_.agree(terms); !agreed) return agreed;
    if (config_.wire != WireBits::k16 || plan_.narrow_gradients() > 0) return {};
    return failure(
        "wire=16 is not allowed: an aggregator of this job does not take 16-bit gradients; "
        "allowed: "
        "32. Use aggregators of this version, with the same block_grad_max");
  }

  ChannelGroup& group_;
  const CommunicatorConfig& config_;
  JoinPlan plan_;
  const Communicator::PortOpener& open_port_;
  const Instant began_at_;
  std::vector<std::unique_ptr<engine::Port>> ports_;
  uint32_t next_port_ = 0;
};

/// Makes channels call the program one at a time, and lets only one of them announce a wait at a
/// time.
CommunicatorConfig with_serialised_callbacks(CommunicatorConfig config) {
  struct CallbackState {
    std::mutex mutex;
    Instant wait_at;  ///< When the next wait may be announced.
  };
  const auto state = std::make_shared<CallbackState>();
  if (config.on_event) {
    config.on_event = [state, callback = config.on_event](const WorkerEvent& event) {
      const std::lock_guard lock(state->mutex);
      if (event.kind == WorkerEvent::Kind::kWaiting) {
        const Instant now = monotonic_now();
        if (now < state->wait_at) return;
        state->wait_at = now + kWaitsAnnouncedEvery;
      }
      callback(event);
    };
  }
  if (config.on_join_wait) {
    config.on_join_wait = [state, callback = config.on_join_wait](const std::string& text) {
      const std::lock_guard lock(state->mutex);
      callback(text);
    };
  }
  return config;
}

/// Returns the configuration for a join with a directory's list.
CommunicatorConfig with_list(CommunicatorConfig config, const std::vector<Aggregator>& list) {
  config.aggregators = list;
  config.list_digest = list_digest(list);
  config.from_directory = true;
  config.server_wait = std::min(config.server_wait, kRefusedSessionFor);
  return config;
}

}  // namespace

Result<void> check_config(const CommunicatorConfig& config) {
  if (!config.server.is_set() && config.aggregators.empty()) {
    return failure("server: no address given; allowed: HOST:PORT");
  }
  if (const auto distinct = check_addresses(config.aggregators); !distinct) return distinct;
  if (config.world < 1 || config.world > wire::kSourcesMax) {
    return failure(fmt::format("world={} is not allowed; allowed: 1 to 256", config.world));
  }
  if (config.rank >= config.world) {
    return failure(
        fmt::format("rank={} is not allowed; allowed: 0 to {}", config.rank, config.world - 1));
  }
  if (config.gradients > 4095) {
    return failure(fmt::format("gradients={} is not allowed; allowed: 1 to 4095, or 0 for auto",
                               config.gradients));
  }
  if (config.window > 65536) {
    return failure(
        fmt::format("window={} is not allowed; allowed: 1 to 65536, or 0 for auto", config.window));
  }
  if (config.threads < 1 || config.threads > wire::kChannelsMax) {
    return failure(fmt::format("threads={} is not allowed; allowed: 1 to {}", config.threads,
                               wire::kChannelsMax));
  }
  if (config.asynchronous && config.threads * config.priorities > 1) {
    return failure(
        fmt::format("threads={} and priorities={} are not allowed; allowed: 1 with "
                    "asynchronous=on",
                    config.threads, config.priorities));
  }
  if (config.priorities < 1 || config.priorities > kPrioritiesMax ||
      config.priorities * config.threads > wire::kChannelsMax) {
    return failure(
        fmt::format("priorities={} with threads={} is not allowed; allowed: 1 to {}, and a "
                    "product of at most {}",
                    config.priorities, config.threads, kPrioritiesMax, wire::kChannelsMax));
  }
  if (config.deadline <= Duration()) return failure("deadline must be longer than 0");
  return {};
}

Result<std::unique_ptr<ChannelGroup>> join_channels(const CommunicatorConfig& config,
                                                    const Communicator::PortOpener& open_port,
                                                    Status* status) {
  const Instant began_at = monotonic_now();
  CommunicatorConfig given = with_serialised_callbacks(config);
  if (!given.record_folder.empty()) {
    auto recorder = WorkerRecorder::open(config.record_folder, config.job_id, config.rank);
    if (!recorder) return tl::unexpected(recorder.error());
    given.recorder = *std::move(recorder);
  }
  CommunicatorConfig wanted = given;
  bool has_directory = false;
  for (uint32_t lists = 0;; lists++) {
    if (const auto checked = check_config(wanted); !checked) return tl::unexpected(checked.error());
    if (given.recorder != nullptr) given.recorder->begin_attempt();
    auto group = std::make_unique<ChannelGroup>();
    const std::stop_callback stop(config.join_stop, [owner = group.get()] { owner->leave_all(); });
    const auto joined = Joining(*group, wanted, open_port, began_at).run(status);
    if (joined) {
      group->record_to(given.recorder);
      return group;
    }
    const auto next = group->next_list();
    has_directory = has_directory || (next && !next->empty());
    const bool has_time = monotonic_now() - began_at < config.deadline;
    // The directory soon leaves out an aggregator that has ended.
    const bool was_listed = wanted.from_directory && has_time && group->has_lost_aggregator();
    if (was_listed) lists = 0;
    if (!was_listed && (!next || !has_directory || lists == kListsMax)) {
      if (given.recorder != nullptr) given.recorder->store(recorder::Cause::kFailure);
      return tl::unexpected(joined.error());
    }
    group->close();
    if (next && !next->empty()) {
      wanted = with_list(given, *next);
    } else {
      std::this_thread::sleep_for(kListRetryAfter);
      wanted = given;
    }
  }
}

}  // namespace tributary::host
