#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Checks the habits of this house that a machine can see. Part of the tests (tree.check).
#
#   tools/check-tree.sh [FOLDER]   checks FOLDER, or the tree this script lies in
set -euo pipefail

# What a folder may include besides itself: folders and single headers. What is not listed here is
# refused, so this table is the dependency direction. ANY is everything.
allowed="
base
wire       base
microcode  base wire
memory     base microcode
timers     base microcode
engine     base wire microcode memory timers
io         base wire engine/port.h engine/packet.h
net        base wire
tofino     base wire
apps       base wire microcode memory timers engine/packet.h engine/live/live_core.h
host       base wire microcode engine/port.h engine/packet.h io
server     base wire microcode memory engine io apps switchml.grpc.pb.h
lab        base wire microcode memory timers engine io net tofino apps host
bench      base wire microcode memory timers engine io net tofino apps host lab bench
cli        ANY
tests      ANY
"
may_include_dpdk="io cli"
lines_max=500

cd "${1:-$(dirname "${BASH_SOURCE[0]}")/..}"
complaints=$(mktemp)
trap 'rm -f "$complaints"' EXIT
complain() { echo "$*" >>"$complaints"; }

# Files of the tree, whether git knows them yet or not; build trees hold generated sources.
files() {
  find . \( -path ./.git -o -path './build*' -o -path ./.cache \) -prune -o -type f "$@" -print |
    sed 's|^\./||' | sort
}
mapfile -t sources < <(files \( -name '*.h' -o -name '*.cc' \))
mapfile -t scripts < <(files \( -name '*.sh' -o -path './.ci/run' \))

check_licence_tags() {
  local file
  for file in "${sources[@]}"; do
    [[ $(head -n 1 "$file") == '// SPDX-License-Identifier: Apache-2.0' ]] ||
      complain "$file:1: the first line must be '// SPDX-License-Identifier: Apache-2.0'"
  done
  for file in "${scripts[@]}"; do
    head -n 2 "$file" | grep -qx '# SPDX-License-Identifier: Apache-2.0' ||
      complain "$file:1: one of the first two lines must be '# SPDX-License-Identifier: Apache-2.0'"
  done
}

check_lengths() {
  local file lines
  for file in "${sources[@]}"; do
    lines=$(wc -l <"$file")
    ((lines <= lines_max)) || complain "$file: $lines lines; allowed: $lines_max"
  done
}

check_headers() {
  local file
  for file in "${sources[@]}"; do
    [[ $file == *.h ]] || continue
    grep -qx '#pragma once' "$file" || complain "$file: has no '#pragma once'"
    head -n 3 "$file" | grep -q '^/// @file' ||
      complain "$file: does not open with an '/// @file' block"
  done
}

# A header's "Tests:" lines name whole paths, and further files of the same folder without it.
check_test_references() {
  grep -rnoE --include='*.h' 'tests/[a-z0-9_/]+\.(cc|h|py|sh|txt)' . | grep -v '^\./build[^/]*/' |
    while IFS=: read -r file line named; do
      [[ -f $named ]] || complain "${file#./}:$line: names $named, which is not there"
    done
}

check_readmes() {
  local folder
  for folder in */; do
    [[ $folder == build* ]] || [[ -f ${folder}README.md ]] ||
      complain "$folder: has no README.md"
  done
}

check_tests() {
  [[ -d tests ]] || return 0
  grep -rnE --include='*.cc' --include='*.h' \
    'sleep_for|sleep_until|\b(u|nano)?sleep\(|clock_nanosleep' tests |
    while IFS=: read -r file line _; do complain "$file:$line: a test sleeps"; done
  grep -rnE --include='*.cc' --include='*.h' '#define +private|FRIEND_TEST|friend class .*Test' . |
    grep -v '^\./build[^/]*/' |
    while IFS=: read -r file line _; do complain "${file#./}:$line: a test reaches into private"; done
}

# Prints "FILE:LINE:INCLUDED" for each #include of a file of this tree.
own_includes() {
  [[ ${#sources[@]} -gt 0 ]] || return 0
  grep -nHE '^ *# *include +"' "${sources[@]}" |
    sed -E 's|^([^:]+:[0-9]+):.*"([^"]+)".*|\1:\2|' || true
}

check_dependencies() {
  own_includes | awk -F: -v table="$allowed" '
    BEGIN {
      rows = split(table, row, "\n")
      for (i = 1; i <= rows; i++) {
        words = split(row[i], word, " +")
        if (words == 0) continue
        known[word[1]] = 1
        may[word[1], word[1]] = 1
        for (j = 2; j <= words; j++) may[word[1], word[j]] = 1
      }
    }
    {
      from = $1; sub("/.*", "", from)
      to = $3; sub("/.*", "", to)
      if (!(from in known)) {
        print $1 ":" $2 ": folder " from " is not in the table of tools/check-tree.sh"
      } else if (!((from, "ANY") in may) && !((from, to) in may) && !((from, $3) in may)) {
        print $1 ":" $2 ": " from " may not include " $3
      }
    }' >>"$complaints"
}

check_dpdk() {
  local file folder
  for file in "${sources[@]}"; do
    folder=${file#tests/}  # Tests of what may include it may, too.
    folder=${folder%%/*}
    [[ " $may_include_dpdk " == *" $folder "* ]] && continue
    if grep -qE '# *include +<rte_' "$file"; then
      complain "$file: includes DPDK; allowed in: $may_include_dpdk"
    fi
  done
}

check_licence_tags
check_lengths
check_headers
check_test_references || true # grep finds nothing where no header names a test.
check_readmes
check_tests || true # grep finds nothing when all is well.
check_dependencies
check_dpdk

if [[ -s $complaints ]]; then
  cat "$complaints" >&2
  echo "tools/check-tree.sh: $(wc -l <"$complaints") complaints" >&2
  exit 1
fi
echo "${#sources[@]} sources, ${#scripts[@]} scripts: no complaint"
