// SPDX-License-Identifier: Apache-2.0
#include "cli/lab/step_command.h"

#include <fmt/format.h>
#include <unistd.h>

#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "cli/lab/options.h"
#include "cli/lab/stepper.h"
#include "cli/settings.h"
#include "lab/run.h"

namespace tributary::cli {
namespace {

constexpr const char* kCommand = "tributary lab step";

/// Standard input and output. Prints commands from a pipe, too, so that the output reads like a
/// session at a terminal.
class StandardConsole final : public Console {
 public:
  std::optional<std::string> read_line() override {
    std::string line;
    if (!std::getline(std::cin, line)) {
      write("\n");
      return std::nullopt;
    }
    if (!terminal_) write(line + "\n");
    return line;
  }
  void write(std::string_view text) override { std::cout << text << std::flush; }

 private:
  const bool terminal_ = isatty(STDIN_FILENO) != 0;
};

struct StepFlags {
  std::string scenario_path;
  std::vector<WrittenKey> settings;
};

int run_step(const StepFlags& flags) {
  const auto scenario = read_scenario(flags.scenario_path, flags.settings);
  if (!scenario) return complain(kCommand, scenario.error().text, kExitUsage);
  StandardConsole console;
  Stepper stepper(console);
  const auto result = lab::run_scenario(*scenario, nullptr, &stepper);
  if (stepper.quit()) return 0;
  if (!result) return complain(kCommand, result.error().text, 1);
  console.write(fmt::format("{} iterations in {:.6f} s, digest {:016x}\n",
                            result->iterations.size(), in_seconds(result->total), result->digest));
  return 0;
}

}  // namespace

void add_lab_step(CLI::App& lab, int& exit_code) {
  CLI::App* command = lab.add_subcommand("step", "Step through a scenario; 'help' at its prompt");
  const auto flags = std::make_shared<StepFlags>();
  command->add_option("scenario", flags->scenario_path, "TOML file; without it the paper's set-up")
      ->type_name("FILE");
  add_scenario_flags(*command, flags->settings);
  command->footer(
      "Examples:\n"
      "  tributary lab step --workers 2 --iterations 1\n"
      "  printf 'block 3\\nprint blocks 3\\nrun\\n' | tributary lab step --workers 2");
  command->callback([flags, &exit_code] { exit_code = run_step(*flags); });
}

}  // namespace tributary::cli
