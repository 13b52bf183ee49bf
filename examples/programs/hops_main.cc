// SPDX-License-Identifier: Apache-2.0
#include "hops.h"

int main(int argc, char** argv) { return tributary::cli::program_main<hops::Hops>(argc, argv); }
