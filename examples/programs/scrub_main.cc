// SPDX-License-Identifier: Apache-2.0
#include "scrub.h"

int main(int argc, char** argv) { return tributary::cli::program_main<scrub::Scrub>(argc, argv); }
