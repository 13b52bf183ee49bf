#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs the packages that the tests need, builds everything and runs the tests.
#
#   ./test.sh             preset release, which also leaves build/release/tributary
#   ./test.sh asan tsan   other presets: release, debug, clang, asan, tsan
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
source tools/common.sh

presets=("$@")
[[ ${#presets[@]} -gt 0 ]] || presets=(release)
for preset in "${presets[@]}"; do
  case "$preset" in
    release | debug | clang | asan | tsan) ;;
    *)
      echo "test.sh: unknown preset '$preset'; allowed: release, debug, clang, asan, tsan" >&2
      exit 2
      ;;
  esac
done

tools/install-deps.sh --with-dev
for preset in "${presets[@]}"; do
  configure "$preset" -DTRIBUTARY_TESTS=ON
  build "$preset" all
  run_tests "$preset"
done
