// SPDX-License-Identifier: Apache-2.0
#include "lab/trace/time_text.h"

#include <fmt/format.h>

#include <array>
#include <charconv>

namespace tributary::lab {
namespace {

struct Unit {
  std::string_view name;
  Duration length;
};
constexpr std::array<Unit, 4> kUnits{
    {{"ns", nanoseconds(1)}, {"us", microseconds(1)}, {"ms", milliseconds(1)}, {"s", seconds(1)}}};
constexpr double kSecondsMax = 1e6;

}  // namespace

Result<Duration> parse_time(std::string_view text) {
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const std::string_view rest = text.substr(static_cast<size_t>(end - text.data()));
  if (error == std::errc() && number == 0 && rest.empty()) return Duration();
  for (const Unit& unit : kUnits) {
    if (error != std::errc() || rest != unit.name) continue;
    const double ticks = number * static_cast<double>(unit.length.ticks());
    if (!(number >= 0) || in_seconds(seconds(1)) * ticks > kSecondsMax * 1e11) break;
    return Duration::from_ticks(static_cast<int64_t>(ticks + 0.5));
  }
  return failure(fmt::format(
      "'{}' is not a time; allowed: a number and its unit, ns, us, ms or s, as in 12us, "
      "up to {:.0f}s",
      text, kSecondsMax));
}

std::string time_text(Duration time) {
  const Unit* unit = &kUnits[0];
  for (const Unit& larger : kUnits) {
    if (time >= larger.length) unit = &larger;
  }
  return fmt::format("{} {}",
                     static_cast<double>(time.ticks()) / static_cast<double>(unit->length.ticks()),
                     unit->name);
}

std::string nanoseconds_text(Duration time) {
  return fmt::format("{:.2f}", nanoseconds_number(time));
}

double nanoseconds_number(Duration time) {
  return static_cast<double>(time.ticks()) / static_cast<double>(nanoseconds(1).ticks());
}

}  // namespace tributary::lab
