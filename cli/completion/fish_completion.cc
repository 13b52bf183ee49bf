// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cli/completion/completion_scripts.h"

namespace tributary::cli {
namespace {

/// The function that tells whether the words before the cursor name a command.
constexpr const char* kFrame = R"(# fish completion for {0}. Made by: {0} completion fish
function __{0}_at
    set -l commands {1}
    set -l command ''
    for word in (commandline -opc)[2..-1]
        set -l longer (string trim -- "$command $word")
        if contains -- $longer $commands
            set command $longer
        end
    end
    test "$command" = "$argv[1]"
end
complete -c {0} -f
)";

std::string quoted(const std::string& text) {
  std::string safe;
  for (const char c : text) {
    if (c == '\'' || c == '\\') safe += '\\';
    safe += c;
  }
  return "'" + safe + "'";
}

std::string line_of(const std::string& program, const CompletedCommand& command,
                    const CompletedOption& option) {
  std::string line = fmt::format("complete -c {0} -n \"__{0}_at '{1}'\"", program, command.path);
  for (const std::string& flag : option.flags) {
    line += flag.starts_with("--") ? " -l " + flag.substr(2) : " -s " + flag.substr(1);
  }
  const bool is_file =
      option.value == CompletedValue::kFile || (option.flags.empty() && option.choices.empty());
  if (is_file) {
    line += option.flags.empty() ? " -F" : " -r -F";
  } else if (option.value != CompletedValue::kNone) {
    line += option.flags.empty() ? " -f" : " -x";
  }
  if (!option.choices.empty()) {
    line += " -a " + quoted(fmt::format("{}", fmt::join(option.choices, " ")));
  }
  return line + " -d " + quoted(option.help) + "\n";
}

}  // namespace

std::string fish_completion(const std::string& program,
                            std::span<const CompletedCommand> commands) {
  std::string paths;
  std::string lines;
  for (const CompletedCommand& command : commands) {
    if (!command.path.empty()) {
      paths += (paths.empty() ? "" : " ") + quoted(command.path);
      const size_t parent = command.path.size() - command.name().size();
      lines += fmt::format("complete -c {0} -n \"__{0}_at '{1}'\" -f -a {2} -d {3}\n", program,
                           command.path.substr(0, parent == 0 ? 0 : parent - 1), command.name(),
                           quoted(command.help));
    }
    for (const CompletedOption& option : command.options) {
      lines += line_of(program, command, option);
    }
  }
  return fmt::format(fmt::runtime(kFrame), program, paths) + lines;
}

}  // namespace tributary::cli
