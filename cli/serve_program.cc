// SPDX-License-Identifier: Apache-2.0
#include "cli/serve_program.h"

#include <fmt/format.h>

#include <chrono>
#include <random>

#include "base/clock.h"

namespace tributary::cli {

Result<ChosenProgram> parse_program(std::string_view text) {
  const size_t comma = text.find(',');
  const std::string_view name = text.substr(0, comma);
  const programs::Program* program = programs::find_program(name);
  if (program == nullptr) {
    std::vector<std::string> names;
    for (const programs::Program& known : programs::programs()) names.emplace_back(known.name);
    return failure("--program: " + unknown_name("program", name, names));
  }
  const KeyTable& keys = program->settings();
  auto settings = comma == std::string_view::npos ? keys.read({}, "--program")
                                                  : keys.parse(text.substr(comma + 1));
  if (!settings) return failure(fmt::format("--program {}: {}", name, settings.error().text));
  return ChosenProgram{program, *std::move(settings)};
}

Result<std::vector<io::InlineSideSpec>> inline_sides(const std::vector<std::string>& ports) {
  if (ports.empty() || ports.size() > 2) {
    return failure(fmt::format(
        "--program needs one --port (and back) or two (inline); {} are given", ports.size()));
  }
  std::vector<io::InlineSideSpec> sides;
  for (const std::string& text : ports) {
    auto side = io::parse_inline_side(text);
    if (!side) return tl::unexpected(side.error());
    sides.push_back(*std::move(side));
  }
  if (sides.size() == 2 && is_same_side(sides[0], sides[1])) {
    return failure(
        fmt::format("--port {}: given twice; allowed: two different ports, or one", ports[1]));
  }
  return sides;
}

Result<std::unique_ptr<programs::LiveService>> start_program(
    const ChosenProgram& chosen, const programs::ServeRequest& request) {
  std::random_device random;
  const Instant start = monotonic_now();
  const auto since_start = std::chrono::nanoseconds(in_nanoseconds(start - Instant()));
  const programs::InstanceTerms terms{
      .start = start,
      .time_zero =
          std::chrono::time_point_cast<std::chrono::nanoseconds>(std::chrono::system_clock::now()) -
          since_start,
      .seed = uint64_t{random()} << 32 | random()};
  return chosen.program->serve(chosen.settings, request, terms);
}

}  // namespace tributary::cli
