// SPDX-License-Identifier: Apache-2.0
#include "cli/programs/traffic_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

namespace tributary::cli {
namespace {

using Json = nlohmann::ordered_json;
using traffic::Label;

constexpr std::array kLabels{Label::kInnocent, Label::kFlood, Label::kFlashCrowd};
static_assert(kLabels.size() == traffic::kLabelCount);

double at_seconds(Instant at) { return in_seconds(at.since_start()); }

traffic::ClassSummary total_of(const traffic::Summary& summary) {
  traffic::ClassSummary total;
  for (const Label label : kLabels) {
    const traffic::ClassSummary& one = summary.of(label);
    if (one.packets == 0) continue;
    total.first_at = total.packets == 0 ? one.first_at : std::min(total.first_at, one.first_at);
    total.last_at = std::max(total.last_at, one.last_at);
    total.packets += one.packets;
    total.bytes += one.bytes;
  }
  return total;
}

Json settings_of(const traffic::Config& config) {
  const traffic::BackgroundConfig& background = config.background;
  Json json{{"packets", config.packets},
            {"seconds", in_seconds(config.length)},
            {"seed", config.seed},
            {"flows", background.flows},
            {"zipf", background.zipf},
            {"rate", background.rate},
            {"churn", background.churn},
            {"servers", background.servers},
            {"ipv6_percent", background.ipv6_percent},
            {"udp_percent", background.udp_percent}};
  if (config.flood) {
    const traffic::FloodConfig& flood = *config.flood;
    Json& in = json["flood"];
    in = {{"kind", traffic::to_string(flood.kind)},
          {"rate", flood.rate},
          {"start_s", in_seconds(flood.start)},
          {"seconds", in_seconds(flood.length)},
          {"sources", flood.sources}};
    if (flood.kind == traffic::FloodKind::kPulse) {
      in["pulse_on_ms"] = in_milliseconds(flood.pulse_on);
      in["pulse_off_ms"] = in_milliseconds(flood.pulse_off);
    }
  }
  if (config.flash_crowd) {
    json["flash_crowd"] = {{"sources", config.flash_crowd->sources},
                           {"start_s", in_seconds(config.flash_crowd->start)},
                           {"seconds", in_seconds(config.flash_crowd->spread)}};
  }
  return json;
}

Json class_of(Label label, const traffic::ClassSummary& summary) {
  Json json{
      {"class", traffic::to_string(label)}, {"packets", summary.packets}, {"bytes", summary.bytes}};
  if (summary.packets > 0) {
    json["first_s"] = at_seconds(summary.first_at);
    json["last_s"] = at_seconds(summary.last_at);
  }
  Json& prefixes = json["source_prefixes"] = Json::array();
  for (const traffic::LabelledPrefix& prefix : traffic::labelled_prefixes()) {
    if (prefix.label == label) prefixes.push_back(prefix.text);
  }
  return json;
}

std::string address_of_server(uint32_t index) {
  return traffic::server_address(index, false, 0).host_text();
}

}  // namespace

std::string traffic_text(const traffic::Summary& summary) {
  const traffic::ClassSummary total = total_of(summary);
  std::string text =
      fmt::format("{} packets, {} bytes in {:.6f} s; {} background flows\n", total.packets,
                  total.bytes, at_seconds(total.last_at), summary.flows_begun);
  for (const Label label : kLabels) {
    const traffic::ClassSummary& one = summary.of(label);
    if (one.packets == 0) continue;
    text += fmt::format("  {:<11} {} packets, {} bytes, from {:.6f} s to {:.6f} s\n",
                        traffic::to_string(label), one.packets, one.bytes, at_seconds(one.first_at),
                        at_seconds(one.last_at));
  }
  return text;
}

Json traffic_json(const traffic::Config& config, const traffic::Summary& summary) {
  const traffic::ClassSummary total = total_of(summary);
  Json json{{"tool", "tributary traffic"},
            {"settings", settings_of(config)},
            {"packets", total.packets},
            {"bytes", total.bytes},
            {"seconds", at_seconds(total.last_at)},
            {"flows_begun", summary.flows_begun},
            {"flows_ended", summary.flows_ended}};
  Json& classes = json["classes"] = Json::array();
  for (const Label label : kLabels) classes.push_back(class_of(label, summary.of(label)));
  json["server_prefixes"] = {traffic::kServerPrefixIpv4, traffic::kServerPrefixIpv6};
  if (config.flood) json["flood_server"] = address_of_server(traffic::kFloodServer);
  if (config.flash_crowd) {
    json["flash_crowd_server"] = address_of_server(traffic::flash_crowd_server(config.background));
  }
  return json;
}

}  // namespace tributary::cli
