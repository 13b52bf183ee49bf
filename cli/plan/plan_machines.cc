// SPDX-License-Identifier: Apache-2.0
#include "cli/plan/plan_machines.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string_view>
#include <variant>

#include "base/key_table.h"
#include "wire/headers.h"
#include "wire/trio_ml.h"

namespace tributary::cli {
namespace {

static_assert(kPlanMachinesMax == wire::kSourcesMax);

constexpr const char* kForm = "ADDRESS[:PORT][@GBIT[/SUM]], as in 10.0.0.2:12000@25/8";

/// One element of a list.
struct ListedMachine {
  std::string host;
  std::optional<uint16_t> port;
  std::optional<double> gbit;
  std::optional<double> sum_gbit;
};

/// Converts a value with base/key_table.h. @param where The start of an error line.
Result<KeyValue> convert(KeySpec key, std::string_view text, std::string where) {
  return convert_key(
      key, {.name = std::string(key.name), .text = std::string(text), .where = std::move(where)});
}

/// Reads a rate in Gbit/s.
Result<double> read_gbit(std::string_view name, std::string_view text, std::string where) {
  const auto gbit = convert(
      {.name = name, .type = KeyType::kNumber, .number_min = kGbitMin, .number_max = kGbitMax},
      text, std::move(where));
  if (!gbit) return tl::unexpected(gbit.error());
  return std::get<double>(*gbit);
}

/// Reads the part of a machine behind '@': GBIT[/SUM].
Result<void> read_rates(std::string_view text, const std::string& where, ListedMachine& machine) {
  const size_t slash = std::min(text.find('/'), text.size());
  const auto gbit = read_gbit("GBIT", text.substr(0, slash), where);
  if (!gbit) return tl::unexpected(gbit.error());
  machine.gbit = *gbit;
  if (slash == text.size()) return {};
  const auto sum = read_gbit("SUM", text.substr(slash + 1), where);
  if (!sum) return tl::unexpected(sum.error());
  machine.sum_gbit = *sum;
  return {};
}

Result<ListedMachine> read_machine(std::string_view flag, std::string_view text) {
  const auto where = [&] { return fmt::format("{}: '{}'", flag, text); };
  ListedMachine machine;
  const size_t at = std::min(text.find('@'), text.size());
  if (at < text.size()) {
    const auto rates = read_rates(text.substr(at + 1), where(), machine);
    if (!rates) return tl::unexpected(rates.error());
  }
  const std::string_view address = text.substr(0, at);
  const size_t bracket = address.starts_with('[') ? address.find(']') : 0;
  const size_t colon = bracket == std::string_view::npos ? bracket : address.find(':', bracket);
  if (colon != std::string_view::npos) {
    const auto port = convert({.name = "PORT", .type = KeyType::kUint, .min = 1, .max = UINT16_MAX},
                              address.substr(colon + 1), where());
    if (!port) return tl::unexpected(port.error());
    machine.port = static_cast<uint16_t>(std::get<uint64_t>(*port));
  }
  machine.host = address.substr(0, colon);
  const bool unclosed = machine.host.starts_with('[') && !machine.host.ends_with(']');
  if (machine.host.empty() || unclosed ||
      machine.host.find_first_of("/?&= ") != std::string::npos) {
    return failure(fmt::format("{} is not a machine; allowed: {}", where(), kForm));
  }
  return machine;
}

Result<std::vector<ListedMachine>> read_list(std::string_view flag, std::string_view text) {
  std::vector<ListedMachine> machines;
  for (size_t first = 0; first <= text.size();) {
    const size_t end = std::min(text.find(',', first), text.size());
    auto machine = read_machine(flag, text.substr(first, end - first));
    if (!machine) return tl::unexpected(machine.error());
    machines.push_back(std::move(*machine));
    first = end + 1;
  }
  return machines;
}

/// Tells whether a host is a number that is no count, as in -1 or 1.5. No name starts with a sign.
bool is_odd_number(std::string_view host) {
  if (host.starts_with('-') || host.starts_with('+')) return true;
  const bool digits = host.find_first_not_of("0123456789.") == std::string_view::npos;
  const auto dots = std::count(host.begin(), host.end(), '.');
  return digits && dots != 0 && dots != 3;  // An IPv4 address has three.
}

/// Replaces a number, which read_list() takes for a host, by so many machines.
/// @param name  How the machines are called, before their number.
/// @param least The smallest number.
Result<std::vector<ListedMachine>> expand_number(std::string_view flag, std::string_view name,
                                                 uint32_t least,
                                                 std::vector<ListedMachine> machines) {
  for (const ListedMachine& machine : machines) {
    if (!is_odd_number(machine.host)) continue;
    return failure(
        fmt::format("{}={} is not allowed; allowed: a number from {} to {}, or a list of {}", flag,
                    machine.host, least, kPlanMachinesMax, kForm));
  }
  const ListedMachine first = machines.front();
  const bool number = std::all_of(first.host.begin(), first.host.end(),
                                  [](char letter) { return letter >= '0' && letter <= '9'; });
  if (machines.size() > 1 || first.port || !number) return machines;
  const auto count =
      convert({.name = flag, .type = KeyType::kUint, .min = least, .max = kPlanMachinesMax},
              first.host, "");
  if (!count) return tl::unexpected(count.error());
  machines.clear();
  for (uint64_t i = 0; i < std::get<uint64_t>(*count); i++) {
    machines.push_back({.host = fmt::format("{}{}", name, i),
                        .port = {},
                        .gbit = first.gbit,
                        .sum_gbit = first.sum_gbit});
  }
  return machines;
}

Result<void> add(std::string_view flag, std::string_view text, bool worker, const PlanFlags& flags,
                 PlanMachines& all) {
  const auto listed = read_list(flag, text).and_then([&](std::vector<ListedMachine> list) {
    return worker ? expand_number(flag, "worker", 1, std::move(list))
                  : expand_number(flag, "server", 0, std::move(list));
  });
  if (!listed) return tl::unexpected(listed.error());
  if (listed->size() > kPlanMachinesMax) {
    return failure(fmt::format("{} lists {} machines; allowed: up to {}", flag, listed->size(),
                               kPlanMachinesMax));
  }
  for (const ListedMachine& machine : *listed) {
    if (machine.sum_gbit && worker && !flags.colocated) {
      return failure(fmt::format(
          "{}: SUM={:g} of {} has no meaning, because no worker machine runs an aggregator; "
          "allowed: no SUM, or --colocated on",
          flag, *machine.sum_gbit, machine.host));
    }
    all.machines.push_back(
        {.name = machine.host,
         .link_bytes_per_s = machine.gbit.value_or(flags.link_gbit) * kBytesPerGbit,
         .sum_bytes_per_s = machine.sum_gbit.value_or(flags.sum_gbit) * kBytesPerGbit,
         .worker = worker,
         .aggregator = !worker || flags.colocated});
    all.endpoints.push_back(
        fmt::format("{}:{}", machine.host, machine.port.value_or(wire::kTrioMlPort)));
  }
  return {};
}

}  // namespace

Result<PlanMachines> read_plan_machines(const PlanFlags& flags) {
  PlanMachines all;
  if (const auto done = add("--workers", flags.workers, true, flags, all); !done) {
    return tl::unexpected(done.error());
  }
  const size_t workers = all.machines.size();
  if (const auto done = add("--servers", flags.servers, false, flags, all); !done) {
    return tl::unexpected(done.error());
  }
  if (!flags.colocated && all.machines.size() == workers) {
    return failure(
        "--servers=0 --colocated=off: no machine runs an aggregator; allowed: --servers 1 or more, "
        "or --colocated on");
  }
  if (const auto checked = plan::check_machines(all.machines); !checked) {
    return tl::unexpected(checked.error());
  }
  return all;
}

}  // namespace tributary::cli
