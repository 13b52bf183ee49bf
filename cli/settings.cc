// SPDX-License-Identifier: Apache-2.0
#include "cli/settings.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <utility>

#include "base/result_file.h"
#include "base/toml_file.h"
#include "cli/console.h"
#include "cli/given_values.h"

namespace tributary::cli {
namespace {

/// Value names that help shows for options made by add_key().
constexpr const char* kNumberWord = "NUMBER";
constexpr const char* kTextWord = "TEXT";
constexpr const char* kOnOffWord = "TEXT:{on,off}";

bool takes_number(const CLI::Option& option) {
  const std::string type = option.get_type_name();
  const std::string word = type.substr(0, type.find(':'));
  return word == "UINT" || word == "INT" || word == "FLOAT" || word == kNumberWord;
}

bool is_switch(const CLI::Option& option) { return option.get_items_expected_max() == 0; }

/// An option with a value, such as `--local off`.
bool takes_on_off(const CLI::Option& option) { return option.get_type_name() == kOnOffWord; }

/// Describes the values an option takes, from CLI11's type text ("UINT:INT in [1 - 64]",
/// "TEXT:{a,b}").
std::string allowed_values(const CLI::Option& option) {
  if (is_switch(option)) return "true, false";
  const std::string type = option.get_type_name();
  std::string words = type;
  if (type.starts_with("UINT") || type.starts_with("INT")) words = "a whole number";
  if (type.starts_with("FLOAT")) words = "a number";
  const size_t range = type.find(" in [");
  const size_t dash = type.find(" - ", range == std::string::npos ? 0 : range);
  if (range != std::string::npos && dash != std::string::npos && type.ends_with(']')) {
    const size_t low = range + std::strlen(" in [");
    const size_t high = dash + std::strlen(" - ");
    words += fmt::format(" from {} to {}", type.substr(low, dash - low),
                         type.substr(high, type.size() - 1 - high));
  }
  const size_t brace = type.find(":{");
  if (brace != std::string::npos) words = type.substr(brace + 1);
  return words;
}

/// Adds `texts` to the option as if they were on the command line and runs the option's checks.
/// @return nothing, or the error line without its origin.
std::optional<std::string> give(CLI::Option& option, const std::vector<std::string>& texts) {
  try {
    for (const std::string& text : texts) option.add_result(text);
    option.run_callback();
  } catch (const Refused& refused) {
    return refused.what();
  } catch (const CLI::Error&) {
    return fmt::format("{}={} is refused; allowed: {}", option.get_name(), fmt::join(texts, " "),
                       allowed_values(option));
  }
  return std::nullopt;
}

/// Describes the TOML type that an option takes.
const char* file_type(const CLI::Option& option) {
  if (is_switch(option) || takes_on_off(option)) return "true, false";
  return takes_number(option) ? "a number, without quotes" : "text in quotes";
}

/// Returns whether the file's type fits an option: booleans for switches, booleans or text for
/// values on and off, numbers for numbers, text for others.
bool type_fits(const CLI::Option& option, const toml::node& node) {
  if (is_switch(option)) return node.is_boolean();
  if (takes_on_off(option)) return node.is_boolean() || node.is_string();
  if (takes_number(option)) return node.is_number();
  return node.is_string();
}

toml::table parsed_file(const std::string& path) {
  Result<toml::table> file = parse_toml_file(path, "--config " + path);
  if (!file) throw Refused(file.error().text);
  return std::move(*file);
}

/// Returns the keys and values of a file, sorted by key.
std::string contents_of(const toml::table& file) {
  std::ostringstream text;
  text << file;
  return text.str();
}

/// Returns the long flags of a command, or the keys of its file: the same names without dashes.
std::vector<std::string> names_of(const CLI::App& command, bool as_keys) {
  std::vector<std::string> names;
  for (const CLI::Option* option : command.get_options()) {
    if (option->get_lnames().empty()) continue;
    const std::string& name = option->get_lnames().front();
    if (as_keys && (name == "help" || name == "config" || name == "version")) continue;
    names.push_back(as_keys ? name : "--" + name);
  }
  return names;
}

/// Refuses a key of the file at `path` that is none of `keys`.
void check_name(const std::string& name, const toml::node& node, const std::string& path,
                const std::vector<std::string>& keys) {
  if (std::find(keys.begin(), keys.end(), name) != keys.end()) return;
  throw Refused(fmt::format("{}: {}", place_of(path, node), unknown_name("key", name, keys)));
}

KeyValues row_of(const KeyTable& keys, const toml::table& table, const std::string& path) {
  std::vector<WrittenKey> written;
  for (const auto& [key, node] : table) {
    written.push_back({.name = std::string(key.str()),
                       .text = text_of(node),
                       .type = type_of(node),
                       .where = place_of(path, node)});
  }
  Result<KeyValues> row = keys.read(written, place_of(path, table));
  if (!row) throw Refused(row.error().text);
  return std::move(*row);
}

std::vector<KeyValues> rows_of(const KeyTable& keys, const toml::node& node,
                               const std::string& path) {
  std::vector<KeyValues> rows;
  if (const toml::table* table = node.as_table()) {
    rows.push_back(row_of(keys, *table, path));
    return rows;
  }
  const toml::array* array = node.as_array();
  if (array == nullptr) {
    throw Refused(fmt::format("{}: {}={} is not a table; allowed: [{}] or [[{}]]",
                              place_of(path, node), keys.name(), text_of(node), keys.name(),
                              keys.name()));
  }
  for (const toml::node& element : *array) {
    const toml::table* table = element.as_table();
    if (table == nullptr) {
      throw Refused(fmt::format("{}: {} holds {}, not a table; allowed: [[{}]]",
                                place_of(path, element), keys.name(), text_of(element),
                                keys.name()));
    }
    rows.push_back(row_of(keys, *table, path));
  }
  return rows;
}

/// Gives a key of the file to its option, unless the command line has it.
void give_from_file(CLI::Option& option, const toml::node& node, const std::string& path) {
  std::vector<const toml::node*> values{&node};
  if (const toml::array* array = node.as_array()) {
    values.clear();
    for (const toml::node& element : *array) values.push_back(&element);
  }
  const bool one_only = option.get_items_expected_max() <= 1;
  std::vector<std::string> texts;
  for (const toml::node* value : values) {
    if (!type_fits(option, *value) || (one_only && node.is_array())) {
      throw Refused(fmt::format("{}: {}={} has the wrong type; allowed: {}", place_of(path, node),
                                option.get_lnames().front(), text_of(node), file_type(option)));
    }
    texts.push_back(text_of(*value));
  }
  if (option.count() > 0) return;
  if (const auto refusal = give(option, texts)) {
    throw Refused(fmt::format("{}: {}", place_of(path, node), *refusal));
  }
}

/// Returns the chosen command: the innermost subcommand that was parsed.
const CLI::App& chosen_command(const CLI::App& app) {
  const CLI::App* command = &app;
  while (!command->get_subcommands().empty()) command = command->get_subcommands().front();
  return *command;
}

/// Returns the words that call a command, as "tributary lab run".
std::string words_of(const CLI::App& command) {
  const CLI::App* parent = command.get_parent();
  return parent == nullptr ? command.get_name() : words_of(*parent) + " " + command.get_name();
}

/// Returns the names of the commands below a command that help texts show.
std::vector<std::string> commands_of(const CLI::App& command) {
  std::vector<std::string> commands;
  for (const CLI::App* sub : command.get_subcommands([](const CLI::App*) { return true; })) {
    if (!sub->get_name().empty() && !sub->get_group().empty()) commands.push_back(sub->get_name());
  }
  return commands;
}

std::string explain_leftover(const CLI::App& command, const std::string& leftover) {
  if (leftover.starts_with('-')) {
    const std::string flag = leftover.substr(0, leftover.find('='));
    return unknown_name("flag", flag, names_of(command, false));
  }
  const std::vector<std::string> commands = commands_of(command);
  if (!commands.empty()) return unknown_name("command", leftover, commands);
  return fmt::format("'{}' is not expected here; allowed: {}", leftover,
                     fmt::join(names_of(command, false), ", "));
}

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

/// Returns one line for an error that CLI11 found, with the values allowed if they are known.
std::string explain(const CLI::App& command, const CLI::ParseError& error) {
  const bool value_refused =
      error.get_name() == "ConversionError" || error.get_name() == "ValidationError";
  const bool is_about_a_flag = value_refused || error.get_name() == "ArgumentMismatch";
  // A script and its flags are leftovers of launch that nobody refuses.
  const std::vector<std::string> leftovers = command.remaining();
  if (!leftovers.empty() && !is_about_a_flag) return explain_leftover(command, leftovers.front());
  const std::string text = error.what();
  if (error.get_name() == "RequiredError" && text.starts_with("A subcommand")) {
    return fmt::format("give a command; allowed: {}; see {} --help",
                       fmt::join(commands_of(command), ", "), words_of(command));
  }
  for (const CLI::Option* option : command.get_options()) {
    const std::string name = option->get_name();
    if (value_refused && option->count() > 0 &&
        (text.starts_with(name + ":") || text.find(" " + name + " ") != std::string::npos)) {
      return fmt::format("{}={} is refused; allowed: {}", name, fmt::join(option->results(), " "),
                         allowed_values(*option));
    }
    if (error.get_name() == "RequiredError" && text.starts_with(name + " ")) {
      return fmt::format("{} is missing; allowed: {} ({})", name, allowed_values(*option),
                         first_line(option->get_description()));
    }
    if (text.starts_with(name + ": At Most 1 required")) {
      return fmt::format("{} is given {} times; allowed: once", name, option->count());
    }
    if (text.starts_with(name + ":") && text.ends_with(" missing")) {
      return fmt::format("{} has no value; allowed: {}", name, allowed_values(*option));
    }
  }
  return first_line(text);
}

}  // namespace

Settings::Settings(CLI::App& command) : command_(command) {
  command
      .add_option_function<std::string>(
          "--config", [this](const std::string& path) { load(path); },
          "TOML file whose keys are these flags' names; a flag overrides the file")
      ->type_name("FILE");
}

CLI::Option* Settings::add_table(const KeyTable& table, std::vector<KeyValues>& rows,
                                 const std::string& help) {
  Table& entry = tables_.emplace_back(Table{.keys = &table, .rows = &rows, .option = nullptr});
  const auto read_flags = [&entry](const std::vector<std::string>& texts) {
    if (entry.from_file) return;
    entry.rows->clear();
    for (const std::string& text : texts) {
      Result<KeyValues> row = entry.keys->parse(text);
      if (!row) throw Refused(row.error().text);
      entry.rows->push_back(std::move(*row));
    }
  };
  entry.option = command_.add_option_function<std::vector<std::string>>(
      "--" + table.name(), read_flags,
      fmt::format("{}; repeatable; [[{}]] in a file\n{}", help, table.name(), table.help()));
  entry.option->type_name("KEY=VALUE,…")->allow_extra_args(false);
  return entry.option;
}

Settings::Table* Settings::find_table(const std::string& name) {
  for (Table& table : tables_) {
    if (table.keys->name() == name) return &table;
  }
  return nullptr;
}

Result<bool> Settings::is_file_changed(std::string_view apart) const {
  try {
    toml::table now = parsed_file(path_);
    toml::table before = toml::parse(loaded_);
    now.erase(apart);
    before.erase(apart);
    return contents_of(now) != contents_of(before);
  } catch (const Refused& refused) {
    return failure(refused.what());
  }
}

void Settings::load(const std::string& path) {
  path_ = path;
  const toml::table file = parsed_file(path);
  loaded_ = contents_of(file);
  for (const auto& [key, node] : file) {
    const std::string name(key.str());
    if (Table* table = find_table(name)) {
      std::vector<KeyValues> rows = rows_of(*table->keys, node, path);
      if (table->option->count() > 0) continue;  // The rows were checked, but flags override them.
      *table->rows = std::move(rows);
      table->from_file = true;
      table->option->add_result(path);  // Satisfies required().
      continue;
    }
    const std::vector<std::string> keys = names_of(command_, true);
    check_name(name, node, path, keys);
    give_from_file(*command_.get_option("--" + name), node, path);
  }
}

bool Settings::is_from_file(const KeyTable& table) const {
  if (path_.empty()) return false;
  return std::ranges::any_of(tables_, [&table](const Table& each) {
    return each.keys == &table && (each.from_file || each.option->count() == 0);
  });
}

Result<std::vector<KeyValues>> Settings::read_again(const KeyTable& table) const {
  try {
    const toml::table file = parsed_file(path_);
    const std::vector<std::string> keys = names_of(command_, true);
    for (const auto& [key, node] : file) check_name(std::string(key.str()), node, path_, keys);
    const toml::node* node = file.get(table.name());
    if (node == nullptr) {
      return failure(fmt::format("{}: has no [[{}]]", path_, table.name()));
    }
    return rows_of(table, *node, path_);
  } catch (const Refused& refused) {
    return failure(refused.what());
  }
}

namespace {

/// As add_key(); `store` receives the value as written, too. `flags` may have several spellings,
/// with commas between them; errors name the first.
CLI::Option* add_written_key(
    CLI::App& command, const std::string& flags, KeySpec key, const std::string& fallback,
    const std::string& help,
    std::function<void(const std::string& text, const KeyValue& value)> store) {
  const std::string flag = flags.substr(0, flags.find(','));
  const auto read_text = [flag, key, store = std::move(store)](const std::string& text) {
    KeySpec named = key;
    named.name = flag;
    const Result<KeyValue> value = convert_key(named, {.name = flag, .text = text, .where = ""});
    if (!value) throw Refused(value.error().text);
    store(text, *value);
  };
  const bool is_number = key.type == KeyType::kUint || key.type == KeyType::kNumber ||
                         key.type == KeyType::kDurationMs;
  CLI::Option* option = command.add_option_function<std::string>(
      flags, read_text, fmt::format("{}: {}", help, allowed_values(key)));
  option->type_name(is_number ? kNumberWord : key.type == KeyType::kBool ? kOnOffWord : kTextWord);
  if (!fallback.empty()) option->default_str(fallback);
  return option;
}

}  // namespace

CLI::Option* add_key(CLI::App& command, const std::string& flag, KeySpec key,
                     const std::string& fallback, const std::string& help,
                     std::function<void(const KeyValue&)> store) {
  return add_written_key(
      command, flag, key, fallback, help,
      [store = std::move(store)](const std::string&, const KeyValue& value) { store(value); });
}

std::string flags_of(const std::string& key) {
  std::string dashed = key;
  std::replace(dashed.begin(), dashed.end(), '_', '-');
  return dashed == key ? "--" + key : fmt::format("--{},--{}", dashed, key);
}

void add_keys(CLI::App& command, const KeyTable& table, std::vector<WrittenKey>& written) {
  for (const KeySpec& key : table.keys()) {
    const std::string name(key.name);
    add_written_key(command, flags_of(name), key, std::string(key.default_text),
                    std::string(key.help),
                    [&written, name](const std::string& text, const KeyValue&) {
                      written.push_back({.name = name, .text = text, .where = ""});
                    });
  }
}

CLI::Option* add_milliseconds(CLI::App& command, const std::string& flag, Duration& value,
                              uint64_t min_ms, uint64_t max_ms, const std::string& help) {
  return add_key(command, flag, {.type = KeyType::kDurationMs, .min = min_ms, .max = max_ms},
                 std::to_string(in_milliseconds(value)), help,
                 [&value](const KeyValue& written) { value = std::get<Duration>(written); });
}

CLI::Option* add_decimal(CLI::App& command, const std::string& flag, double& value, double min,
                         double max, const std::string& help) {
  return add_key(command, flag, {.type = KeyType::kNumber, .number_min = min, .number_max = max},
                 fmt::format("{}", value), help,
                 [&value](const KeyValue& written) { value = std::get<double>(written); });
}

CLI::Option* add_protocol(CLI::App& command, wire::Protocol& value, const std::string& help) {
  constexpr const auto& names = wire::kProtocolNames;
  const auto store = [&value](const std::string& name) {
    const auto found = std::find(names.begin(), names.end(), name);
    value = static_cast<wire::Protocol>(found - names.begin());
  };
  return command.add_option_function<std::string>("--protocol", store, help)
      ->check(CLI::IsMember(std::vector<std::string>(names.begin(), names.end())))
      ->default_str(to_string(value));
}

CLI::Option* add_on_off(CLI::App& command, const std::string& flag, bool& value,
                        const std::string& help) {
  return add_key(command, flag, {.type = KeyType::kBool}, value ? "on" : "off", help,
                 [&value](const KeyValue& written) { value = std::get<bool>(written); });
}

CLI::Option* add_auth(CLI::App& command, auth::Mode& value, const std::string& help) {
  const auto store = [&value](const std::string& name) {
    value = auth::parse_mode(name).value_or(auth::Mode::kNone);
  };
  return command.add_option_function<std::string>("--auth", store, help)
      ->check(CLI::IsMember({"none", "header", "full"}))
      ->default_str(to_string(value));
}

namespace {

/// Removes a `--` between the flags of a command and the command line that it runs, where CLI11
/// does not expect it.
void drop_separator(const CLI::App& app, std::vector<std::string>& arguments) {
  if (arguments.empty()) return;
  const auto commands = app.get_subcommands([&arguments](const CLI::App* command) {
    return command->get_prefix_command() && command->check_name(arguments.front());
  });
  if (commands.empty()) return;
  for (auto at = arguments.begin() + 1; at != arguments.end(); ++at) {
    if (*at == "--") {
      arguments.erase(at);
      return;
    }
    if (!at->starts_with('-')) return;
    const CLI::Option* const option = commands.front()->get_option_no_throw(*at);
    const bool takes_next = option != nullptr && option->get_items_expected_min() > 0;
    if (takes_next && at + 1 != arguments.end()) ++at;
  }
}

}  // namespace

std::optional<int> parse_command_line(CLI::App& app, int argc, const char* const* argv,
                                      std::ostream& out, std::ostream& err) {
  check_given_values(app);
  try {
    std::vector<std::string> arguments(argv + 1, argv + argc);
    drop_separator(app, arguments);
    std::ranges::reverse(arguments);  // As CLI11 takes them.
    app.parse(std::move(arguments));
    return std::nullopt;
  } catch (const CLI::Success& help) {
    return app.exit(help, out, err);
  } catch (const Refused& refused) {
    err << words_of(chosen_command(app)) << ": " << refused.what() << "\n";
  } catch (const CLI::ParseError& error) {
    const CLI::App& command = chosen_command(app);
    err << words_of(command) << ": " << explain(command, error) << "\n";
  }
  return kExitUsage;
}

}  // namespace tributary::cli
