// SPDX-License-Identifier: Apache-2.0
#include "cli/serve/serve_program.h"

#include <fmt/format.h>

#include <string>
#include <vector>

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
  auto settings = comma == std::string_view::npos ? keys.read({}, "--" + std::string(name))
                                                  : keys.parse(text.substr(comma + 1));
  // The key table's errors begin with "--NAME"; the flag is "--program NAME".
  if (!settings) return failure("--program " + settings.error().text.substr(2));
  return ChosenProgram{program, *std::move(settings)};
}

}  // namespace tributary::cli
