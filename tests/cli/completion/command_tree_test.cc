// SPDX-License-Identifier: Apache-2.0
#include "cli/completion/command_tree.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tributary::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(CommandTree, ListsEachCommandBeforeItsSubcommands) {
  CLI::App app("Title", "prog");
  CLI::App* lab = app.add_subcommand("lab", "Experiments\nin virtual time");
  lab->add_subcommand("run", "One");
  app.add_subcommand("demo", "Show");
  app.add_subcommand("secret", "Hidden")->group("");

  const auto tree = command_tree(app);
  ASSERT_EQ(tree.size(), 4U);
  EXPECT_EQ(tree[0].path, "");
  EXPECT_THAT(tree[0].subcommands, ElementsAre("lab", "demo"));
  EXPECT_EQ(tree[1].path, "lab");
  EXPECT_EQ(tree[1].help, "Experiments");
  EXPECT_EQ(tree[2].path, "lab run");
  EXPECT_EQ(tree[2].name(), "run");
  EXPECT_EQ(tree[3].path, "demo");
}

TEST(CommandTree, TellsWhatValuesAFlagTakes) {
  CLI::App app("Title", "prog");
  app.set_help_flag();
  std::string text;
  bool is_on = false;
  app.add_flag("-q,--quick", is_on, "Short");
  app.add_option("--name", text, "Any");
  app.add_option("--json", text, "Where")->type_name("FILE");
  app.add_option("--local", text, "Which")->check(CLI::IsMember({"on", "off"}));
  app.add_option("--hidden", text, "No")->group("");
  app.add_option("input", text, "What")->type_name("FILE");

  const auto options = command_tree(app).at(0).options;
  ASSERT_EQ(options.size(), 5U);
  EXPECT_THAT(options[0].flags, ElementsAre("-q", "--quick"));
  EXPECT_EQ(options[0].value, CompletedValue::kNone);
  EXPECT_EQ(options[1].value, CompletedValue::kText);
  EXPECT_EQ(options[2].value, CompletedValue::kFile);
  EXPECT_EQ(options[3].value, CompletedValue::kChoice);
  EXPECT_THAT(options[3].choices, ElementsAre("on", "off"));
  EXPECT_THAT(options[4].flags, IsEmpty());
  EXPECT_EQ(options[4].value, CompletedValue::kFile);
}

}  // namespace
}  // namespace tributary::cli
