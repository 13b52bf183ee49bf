// SPDX-License-Identifier: Apache-2.0
#include "cli/serve/serve_record.h"

#include <fmt/format.h>

#include <array>
#include <bit>
#include <string>

#include "cli/settings.h"

namespace tributary::cli {
namespace {

constexpr uint32_t kEventsMin = 64;
constexpr uint64_t kStallMsMax = 3'600'000;
/// Largest recording. tributary record show reads four times as much.
constexpr uint64_t kRecordingBytesMax = uint64_t{256} << 20;
constexpr std::array<const char*, 4> kRecordFlags{"--record", "--record-dir", "--record-events",
                                                  "--record-stall-ms"};

}  // namespace

void add_record_flags(CLI::App& command, server::RecordConfig& config) {
  add_on_off(command, "--record", config.on,
             "Keep the recent events of each core in memory, for tributary record (trio-ml)");
  command
      .add_option("--record-dir", config.folder,
                  "Folder of the recordings that a signal, a stall, a silent rank or an abnormal "
                  "end writes; default: that of the control socket")
      ->type_name("FOLDER");
  add_uint(command, "--record-events", config.events, kEventsMin, recorder::kEventsMax,
           "Events that each core keeps, of 32 bytes each; a power of two");
  add_milliseconds(command, "--record-stall-ms", config.stall_after, 0, kStallMsMax,
                   "Write a recording when a block has waited this long for a rank, or when a "
                   "silent rank ends a session; 0: never");
}

const char* given_record_flag(const CLI::App& command) {
  for (const char* flag : kRecordFlags) {
    if (command.count(flag) > 0) return flag;
  }
  return nullptr;
}

Result<void> check_record_flags(const CLI::App& command, const server::RecordConfig& config,
                                uint32_t cores) {
  if (!std::has_single_bit(config.events)) {
    return failure(
        fmt::format("--record-events {} is not allowed; allowed: a power of two from {} to {}",
                    config.events, kEventsMin, recorder::kEventsMax));
  }
  const uint64_t bytes = uint64_t{config.events} * cores * sizeof(recorder::Event);
  if (config.on && bytes > kRecordingBytesMax) {
    return failure(fmt::format(
        "--record-events {} is not allowed with --cores {}: a recording has at most {} MB",
        config.events, cores, kRecordingBytesMax >> 20));
  }
  for (const char* flag : kRecordFlags) {
    if (!config.on && flag != kRecordFlags[0] && command.count(flag) > 0) {
      return failure(fmt::format("{} needs --record on", flag));
    }
  }
  return {};
}

}  // namespace tributary::cli
