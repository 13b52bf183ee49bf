// SPDX-License-Identifier: Apache-2.0
#include "talkers.h"

int main(int argc, char** argv) {
  return tributary::cli::program_main<talkers::Talkers>(argc, argv);
}
