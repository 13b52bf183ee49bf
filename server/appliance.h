// SPDX-License-Identifier: Apache-2.0
/// @file
/// The aggregator appliance: Trio-ML on the live engine over UDP sockets or frame devices.
///
/// Threads: One thread owns the object; it contains the engine's cores. Any thread may call
///          snapshot(), stats(), is_in_use() and the commands of JobControl. A thread of its own
///          removes drained jobs; it starts with the first drain_job().
/// Errors:  start() returns one line, for example that the port is in use or a job does not fit.
/// Memory:  Reserves the configured shared memory; only pages that jobs use are touched. A removed
///          job's pages return to the operating system.
/// Tests:   tests/server/appliance_test.cc, appliance_jobs_test.cc
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "apps/trio_ml/app.h"
#include "apps/trio_ml/event.h"
#include "engine/live/live_engine.h"
#include "engine/port.h"
#include "io/devices/device_port.h"
#include "io/local/udp_and_local_port.h"
#include "memory/shared_memory.h"
#include "recorder/flight_recorder.h"
#include "server/directory.h"
#include "server/job_control.h"
#include "server/observed_server.h"

namespace tributary::server {

struct ApplianceConfig {
  Endpoint listen = Endpoint::ipv4(0, wire::kTrioMlPort);
  uint32_t cores = 1;          ///< Polling cores; a power of two.
  uint32_t spin_us = 0;        ///< Keep polling this long after the last packet.
  uint32_t cpu_percent = 100;  ///< Share of a CPU that each core may use, 1 … 100.
  std::vector<int> cpus = {};  ///< Core i runs on cpus[i modulo the size]; empty: on any CPU.
  uint64_t memory_mb = 4096;   ///< Shared memory for jobs (address space; only used pages count).
  uint32_t buffer_mb = 4;      ///< Socket buffers to ask for, per direction and core.
  bool local = true;  ///< Beside UDP sockets, serve workers of this machine over shared memory.
  io::DevicePortSpec devices = {};  ///< If not empty, these devices instead of UDP sockets.
  std::vector<trio_ml::JobConfig> jobs;
  std::optional<DirectoryConfig> directory = {};  ///< Plans all jobs; not set: no directory.
  uint32_t record_events = 0;    ///< Room of each core in the flight recorder; 0: no recorder.
  std::string record_name = {};  ///< Names the server in recordings; empty: its address.
};

class Appliance : public JobControl, public ObservedServer {
 public:
  /// Opens the port, allocates the jobs' memory and starts the cores.
  static Result<std::unique_ptr<Appliance>> start(const ApplianceConfig& config);
  /// Starts an appliance over the caller's port, which has as many queues as cores.
  static Result<std::unique_ptr<Appliance>> start(const ApplianceConfig& config,
                                                  std::unique_ptr<engine::Port> port);
  ~Appliance() override;

  /// Stops the cores after their current burst. Idempotent.
  void stop();

  /// Tells whether a session of a job has workers that are neither gone nor silent.
  [[nodiscard]] bool is_in_use() const;

  // JobControl; in appliance_jobs.cc.
  [[nodiscard]] std::optional<RunningJob> find_job(uint32_t id) const override;
  JobResult add_job(const trio_ml::JobConfig& job) override;
  JobResult remove_job(uint32_t id, bool force) override;
  JobResult drain_job(uint32_t id) override;
  JobResult change_job(uint32_t id, const JobChange& change) override;
  JobResult evict_source(uint32_t id, uint32_t source) override;

  /// Returns every counter by name, as `tributary serve --json` writes it.
  [[nodiscard]] nlohmann::json stats();

  // ObservedServer. job_snapshot.h bounds the time that a snapshot takes the cores.
  [[nodiscard]] Snapshot snapshot() override;
  void take_events(const std::function<void(const trio_ml::Event&)>& take) override;
  [[nodiscard]] std::vector<uint8_t> take_drained() override;
  [[nodiscard]] uint64_t events_lost() const override;

  /// Returns the flight recorder; null: there is none.
  [[nodiscard]] recorder::FlightRecorder* flight_recorder() { return recorder_.get(); }
  /// Starts or stops recording on all cores. Without a recorder it has no effect.
  void set_recording(bool on);
  [[nodiscard]] const ApplianceConfig& config() const { return config_; }
  /// Returns one sentence for each property of this machine that slows the server down.
  [[nodiscard]] const std::vector<std::string>& warnings() const { return warnings_; }
  [[nodiscard]] Endpoint local() const { return port_->local(); }

 private:
  using Engine = engine::LiveEngine<trio_ml::App>;
  /// The views of one job, shape [cores].
  using JobViews = std::vector<JobView>;
  /// A core's part of a snapshot, and its progress over several visits.
  struct CoreReading {
    bool begun = false;
    uint32_t job = 0;  ///< The first job whose blocks are not read.
    trio_ml::Counters counters{};
  };
  struct OpenedPort {
    std::unique_ptr<engine::Port> port;
    std::vector<std::string> warnings;
    uint32_t room_bytes = 0;  ///< Bytes that a core's socket can hold; 0 if unknown.
    io::LocalServer* local_server = nullptr;  ///< Part of the port; may be null.
  };
  /// A channel of a job. Most jobs have one.
  struct Served {
    uint8_t job = 0;           ///< The id of its job, which is that of channel 0.
    trio_ml::JobConfig given;  ///< As given to add_job(), with the changes since.
    std::unique_ptr<trio_ml::Session> session;
    bool draining = false;

    [[nodiscard]] const trio_ml::JobConfig& config() const { return session->config(); }
  };
  /// A channel that the cores do not have yet.
  struct Prepared {
    Served served;
    std::vector<std::unique_ptr<trio_ml::Job>> parts;  ///< Shape [cores].
  };
  static Result<OpenedPort> open_sockets(const ApplianceConfig& config);
  static Result<OpenedPort> open_devices(const ApplianceConfig& config);
  static Result<std::unique_ptr<Appliance>> start_on(const ApplianceConfig& config,
                                                     OpenedPort port);
  Appliance(const ApplianceConfig& config, memory::SharedMemory memory, OpenedPort port);
  void add_recorder();
  Result<void> add_first_jobs();
  Result<void> start_directory();

  // In appliance_jobs.cc. @pre control_mutex_ is locked, or the engine has not started.

  /// Makes all channels of a job and takes their memory. Changes nothing if it fails.
  [[nodiscard]] tl::expected<std::vector<Prepared>, JobError> prepare(
      const trio_ml::JobConfig& given);
  [[nodiscard]] tl::expected<Prepared, JobError> prepare_channel(const trio_ml::JobConfig& job,
                                                                 uint8_t first_id);
  /// Gives the channels to the cores, core 0 last: it alone starts sessions.
  void install(std::vector<Prepared> channels);
  /// Tells the members of a job that it is being removed. No further session starts.
  /// @return whether some members have not left yet.
  bool tell_of_removal(std::span<const uint8_t> ids);
  /// Takes a job from the cores and returns its memory. Core 0 is first, and tells the job's
  /// workers. With `force` it tells them several times, which takes up to 40 ms.
  /// @return false if it is in use and `force` is not given: it stays.
  bool take_down(uint8_t id, bool force);
  /// As take_down() without force, for a drained job.
  bool take_down_drained(uint8_t id);
  /// Removes drained jobs that nobody uses. Runs in a thread of its own.
  void remove_drained(const std::stop_token& stop);
  [[nodiscard]] JobResult check_memory(const trio_ml::JobConfig& job) const;
  [[nodiscard]] JobResult check_room(const trio_ml::JobConfig& job) const;
  /// Refuses commands if this server cannot carry them out.
  [[nodiscard]] JobResult check_open() const;
  /// Finds the channels of a job. Refuses the id of a channel other than the first.
  [[nodiscard]] tl::expected<std::vector<Served*>, JobError> channels_of(uint32_t id);
  /// Returns "1, 4": the ids of all jobs.
  [[nodiscard]] std::string job_ids() const;

  /// Fills `snapshot` and the views. @pre control_mutex_ is locked.
  void read_cores(Snapshot& snapshot, std::vector<JobViews>& jobs);

  const ApplianceConfig config_;
  memory::SharedMemory memory_;
  std::unique_ptr<engine::Port> port_;
  io::LocalServer* const local_server_;  ///< Part of the port; may be null.
  std::vector<std::string> warnings_;
  uint32_t room_bytes_ = 0;     ///< Bytes that a core's socket can hold; 0 if unknown.
  std::vector<Served> served_;  ///< One per channel of each job, in the cores' order.
  std::unique_ptr<recorder::FlightRecorder> recorder_;       ///< Null: there is none.
  std::vector<recorder::Writer*> writers_;                   ///< Shape [cores], or empty.
  std::vector<std::unique_ptr<trio_ml::EventRing>> events_;  ///< One per core.
  std::vector<std::unique_ptr<trio_ml::Shard>> shards_;      ///< One per core.
  std::unique_ptr<Engine> engine_;
  std::unique_ptr<Directory> directory_;  ///< Null: this server is no directory.
  Instant started_at_;
  /// Serialises the threads that inspect, change or stop the engine. No core takes it.
  mutable std::mutex control_mutex_;
  bool stopped_ = false;
  std::condition_variable_any drain_begun_;  ///< With control_mutex_.
  std::jthread drained_remover_;             ///< Removes drained jobs.
  std::mutex drained_mutex_;                 ///< Taken after control_mutex_.
  std::vector<uint8_t> drained_;  ///< With drained_mutex_: for take_drained(), at most kJobsMax.
};

/// Returns a note to append to an error about a job id: the job with several channels that uses
/// this id. Empty if there is none.
[[nodiscard]] std::string ids_note(std::span<const trio_ml::JobConfig> jobs, uint32_t id);

}  // namespace tributary::server
