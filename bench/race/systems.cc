// SPDX-License-Identifier: Apache-2.0
#include "bench/race/systems.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>

#include "bench/race/client/tributary_client.h"
#include "bench/race/command.h"
#include "bench/race/placement.h"
#include "io/dpdk/open_dpdk_port.h"

namespace tributary::race {
namespace {

namespace fs = std::filesystem;

constexpr const char* kVader = "vader";
/// Number of the ring in Open MPI's list. Source: ompi_info, coll_tuned_allreduce_algorithm.
constexpr const char* kOmpiRing = "4";
/// Group address of the results. Source: RFC 2365 §6.2 (239.192/14, local to a site).
constexpr const char* kGroup = "239.192.77.1";
/// The aggregator waits for a late worker as long as by default.
constexpr const char* kMitigation = ",mitigation=on,timeout_ms=10";

constexpr std::array kSystems{
    System{
        "tributary", SystemKind::kTributary, kTributaryWorker,
        "`tributary serve` and the client library; several aggregators where all links are shaped"},
    System{"tributary-group", SystemKind::kTributary, kTributaryWorker,
           "the same with results to a multicast group", true},
    System{"ps", SystemKind::kParameterServer, kPsWorker,
           "a plain parameter server over TCP, two processes, chunks of 256 KiB"},
    System{"gloo-ring", SystemKind::kGloo, "ring", "Gloo's ring over TCP"},
    System{"gloo-hd", SystemKind::kGloo, "halving_doubling", "Gloo's halving-doubling over TCP"},
    System{"ompi-tcp", SystemKind::kOpenMpi, "", "Open MPI over TCP, its own choice of algorithm"},
    System{"ompi-tcp-ring", SystemKind::kOpenMpi, kOmpiRing, "Open MPI over TCP, the ring"},
    System{"ompi-shm", SystemKind::kOpenMpi, kVader, "Open MPI over shared memory"},
};

std::string existing(const fs::path& path) {
  return access(path.c_str(), X_OK) == 0 ? path.string() : std::string();
}

std::string find_beside(const fs::path& program, const char* name) {
  const fs::path folder = program.parent_path();
  std::string found = existing(folder / name);
  return found.empty() ? existing(folder / "../libexec/tributary" / name) : found;
}

/// Returns the path of the socket over which a worker and the server set up shared memory.
std::string wire_path(const std::string& scratch, uint32_t rank) {
  return fmt::format("{}/wire{}", scratch, rank);
}

std::vector<std::string> joined(std::vector<std::string> words,
                                const std::vector<std::string>& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

/// Returns the words of mpirun that precede the program.
std::vector<std::string> mpirun_words(const System& system, const RaceNetwork& network,
                                      const RaceCase& race, const Programs& programs) {
  std::vector<std::string> words{programs.mpirun, "--oversubscribe",           "--bind-to", "none",
                                 "-np",           std::to_string(race.workers)};
  const auto set = [&words](const char* key, const std::string& value) {
    words.insert(words.end(), {"--mca", key, value});
  };
  // Waiting ranks spin. If there are more ranks than cores, they must yield to each other.
  set("mpi_yield_when_idle", "1");
  set("pml", "ob1");
  if (system.uses_shared_memory()) {
    set("btl", "vader,self");
    return words;
  }
  set("btl", "tcp,self");
  set("btl_tcp_if_include", network.interface());
  if (*system.algorithm != '\0') {
    set("coll_tuned_use_dynamic_rules", "1");
    set("coll_tuned_allreduce_algorithm", system.algorithm);
  }
  return words;
}

ClientConfig worker_config(const System& system, const RaceNetwork& network, const RaceCase& race,
                           std::span<const uint16_t> ports, const ClientConfig& common) {
  ClientConfig config = common;
  config.workers = race.workers;
  config.bytes = race.bytes;
  config.wire = race.wire;
  config.pause_ms = race.straggler ? kPauseMs : 0;
  config.interface = network.interface();
  config.loss = network.kind().may_lose() ? 0 : race.loss;  // Otherwise the cables drop packets.
  if (system.kind == SystemKind::kTributary) {
    config.server = {aggregator_list(place_aggregators(network.kind(), race), network, ports[0])};
  } else if (system.kind == SystemKind::kParameterServer) {
    for (uint32_t i = 0; i < kPsServers; i++) {
      config.server.push_back(fmt::format("{}:{}", network.spare_address(0), ports[i]));
    }
  }
  if (system.kind != SystemKind::kOpenMpi) config.algorithm = system.algorithm;
  return config;
}

/// Returns the address of the aggregator on a worker's machine; empty if it has none.
std::string colocated_aggregator(const RaceNetwork& network, const RaceCase& race, uint32_t rank,
                                 uint16_t port) {
  for (const Aggregator& each : place_aggregators(network.kind(), race)) {
    if (each.colocated && each.index == rank) {
      return fmt::format("{}:{}", address_of(each, network), port);
    }
  }
  return {};
}

/// Returns the words that start an aggregator, after the program.
std::vector<std::string> serve_words(const System& system, const RaceNetwork& network,
                                     const RaceCase& race, const std::string& address,
                                     std::span<const uint16_t> ports, const std::string& scratch) {
  const std::string group =
      system.multicast ? fmt::format(",group={}:{}", kGroup, ports[1]) : std::string();
  const std::string job =
      fmt::format("id=1,sources={}{}{}", race.workers, race.straggler ? kMitigation : "", group);
  std::vector<std::string> words{"serve", "--listen", fmt::format("{}:{}", address, ports[0]),
                                 "--job", job,        "--log-level",
                                 "error"};
  for (uint32_t rank = 0; network.kind().shared_memory && rank < race.workers; rank++) {
    // Give the address once, for all wires.
    words.insert(words.end(),
                 {"--port", fmt::format("dpdk:vhost,iface={}{}", wire_path(scratch, rank),
                                        rank == 0 ? fmt::format(",ip={}/24", address) : "")});
  }
  return words;
}

}  // namespace

bool System::uses_shared_memory() const { return std::string_view(algorithm) == kVader; }

std::span<const System> systems() { return kSystems; }

const System* find_system(std::string_view name) {
  const auto* found = std::find_if(kSystems.begin(), kSystems.end(),
                                   [name](const System& system) { return name == system.name; });
  return found == kSystems.end() ? nullptr : found;
}

Programs find_programs(const std::string& tributary) {
  Programs programs;
  std::error_code ignored;
  programs.tributary =
      tributary.empty() ? fs::read_symlink("/proc/self/exe", ignored).string() : tributary;
  programs.gloo = find_beside(programs.tributary, "tributary-race-gloo");
  programs.mpi = find_beside(programs.tributary, "tributary-race-mpi");
  programs.mpirun = find_program("mpirun");
  return programs;
}

std::string refusal(const System& system, const NetKind& net, const RaceCase& race,
                    const Programs& programs) {
  if (system.kind == SystemKind::kGloo && programs.gloo.empty()) {
    return "not built: libgloo-dev was not installed";
  }
  if (system.kind == SystemKind::kOpenMpi && (programs.mpi.empty() || programs.mpirun.empty())) {
    return "not built: libopenmpi-dev, libpmix-dev or openmpi-bin was not installed";
  }
  if (race.wire == 16 && system.kind == SystemKind::kParameterServer) return "sends float32 only";
  if (system.multicast && net.shared_memory) return "shared-memory wires carry no multicast";
  if (system.multicast && race.loss > 0 && !net.may_lose()) {
    return "its results cannot be lost here; see the networks with real packets";
  }
  if (system.multicast && net.all_shaped) {
    return "needs one server whose link carries every worker's tensor";
  }
  if (net.shared_memory && system.kind == SystemKind::kTributary) {
    return io::has_dpdk() ? ""
                          : "not built: DPDK was not installed (tools/install-deps.sh --with-dpdk)";
  }
  if (system.uses_shared_memory() != net.shared_memory) {
    return net.shared_memory ? "has no transport over shared memory here" : "needs no network";
  }
  if (race.loss > 0 && !net.may_lose() && system.kind != SystemKind::kTributary) {
    return "its packets cannot be lost here; see the networks with real packets";
  }
  return {};
}

uint32_t server_machines(const System& system, const NetKind& net, const RaceCase& race) {
  if (!net.namespaces) return 0;
  if (system.kind == SystemKind::kParameterServer) return 1;
  if (system.kind != SystemKind::kTributary) return 0;
  return net.all_shaped ? race.servers : 1;
}

std::vector<Command> server_commands(const System& system, const RaceNetwork& network,
                                     const RaceCase& race, const Programs& programs,
                                     std::span<const uint16_t> ports, const std::string& scratch) {
  std::vector<Command> commands;
  const auto add = [&](const std::string& name, std::vector<std::string> at,
                       const std::vector<std::string>& words, bool colocated = false) {
    commands.push_back({.name = name,
                        .words = joined(joined(std::move(at), {programs.tributary}), words),
                        .environment = {},
                        .ready = "ready",
                        .colocated = colocated});
  };
  if (system.kind == SystemKind::kTributary) {
    for (const Aggregator& aggregator : place_aggregators(network.kind(), race)) {
      const std::string address = address_of(aggregator, network);
      add(fmt::format("the aggregator at {}", address), at_machine_of(aggregator, network),
          serve_words(system, network, race, address, ports, scratch), aggregator.colocated);
    }
  } else if (system.kind == SystemKind::kParameterServer) {
    for (uint32_t i = 0; i < kPsServers; i++) {
      add(fmt::format("parameter server {}", i), network.at_spare(0),
          {"race-ps-server", "--listen", fmt::format("{}:{}", network.spare_address(0), ports[i]),
           "--workers", std::to_string(race.workers)});
    }
  }
  return commands;
}

std::vector<Command> worker_commands(const System& system, const RaceNetwork& network,
                                     const RaceCase& race, const Programs& programs,
                                     std::span<const uint16_t> ports, const ClientConfig& common) {
  ClientConfig config = worker_config(system, network, race, ports, common);
  if (system.kind == SystemKind::kOpenMpi) {
    config.netns_prefix = network.worker_prefix();
    auto words = joined(mpirun_words(system, network, race, programs), {programs.mpi});
    return {{.name = "mpirun",
             .words = joined(std::move(words), to_arguments(config, true)),
             .environment = {"OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1"},
             .ready = {}}};
  }
  std::vector<Command> commands;
  for (uint32_t rank = 0; rank < race.workers; rank++) {
    config.rank = rank;
    if (system.kind == SystemKind::kTributary) {
      config.local_server = colocated_aggregator(network, race, rank, ports[0]);
    }
    if (network.kind().shared_memory && system.kind == SystemKind::kTributary) {
      config.port = fmt::format("dpdk:virtio_user,path={},ip={}/24",
                                wire_path(common.scratch, rank), network.worker_address(rank));
    }
    std::vector<std::string> words = network.at_worker(rank);
    if (system.kind == SystemKind::kGloo) {
      words.push_back(programs.gloo);
    } else {
      words.insert(words.end(), {programs.tributary, "race-worker"});
    }
    commands.push_back({.name = fmt::format("worker {}", rank),
                        .words = joined(std::move(words), to_arguments(config)),
                        .environment = {},
                        .ready = {}});
  }
  return commands;
}

}  // namespace tributary::race
