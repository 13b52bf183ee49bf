#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Checks the rules of this tree that a machine can check. Part of the tests (tree.check).
#
#   tools/check-tree.sh [FOLDER]   checks FOLDER, or the tree that holds this script
#
# The checks are one awk program, which reads each file once.
set -euo pipefail

# Lists the folders and single headers that a folder may include besides itself. Anything else is
# refused, so this table is the direction of the dependencies. ANY stands for every folder.
allowed="
base
recorder   base
plan       base
auth       base
wire       base auth
microcode  base wire
memory     base microcode
timers     base microcode
engine     base wire microcode memory timers
io         base wire engine/port.h engine/packet.h
net        base wire
traffic    base wire io
tofino     base wire
apps       base recorder auth wire microcode memory timers engine/packet.h engine/live/live_core.h
host       base recorder plan auth wire microcode engine/port.h engine/packet.h io
server     base recorder plan auth wire microcode memory engine io apps
programs   base wire microcode memory timers engine io apps traffic
lab        base recorder plan auth wire microcode memory timers engine io net traffic tofino apps host programs
bench      base recorder plan auth wire microcode memory timers engine io net tofino apps host lab
cli        ANY
examples   ANY
tests      ANY
"
may_include_dpdk="io cli"
# Folders of tests/ that mirror no folder of the tree.
tests_of_their_own="fuzz support system python"
lines_max=500
header_block_lines_max=12
comment_columns_max=100

cd "${1:-$(dirname "${BASH_SOURCE[0]}")/..}"

# Files of the tree, whether git knows them or not. Build folders hold generated sources.
mapfile -t files < <(find . \( -path ./.git -o -path './build*' -o -path ./.cache \) -prune -o \
  -type f ! -name '*.pyc' -print | sed 's|^\./||' | LC_ALL=C sort)
to_read=()
for file in "${files[@]}"; do
  case $file in *.h | *.cc | *.sh | .ci/run) to_read+=("$file") ;; esac
done
if [[ ${#to_read[@]} -eq 0 ]]; then
  echo "tools/check-tree.sh: no source in $PWD" >&2
  exit 1
fi

LC_ALL=C awk -v allowed="$allowed" -v may_include_dpdk="$may_include_dpdk" \
  -v tests_of_their_own="$tests_of_their_own" -v lines_max="$lines_max" \
  -v header_block_lines_max="$header_block_lines_max" \
  -v comment_columns_max="$comment_columns_max" \
  '
function complain(text) {
  print text | "cat >&2"
  complaints++
}

function folder_of(path) { return sub(/\/[^\/]*$/, "", path) ? path : "" }

# The first folder of a path: "lab" for "lab/trace/snapshot.h".
function top_of(path) { sub(/\/.*/, "", path); return path }

function without_suffix(path) { sub(/\.[^.\/]*$/, "", path); return path }

function is_suffix(text, suffix) {
  return substr(text, length(text) - length(suffix) + 1) == suffix
}

function read_table(  rows, row, words, word, i, j) {
  rows = split(allowed, row, "\n")
  for (i = 1; i <= rows; i++) {
    words = split(row[i], word, " +")
    if (words == 0) continue
    known[word[1]] = 1
    may[word[1], word[1]] = 1
    for (j = 2; j <= words; j++) may[word[1], word[j]] = 1
  }
  words = split(may_include_dpdk, word, " +")
  for (i = 1; i <= words; i++) may_dpdk[word[i]] = 1
  words = split(tests_of_their_own, word, " +")
  for (i = 1; i <= words; i++) own_tests[word[i]] = 1
}

# Each file of the tree arrives on standard input, before the files are read.
function read_names(  path, folder, base) {
  while ((getline path < "-") > 0) {
    exists[path] = 1
    folder = folder_of(path)
    base = path
    if (folder != "") base = substr(path, length(folder) + 2)
    if (base == "README.md") has_readme[folder] = 1
    if (folder != "") tops[top_of(path)] = 1
    if (path ~ /^tests\//) {
      test_folders[folder] = 1
    } else {
      for (; folder != "" && !(folder in folders); folder = folder_of(folder)) folders[folder] = 1
      # A name may stand in several folders: "config.h" in two applications.
      if (base ~ /\.(h|cc)$/ && !seen[without_suffix(path)]++)
        places[without_suffix(base)] = places[without_suffix(base)] " " folder_of(path)
    }
  }
}

function begin_file() {
  file = FILENAME
  is_source = is_suffix(file, ".h") || is_suffix(file, ".cc")
  is_header = is_suffix(file, ".h")
  is_read[file] = 1
  if (is_source) sources++; else scripts++
  tag = has_pragma = has_block = in_block = 0
  includes = 0
  top = top_of(file)
  # Tests of a folder that may include DPDK may include it, too.
  dpdk_top = top
  if (top == "tests") dpdk_top = top_of(substr(file, 7))
}

function end_file() {
  if (file == "") return
  if (is_source && !tag)
    complain(file ":1: the first line must be \47// SPDX-License-Identifier: Apache-2.0\47")
  if (!is_source && !tag)
    complain(file ":1: one of the first two lines must be " \
             "\47# SPDX-License-Identifier: Apache-2.0\47")
  if (is_source && lines > lines_max)
    complain(file ": " lines " lines; allowed: " lines_max)
  if (is_header && !has_pragma) complain(file ": has no \47#pragma once\47")
  if (is_header && !has_block) complain(file ": does not open with an \47/// @file\47 block")
  if (has_block > header_block_lines_max)
    complain(file ": a header block of " has_block " lines; allowed: " header_block_lines_max)
}

# Checks that each test that a header names is there.
function check_named_tests(  text, named) {
  text = $0
  while (match(text, /tests\/[a-z0-9_\/]+\.(cc|h|py|sh|txt)/)) {
    named = substr(text, RSTART, RLENGTH)
    text = substr(text, RSTART + RLENGTH)
    if (!(named in exists)) complain(file ":" FNR ": names " named ", which is not there")
  }
}

# clang-format leaves comments alone. Counts characters: UTF-8 continuation bytes take no column.
function check_width(  text, columns) {
  text = $0
  gsub(/[\200-\277]/, "", text)
  columns = length(text)
  if (columns > comment_columns_max)
    complain(file ":" FNR ": a comment of " columns " columns; allowed: " comment_columns_max)
}

function check_include(  to, target) {
  includes++
  if ($0 !~ /"/) {
    if (includes == 1) first_include[file] = "<>"
    if ($0 ~ /<rte_/ && !(dpdk_top in may_dpdk) && !dpdk_said[file]++)
      complain(file ": includes DPDK; allowed in: " may_include_dpdk)
    return
  }
  target = $0
  sub(/^[^"]*"/, "", target)
  sub(/".*/, "", target)
  if (includes == 1) first_include[file] = target
  if (top == "tests") included[file] = included[file] " " target
  # A header without a folder is generated, and no header of this tree: switchml.grpc.pb.h.
  if (target !~ /\//) return
  to = top_of(target)
  if (!(top in known))
    complain(file ":" FNR ": folder " top " is not in the table of tools/check-tree.sh")
  else if (!((top, "ANY") in may) && !((top, to) in may) && !((top, target) in may))
    complain(file ":" FNR ": " top " may not include " target)
}

# Each folder of tests/ mirrors one of the tree, and each test lies in the folder of its subject.
function check_test_folders(  folder, mirrored) {
  for (folder in test_folders) {
    mirrored = substr(folder, 7)
    if (mirrored == "" || top_of(mirrored) in own_tests) continue
    if (!(mirrored in folders)) complain(folder ": mirrors no folder: there is no " mirrored)
  }
}

# True if `path` is a header of tests/ that sets up parts of the tree: its tests are about these.
function is_bed(path,  count, target, i) {
  if (path !~ /^tests\// || !(path in included)) return 0
  count = split(included[path], target, " ")
  for (i = 1; i <= count; i++) if (target[i] !~ /^(tests|base)\//) return 1
  return 0
}

function check_test(path,  folder, mirrored, name, count, target, i) {
  folder = folder_of(path)
  mirrored = substr(folder, 7)
  if (top_of(mirrored) in own_tests) return
  name = substr(path, length(folder) + 2)
  sub(/_test\.cc$/, "", name)
  if (name in places && index(places[name] " ", " " mirrored " ") == 0) {
    complain(path ": lies apart from its subject; allowed: tests/X for X in" places[name])
    return
  }
  count = split(included[path], target, " ")
  for (i = 1; i <= count; i++) {
    if (folder_of(target[i]) == mirrored || is_bed(target[i])) return
  }
  complain(path ": includes neither a header of " mirrored " nor a bed of tests/")
}

BEGIN {
  read_table()
  read_names()
}
FNR == 1 { end_file(); begin_file() }
{ lines = FNR }
FNR == 1 && is_source && $0 == "// SPDX-License-Identifier: Apache-2.0" { tag = 1 }
FNR <= 2 && !is_source && $0 == "# SPDX-License-Identifier: Apache-2.0" { tag = 1 }
!is_source { next }
FNR <= 3 && /^\/\/\/ @file/ { in_block = 1 }
in_block { if (/^\/\/\//) has_block++; else in_block = 0 }
is_header && /tests\// { check_named_tests() }
$0 == "#pragma once" { has_pragma = 1 }
/^ *\/\// && length($0) > comment_columns_max { check_width() }
/^ *# *include +["<]/ { check_include() }
top == "tests" && /sleep_for|sleep_until|(^|[^A-Za-z0-9_])(u|nano)?sleep\(|clock_nanosleep/ {
  complain(file ":" FNR ": a test sleeps")
}
/private|FRIEND_TEST|friend/ && /#define +private|FRIEND_TEST|friend class .*Test/ {
  complain(file ":" FNR ": a test reaches into private")
}
END {
  end_file()
  for (i = 1; i < ARGC; i++) {
    path = ARGV[i]
    if (!(path in is_read)) complain(path ":1: is empty")
    own = without_suffix(path) ".h"
    if (is_suffix(path, ".cc") && own in exists && first_include[path] != own)
      complain(path ": must include its own header \"" own "\" first")
    if (path ~ /^tests\/.*_test\.cc$/) check_test(path)
  }
  check_test_folders()
  for (folder in tops)
    if (folder !~ /^\./ && !(folder in has_readme)) complain(folder "/: has no README.md")
  if (complaints) {
    complain("tools/check-tree.sh: " complaints " complaints")
    exit 1
  }
  print sources " sources, " scripts + 0 " scripts: no complaint"
}' "${to_read[@]}" < <(printf '%s\n' "${files[@]}")
