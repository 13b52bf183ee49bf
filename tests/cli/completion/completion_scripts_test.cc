// SPDX-License-Identifier: Apache-2.0
// Method:  the scripts of a small program run in their shells: bash calls the function as readline
//          does, fish completes a line itself, and zsh, whose completion needs a terminal, parses
//          the script and defines its functions. A shell that is not installed is skipped.
#include "cli/completion/completion_scripts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "tests/support/scratch_directory.h"

namespace tributary::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

struct ClosePipe {
  void operator()(std::FILE* pipe) const { pclose(pipe); }
};

/// Runs a shell command. @return the lines of its output, both streams.
std::vector<std::string> lines_of(const std::string& command) {
  const std::unique_ptr<std::FILE, ClosePipe> pipe(
      popen(("export LC_ALL=C.UTF-8; " + command + " 2>&1").c_str(), "r"));
  std::vector<std::string> lines(1);
  for (int c = std::fgetc(pipe.get()); c != EOF; c = std::fgetc(pipe.get())) {
    if (c == '\n') {
      lines.emplace_back();
    } else {
      lines.back() += static_cast<char>(c);
    }
  }
  lines.pop_back();
  return lines;
}

bool is_installed(const std::string& shell) { return !lines_of("command -v " + shell).empty(); }

class CompletionScripts : public ::testing::Test {
 protected:
  CompletionScripts() : app_("Title", "prog") {
    CLI::App* serve = app_.add_subcommand("serve", "It's a [server]: run it");
    serve->add_option("--listen", text_, "Address");
    serve->add_option("--local", text_, "Shared memory")->check(CLI::IsMember({"on", "off"}));
    serve->add_option("-c,--config", text_, "Settings")->type_name("FILE");
    CLI::App* lab = app_.add_subcommand("lab", "Experiments");
    lab->add_subcommand("list", "What there is");
    lab->add_subcommand("run", "One run")
        ->add_option("kind", text_, "Which")
        ->check(CLI::IsMember({"small", "large"}));
  }

  /// Completes the last of `words` with bash.
  std::vector<std::string> complete_in_bash(const std::string& words) {
    const std::string script =
        folder_.file("prog.bash", bash_completion("prog", command_tree(app_)));
    const std::string call =
        folder_.file("call.bash", "cd " + folder_.path().string() + "; source " + script +
                                      "; COMP_WORDS=(" + words +
                                      "); COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _prog\n"
                                      "for word in \"${COMPREPLY[@]}\"; do echo \"$word\"; done\n");
    return lines_of("bash --norc " + call);
  }

  testing::ScratchDirectory folder_;
  CLI::App app_;
  std::string text_;
};

TEST_F(CompletionScripts, BashCompletesCommands) {
  if (!is_installed("bash")) GTEST_SKIP() << "bash is not installed";
  EXPECT_THAT(complete_in_bash("prog ''"), UnorderedElementsAre("serve", "lab"));
  EXPECT_THAT(complete_in_bash("prog se"), ElementsAre("serve"));
  EXPECT_THAT(complete_in_bash("prog lab ''"), UnorderedElementsAre("list", "run"));
  EXPECT_THAT(complete_in_bash("prog lab run ''"), UnorderedElementsAre("small", "large"));
}

TEST_F(CompletionScripts, BashCompletesFlagsAndTheirValues) {
  if (!is_installed("bash")) GTEST_SKIP() << "bash is not installed";
  EXPECT_THAT(complete_in_bash("prog serve --l"), UnorderedElementsAre("--listen", "--local"));
  EXPECT_THAT(complete_in_bash("prog serve --local ''"), UnorderedElementsAre("on", "off"));
  EXPECT_THAT(complete_in_bash("prog serve --local = of"), ElementsAre("off"));
  EXPECT_THAT(complete_in_bash("prog serve --local ="), UnorderedElementsAre("on", "off"));
  EXPECT_THAT(complete_in_bash("prog serve --listen ''"), IsEmpty());
  EXPECT_THAT(complete_in_bash("prog serve --local on --li"), ElementsAre("--listen"));
}

TEST_F(CompletionScripts, BashCompletesFiles) {
  if (!is_installed("bash")) GTEST_SKIP() << "bash is not installed";
  EXPECT_FALSE(folder_.file("rack one.toml").empty());
  EXPECT_THAT(complete_in_bash("prog serve --config rack"), ElementsAre("rack one.toml"));
  EXPECT_THAT(complete_in_bash("prog serve -c rack"), ElementsAre("rack one.toml"));
  EXPECT_THAT(complete_in_bash("prog serve rack"), ElementsAre("rack one.toml"));
}

TEST_F(CompletionScripts, FishCompletesCommandsFlagsAndValues) {
  if (!is_installed("fish")) GTEST_SKIP() << "fish is not installed";
  const std::string script = folder_.file("prog.fish", fish_completion("prog", command_tree(app_)));
  const auto complete = [&](const std::string& line) {
    return lines_of("HOME=" + folder_.path().string() + " fish --no-config -c 'source " + script +
                    "; complete -C \"" + line + "\"'");
  };
  EXPECT_THAT(complete("prog "),
              UnorderedElementsAre("serve\tIt's a [server]: run it", "lab\tExperiments"));
  EXPECT_THAT(complete("prog lab r"), ElementsAre("run\tOne run"));
  EXPECT_THAT(complete("prog lab run s"), ElementsAre("small\tWhich"));
  EXPECT_THAT(complete("prog serve --local o"),
              UnorderedElementsAre("on\tShared memory", "off\tShared memory"));
  EXPECT_THAT(complete("prog serve --list"), ElementsAre("--listen\tAddress"));
}

TEST_F(CompletionScripts, ZshDefinesAFunctionForEachCommand) {
  if (!is_installed("zsh")) GTEST_SKIP() << "zsh is not installed";
  const std::string script = folder_.file("_prog", zsh_completion("prog", command_tree(app_)));
  EXPECT_THAT(lines_of("zsh -f -n " + script), IsEmpty());
  EXPECT_THAT(lines_of("zsh -f -c 'compdef() { echo \"$@\" }; source " + script +
                       "; whence -w _prog_serve _prog_lab_run'"),
              ElementsAre("_prog prog", "_prog_serve: function", "_prog_lab_run: function"));
  const std::string text = zsh_completion("prog", command_tree(app_));
  EXPECT_THAT(text, HasSubstr("'serve:It'\\''s a [server]: run it'"));
  EXPECT_THAT(text, HasSubstr("'*--local=[Shared memory]:value:(on off)'"));
}

}  // namespace
}  // namespace tributary::cli
