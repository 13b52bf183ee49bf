// SPDX-License-Identifier: Apache-2.0
/// @file
/// The systems in a race: the programs that each needs, and the commands that start its processes.
///
/// Model:   A system has servers (none for peers) and one process per worker. The rivals from
///          Debian's packages are separate programs, built only if the packages are installed. They
///          lie next to this program or in ../libexec/tributary.
/// Threads: None.
/// Errors:  refusal() returns in a few words why a system is left out.
/// Tests:   tests/bench/race/systems_test.cc
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "bench/race/client/client.h"
#include "bench/race/network.h"
#include "bench/race/result.h"

namespace tributary::race {

enum class SystemKind : uint8_t { kTributary, kParameterServer, kGloo, kOpenMpi };

struct System {
  const char* name;
  SystemKind kind;
  const char* algorithm;   ///< The worker program's or Open MPI's name; empty: its choice.
  const char* text;        ///< Description for people.
  bool multicast = false;  ///< Sends results once, to a multicast group.

  /// Returns true for systems that use TCP between workers, Tributary's usual alternatives.
  [[nodiscard]] bool is_tcp_peer() const {
    return (kind == SystemKind::kGloo || kind == SystemKind::kOpenMpi) && !uses_shared_memory();
  }
  [[nodiscard]] bool uses_shared_memory() const;
};

[[nodiscard]] std::span<const System> systems();
/// Returns the system with this name; null if there is none.
[[nodiscard]] const System* find_system(std::string_view name);

/// Paths of the programs that a race starts.
struct Programs {
  std::string tributary;
  std::string gloo;    ///< Empty if it was not built.
  std::string mpi;     ///< Empty if it was not built.
  std::string mpirun;  ///< Empty if it is not installed.
};
/// Looks next to the running program, or next to `tributary` if that is not empty.
[[nodiscard]] Programs find_programs(const std::string& tributary = {});

/// Returns why the system cannot run the case; empty if it can.
[[nodiscard]] std::string refusal(const System& system, const NetKind& net, const RaceCase& race,
                                  const Programs& programs);

/// A process to start: its words, with the program first, and additions to its environment.
struct Command {
  std::string name;
  std::vector<std::string> words;
  std::vector<std::string> environment;
  /// First line of standard output that shows it is usable; empty: usable at once.
  std::string ready;
  bool colocated = false;  ///< A server on a worker's machine.
};

/// Servers of a parameter server: two, so that it has as many threads as the machine of the
/// published results has cores.
inline constexpr uint32_t kPsServers = 2;

/// Returns the number of machines besides the workers' that run the system's servers.
[[nodiscard]] uint32_t server_machines(const System& system, const NetKind& net,
                                       const RaceCase& race);

/// Returns the commands of the servers.
/// @param ports   Ports to listen on, kPsServers of them.
/// @param scratch A folder that workers and servers share.
[[nodiscard]] std::vector<Command> server_commands(const System& system, const RaceNetwork& network,
                                                   const RaceCase& race, const Programs& programs,
                                                   std::span<const uint16_t> ports,
                                                   const std::string& scratch);

/// Returns the commands of the workers.
/// @param common Settings of all workers: control path, laps, scratch. The function sets the
///   others.
[[nodiscard]] std::vector<Command> worker_commands(const System& system, const RaceNetwork& network,
                                                   const RaceCase& race, const Programs& programs,
                                                   std::span<const uint16_t> ports,
                                                   const ClientConfig& common);

/// Delay of the last worker in a straggler case.
inline constexpr uint32_t kPauseMs = 1000;

}  // namespace tributary::race
