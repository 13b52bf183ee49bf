// SPDX-License-Identifier: Apache-2.0
/// @file
/// Who takes part in a race, what each needs to be installed, and how its processes are started.
///
/// Model:   A system is servers (none for peers among themselves) and one process a worker. The
///          rivals from Debian's packages are programs of their own, built only where the packages
///          are; they lie beside this program, or in ../libexec/tributary below it.
/// Threads: None.
/// Errors:  refusal() says in a few words why a system is left out.
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
  const char* algorithm;   ///< As the worker program, or Open MPI, calls it; empty for its choice.
  const char* text;        ///< For people.
  bool multicast = false;  ///< Results go to a multicast group, once for all workers.

  /// Talks TCP between the workers: what users would pick instead.
  [[nodiscard]] bool is_tcp_peer() const {
    return (kind == SystemKind::kGloo || kind == SystemKind::kOpenMpi) && !uses_shared_memory();
  }
  [[nodiscard]] bool uses_shared_memory() const;
};

[[nodiscard]] std::span<const System> systems();
/// @return null if there is none of that name.
[[nodiscard]] const System* find_system(std::string_view name);

/// The programs that a race starts.
struct Programs {
  std::string tributary;
  std::string gloo;    ///< Empty if it was not built.
  std::string mpi;     ///< Likewise.
  std::string mpirun;  ///< Empty if it is not installed.
};
/// Looks beside the running program, or beside `tributary` if that is not empty.
[[nodiscard]] Programs find_programs(const std::string& tributary = {});

/// Why the system cannot take part in the case at all; empty if it can.
[[nodiscard]] std::string refusal(const System& system, const NetKind& net, const RaceCase& race,
                                  const Programs& programs);

/// A process to start: its words, program first, and what is on top of its environment.
struct Command {
  std::string name;
  std::vector<std::string> words;
  std::vector<std::string> environment;
  std::string
      ready;  ///< Standard output begins with this line when it may be used; empty: at once.
};

/// Servers of a parameter server: two, so that its threads are not fewer than the machine's cores
/// where these results are used.
inline constexpr uint32_t kPsServers = 2;

/// @param ports   Where servers listen; kPsServers of them.
/// @param scratch A folder that workers and servers share.
[[nodiscard]] std::vector<Command> server_commands(const System& system, const RaceNetwork& network,
                                                   const RaceCase& race, const Programs& programs,
                                                   std::span<const uint16_t> ports,
                                                   const std::string& scratch);

/// @param common What all workers share: control path, laps, scratch. The rest is filled in here.
[[nodiscard]] std::vector<Command> worker_commands(const System& system, const RaceNetwork& network,
                                                   const RaceCase& race, const Programs& programs,
                                                   std::span<const uint16_t> ports,
                                                   const ClientConfig& common);

/// How late the last worker of a straggler case comes.
inline constexpr uint32_t kPauseMs = 1000;

}  // namespace tributary::race
