// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cli/completion/completion_scripts.h"

namespace tributary::cli {
namespace {

/// Returns the text for the inside of single quotes, with a backslash before each of `special`.
std::string quoted(const std::string& text, std::string_view special) {
  std::string safe;
  for (const char c : text) {
    if (c == '\'') {
      safe += "'\\''";
      continue;
    }
    if (c == '\\' || special.find(c) != std::string_view::npos) safe += '\\';
    safe += c;
  }
  return safe;
}

/// Returns the name of a command's function: "_tributary_lab_run".
std::string function_of(const std::string& program, const std::string& path) {
  std::string name = "_" + program + (path.empty() ? "" : "_" + path);
  for (char& c : name) {
    if (c == ' ' || c == '-') c = '_';
  }
  return name;
}

std::string value_of(const CompletedOption& option) {
  switch (option.value) {
    case CompletedValue::kNone:
      return "";
    case CompletedValue::kText:
      return ":value: ";
    case CompletedValue::kFile:
      return ":file:_files";
    case CompletedValue::kChoice:
      return fmt::format(":value:({})",
                         quoted(fmt::format("{}", fmt::join(option.choices, " ")), ""));
  }
  return "";
}

/// Returns the lines of _arguments for a command's flags and positional arguments.
std::string arguments_of(const CompletedCommand& command) {
  std::string text;
  for (const CompletedOption& option : command.options) {
    const std::string value = value_of(option);
    if (option.flags.empty()) {
      const std::string kind = option.choices.empty() ? ":file:_files" : value;
      text += fmt::format(" \\\n    '*{}'", kind);
    }
    for (const std::string& flag : option.flags) {
      // "--flag VALUE" and "--flag=VALUE" are both allowed.
      const bool equals = !value.empty() && flag.starts_with("--");
      text += fmt::format(" \\\n    '*{}{}[{}]{}'", flag, equals ? "=" : "",
                          quoted(option.help, "[]:"), value);
    }
  }
  return text;
}

std::string function_for(const std::string& program, const CompletedCommand& command,
                         std::span<const CompletedCommand> commands) {
  const std::string name = function_of(program, command.path);
  if (command.subcommands.empty()) {
    return fmt::format("{}() {{\n  _arguments{}\n}}\n\n", name, arguments_of(command));
  }
  std::string list;
  std::string calls;
  for (const CompletedCommand& sub : commands) {
    const std::string parent = command.path.empty() ? "" : command.path + " ";
    if (sub.path.empty() || sub.path != parent + sub.name()) continue;
    list += fmt::format("        '{}:{}'\n", sub.name(), quoted(sub.help, ""));
    calls += fmt::format("        {}) {} ;;\n", sub.name(), function_of(program, sub.path));
  }
  return fmt::format(
      "{}() {{\n  local curcontext=$curcontext state line\n  typeset -A opt_args\n"
      "  _arguments -C{} \\\n    '1:command:->command' \\\n    '*::argument:->argument'\n"
      "  case $state in\n    command)\n      local -a commands=(\n{}      )\n"
      "      _describe command commands ;;\n    argument)\n      case $line[1] in\n{}      esac "
      ";;\n"
      "  esac\n}}\n\n",
      name, arguments_of(command), list, calls);
}

}  // namespace

std::string zsh_completion(const std::string& program, std::span<const CompletedCommand> commands) {
  std::string text = fmt::format(
      "#compdef {0}\n# zsh completion for {0}. Made by: {0} completion zsh\n\n", program);
  for (const CompletedCommand& command : commands) {
    text += function_for(program, command, commands);
  }
  // As an autoloaded file it runs its function; a file that is sourced registers it.
  return text + fmt::format(
                    "if [[ $zsh_eval_context[-1] == loadautofunc ]]; then\n  _{0} \"$@\"\nelse\n"
                    "  compdef _{0} {0}\nfi\n",
                    program);
}

}  // namespace tributary::cli
