// SPDX-License-Identifier: Apache-2.0
#include "host/aggregator_list.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/number_text.h"
#include "io/udp/resolve.h"
#include "plan/plan_digest.h"
#include "plan/weights.h"

namespace tributary::host {
namespace {

constexpr std::string_view kExample = "for example 10.0.0.1:12000 or [::1]:12000";

Result<uint32_t> whole_number(std::string_view what, std::string_view text, uint32_t least,
                              uint32_t most) {
  const auto number = parse_number<uint32_t>(text);
  if (number && *number >= least && *number <= most) return *number;
  return failure(fmt::format("{}='{}' is not allowed; allowed: a whole number from {} to {}", what,
                             text, least, most));
}

/// Reads "HOST", "HOST:PORT", "[v6]" or "[v6]:PORT". @return "HOST:PORT".
Result<std::string> parse_name(std::string_view text, uint16_t default_port) {
  const bool bracketed = text.starts_with('[');
  const size_t host_end = bracketed ? text.find(']') : text.find(':');
  if (bracketed && host_end == std::string_view::npos) {
    return failure(fmt::format("host '{}' has no closing bracket", text));
  }
  const size_t host_size = std::min(bracketed ? host_end + 1 : host_end, text.size());
  const std::string_view rest = text.substr(host_size);
  if (host_size == 0 || (!rest.empty() && rest.front() != ':') ||
      rest.find(':', 1) != std::string_view::npos) {
    return failure(fmt::format("'{}' is not HOST:PORT, {}", text, kExample));
  }
  uint32_t port = default_port;
  if (!rest.empty()) {
    const auto given = whole_number("port", rest.substr(1), 1, 65'535);
    if (!given) return tl::unexpected(given.error());
    port = *given;
  }
  return fmt::format("{}:{}", text.substr(0, host_size), port);
}

Result<Aggregator> parse_aggregator(std::string_view text, uint16_t default_port) {
  const size_t name_size = std::min(text.find('='), text.size());
  const auto name = parse_name(text.substr(0, name_size), default_port);
  if (!name) return tl::unexpected(name.error());
  Aggregator aggregator{.name = *name};
  if (name_size == text.size()) return aggregator;
  const auto weight = whole_number(fmt::format("weight of {}", *name), text.substr(name_size + 1),
                                   0, plan::kWeightMax);
  if (!weight) return tl::unexpected(weight.error());
  aggregator.weight = *weight;
  return aggregator;
}

}  // namespace

Result<std::vector<Aggregator>> parse_aggregators(std::string_view list, uint16_t default_port) {
  std::vector<Aggregator> aggregators;
  for (size_t first = 0; first <= list.size();) {
    const size_t end = std::min(list.find(',', first), list.size());
    const auto one = parse_aggregator(list.substr(first, end - first), default_port);
    if (!one) return tl::unexpected(one.error());
    for (const Aggregator& before : aggregators) {
      if (before.name == one->name) {
        return failure(fmt::format("aggregator {} is given twice", one->name));
      }
    }
    aggregators.push_back(*one);
    first = end + 1;
  }
  if (aggregators.size() > kAggregatorsMax) {
    return failure(fmt::format("{} aggregators are not allowed; allowed: 1 to {}",
                               aggregators.size(), kAggregatorsMax));
  }
  const auto has_weight = [](const Aggregator& each) { return each.weight > 0; };
  if (std::none_of(aggregators.begin(), aggregators.end(), has_weight)) {
    return failure("every aggregator has weight 0; at least one must sum something");
  }
  return aggregators;
}

Result<void> resolve(std::span<Aggregator> aggregators) {
  for (Aggregator& each : aggregators) {
    const auto address = io::resolve(each.name, /*default_port=*/0);
    if (!address) return tl::unexpected(address.error());
    each.address = *address;
  }
  return {};
}

Result<void> check_addresses(std::span<const Aggregator> aggregators) {
  for (const Aggregator& each : aggregators) {
    for (const Aggregator& other : aggregators.first(&each - aggregators.data())) {
      if (other.address != each.address) continue;
      return failure(fmt::format("aggregators {} and {} have the same address {}", other.name,
                                 each.name, each.address.to_string()));
    }
  }
  return {};
}

std::string list_text(std::span<const Aggregator> aggregators) {
  std::string text;
  for (const Aggregator& each : aggregators) {
    text += fmt::format("{}{}", text.empty() ? "" : ",", each.name);
    if (each.weight != 1) text += fmt::format("={}", each.weight);
  }
  return text;
}

uint64_t list_digest(std::span<const Aggregator> aggregators) {
  std::vector<plan::WeightedAggregator> list;
  for (const Aggregator& each : aggregators) list.push_back({each.name, each.weight});
  return plan::plan_digest(list);
}

}  // namespace tributary::host
