// SPDX-License-Identifier: Apache-2.0
#include "server/appliance.h"

#include <fmt/format.h>

#include <algorithm>

#include "apps/trio_ml/recording.h"
#include "base/assert.h"
#include "base/clock.h"
#include "base/cpus.h"
#include "io/udp/socket_address.h"
#include "server/stats_json.h"

namespace tributary::server {
namespace {

/// SRAM holds small, frequently used data; job memory is DRAM (Trio paper §2.3, DMEM in Figure 9).
constexpr uint64_t kSramBytes = uint64_t{8} << 20;

}  // namespace

Appliance::Appliance(const ApplianceConfig& config, memory::SharedMemory memory, OpenedPort port)
    : config_(config),
      memory_(std::move(memory)),
      port_(std::move(port.port)),
      local_server_(port.local_server),
      warnings_(std::move(port.warnings)),
      room_bytes_(port.room_bytes),
      started_at_(monotonic_now()) {}

Appliance::~Appliance() { stop(); }

Result<std::unique_ptr<Appliance>> Appliance::start(const ApplianceConfig& config) {
  if (config.jobs.empty()) {
    return failure(
        "job: no job is configured; give at least one, for example --job id=1,sources=4");
  }
  auto port = config.devices.empty() ? open_sockets(config) : open_devices(config);
  if (!port) return tl::unexpected(port.error());
  return start_on(config, *std::move(port));
}

Result<std::unique_ptr<Appliance>> Appliance::start(const ApplianceConfig& config,
                                                    std::unique_ptr<engine::Port> port) {
  TRIB_ASSERT(port->queue_count() == config.cores);
  OpenedPort opened;
  opened.port = std::move(port);
  return start_on(config, std::move(opened));
}

Result<std::unique_ptr<Appliance>> Appliance::start_on(const ApplianceConfig& config,
                                                       OpenedPort port) {
  auto memory = memory::SharedMemory::create(
      {.sram_size_bytes = kSramBytes, .dram_size_bytes = config.memory_mb << 20});
  if (!memory) {
    return failure(
        fmt::format("--memory-mb {}: {}; to fix: give a smaller --memory-mb, or raise the "
                    "limit of address space (ulimit -v)",
                    config.memory_mb, memory.error().text));
  }
  std::unique_ptr<Appliance> appliance(new Appliance(config, *std::move(memory), std::move(port)));
  if (const auto added = appliance->add_first_jobs(); !added) return tl::unexpected(added.error());
  std::vector<trio_ml::App> apps;
  for (auto& shard : appliance->shards_) apps.emplace_back(*shard);
  appliance->engine_ =
      std::make_unique<Engine>(*appliance->port_, std::move(apps),
                               engine::LiveEngineConfig{.spin = microseconds(config.spin_us),
                                                        .cpu_percent = config.cpu_percent,
                                                        .cpus = config.cpus});
  appliance->engine_->start();
  if (const auto directory = appliance->start_directory(); !directory) {
    return tl::unexpected(directory.error());
  }
  return appliance;
}

Result<void> Appliance::start_directory() {
  if (!config_.directory) return {};
  std::vector<Directory::ServedJob> served;
  for (const Served& each : served_) {
    if (each.config().directory) served.push_back({each.config(), each.session.get()});
  }
  auto started = Directory::start(*config_.directory, served);
  if (!started) return tl::unexpected(started.error());
  directory_ = *std::move(started);
  return {};
}

Result<Appliance::OpenedPort> Appliance::open_sockets(const ApplianceConfig& config) {
  io::UdpPortConfig port_config;
  port_config.local = config.listen;
  port_config.queue_count = config.cores;
  port_config.receive_buffer_bytes = config.buffer_mb << 20;
  port_config.send_buffer_bytes = config.buffer_mb << 20;
  port_config.multicast = io::UdpMulticast{};
  const auto opened_of = [](auto port) -> Result<OpenedPort> {
    if (!port) return failure_in("--listen: ", port.error());
    OpenedPort opened;
    opened.warnings = (*port)->warnings();
    opened.room_bytes = (*port)->receive_room_bytes();
    opened.port = *std::move(port);
    return opened;
  };
  if (!config.local) return opened_of(io::UdpPort::open(port_config));
  auto port = io::UdpAndLocalPort::open(port_config);
  io::LocalServer* const local_server = port ? (*port)->local_server() : nullptr;
  auto opened = opened_of(std::move(port));
  if (opened) opened->local_server = local_server;
  return opened;
}

Result<Appliance::OpenedPort> Appliance::open_devices(const ApplianceConfig& config) {
  auto opened = io::open_device_port(
      {.spec = config.devices, .local = config.listen, .queue_count = config.cores});
  if (!opened) return tl::unexpected(opened.error());
  OpenedPort port;
  port.warnings = std::move(opened->warnings);
  port.room_bytes = opened->port->receive_room_bytes();
  port.port = std::move(opened->port);
  return port;
}

Result<void> Appliance::add_first_jobs() {
  for (uint32_t core = 0; core < config_.cores; core++) {
    shards_.push_back(
        std::make_unique<trio_ml::Shard>(core, config_.cores, port_->local().port, memory_));
    events_.push_back(std::make_unique<trio_ml::EventRing>());
    shards_.back()->log_to(events_.back().get());
  }
  if (config_.record_events > 0) add_recorder();
  for (const trio_ml::JobConfig& job : config_.jobs) {
    for (const Served& each : served_) {
      const uint32_t id = each.config().id;
      if (id < job.id || id >= job.id + job.channels) continue;
      return failure(
          fmt::format("job {}: id={} is configured twice{}", id, id, ids_note(config_.jobs, id)));
    }
    auto channels = prepare(job);
    if (!channels) return failure("--job: " + channels.error().text);
    install(*std::move(channels));
  }
  return {};
}

void Appliance::add_recorder() {
  recorder_ = std::make_unique<recorder::FlightRecorder>(recorder::RecorderConfig{
      .name = config_.record_name.empty() ? local().to_string() : config_.record_name,
      .events = config_.record_events,
      .labels = trio_ml::record_labels()});
  for (uint32_t core = 0; core < config_.cores; core++) {
    writers_.push_back(recorder_->add_writer(core));
    TRIB_ASSERT(writers_.back() != nullptr);  // There are fewer cores than writers.
    shards_[core]->record_to(writers_.back());
  }
}

void Appliance::set_recording(bool on) {
  if (recorder_ == nullptr) return;
  const std::lock_guard lock(control_mutex_);
  uint32_t core_index = 0;
  engine_->inspect([&](Engine::Core&) {
    shards_[core_index]->record_to(on ? writers_[core_index] : nullptr);
    core_index++;
  });
}

void Appliance::stop() {
  if (directory_ != nullptr) directory_->stop();
  {
    const std::lock_guard lock(control_mutex_);
    stopped_ = true;  // From here on, drain_job() starts no thread.
  }
  drained_remover_ = {};  // Asks the thread to stop and waits for it.
  const std::lock_guard lock(control_mutex_);
  if (engine_ != nullptr) engine_->stop();
}

bool Appliance::is_in_use() const {
  const std::lock_guard lock(control_mutex_);
  const Instant now = monotonic_now();
  return std::any_of(served_.begin(), served_.end(),
                     [now](const Served& each) { return each.session->is_in_use(now); });
}

nlohmann::json Appliance::stats() {
  nlohmann::json stats = trio_ml_stats(snapshot());
  if (local_server_ != nullptr) stats["local"] = local_json(local_server_->stats());
  return stats;
}

void Appliance::read_cores(Snapshot& snapshot, std::vector<JobViews>& jobs) {
  std::vector<CoreReading> readings(config_.cores);
  engine_->visit([&](Engine::Core& core, uint32_t index) {
    CoreReading& reading = readings[index];
    trio_ml::Shard& shard = *shards_[index];
    if (!reading.begun) {
      reading.begun = true;
      snapshot.cores[index] = {core.counters(), thread_cpu_time()};
      reading.counters = shard.counters();
      for (uint32_t i = 0; i < jobs.size(); i++) {
        jobs[i][index].read(*shard.jobs()[i], index, snapshot.at);
      }
    }
    // One job at a time, so that no visit reads more than kPlacesPerVisit places.
    while (reading.job < jobs.size()) {
      JobView& view = jobs[reading.job][index];
      const bool reads = view.blocks_in_progress > 0;
      if (!reads || !view.read_blocks(*shard.jobs()[reading.job])) reading.job++;
      if (reads) break;
    }
    return reading.job < jobs.size();
  });
  for (const CoreReading& reading : readings) {
    snapshot.add_all(reading.counters, trio_ml::Outcome::kNotIp);
  }
}

Snapshot Appliance::snapshot() {
  const std::lock_guard lock(control_mutex_);
  Snapshot snapshot;
  snapshot.at = monotonic_now();
  snapshot.uptime = snapshot.at - started_at_;
  snapshot.listen = local().to_string();
  snapshot.cores.resize(config_.cores);
  if (directory_ != nullptr) snapshot.directory = directory_->state();
  std::vector<JobViews> jobs;
  for (const Served& each : served_) {
    // Construct each view: a copy would lose the capacity that a core needs to allocate nothing.
    JobViews& views = jobs.emplace_back();
    views.reserve(config_.cores);
    for (uint32_t core = 0; core < config_.cores; core++) views.emplace_back(each.config());
  }
  read_cores(snapshot, jobs);
  snapshot.at = monotonic_now();  // Later than all times that the cores have given.
  for (uint32_t i = 0; i < jobs.size(); i++) {
    snapshot.jobs.push_back(merge(*served_[i].session, jobs[i], snapshot.at));
    JobSnapshot& job = snapshot.jobs.back();
    job.channel = uint32_t{job.config.id} - served_[i].job;
    job.draining = served_[i].draining;
  }
  snapshot.read_ports(*port_);
  return snapshot;
}

void Appliance::take_events(const std::function<void(const trio_ml::Event&)>& take) {
  trio_ml::Event event;
  for (const auto& ring : events_) {
    for (uint32_t i = 0; i < trio_ml::EventRing::kEventsMax && ring->take(event); i++) take(event);
  }
}

uint64_t Appliance::events_lost() const {
  uint64_t lost = 0;
  for (const auto& ring : events_) lost += ring->lost();
  return lost;
}

}  // namespace tributary::server
