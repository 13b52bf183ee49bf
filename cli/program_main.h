// SPDX-License-Identifier: Apache-2.0
/// @file
/// The main() of a packet program outside this tree: the flags, help and errors of `tributary run`
/// and, after `serve`, those of `tributary serve --program`.
///
/// Threads: The main thread; a server has cores of its own.
/// Errors:  As in cli/programs/capture_command.h and cli/programs/live_command.h.
/// Tests:   tools/check-out-of-tree.sh builds and runs examples/programs/ with it
#pragma once

#include "programs/live_service.h"
#include "programs/packet_program.h"

namespace tributary::cli {

/// Runs `program` over a capture or, after `serve`, on live traffic, as the command line says.
/// @return the exit status.
int program_main(const programs::ServedProgram& program, int argc, const char* const* argv);

/// Runs the packet program `Code` (programs/packet_program.h).
template <programs::PacketCode Code>
int program_main(int argc, const char* const* argv) {
  return program_main({programs::capture_program_of<Code>(),
                       programs::LiveServiceOf<programs::PacketProgram<Code>>::start},
                      argc, argv);
}

}  // namespace tributary::cli
