// SPDX-License-Identifier: Apache-2.0
#include "cli/programs/traffic_command.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/result_file.h"
#include "cli/console.h"
#include "cli/lab/progress.h"
#include "cli/programs/traffic_report.h"
#include "cli/settings.h"
#include "io/capture/capture_reader.h"
#include "programs/traffic_capture.h"
#include "traffic/generator.h"

namespace tributary::cli {
namespace {

/// The time of the capture's first instant, 2026-01-01 00:00 UTC: fixed, so that equal settings
/// give equal files.
constexpr io::CaptureTime kCaptureStart{std::chrono::seconds(1'767'225'600)};
/// Packets between two updates of the progress line.
constexpr uint64_t kProgressPackets = 1 << 16;
/// Default factor from the background's rate to the flood's.
constexpr double kFloodFactor = 10.0;
/// Default reflectors of an amplification flood; the other kinds draw from many more sources.
constexpr uint32_t kReflectors = 2'000;

CLI::Option* add_seconds(CLI::App& command, const char* flag, Duration& value, double min_s,
                         const std::string& help) {
  return add_key(
      command, flag,
      {.type = KeyType::kNumber, .number_min = min_s, .number_max = traffic::kSecondsMax},
      fmt::format("{}", in_seconds(value)), help,
      [&value](const KeyValue& written) { value = from_seconds(std::get<double>(written)); });
}

void add_background(CLI::App& command, TrafficOptions& options) {
  traffic::BackgroundConfig& background = options.config.background;
  add_uint(command, "--flows", background.flows, 1, traffic::kFlowsMax,
           "Background flows in progress at any time");
  add_uint(command, "--packets", options.config.packets, 1, traffic::kPacketsMax,
           "Packets to write, of all classes");
  add_seconds(command, "--seconds", options.config.length, 0,
              "End after this time if the packets have not; 0: no limit");
  add_decimal(command, "--zipf", background.zipf, 0, traffic::kZipfMax,
              "Exponent of the Zipf distribution of flow sizes");
  add_decimal(command, "--rate", background.rate, 1, traffic::kRateMax,
              "Background packets per second, as a Poisson process");
  add_decimal(
      command, "--churn", background.churn, 0, traffic::kRateMax,
      fmt::format(
          "Background flows that end, and begin, per second; up to {} for each packet of --rate",
          traffic::kChurnPerPacketMax));
  add_uint(command, "--servers", background.servers, 1, traffic::kServersMax,
           "Servers to which the traffic goes");
  add_uint(command, "--ipv6-percent", background.ipv6_percent, 0, 100,
           "Background flows over IPv6; the others use IPv4");
  add_uint(command, "--udp-percent", background.udp_percent, 0, 100,
           "Background flows over UDP; the others use TCP");
  add_uint(command, "--seed", options.config.seed, 0, INT64_MAX,
           "Seed; equal settings and seeds write equal files");
}

void add_flood(CLI::App& command, TrafficOptions& options) {
  traffic::FloodConfig& flood = options.flood;
  CLI::Option* kind =
      command
          .add_option(
              "--flood", options.flood_kind,
              "Attack on server 198.18.0.1: syn (spoofed TCP SYNs), amplification (large UDP "
              "packets from reflectors), or pulse (the SYN flood in pulses)")
          ->type_name("KIND");
  add_key(command, "--flood-rate",
          {.type = KeyType::kNumber, .number_min = 1, .number_max = traffic::kRateMax},
          "ten times --rate", "Packets per second of the flood, or of its pulses",
          [&options](const KeyValue& written) {
            options.flood.rate = std::get<double>(written);
            options.flood_rate = true;
          })
      ->needs(kind);
  add_seconds(command, "--flood-start", flood.start, 0, "Seconds before the flood begins")
      ->needs(kind);
  add_seconds(command, "--flood-seconds", flood.length, 1e-6, "Length of the flood")->needs(kind);
  add_key(command, "--flood-sources",
          {.type = KeyType::kUint, .min = 1, .max = traffic::kFloodSourcesLimit},
          "1000000; amplification: 2000",
          "Pool of addresses from which each packet's source is drawn",
          [&options](const KeyValue& written) {
            options.flood.sources = static_cast<uint32_t>(std::get<uint64_t>(written));
            options.flood_sources = true;
          })
      ->needs(kind);
  const auto add_pulse = [&](const char* flag, Duration& value, uint64_t min_ms, const char* help) {
    add_key(command, flag,
            {.type = KeyType::kDurationMs, .min = min_ms, .max = traffic::kPulseMsMax},
            fmt::format("{}", in_milliseconds(value)), help,
            [&options, flag, &value](const KeyValue& written) {
              value = std::get<Duration>(written);
              options.pulse_flag = flag;
            })
        ->needs(kind);
  };
  add_pulse("--pulse-on-ms", flood.pulse_on, 1, "Length of each pulse of --flood pulse");
  add_pulse("--pulse-off-ms", flood.pulse_off, 0, "Time between two pulses of --flood pulse");
}

void add_flash_crowd(CLI::App& command, TrafficOptions& options) {
  CLI::Option* sources =
      add_key(command, "--flash-crowd",
              {.type = KeyType::kUint, .min = 1, .max = traffic::kFlashCrowdSourcesLimit}, "none",
              "Clients of a flash crowd: each opens one connection to server 198.18.0.2",
              [&options](const KeyValue& written) {
                options.flash_crowd.sources = static_cast<uint32_t>(std::get<uint64_t>(written));
                options.has_flash_crowd = true;
              });
  add_seconds(command, "--flash-crowd-start", options.flash_crowd.start, 0,
              "Seconds before the flash crowd begins")
      ->needs(sources);
  add_seconds(command, "--flash-crowd-seconds", options.flash_crowd.spread, 1e-6,
              "Time within which its clients arrive")
      ->needs(sources);
}

/// Returns the generator's settings for the flags.
Result<traffic::Config> config_of(const TrafficOptions& options) {
  traffic::Config config = options.config;
  if (options.out.empty()) {
    return failure("--out is missing; allowed: a file, or - for the standard output");
  }
  if (!options.flood_kind.empty()) {
    const auto kind = traffic::parse_flood_kind(options.flood_kind);
    if (!kind) {
      return failure(fmt::format("--flood={} is unknown; allowed: syn, amplification, pulse",
                                 options.flood_kind));
    }
    if (!options.pulse_flag.empty() && *kind != traffic::FloodKind::kPulse) {
      return failure(fmt::format("{} has no effect; allowed: none, or any with --flood pulse",
                                 options.pulse_flag));
    }
    config.flood = options.flood;
    config.flood->kind = *kind;
    if (!options.flood_rate) {
      config.flood->rate = std::min(config.background.rate * kFloodFactor, traffic::kRateMax);
    }
    if (!options.flood_sources && *kind == traffic::FloodKind::kAmplification) {
      config.flood->sources = kReflectors;
    }
  }
  if (options.has_flash_crowd) config.flash_crowd = options.flash_crowd;
  if (const auto checked = traffic::check(config); !checked) return failure(checked.error().text);
  return config;
}

/// Writes all packets. @return an Error if the file cannot be written.
Result<void> write_packets(traffic::Generator& generator, const std::string& path) {
  LabProgress progress("packets");
  const uint64_t total = generator.config().packets;
  return programs::write_traffic(generator, path, kCaptureStart, [&](uint64_t written) {
    if (written % kProgressPackets == 0 && written > 0) progress.update(written, total);
  });
}

/// Warns of a flood and of a flash crowd that begin after the last packet.
void warn_of_late_classes(const traffic::Config& config, const traffic::Summary& summary,
                          std::ostream& err) {
  const auto warn = [&](traffic::Label label, const char* name, const char* flag, Duration start) {
    if (summary.of(label).packets > 0) return;
    err << fmt::format(
        "tributary traffic: warning: no packet of the {}: the capture ends before it begins (at {} "
        "s), or it is too short for its rate; to fix: more --packets, an earlier {}, or more "
        "time\n",
        name, in_seconds(start), flag);
  };
  if (config.flood) warn(traffic::Label::kFlood, "flood", "--flood-start", config.flood->start);
  if (config.flash_crowd) {
    warn(traffic::Label::kFlashCrowd, "flash crowd", "--flash-crowd-start",
         config.flash_crowd->start);
  }
}

}  // namespace

CLI::App* add_traffic(CLI::App& app, TrafficOptions& options) {
  CLI::App* command = app.add_subcommand(
      "traffic", "Generate traffic from a seed: Zipf flows, floods, flash crowds, as a pcap file");
  add_background(*command, options);
  add_flood(*command, options);
  add_flash_crowd(*command, options);
  command
      ->add_option("--out", options.out, "Capture file to write (pcap); - is the standard output")
      ->type_name("FILE");
  command
      ->add_option("--json", options.json,
                   "Write the settings, the counts and the prefixes of each class to this file")
      ->type_name("FILE");
  return command;
}

int run_traffic(const TrafficOptions& options, std::ostream& out, std::ostream& err) {
  const auto config = config_of(options);
  if (!config) {
    err << "tributary traffic: " << config.error().text << "\n";
    return kExitUsage;
  }
  auto generator = traffic::Generator::create(*config);
  if (!generator) {
    err << "tributary traffic: " << generator.error().text << "\n";
    return kExitUsage;
  }
  if (const auto written = write_packets(*generator, options.out); !written) {
    err << "tributary traffic: --out " << written.error().text << "\n";
    return 1;
  }
  (options.out == "-" ? err : out) << traffic_text(generator->summary());
  warn_of_late_classes(*config, generator->summary(), err);
  if (options.json.empty()) return 0;
  const auto json = traffic_json(generator->config(), generator->summary());
  if (const auto written = write_result_file(options.json, json.dump(2) + "\n"); !written) {
    err << "tributary traffic: --json " << written.error().text << "\n";
    return 1;
  }
  return 0;
}

void add_traffic_command(CLI::App& app, int& exit_code) {
  auto options = std::make_shared<TrafficOptions>();
  CLI::App* command = add_traffic(app, *options);
  command->callback(
      [options, &exit_code] { exit_code = run_traffic(*options, text_stream(), std::cerr); });
}

}  // namespace tributary::cli
