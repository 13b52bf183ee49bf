// SPDX-License-Identifier: Apache-2.0
/// @file
/// Runs a program on live traffic: inline between two sides (interfaces, DPDK devices, tunnels), or
/// back out of a single one, with one instance of the program on each core.
///
/// Threads: One thread owns the object; it contains the cores. Any thread may call stats() and
///          core_states().
/// Errors:  start() returns one line. Counters record lost packets.
/// Tests:   tests/programs/live_service_test.cc, tests/system/inline_test.cc
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <iterator>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/cpus.h"
#include "engine/counters_json.h"
#include "engine/live/live_engine.h"
#include "io/inline/inline_port.h"
#include "io/inline/link_watch.h"
#include "programs/capture_program.h"
#include "programs/message_relay.h"
#include "programs/program_instance.h"
#include "programs/program_port.h"

namespace tributary::programs {

struct ServeRequest {
  std::vector<io::InlineSideSpec> sides;  ///< One or two.
  uint32_t cores = 1;
  uint32_t buffer_mb = 4;  ///< Receive buffer of each core and socket.
  engine::LiveEngineConfig engine;
  std::string records = {};  ///< As in RunRequest.
  std::string ipfix = {};
};

/// The state of one core between two bursts.
struct LiveCoreState {
  engine::CoreCounters counters;
  Duration cpu;  ///< CPU time of its thread since its start.
  engine::PortCounters port;
  std::optional<uint64_t> rx_dropped;  ///< See engine::PortQueue::rx_dropped().
  engine::MachineCounters machine;
  std::vector<OutcomeCount> outcomes;  ///< Outcomes of the program.
  std::vector<Gauge> gauges;           ///< Likewise; empty if it has none.
  std::vector<std::string> notices;    ///< Likewise.
};

/// Smaller changes of the system clock against the monotonic one are errors of reading both: the
/// kernel slews both alike (clock_gettime(2)). Assumed.
inline constexpr std::chrono::nanoseconds kClockStepMin = std::chrono::milliseconds(1);

/// A program that runs. Ends with stop() or the destructor.
class LiveService {
 public:
  virtual ~LiveService() = default;
  /// Ends the cores after their current burst, and writes the last records. Idempotent.
  virtual void stop() = 0;
  /// Returns the counters of the cores, their ports and the program.
  [[nodiscard]] virtual nlohmann::json stats() = 0;
  /// Returns the state of each core. @param now The present time; the notices count from it.
  [[nodiscard]] virtual std::vector<LiveCoreState> core_states(Instant now) = 0;
  /// Returns the index of a core that another of these functions waits for. A signal handler may
  /// call it.
  [[nodiscard]] virtual std::optional<uint32_t> late_core() const noexcept = 0;
  /// Returns the events since the previous call, oldest first for each core.
  [[nodiscard]] virtual std::vector<ProgramEvent> take_events() = 0;
  /// Tells the programs the time of day of Instant 0 if it has moved by kClockStepMin or more. It
  /// moves when the system clock is set, or the machine sleeps.
  virtual void set_time_zero(io::CaptureTime time_zero) = 0;
  /// Returns why the files of records are not complete.
  [[nodiscard]] virtual std::optional<Error> problem() const = 0;
  /// Returns one sentence for each setting that slows the ports down or puts them at risk.
  [[nodiscard]] virtual const std::vector<std::string>& warnings() const = 0;
};

/// A packet program that runs over captures and on live traffic.
struct ServedProgram : CaptureProgram {
  Result<std::unique_ptr<LiveService>> (*serve)(const KeyValues& settings,
                                                const ServeRequest& request,
                                                const InstanceTerms& terms) = nullptr;
};

template <ProgramInstance Instance>
class LiveServiceOf final : public LiveService {
 public:
  using App = typename Instance::App;

  static Result<std::unique_ptr<LiveService>> start(const KeyValues& settings,
                                                    const ServeRequest& request,
                                                    const InstanceTerms& terms) {
    if (const auto good = check_cores(request.cores); !good) return tl::unexpected(good.error());
    auto opened = io::InlinePort::open({.sides = request.sides,
                                        .receive_buffer_bytes = request.buffer_mb << 20,
                                        .steering = Instance::kSteering},
                                       request.cores);
    if (!opened) return tl::unexpected(opened.error());
    std::unique_ptr<LiveServiceOf> service(new LiveServiceOf());
    service->warnings_ = std::move(opened->warnings);
    service->time_zero_ = terms.time_zero;
    std::vector<std::string> interfaces;
    for (const io::InlineSideSpec& side : request.sides) {
      if (!side.interface().empty()) interfaces.push_back(side.interface());
    }
    service->links_.emplace(interfaces);
    if (const auto relayed = service->start_relay(request); !relayed) {
      return tl::unexpected(relayed.error());
    }
    for (auto& port : opened->ports) {
      InstanceTerms of_core = terms;
      of_core.core = static_cast<uint32_t>(service->cores_.size());
      auto instance = Instance::create(settings, of_core);
      if (!instance) return tl::unexpected(instance.error());
      engine::LiveEngineConfig config = request.engine;
      // Each core is an engine of its own, so it takes its CPU from the list.
      if (!config.cpus.empty()) {
        config.cpus = {config.cpus[service->cores_.size() % config.cpus.size()]};
      }
      auto core = std::make_unique<Core>();
      core->instance = *std::move(instance);
      core->port = std::make_unique<ProgramPort>(std::move(port), service->relay_.get());
      std::vector<App> apps;
      apps.push_back(core->instance->app());
      core->engine =
          std::make_unique<engine::LiveEngine<App>>(*core->port, std::move(apps), config);
      service->cores_.push_back(std::move(core));
    }
    for (auto& core : service->cores_) core->engine->start();
    return service;
  }

  void stop() override {
    const std::lock_guard lock(mutex_);
    if (relay_) relay_->begin_end();
    for (auto& core : cores_) core->engine->stop();
    if (relay_) relay_->finish();
  }

  nlohmann::json stats() override {
    const std::lock_guard lock(mutex_);
    nlohmann::json json;
    json["cores"] = nlohmann::json::array();
    json["ports"] = nlohmann::json::array();
    json["outcomes"] = nlohmann::json::object();
    json["events"] = nlohmann::json::object();
    json["details"] = nlohmann::json::array();
    uint64_t forwarded = 0, dropped = 0, messages = 0;
    for (auto& core : cores_) {
      core->engine->inspect([&](auto& running) {
        json["cores"].push_back(engine::core_json(running.counters()));
        json["ports"].push_back(engine::port_json(running.queue()));
        forwarded += running.machine_counters().forwarded;
        dropped += running.machine_counters().dropped;
        messages += core->port->messages();
        add_outcomes(json, outcomes_of(*core->instance, core->port->forwarded()));
        json["details"].push_back(nlohmann::json(core->instance->details()));
      });
    }
    json["forwarded"] = forwarded;
    json["dropped"] = dropped;
    json["messages"] = messages;
    if (relay_) json["messages_lost"] = relay_->lost();
    return json;
  }

  [[nodiscard]] std::vector<LiveCoreState> core_states(Instant now) override {
    const std::lock_guard lock(mutex_);
    std::vector<LiveCoreState> states(cores_.size());
    visit_all([&](uint32_t index, Instance& instance, auto& running) {
      LiveCoreState& state = states[index];
      state.counters = running.counters();
      state.cpu = thread_cpu_time();
      state.port = running.queue().counters();
      state.rx_dropped = running.queue().rx_dropped();
      state.machine = running.machine_counters();
      state.outcomes = outcomes_of(instance, cores_[index]->port->forwarded());
      if constexpr (requires { instance.gauges(); }) {
        state.gauges = instance.gauges();
      }
      if constexpr (requires { instance.notices(now); }) {
        state.notices = instance.notices(now);
      }
    });
    return states;
  }

  [[nodiscard]] std::optional<uint32_t> late_core() const noexcept override {
    for (uint32_t i = 0; i < cores_.size(); i++) {
      if (cores_[i]->engine->is_awaited()) return i;
    }
    return std::nullopt;
  }

  [[nodiscard]] std::vector<ProgramEvent> take_events() override {
    const std::lock_guard lock(mutex_);
    std::vector<ProgramEvent> events = host_events();
    if constexpr (requires(Instance & instance) { instance.take_events(); }) {
      std::vector<std::vector<ProgramEvent>> taken(cores_.size());
      visit_all([&](uint32_t index, Instance& instance, auto&) {
        taken[index] = instance.take_events();
      });
      for (auto& of_core : taken) std::ranges::move(of_core, std::back_inserter(events));
    }
    return events;
  }

  void set_time_zero([[maybe_unused]] io::CaptureTime time_zero) override {
    if constexpr (requires(Instance & instance) { instance.set_time_zero(time_zero); }) {
      const std::lock_guard lock(mutex_);
      if (std::chrono::abs(time_zero - time_zero_) < kClockStepMin) return;
      time_zero_ = time_zero;
      visit_all([&](uint32_t, Instance& instance, auto&) { instance.set_time_zero(time_zero); });
    }
  }

  [[nodiscard]] std::optional<Error> problem() const override {
    return relay_ ? relay_->problem() : std::nullopt;
  }

  [[nodiscard]] const std::vector<std::string>& warnings() const override { return warnings_; }

 private:
  /// One core with its port and program. The engine refers to the others, so it comes last.
  struct Core {
    std::unique_ptr<Instance> instance;
    std::unique_ptr<ProgramPort> port;
    std::unique_ptr<engine::LiveEngine<App>> engine;
  };

  /// Refuses more cores than the program allows.
  [[nodiscard]] static Result<void> check_cores([[maybe_unused]] uint32_t cores) {
    if constexpr (requires { Instance::kCoresMax; }) {
      constexpr uint32_t kMax = Instance::kCoresMax;
      if (cores > kMax) {
        return failure(fmt::format(
            "--cores={} is refused; allowed for the program {}: {}, because each core has a "
            "state of its own",
            cores, Instance::settings().name(), kMax == 1 ? "1" : fmt::format("1 to {}", kMax)));
      }
    }
    return {};
  }

  /// Calls `visit` for each core between two of its bursts, for all cores at the same time. Returns
  /// after the last call. @pre mutex_ is held.
  template <class F>
  void visit_all(const F& visit) {
    std::vector<typename engine::LiveEngine<App>::Visitor> visitors;
    visitors.reserve(cores_.size());
    for (uint32_t i = 0; i < cores_.size(); i++) {
      visitors.emplace_back([&visit, this, i](auto& running, uint32_t) {
        visit(i, *cores_[i]->instance, running);
        return false;
      });
    }
    for (uint32_t i = 0; i < cores_.size(); i++) cores_[i]->engine->begin_visit(visitors[i]);
    for (uint32_t i = 0; i < cores_.size(); i++) cores_[i]->engine->end_visit(visitors[i]);
  }

  /// Returns the events beside the program's: of the interfaces, and of the files of records.
  [[nodiscard]] std::vector<ProgramEvent> host_events() {
    const Instant now = monotonic_now();
    std::vector<ProgramEvent> events;
    for (const io::LinkWatch::Change& change : links_->look()) {
      const bool is_up = change.state == io::LinkWatch::State::kUp;
      ProgramEvent event{.at = now,
                         .is_warning = !is_up,
                         .name = is_up ? "port_up" : "port_down",
                         .fields = {{"port", change.interface}}};
      if (!is_up) event.fields["reason"] = change.text;
      events.push_back(std::move(event));
    }
    const std::optional<Error> failed = problem();
    if (failed && !has_told_problem_) {
      has_told_problem_ = true;
      events.push_back({.at = now,
                        .is_warning = true,
                        .name = "records_failed",
                        .fields = {{"reason", failed->text}}});
    }
    return events;
  }

  /// Opens the files of records, if any are wanted.
  [[nodiscard]] Result<void> start_relay(const ServeRequest& request) {
    if constexpr (requires(const RunRequest& run) { Instance::message_handler(run); }) {
      if (request.records.empty() && request.ipfix.empty()) return {};
      auto handler =
          Instance::message_handler({.records = request.records, .ipfix = request.ipfix});
      if (!handler) return tl::unexpected(handler.error());
      relay_ = std::make_unique<MessageRelay>(*std::move(handler));
    }
    return {};
  }

  static void add_outcomes(nlohmann::json& json, const std::vector<OutcomeCount>& counts) {
    for (const OutcomeCount& count : counts) {
      if (count.is_event) {
        nlohmann::json& events = json["events"];
        events[count.name] = events.value(count.name, uint64_t{0}) + count.counter.packets;
        continue;
      }
      nlohmann::json& sum = json["outcomes"][count.name];
      if (sum.is_null()) sum = nlohmann::json::object();
      sum["packets"] = sum.value("packets", uint64_t{0}) + count.counter.packets;
      sum["bytes"] = sum.value("bytes", uint64_t{0}) + count.counter.bytes;
    }
  }

  std::unique_ptr<MessageRelay> relay_;  ///< Shared by all cores; outlives their ports.
  std::vector<std::unique_ptr<Core>> cores_;
  std::vector<std::string> warnings_;
  std::optional<io::LinkWatch> links_;  ///< Set by start().
  bool has_told_problem_ = false;
  io::CaptureTime time_zero_;  ///< Time zero of the programs.
  std::mutex mutex_;           ///< Serialises the threads that inspect or stop the engines.
};

}  // namespace tributary::programs
