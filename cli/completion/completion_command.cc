// SPDX-License-Identifier: Apache-2.0
#include "cli/completion/completion_command.h"

#include <memory>
#include <string>

#include "cli/completion/command_tree.h"
#include "cli/completion/completion_scripts.h"
#include "cli/console.h"

namespace tributary::cli {

void add_completion_command(CLI::App& program) {
  CLI::App* command = program.add_subcommand("completion", "Print a shell's completion script");
  command->group("");
  const auto shell = std::make_shared<std::string>();
  command->add_option("shell", *shell, "The shell")
      ->required()
      ->check(CLI::IsMember({"bash", "zsh", "fish"}));
  command->callback([&program, shell] {
    const auto commands = command_tree(program);
    const auto script = *shell == "bash"  ? bash_completion
                        : *shell == "zsh" ? zsh_completion
                                          : fish_completion;
    print("{}", script(program.get_name(), commands));
  });
}

}  // namespace tributary::cli
