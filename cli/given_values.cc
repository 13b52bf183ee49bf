// SPDX-License-Identifier: Apache-2.0
#include "cli/given_values.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <memory>
#include <vector>

#include "base/result_file.h"
#include "cli/console.h"

namespace tributary::cli {
namespace {

/// A flag whose value is a file to write.
struct ResultFlag {
  const char* name;
  bool goes_to_output;  ///< The value may be left out: standard output.
};

/// They mean the same in every command.
constexpr std::array<ResultFlag, 8> kResultFlags{{{"--json", true},
                                                  {"--csv", true},
                                                  {"--svg", true},
                                                  {"--out", false},
                                                  {"--output", false},
                                                  {"--records", false},
                                                  {"--ipfix", false},
                                                  {"--perfetto", false}}};

/// Lets a flag without a value write to standard output.
void allow_no_value(CLI::Option& option) {
  option.expected(0, 1);
  option.default_str(std::string(kStandardOutput));  // CLI11 checks no empty value.
  option.description(option.get_description() + "; without FILE: standard output");
}

/// Reserves standard output for a flag with `-`. `taken_by` names the flag; only one can have it.
void reserve_for_result(CLI::Option& option, const char* name,
                        const std::shared_ptr<std::string>& taken_by) {
  const auto take = [name, taken_by](std::string path) {
    if (path != kStandardOutput) return path;
    if (!taken_by->empty()) {
      throw Refused(
          fmt::format("{} needs a FILE, because {} writes to standard output", name, *taken_by));
    }
    *taken_by = name;
    reserve_standard_output();
    return std::string(kStandardOutput);
  };
  option.transform(take, "");
}

/// Lets all commands check their result files while the command line is parsed, so that no run is
/// lost because its result cannot be written.
void check_result_files(CLI::App& app, const std::shared_ptr<std::string>& taken_by) {
  for (const auto& [name, goes_to_output] : kResultFlags) {
    CLI::Option* const option = app.get_option_no_throw(name);
    if (option == nullptr || option->get_type_name() != "FILE") continue;
    option->check(
        [flag = name](const std::string& path) {
          const auto checked = check_result_file(path);
          if (!checked) throw Refused(fmt::format("{} {}", flag, checked.error().text));
          return std::string();
        },
        "");
    // Transforms run before checks.
    if (goes_to_output) allow_no_value(*option);
    reserve_for_result(*option, name, taken_by);
  }
  for (CLI::App* command : app.get_subcommands({})) check_result_files(*command, taken_by);
}

struct GivenFile {
  std::string flag;
  std::string path;
  bool is_written = false;
};

/// Lets all commands refuse a file that would be written over another one's content.
void keep_files_apart(CLI::App& app, const std::shared_ptr<std::vector<GivenFile>>& given) {
  for (CLI::Option* const option : app.get_options()) {
    if (option->get_type_name() != "FILE") continue;
    const std::string flag = option->get_name();
    const bool is_written = std::ranges::any_of(
        kResultFlags, [&flag](const ResultFlag& result) { return flag == result.name; });
    option->check(
        [flag, is_written, given](const std::string& path) {
          if (path == kStandardOutput) return std::string();
          for (const GivenFile& other : *given) {
            if (!(is_written || other.is_written) || other.flag == flag) continue;
            if (!is_same_file(path, other.path)) continue;
            throw Refused(fmt::format("{} {}: it is the file of {}; allowed: another file", flag,
                                      path, other.flag));
          }
          given->push_back({flag, path, is_written});
          return std::string();
        },
        "");
  }
  for (CLI::App* command : app.get_subcommands({})) keep_files_apart(*command, given);
}

/// Lets all commands refuse empty values, which a shell makes of a variable that is not set.
/// Experiments have settings that may be empty.
void refuse_empty_values(CLI::App& app) {
  if (app.get_name() == "lab") return;
  for (CLI::Option* const option : app.get_options()) {
    if (option->get_items_expected_min() == 0) continue;
    option->check(
        [name = option->get_name()](const std::string& value) {
          if (value.empty()) throw Refused(name + " has an empty value");
          return std::string();
        },
        "");
  }
  for (CLI::App* command : app.get_subcommands({})) refuse_empty_values(*command);
}

}  // namespace

void check_given_values(CLI::App& app) {
  release_standard_output();
  check_result_files(app, std::make_shared<std::string>());
  keep_files_apart(app, std::make_shared<std::vector<GivenFile>>());
  refuse_empty_values(app);
}

}  // namespace tributary::cli
