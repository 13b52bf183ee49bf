// SPDX-License-Identifier: Apache-2.0
#include "cli/core_flags.h"

#include "base/cpus.h"
#include "cli/settings.h"
#include "io/udp/udp_port_config.h"

namespace tributary::cli {

void add_core_flags(CLI::App& command, CoreFlags& flags, const std::string& cores_help) {
  add_uint(command, "--cores", flags.cores, 1, io::kUdpQueuesMax, cores_help);
  add_uint(command, "--spin-us", flags.spin_us, 0, 1'000'000,
           "Keep polling for this many microseconds after the last packet; 0: sleep at once");
  command
      .add_option("--cpus", flags.cpus,
                  "CPUs of the polling cores, as in 0-2,5: core i runs on the i-th; default: any")
      ->type_name("LIST");
  add_uint(command, "--cpu-percent", flags.cpu_percent, 1, 100,
           "Share of a CPU that each polling core may use, in percent");
  add_uint(command, "--buffer-mb", flags.buffer_mb, 1, 1024,
           "MB of socket buffers, per direction and core; more for many workers or large windows");
}

Result<std::vector<int>> cpus_of(const CoreFlags& flags) {
  if (flags.cpus.empty()) return std::vector<int>();
  auto cpus = parse_cpus(flags.cpus, cpus_allowed());
  if (!cpus) return failure_in("--cpus: ", cpus.error());
  return cpus;
}

}  // namespace tributary::cli
