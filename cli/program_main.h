// SPDX-License-Identifier: Apache-2.0
/// @file
/// The main() of a packet program outside this tree: the flags, help and errors of `tributary run`.
///
/// Threads: One.
/// Errors:  As in cli/capture_command.h.
/// Tests:   tools/check-out-of-tree.sh builds and runs examples/programs/ with it
#pragma once

#include "programs/capture_program.h"
#include "programs/packet_program.h"

namespace tributary::cli {

/// Runs `program` over a capture, as the command line says. @return the exit status.
int program_main(const programs::CaptureProgram& program, int argc, const char* const* argv);

/// Runs the packet program `Code` (programs/packet_program.h).
template <programs::PacketCode Code>
int program_main(int argc, const char* const* argv) {
  return program_main(programs::capture_program_of<Code>(), argc, argv);
}

}  // namespace tributary::cli
