// SPDX-License-Identifier: Apache-2.0
#include "cli/completion/command_tree.h"

#include <string_view>

namespace tributary::cli {
namespace {

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

/// Returns the words of CLI11's type text "TEXT:{a,b}"; none if it has another form.
std::vector<std::string> choices_in(std::string_view type) {
  std::vector<std::string> choices;
  const size_t begin = type.find(":{");
  if (begin == std::string_view::npos || !type.ends_with('}')) return choices;
  std::string_view list = type.substr(begin + 2, type.size() - begin - 3);
  while (!list.empty()) {
    const size_t comma = std::min(list.find(','), list.size());
    choices.emplace_back(list.substr(0, comma));
    list.remove_prefix(std::min(comma + 1, list.size()));
  }
  return choices;
}

/// Returns whether values of this type are paths. CLI11's own checks of paths name them so, too.
bool is_path(std::string_view type) {
  for (const std::string_view word : {"FILE", "DIR", "PATH", "FOLDER"}) {
    if (type.find(word) != std::string_view::npos) return true;
  }
  return false;
}

CompletedOption completed(const CLI::Option& option) {
  CompletedOption done{.flags = {}, .help = first_line(option.get_description())};
  for (const std::string& name : option.get_snames()) done.flags.push_back("-" + name);
  for (const std::string& name : option.get_lnames()) done.flags.push_back("--" + name);
  if (option.get_items_expected_max() == 0) return done;
  const std::string type = option.get_type_name();
  done.choices = choices_in(type);
  done.value = is_path(type) ? CompletedValue::kFile : CompletedValue::kText;
  if (!done.choices.empty()) done.value = CompletedValue::kChoice;
  return done;
}

void add_command(const CLI::App& app, const std::string& path,
                 std::vector<CompletedCommand>& commands) {
  const size_t place = commands.size();
  commands.push_back(
      {.path = path, .help = first_line(app.get_description()), .options = {}, .subcommands = {}});
  for (const CLI::Option* option : app.get_options()) {
    if (!option->get_group().empty()) commands[place].options.push_back(completed(*option));
  }
  for (const CLI::App* sub : app.get_subcommands([](const CLI::App*) { return true; })) {
    if (sub->get_name().empty() || sub->get_group().empty()) continue;
    commands[place].subcommands.push_back(sub->get_name());
    add_command(*sub, path.empty() ? sub->get_name() : path + " " + sub->get_name(), commands);
  }
}

}  // namespace

std::vector<CompletedCommand> command_tree(const CLI::App& program) {
  std::vector<CompletedCommand> commands;
  add_command(program, "", commands);
  return commands;
}

}  // namespace tributary::cli
