#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs clang-tidy (.clang-tidy) with the flags of build/clang.
#
#   tools/tidy.sh           sources changed since the last commit, and new ones
#   tools/tidy.sh --all     every source but the tests
#   tools/tidy.sh FILE...   these
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source tools/common.sh

if [[ $# -eq 0 ]]; then
  mapfile -t sources < <({ git diff --name-only HEAD; git ls-files -o --exclude-standard; } |
    grep '\.cc$' | sort -u)
elif [[ $1 == --all ]]; then
  mapfile -t sources < <(find apps base cli engine host io memory microcode plan server timers wire \
    -name '*.cc' | sort)
else
  sources=("$@")
fi
if [[ ${#sources[@]} -eq 0 ]]; then
  echo "no changed source"
  exit 0
fi

tools/install-deps.sh --with-dev
configure clang -DTRIBUTARY_TESTS=ON
printf '%s\n' "${sources[@]}" | xargs -P "$(build_jobs)" -n 1 \
  clang-tidy-19 -p build/clang --quiet --warnings-as-errors='*'
