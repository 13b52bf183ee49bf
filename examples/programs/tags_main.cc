// SPDX-License-Identifier: Apache-2.0
#include "tags.h"

int main(int argc, char** argv) { return tributary::cli::program_main<tags::Tags>(argc, argv); }
