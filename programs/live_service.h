// SPDX-License-Identifier: Apache-2.0
/// @file
/// Runs a program on live traffic: inline between two sides (interfaces, DPDK devices, tunnels), or
/// back out of a single one, with one instance of the program on each core.
///
/// Threads: One thread owns the object; it contains the cores. Any thread may call stats() and
///          snapshot().
/// Errors:  start() returns one line. Counters record lost packets.
/// Tests:   tests/system/inline_test.cc
#pragma once

#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/cpus.h"
#include "engine/live/live_engine.h"
#include "io/inline/inline_port.h"
#include "programs/program_instance.h"
#include "server/engine_stats.h"
#include "server/observed_server.h"

namespace tributary::programs {

struct ServeRequest {
  std::string name;                       ///< Of the program.
  std::vector<io::InlineSideSpec> sides;  ///< One or two.
  uint32_t cores = 1;
  uint32_t buffer_mb = 4;  ///< Receive buffer of each core and socket.
  engine::LiveEngineConfig engine;
};

/// A program that runs. Ends with stop() or the destructor.
class LiveService : public server::ObservedServer {
 public:
  /// Ends the cores after their current burst. Idempotent.
  virtual void stop() = 0;
  /// Returns the counters of the cores, their ports and the program.
  [[nodiscard]] virtual nlohmann::json stats() = 0;
  /// Returns one sentence for each setting that slows the ports down or puts them at risk.
  [[nodiscard]] virtual const std::vector<std::string>& warnings() const = 0;
  /// Returns the names of its sides.
  [[nodiscard]] virtual std::string place() const = 0;
};

template <ProgramInstance Instance>
class LiveServiceOf final : public LiveService {
 public:
  using App = typename Instance::App;

  static Result<std::unique_ptr<LiveService>> start(const KeyValues& settings,
                                                    const ServeRequest& request,
                                                    const InstanceTerms& terms) {
    auto opened = io::InlinePort::open({.sides = request.sides,
                                        .receive_buffer_bytes = request.buffer_mb << 20,
                                        .steering = Instance::kSteering},
                                       request.cores);
    if (!opened) return tl::unexpected(opened.error());
    std::unique_ptr<LiveServiceOf> service(new LiveServiceOf());
    service->name_ = request.name;
    service->warnings_ = std::move(opened->warnings);
    for (const io::InlineSideSpec& side : request.sides) {
      service->place_ += (service->place_.empty() ? "" : " and ") + side.place();
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
      core->port = std::move(port);
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
    for (auto& core : cores_) core->engine->stop();
  }

  nlohmann::json stats() override {
    const std::lock_guard lock(mutex_);
    nlohmann::json json;
    json["cores"] = nlohmann::json::array();
    json["ports"] = nlohmann::json::array();
    json["outcomes"] = nlohmann::json::object();
    json["details"] = nlohmann::json::array();
    uint64_t forwarded = 0, dropped = 0;
    for (auto& core : cores_) {
      core->engine->inspect([&](auto& running) {
        json["cores"].push_back(server::core_stats(running.counters()));
        json["ports"].push_back(server::port_stats(running.queue()));
        forwarded += running.machine_counters().forwarded;
        dropped += running.machine_counters().dropped;
        add_outcomes(json["outcomes"], core->instance->outcomes());
        json["details"].push_back(nlohmann::json(core->instance->details()));
      });
    }
    json["forwarded"] = forwarded;
    json["dropped"] = dropped;
    return json;
  }

  server::Snapshot snapshot() override {
    const std::lock_guard lock(mutex_);
    server::Snapshot snapshot;
    snapshot.at = monotonic_now();
    snapshot.uptime = snapshot.at - started_at_;
    snapshot.service = name_;
    snapshot.listen = place_;
    engine::MachineCounters total;
    for (auto& core : cores_) {
      std::vector<OutcomeCount> outcomes;
      core->engine->inspect([&](auto& running) {
        snapshot.cores.push_back({running.counters(), thread_cpu_time()});
        snapshot.ports.push_back(running.queue().counters());
        snapshot.rx_dropped.push_back(running.queue().rx_dropped());
        total.forwarded += running.machine_counters().forwarded;
        total.dropped += running.machine_counters().dropped;
        outcomes = core->instance->outcomes();
      });
      for (const OutcomeCount& outcome : outcomes) {
        snapshot.add(outcome.name, /*refused=*/false, outcome.counter);
      }
    }
    snapshot.add("packets_forwarded", /*refused=*/false, {total.forwarded, 0});
    snapshot.add("packets_dropped", /*refused=*/false, {total.dropped, 0});
    return snapshot;
  }

  [[nodiscard]] const std::vector<std::string>& warnings() const override { return warnings_; }
  [[nodiscard]] std::string place() const override { return place_; }

 private:
  /// One core with its port and program. The engine refers to the others, so it comes last.
  struct Core {
    std::unique_ptr<Instance> instance;
    std::unique_ptr<io::InlinePort> port;
    std::unique_ptr<engine::LiveEngine<App>> engine;
  };

  static void add_outcomes(nlohmann::json& sums, const std::vector<OutcomeCount>& counts) {
    for (const OutcomeCount& count : counts) {
      nlohmann::json& sum = sums[count.name];
      if (sum.is_null()) sum = nlohmann::json::object();
      sum["packets"] = sum.value("packets", uint64_t{0}) + count.counter.packets;
      sum["bytes"] = sum.value("bytes", uint64_t{0}) + count.counter.bytes;
    }
  }

  std::vector<std::unique_ptr<Core>> cores_;
  std::vector<std::string> warnings_;
  std::string name_;
  std::string place_;  ///< Its sides.
  Instant started_at_ = monotonic_now();
  std::mutex mutex_;  ///< Serialises the threads that inspect or stop the engines.
};

}  // namespace tributary::programs
