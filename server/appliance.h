// SPDX-License-Identifier: Apache-2.0
/// @file
/// The aggregator appliance: Trio-ML on the live engine over UDP sockets or DPDK devices, put
/// together from its parts.
///
/// Threads: Owned by one thread; the engine's cores are inside.
/// Errors:  start() returns one line: the port in use, the job that does not fit, …
/// Memory:  Shared memory as configured, touched only where jobs use it.
/// Tests:   tests/server/appliance_test.cc
#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "apps/trio_ml/app.h"
#include "engine/live/live_engine.h"
#include "engine/port.h"
#include "io/dpdk/open_dpdk_port.h"
#include "memory/shared_memory.h"

namespace tributary::server {

struct ApplianceConfig {
  Endpoint listen = Endpoint::ipv4(0, wire::kTrioMlPort);
  uint32_t cores = 1;         ///< Polling cores; a power of two.
  uint32_t spin_us = 0;       ///< Keep polling so long after the last packet.
  uint64_t memory_mb = 4096;  ///< Shared memory for jobs (address space; used pages count).
  uint32_t buffer_mb = 4;     ///< Socket buffers wanted, each way and core.
  std::vector<io::DpdkDeviceSpec> devices = {};  ///< Not empty: DPDK instead of UDP sockets.
  std::vector<trio_ml::JobConfig> jobs;
};

class Appliance {
 public:
  /// Opens the port, makes room for the jobs and starts the cores.
  static Result<std::unique_ptr<Appliance>> start(const ApplianceConfig& config);
  ~Appliance();

  /// Ends the cores after the burst at hand. Idempotent.
  void stop();

  /// Every counter by name, as `tributary serve --json` writes it.
  [[nodiscard]] nlohmann::json stats();
  /// What costs speed on this machine, for people.
  [[nodiscard]] const std::vector<std::string>& warnings() const { return warnings_; }
  [[nodiscard]] Endpoint local() const { return port_->local(); }

 private:
  using Engine = engine::LiveEngine<trio_ml::App>;
  struct OpenedPort {
    std::unique_ptr<engine::Port> port;
    std::vector<std::string> warnings;
    uint32_t room_bytes = 0;  ///< What a core's socket holds; 0: not known.
  };
  static Result<OpenedPort> open_sockets(const ApplianceConfig& config);
  static Result<OpenedPort> open_devices(const ApplianceConfig& config);
  Appliance(const ApplianceConfig& config, memory::SharedMemory memory, OpenedPort port);
  /// Behind an error about a job's id: whose channels have it, if some job has several.
  [[nodiscard]] std::string ids_note(uint32_t id) const;
  Result<void> add_jobs(uint32_t room_bytes);
  Result<void> add_job(const trio_ml::JobConfig& job);
  [[nodiscard]] Result<void> check_room(const trio_ml::JobConfig& job) const;

  const ApplianceConfig config_;
  memory::SharedMemory memory_;
  std::unique_ptr<engine::Port> port_;
  std::vector<std::string> warnings_;
  std::vector<std::unique_ptr<trio_ml::Session>> sessions_;  ///< One for each channel of a job.
  std::vector<std::unique_ptr<trio_ml::Shard>> shards_;      ///< One for each core.
  std::unique_ptr<Engine> engine_;
  Instant started_at_;
};

}  // namespace tributary::server
