#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs what is needed, builds the program and runs its demo. Arguments go to the demo:
# ./demo.sh --help shows them.
set -euo pipefail
caller=$PWD
cd "$(dirname "${BASH_SOURCE[0]}")"
source tools/common.sh

tools/install-deps.sh --with-core
configure release -DTRIBUTARY_TESTS=OFF
build release tributary
program=$PWD/build/release/tributary
cd "$caller" # So that paths in the arguments mean what the caller meant.
exec "$program" demo "$@"
