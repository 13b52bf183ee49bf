#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs the packages of the core, builds the program and the library that Python loads, and runs
# the program's demo. Arguments go to the demo: ./demo.sh --help shows them.
set -euo pipefail
caller=$PWD
cd "$(dirname "${BASH_SOURCE[0]}")"
source tools/common.sh

tools/install-deps.sh --with-core
# Tests need further packages. A build folder that has them keeps them.
options=()
[[ -f build/release/CMakeCache.txt ]] || options=(-DTRIBUTARY_TESTS=OFF)
configure release "${options[@]}"
build release tributary tributary_c
program=$PWD/build/release/tributary
cd "$caller" # Paths in the arguments are relative to the caller's folder.
exec "$program" demo "$@"
