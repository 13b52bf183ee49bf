// SPDX-License-Identifier: Apache-2.0
#include "limiter.h"

int main(int argc, char** argv) {
  return tributary::cli::program_main<limiter::Limiter>(argc, argv);
}
