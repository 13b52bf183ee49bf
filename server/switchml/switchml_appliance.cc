// SPDX-License-Identifier: Apache-2.0
#include "server/switchml/switchml_appliance.h"

#include <arpa/inet.h>
#include <fmt/format.h>

#include <algorithm>

#include "base/assert.h"
#include "base/clock.h"
#include "base/cpus.h"
#include "io/udp/socket_address.h"
#include "io/udp/udp_port.h"
#include "server/stats_json.h"
#include "wire/protocol.h"

namespace tributary::server {
namespace {

/// SRAM holds small, frequently used data; slots are DRAM.
constexpr uint64_t kSramBytes = uint64_t{8} << 20;

io::UdpPortConfig port_config(const SwitchmlConfig& config) {
  io::UdpPortConfig port;
  port.local = config.listen;
  port.queue_count = config.cores;
  port.receive_buffer_bytes = config.buffer_mb << 20;
  port.send_buffer_bytes = config.buffer_mb << 20;
  // The pool index is the last of the 32 bits from byte 4. Its slots go round the cores in runs.
  static_assert(switchml::kSlotsPerRun == 1U << 5);
  port.steering = {.payload_offset_bytes = 4, .shift_bits = 5};
  return port;
}

}  // namespace

SwitchmlAppliance::SwitchmlAppliance(const SwitchmlConfig& config, memory::SharedMemory memory,
                                     io::OpenedDevicePort port)
    : config_(config),
      memory_(std::move(memory)),
      port_(std::move(port.port)),
      warnings_(std::move(port.warnings)),
      book_(config.book, *this),
      started_at_(monotonic_now()) {}

SwitchmlAppliance::~SwitchmlAppliance() { stop(); }

Result<std::unique_ptr<SwitchmlAppliance>> SwitchmlAppliance::start(const SwitchmlConfig& config) {
  if (const auto good = check(config.book.shard); !good) {
    return failure_in("--", good.error());
  }
  auto memory = memory::SharedMemory::create(
      {.sram_size_bytes = kSramBytes, .dram_size_bytes = config.memory_mb << 20});
  if (!memory) {
    return failure(
        fmt::format("--memory-mb {}: {}; to fix: give a smaller --memory-mb, or raise the "
                    "limit of address space (ulimit -v)",
                    config.memory_mb, memory.error().text));
  }
  auto port = open_port(config);
  if (!port) return tl::unexpected(port.error());
  std::unique_ptr<SwitchmlAppliance> appliance(
      new SwitchmlAppliance(config, *std::move(memory), *std::move(port)));
  if (const auto made = appliance->make_shards(); !made) return tl::unexpected(made.error());
  if (const auto configured = appliance->configure_sessions(); !configured) {
    return tl::unexpected(configured.error());
  }
  appliance->engine_->start();
  if (!config.control.addresses.empty()) {
    auto control = ControlServer::start(config.control, *appliance);
    if (!control) return tl::unexpected(control.error());
    appliance->control_ = *std::move(control);
  }
  return appliance;
}

Result<io::OpenedDevicePort> SwitchmlAppliance::open_port(const SwitchmlConfig& config) {
  if (config.devices.empty()) {
    auto port = io::UdpPort::open(port_config(config));
    if (!port) return failure_in("--listen: ", port.error());
    io::OpenedDevicePort opened;
    opened.warnings = (*port)->warnings();
    opened.port = *std::move(port);
    return opened;
  }
  if (config.devices.size() > 1 && !config.control.addresses.empty()) {
    return failure(fmt::format(
        "--port is given {} times; allowed with --control: once, because a session call returns "
        "one MAC address; to fix: list the workers with --session instead",
        config.devices.size()));
  }
  // The published client sends reused packets without valid checksums.
  auto opened = io::open_device_port({.spec = config.devices,
                                      .local = config.listen,
                                      .queue_count = config.cores,
                                      .lax_checksums = true});
  if (opened && !opened->port->local().is_ipv4() && !config.control.addresses.empty()) {
    return failure(fmt::format("--port: ip={}; allowed with --control: an IPv4 address",
                               opened->port->local().host_text()));
  }
  return opened;
}

Result<void> SwitchmlAppliance::check_room(uint32_t elements) const {
  const uint32_t bytes = wire::SwitchmlHeader::kBytes + elements * 4;
  if (bytes <= port_->payload_bytes_max()) return {};
  return failure(fmt::format(
      "elements={} need payloads of {} bytes; the port's MTU leaves {}: use 64 elements, or give "
      "the device a larger mtu",
      elements, bytes, port_->payload_bytes_max()));
}

Result<void> SwitchmlAppliance::make_shards() {
  const uint64_t wanted_bytes = config_.cores * memory_bytes(config_.book.shard, config_.cores);
  if (wanted_bytes > config_.memory_mb << 20) {
    return failure(fmt::format("--memory-mb {}: --sessions {} with --slots {} need {} MB",
                               config_.memory_mb, config_.book.shard.sessions_max,
                               config_.book.shard.slots_max, (wanted_bytes >> 20) + 1));
  }
  std::vector<switchml::App> apps;
  for (uint32_t core = 0; core < config_.cores; core++) {
    auto shard = switchml::Shard::create(config_.book.shard, core, config_.cores, memory_);
    if (!shard) return tl::unexpected(shard.error());
    shards_.push_back(*std::move(shard));
    apps.emplace_back(*shards_.back());
  }
  engine_ = std::make_unique<Engine>(*port_, std::move(apps),
                                     engine::LiveEngineConfig{.spin = microseconds(config_.spin_us),
                                                              .cpu_percent = config_.cpu_percent,
                                                              .cpus = config_.cpus});
  return {};
}

Result<void> SwitchmlAppliance::configure_sessions() {
  for (const SwitchmlConfig::Session& session : config_.sessions) {
    if (const auto fits = check_room(session.config.elements); !fits) {
      return failure_in("--session: ", fits.error());
    }
    const auto configured = book_.configure(session.config, session.workers, monotonic_now());
    if (!configured) return failure_in("--session: ", configured.error());
  }
  return {};
}

void SwitchmlAppliance::stop() {
  control_.reset();
  const std::lock_guard lock(mutex_);
  if (engine_ != nullptr) engine_->stop();
}

std::vector<Endpoint> SwitchmlAppliance::control_points() const {
  return control_ == nullptr ? std::vector<Endpoint>{} : control_->addresses();
}

Result<SwitchAddress> SwitchmlAppliance::address_for(const Endpoint& worker) const {
  if (config_.devices.empty()) return switch_address(local(), worker);
  return SwitchAddress{.mac = port_->mac(), .ipv4 = ntohl(io::ipv4_address(local()).s_addr)};
}

Result<SwitchAddress> SwitchmlAppliance::join(const SessionBook::Request& request) {
  const auto address = address_for(request.address);
  if (!address) return address;
  if (const auto fits = check_room(request.elements); !fits) return tl::unexpected(fits.error());
  const std::lock_guard lock(mutex_);
  if (const auto joined = book_.join(request, monotonic_now()); !joined) {
    return tl::unexpected(joined.error());
  }
  return address;
}

void SwitchmlAppliance::each_shard(const std::function<void(switchml::Shard&)>& inspector) {
  uint32_t core_index = 0;
  engine_->inspect([&](Engine::Core&) { inspector(*shards_[core_index++]); });
}

/// Results go to the MAC address of the session call, because the published client answers no ARP.
void SwitchmlAppliance::unpin_workers(uint32_t place) {
  const auto& entry = book_.entries()[place];
  if (!entry) return;
  for (const Endpoint& worker : entry->workers) port_->unpin_neighbour(worker);
}

void SwitchmlAppliance::begin(uint32_t place, const switchml::SessionConfig& session) {
  unpin_workers(place);
  each_shard([&](switchml::Shard& shard) { shard.begin_session(place, session); });
}

void SwitchmlAppliance::set_worker(uint32_t place, uint32_t worker, const Endpoint& address,
                                   uint64_t mac) {
  port_->unpin_neighbour(book_.entries()[place]->workers[worker]);
  port_->pin_neighbour(address, mac);
  each_shard([&](switchml::Shard& shard) {
    const auto set = shard.set_worker(place, worker, address);
    TRIB_ASSERT(set.has_value());  // The book checked the request.
  });
}

void SwitchmlAppliance::end(uint32_t place) {
  unpin_workers(place);
  each_shard([&](switchml::Shard& shard) { shard.end_session(place); });
}

Instant SwitchmlAppliance::last_heard_at(uint32_t place) {
  Instant latest;
  each_shard([&](switchml::Shard& shard) {
    latest = std::max(latest, *std::ranges::max_element(shard.session(place).last_heard_at));
  });
  return latest;
}

std::vector<SessionSnapshot> SwitchmlAppliance::read_book() const {
  std::vector<SessionSnapshot> sessions;
  for (uint32_t place = 0; place < book_.entries().size(); place++) {
    const auto& entry = book_.entries()[place];
    if (!entry) continue;
    SessionSnapshot& session = sessions.emplace_back();
    session.place = place;
    session.id = entry->id;
    session.configured = entry->configured;
    session.elements = entry->config.elements;
    session.slots = entry->config.slots;
    session.silent_for.resize(entry->config.workers);
    for (const Endpoint& worker : entry->workers) {
      const bool registered = worker.address != Endpoint{}.address;
      session.workers.push_back(registered ? worker.host_text() : std::string());
    }
  }
  return sessions;
}

void SwitchmlAppliance::read_shard(const switchml::Shard& shard, Instant now,
                                   std::vector<SessionSnapshot>& sessions) {
  for (SessionSnapshot& session : sessions) {
    const switchml::Session& part = shard.session(session.place);
    session.packets += part.packets;
    session.slots_completed += part.slots_completed;
    for (size_t i = 0; i < session.silent_for.size(); i++) {
      if (part.last_heard_at[i] == Instant()) continue;
      const Duration silent = std::max(now - part.last_heard_at[i], Duration());
      session.silent_for[i] = std::min(session.silent_for[i].value_or(silent), silent);
    }
  }
}

void SwitchmlAppliance::add_part(const std::vector<SessionSnapshot>& part,
                                 std::vector<SessionSnapshot>& sessions) {
  for (size_t i = 0; i < sessions.size(); i++) {
    sessions[i].packets += part[i].packets;
    sessions[i].slots_completed += part[i].slots_completed;
    for (size_t worker = 0; worker < sessions[i].silent_for.size(); worker++) {
      const auto& silent = part[i].silent_for[worker];
      auto& least = sessions[i].silent_for[worker];
      if (silent) least = std::min(least.value_or(*silent), *silent);
    }
  }
}

Snapshot SwitchmlAppliance::snapshot() {
  Snapshot snapshot;
  snapshot.at = monotonic_now();
  snapshot.uptime = snapshot.at - started_at_;
  snapshot.service = to_string(wire::Protocol::kSwitchml);
  snapshot.listen = local().to_string();
  const std::lock_guard lock(mutex_);
  snapshot.sessions = read_book();
  // The cores allocate nothing.
  snapshot.cores.resize(config_.cores);
  std::vector<switchml::Counters> counters(config_.cores);
  std::vector<std::vector<SessionSnapshot>> parts(config_.cores, snapshot.sessions);
  engine_->visit([&](Engine::Core& core, uint32_t index) {
    const switchml::Shard& shard = *shards_[index];
    snapshot.cores[index] = {core.counters(), thread_cpu_time()};
    counters[index] = shard.counters();
    read_shard(shard, snapshot.at, parts[index]);
    return false;
  });
  for (const auto& part : parts) add_part(part, snapshot.sessions);
  for (const auto& of_core : counters) snapshot.add_all(of_core, switchml::Outcome::kNotIp);
  snapshot.read_ports(*port_);
  return snapshot;
}

nlohmann::json SwitchmlAppliance::stats() {
  nlohmann::json stats = switchml_stats(snapshot());
  stats["control"] = nlohmann::json::array();
  for (const Endpoint& at : control_points()) stats["control"].push_back(at.to_string());
  return stats;
}

}  // namespace tributary::server
