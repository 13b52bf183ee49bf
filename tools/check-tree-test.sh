#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Tests tools/check-tree.sh: a small tree without a fault passes, and each fault is named when it is
# the only one in the tree.
set -euo pipefail
check=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)/check-tree.sh
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
failures=0

tag='// SPDX-License-Identifier: Apache-2.0'
header="$tag
/// @file
#pragma once"

# source_of FILE INCLUDED...: writes a source that includes these headers, from line 2 on.
source_of() {
  local file=$tree/$1
  shift
  {
    echo "$tag"
    [[ $# -eq 0 ]] || printf '#include "%s"\n' "$@"
  } >"$file"
}

make_tree() {
  rm -rf "$tree"
  mkdir -p "$tree"/{base,engine,apps,io} "$tree"/tests/{apps,engine,support,system}
  local folder
  for folder in base engine apps tests io; do echo "$folder" >"$tree/$folder/README.md"; done
  echo "$header" >"$tree/base/a.h"
  echo "$header" >"$tree/engine/packet.h"
  echo "$header" >"$tree/engine/live.h"
  echo "$header" >"$tree/apps/program.h"
  source_of apps/program.cc apps/program.h base/a.h engine/packet.h generated.pb.h
  source_of tests/apps/program_test.cc apps/program.h
  { echo "$header" && echo '#include "engine/live.h"'; } >"$tree/tests/support/bed.h"
  echo "$header" >"$tree/tests/support/seed.h"
  source_of tests/engine/whole_runs_test.cc tests/support/bed.h
  source_of tests/system/command_test.cc tests/support/seed.h
  printf '// §%096d\n' 0 >>"$tree/tests/system/command_test.cc" # 100 columns in 101 bytes.
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

sed -i 1d "$tree/apps/program.cc"
expect "apps/program.cc:1: the first line must be"
echo 'echo hello' >"$tree/run.sh"
expect "run.sh:1: one of the first two lines must be"
: >"$tree/apps/nothing.cc"
expect "apps/nothing.cc:1: is empty"
rm "$tree/io/README.md"
expect "io/: has no README.md"
for _ in {1..500}; do echo >>"$tree/apps/program.cc"; done
expect "apps/program.cc: 505 lines; allowed: 500"
sed -i '/pragma/d' "$tree/base/a.h"
expect "base/a.h: has no '#pragma once'"
sed -i '/@file/d' "$tree/base/a.h"
expect "base/a.h: does not open with an '/// @file' block"
printf '  // %096d\n' 0 >>"$tree/apps/program.cc"
expect "apps/program.cc:6: a comment of 101 columns; allowed: 100"
for _ in {1..12}; do sed -i '2a/// One more line.' "$tree/base/a.h"; done
expect "base/a.h: a header block of 13 lines; allowed: 12"
echo '/// Tests: tests/b_test.cc' >>"$tree/base/a.h"
expect "base/a.h:4: names tests/b_test.cc, which is not there"
echo 'std::this_thread::sleep_for(1s);' >>"$tree/tests/apps/program_test.cc"
expect "tests/apps/program_test.cc:3: a test sleeps"
echo 'usleep(1);' >>"$tree/tests/apps/program_test.cc"
expect "tests/apps/program_test.cc:3: a test sleeps"
echo '#define private public' >>"$tree/tests/apps/program_test.cc"
expect "tests/apps/program_test.cc:3: a test reaches into private"

# Includes.
echo '#include "engine/live.h"' >>"$tree/apps/program.cc"
expect "apps/program.cc:6: apps may not include engine/live.h"
echo '#include "engine/packet.h"' >>"$tree/base/a.h"
expect "base/a.h:4: base may not include engine/packet.h"
echo '#include <rte_mbuf.h>' >>"$tree/apps/program.cc"
expect "apps/program.cc: includes DPDK; allowed in: io cli"
mkdir "$tree/attic" && echo attic >"$tree/attic/README.md"
source_of attic/b.cc base/a.h
expect "attic/b.cc:2: folder attic is not in the table"
source_of apps/program.cc base/a.h apps/program.h
expect "apps/program.cc: must include its own header \"apps/program.h\" first"
sed -i '2i#include <vector>' "$tree/apps/program.cc"
expect "apps/program.cc: must include its own header \"apps/program.h\" first"

# Tests mirror the tree.
mkdir "$tree/tests/attic"
echo 1 >"$tree/tests/attic/expected.txt"
expect "tests/attic: mirrors no folder: there is no attic"
mv "$tree/tests/apps/program_test.cc" "$tree/tests/engine/"
expect "tests/engine/program_test.cc: lies apart from its subject; allowed: tests/X for X in apps"
source_of tests/engine/whole_runs_test.cc base/a.h
expect "tests/engine/whole_runs_test.cc: includes neither a header of engine nor a bed of tests/"
source_of tests/engine/whole_runs_test.cc tests/support/seed.h
expect "tests/engine/whole_runs_test.cc: includes neither a header of engine nor a bed of tests/"

[[ $failures -eq 0 ]] && echo "every fault was named"
exit "$failures"
