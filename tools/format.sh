#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Formats all C++ files of the tree with clang-format.
#
#   tools/format.sh          changes the files
#   tools/format.sh --check  changes nothing; names each misplaced line and exits with 1
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

options=(-i)
[[ ${1-} != --check ]] || options=(--dry-run -Werror)
find . \( -path ./.git -o -path './build*' -o -path ./.cache \) -prune -o \
  -type f \( -name '*.h' -o -name '*.cc' \) -print0 |
  xargs -0 -r clang-format "${options[@]}"
