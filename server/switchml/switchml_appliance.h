// SPDX-License-Identifier: Apache-2.0
/// @file
/// SwitchML's switch as a server: the packet program on the live engine over UDP sockets or a frame
/// device, its sessions, and the control points that register workers.
///
/// Threads: One thread calls start(), stop() and stats(); any thread may call join() and
///          snapshot(). The cores and the control points have threads of their own.
/// Errors:  start() returns one line, for example that the port is in use or a session does not
///          fit.
/// Memory:  Reserves room for every session's slots; only used pages are touched.
/// Tests:   tests/server/switchml/switchml_appliance_test.cc
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "apps/switchml/app.h"
#include "engine/live/live_engine.h"
#include "io/devices/device_port.h"
#include "memory/shared_memory.h"
#include "server/observed_server.h"
#include "server/switchml/control_server.h"
#include "server/switchml/session_book.h"

namespace tributary::server {

struct SwitchmlConfig {
  struct Session {
    switchml::SessionConfig config;
    std::vector<Endpoint> workers;  ///< By rank; ports are ignored.
  };
  Endpoint listen = Endpoint::ipv4(0x7f000001, wire::kSwitchmlPort);
  io::DevicePortSpec devices = {};  ///< If not empty, this device instead of UDP sockets.
  uint32_t cores = 1;               ///< Polling cores; a power of two.
  uint32_t spin_us = 0;             ///< Keep polling this long after the last packet.
  uint32_t cpu_percent = 100;       ///< Share of a CPU that each core may use, 1 … 100.
  std::vector<int> cpus = {};       ///< Core i runs on cpus[i modulo the size]; empty: on any CPU.
  uint64_t memory_mb = 4096;        ///< Shared memory (address space; only used pages count).
  uint32_t buffer_mb = 4;           ///< Socket buffers to ask for, per direction and core.
  SessionBook::Config book{};
  std::vector<Session> sessions{};
  ControlConfig control{};  ///< No control points if it has no addresses.
};

class SwitchmlAppliance final : public ObservedServer, private SessionPlaces, private SessionDesk {
 public:
  static Result<std::unique_ptr<SwitchmlAppliance>> start(const SwitchmlConfig& config);
  ~SwitchmlAppliance() override;

  /// Stops the control points, then the cores after their current burst. Idempotent.
  void stop();

  /// Registers a worker.
  /// @return the address to which it must send.
  Result<SwitchAddress> join(const SessionBook::Request& request) override;

  /// Returns every counter by name, as `tributary serve --protocol switchml --json` writes it.
  [[nodiscard]] nlohmann::json stats();
  [[nodiscard]] Snapshot snapshot() override;
  /// Returns one sentence for each property of this machine that slows the server down.
  [[nodiscard]] const std::vector<std::string>& warnings() const { return warnings_; }
  [[nodiscard]] Endpoint local() const { return port_->local(); }
  /// Returns the control points' addresses, with the ports that the system chose.
  [[nodiscard]] std::vector<Endpoint> control_points() const;

 private:
  using Engine = engine::LiveEngine<switchml::App>;

  static Result<io::OpenedDevicePort> open_port(const SwitchmlConfig& config);
  SwitchmlAppliance(const SwitchmlConfig& config, memory::SharedMemory memory,
                    io::OpenedDevicePort port);
  /// Checks that packets of this many elements fit the port.
  [[nodiscard]] Result<void> check_room(uint32_t elements) const;
  [[nodiscard]] Result<SwitchAddress> address_for(const Endpoint& worker) const;
  [[nodiscard]] Result<void> make_shards();
  [[nodiscard]] Result<void> configure_sessions();
  /// Returns the sessions from the book, without the cores' counters. @pre mutex_ is held.
  [[nodiscard]] std::vector<SessionSnapshot> read_book() const;
  /// Adds a core's counts of the sessions. Runs in the core's thread.
  static void read_shard(const switchml::Shard& shard, Instant now,
                         std::vector<SessionSnapshot>& sessions);
  /// Adds the counts of one core's copy of the sessions.
  static void add_part(const std::vector<SessionSnapshot>& part,
                       std::vector<SessionSnapshot>& sessions);

  // SessionPlaces. The engine's cores are paused during each call.
  void begin(uint32_t place, const switchml::SessionConfig& session) override;
  void set_worker(uint32_t place, uint32_t worker, const Endpoint& address, uint64_t mac) override;
  void end(uint32_t place) override;
  void unpin_workers(uint32_t place);
  Instant last_heard_at(uint32_t place) override;
  /// Runs `inspector` for each shard between two bursts of its core.
  /// @pre mutex_ is held, or the engine has not been started.
  void each_shard(const std::function<void(switchml::Shard&)>& inspector);

  const SwitchmlConfig config_;
  memory::SharedMemory memory_;
  std::unique_ptr<engine::Port> port_;
  std::vector<std::string> warnings_;
  std::vector<std::unique_ptr<switchml::Shard>> shards_;  ///< One per core.
  std::unique_ptr<Engine> engine_;
  std::mutex mutex_;  ///< Guards the book and access to the engine's shards.
  SessionBook book_;
  std::unique_ptr<ControlServer> control_;  ///< Calls join().
  Instant started_at_;
};

}  // namespace tributary::server
