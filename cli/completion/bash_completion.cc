// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cli/completion/completion_scripts.h"

namespace tributary::cli {
namespace {

/// Finds the command, then the flag whose value is being typed. bash splits words at "=", so
/// "--flag=value" arrives as three words.
constexpr const char* kFrame = R"(# bash completion for {0}. Made by: {0} completion bash
_{0}() {{
  local current=${{COMP_WORDS[COMP_CWORD]}} previous=${{COMP_WORDS[COMP_CWORD-1]}}
  local command='' word words='' i
  for ((i = 1; i < COMP_CWORD; i++)); do
    word=${{COMP_WORDS[i]}}
    case "${{command:+$command }}$word" in
      {1}) command="${{command:+$command }}$word" ;;
    esac
  done
  if [[ $current == = ]]; then
    current=''
  elif [[ $previous == = ]]; then
    previous=${{COMP_WORDS[COMP_CWORD-2]}}
  fi
  COMPREPLY=()
  case "$command $previous" in
{2}  esac
  case "$command" in
{3}  esac
  if [[ $current == -* || -z $words ]]; then
    case "$command" in
{4}    esac
  fi
  [[ -z $words ]] || mapfile -t COMPREPLY < <(compgen -W "$words" -- "$current")
  if [[ $current != -* && ${{#COMPREPLY[@]}} -eq 0 ]]; then
    mapfile -t COMPREPLY < <(compgen -f -- "$current")
    compopt -o filenames 2>/dev/null
  fi
}}
complete -F _{0} {0}
)";

/// Returns the pattern of a `case` for the flags of a command.
std::string pattern_of(const CompletedCommand& command, const CompletedOption& option) {
  std::string pattern;
  for (const std::string& flag : option.flags) {
    pattern += fmt::format("{}'{} {}'", pattern.empty() ? "" : " | ", command.path, flag);
  }
  return pattern;
}

/// Returns a branch for each flag with a value: it completes files or the allowed words. A flag
/// with any other value completes nothing.
std::string value_branches(std::span<const CompletedCommand> commands) {
  std::string text;
  for (const CompletedCommand& command : commands) {
    for (const CompletedOption& option : command.options) {
      if (option.flags.empty() || option.value == CompletedValue::kNone) continue;
      std::string action = "return";
      if (option.value == CompletedValue::kFile) {
        action =
            "mapfile -t COMPREPLY < <(compgen -f -- \"$current\")\n"
            "      compopt -o filenames 2>/dev/null\n      return";
      } else if (option.value == CompletedValue::kChoice) {
        action =
            fmt::format("mapfile -t COMPREPLY < <(compgen -W '{}' -- \"$current\")\n      return",
                        fmt::join(option.choices, " "));
      }
      text += fmt::format("    {})\n      {} ;;\n", pattern_of(command, option), action);
    }
  }
  return text;
}

/// Returns the branches for words that are no flags: subcommands and positional arguments.
std::string word_branches(std::span<const CompletedCommand> commands) {
  std::string text;
  for (const CompletedCommand& command : commands) {
    std::vector<std::string> words = command.subcommands;
    for (const CompletedOption& option : command.options) {
      if (option.flags.empty()) {
        words.insert(words.end(), option.choices.begin(), option.choices.end());
      }
    }
    if (words.empty()) continue;
    text += fmt::format("    '{}') words='{}' ;;\n", command.path, fmt::join(words, " "));
  }
  return text;
}

std::string flag_branches(std::span<const CompletedCommand> commands) {
  std::string text;
  for (const CompletedCommand& command : commands) {
    std::vector<std::string> flags;
    for (const CompletedOption& option : command.options) {
      flags.insert(flags.end(), option.flags.begin(), option.flags.end());
    }
    text += fmt::format("      '{}') words='{}' ;;\n", command.path, fmt::join(flags, " "));
  }
  return text;
}

}  // namespace

std::string bash_completion(const std::string& program,
                            std::span<const CompletedCommand> commands) {
  std::string paths;
  for (const CompletedCommand& command : commands) {
    if (command.path.empty()) continue;
    paths += fmt::format("{}'{}'", paths.empty() ? "" : " | ", command.path);
  }
  return fmt::format(fmt::runtime(kFrame), program, paths, value_branches(commands),
                     word_branches(commands), flag_branches(commands));
}

}  // namespace tributary::cli
