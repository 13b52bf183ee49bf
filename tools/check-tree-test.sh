#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Tests tools/check-tree.sh: a small tree without fault passes; each fault, put into it alone, is
# named.
set -euo pipefail
check=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)/check-tree.sh
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
failures=0

tag='// SPDX-License-Identifier: Apache-2.0'
header="$tag
/// @file
#pragma once"

make_tree() {
  rm -rf "$tree"
  mkdir -p "$tree"/{base,engine,apps,tests,io}
  local folder
  for folder in base engine apps tests io; do echo "$folder" >"$tree/$folder/README.md"; done
  echo "$header" >"$tree/base/a.h"
  echo "$header" >"$tree/engine/packet.h"
  printf '%s\n#include "base/a.h"\n#include "engine/packet.h"\n' "$tag" >"$tree/apps/a.cc"
  printf '%s\n#include "apps/a.h"\n#include "engine/live.h"\n' "$tag" >"$tree/tests/a_test.cc"
  printf '%s\n#include <rte_mbuf.h>\n' "$tag" >"$tree/io/dpdk.cc"
}

# expect TEXT: the check must fail and say TEXT.
expect() {
  local said
  if said=$("$check" "$tree" 2>&1); then
    echo "FAILED: no complaint, expected: $1"
    failures=$((failures + 1))
  elif [[ $said != *"$1"* ]]; then
    printf 'FAILED: expected: %s\nsaid: %s\n' "$1" "$said"
    failures=$((failures + 1))
  elif [[ $(grep -c . <<<"$said") -ne 2 ]]; then # The complaint and the count.
    printf 'FAILED: more than one complaint: %s\n' "$said"
    failures=$((failures + 1))
  fi
  make_tree
}

make_tree
"$check" "$tree" >/dev/null || { echo "FAILED: the faultless tree was refused"; failures=1; }

sed -i 1d "$tree/apps/a.cc"
expect "apps/a.cc:1: the first line must be"
echo 'echo hello' >"$tree/run.sh"
expect "run.sh:1: one of the first two lines must be"
rm "$tree/io/README.md"
expect "io/: has no README.md"
for _ in {1..500}; do echo >>"$tree/apps/a.cc"; done
expect "apps/a.cc: 503 lines; allowed: 500"
sed -i '/pragma/d' "$tree/base/a.h"
expect "base/a.h: has no '#pragma once'"
sed -i '/@file/d' "$tree/base/a.h"
expect "base/a.h: does not open with an '/// @file' block"
echo '/// Tests: tests/b_test.cc' >>"$tree/base/a.h"
expect "base/a.h:4: names tests/b_test.cc, which is not there"
echo 'std::this_thread::sleep_for(1s);' >>"$tree/tests/a_test.cc"
expect "tests/a_test.cc:4: a test sleeps"
echo '#define private public' >>"$tree/tests/a_test.cc"
expect "tests/a_test.cc:4: a test reaches into private"
echo '#include "engine/live.h"' >>"$tree/apps/a.cc"
expect "apps/a.cc:4: apps may not include engine/live.h"
echo '#include "engine/packet.h"' >>"$tree/base/a.h"
expect "base/a.h:4: base may not include engine/packet.h"
echo '#include <rte_mbuf.h>' >>"$tree/apps/a.cc"
expect "apps/a.cc: includes DPDK; allowed in: io cli"
mkdir "$tree/attic" && echo attic >"$tree/attic/README.md"
printf '%s\n#include "base/a.h"\n' "$tag" >"$tree/attic/a.cc"
expect "attic/a.cc:2: folder attic is not in the table"

[[ $failures -eq 0 ]] && echo "every fault was named"
exit "$failures"
