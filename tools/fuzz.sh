#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Fuzzes the targets of tests/fuzz with libFuzzer. Needs Clang 19.
#
#   tools/fuzz.sh --list            names the targets
#   tools/fuzz.sh TARGET [SECONDS]  fuzzes one target, 60 seconds by default
#   tools/fuzz.sh --all [SECONDS]   fuzzes each target, two at a time
#
# Prints executions per second, coverage and findings. A finding is an input that crashes, leaks,
# fails a check, runs for more than 5 seconds or takes more than 2 GB. It is minimised and stored in
# tests/fuzz/regressions/TARGET/, and the exit status is 1.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source tools/common.sh

seconds_default=60
# Longest search for a smaller input with the same finding.
minimise_seconds=30
limits=(-timeout=5 -rss_limit_mb=2048)
build_folder=build/fuzz

usage() {
  echo "usage: tools/fuzz.sh --list | --all [SECONDS] | TARGET [SECONDS]" >&2
  exit 2
}

list_targets() { sed -n 's/^fuzz_target(\([a-z0-9_]*\).*/\1/p' tests/fuzz/CMakeLists.txt; }

# prepare TARGET...: builds the targets' programs.
prepare() {
  configure fuzz -DTRIBUTARY_TESTS=ON
  build fuzz "${@/#/fuzz_}"
}

# store TARGET FINDING: keeps a smaller form of the finding, and says how to replay it.
store() {
  local target=$1 finding=$2 kind name kept
  name=$(basename "$finding")
  kind=${name%%-*}
  kept=tests/fuzz/regressions/$target/${name:0:$((${#kind} + 9))}
  mkdir -p "$(dirname "$kept")"
  if [[ $kind == crash ]]; then
    "$build_folder/fuzz_$target" "${limits[@]}" -minimize_crash=1 \
      -max_total_time=$minimise_seconds -exact_artifact_path="$kept" "$finding" \
      >"$finding.minimise.log" 2>&1 || true
  fi
  [[ -s $kept ]] || cp "$finding" "$kept"
  echo "  stored $kept ($(stat -c %s "$kept") bytes)"
  echo "  replay: $build_folder/fuzz_$target $kept"
  echo "  any compiler: fuzz_tests --gtest_filter='*Regressions/$target'"
}

# fuzz TARGET SECONDS: fuzzes a target that is built. Prints one line, and more for a finding.
fuzz() {
  local target=$1 seconds=$2 status=0 program folder log
  program=$build_folder/fuzz_$target
  folder=$build_folder/work/$target # Kept, so that the next run goes on from here.
  log=$folder/log
  mkdir -p "$folder/corpus" "$folder/findings" "$folder/seeds"
  rm -f "$folder"/findings/* "$folder"/seeds/*
  "$program" --write-seeds="$folder/seeds"
  local inputs=("$folder/corpus" "$folder/seeds")
  [[ -d tests/fuzz/regressions/$target ]] && inputs+=("tests/fuzz/regressions/$target")
  "$program" "${limits[@]}" -max_total_time="$seconds" -print_final_stats=1 \
    -artifact_prefix="$folder/findings/" "${inputs[@]}" >"$log" 2>&1 || status=$?
  local per_second coverage finding
  per_second=$(sed -n 's/^stat::average_exec_per_sec: *//p' "$log" | tail -n 1)
  coverage=$(sed -n 's/.* cov: \([0-9]*\) .*/\1/p' "$log" | tail -n 1)
  finding=$(find "$folder/findings" -type f ! -name 'slow-unit-*' | head -n 1)
  printf '%-20s %8s executions/s %7s edges  %s\n' "$target" "${per_second:-?}" "${coverage:-?}" \
    "$([[ $status -eq 0 ]] && echo "no finding" || echo "FINDING")"
  [[ $status -eq 0 ]] && return 0
  grep -E -A 6 'bug: |ERROR: |Failure$|runtime error: ' "$log" | head -n 30 || tail -n 30 "$log"
  [[ -n $finding ]] && store "$target" "$finding"
  return 1
}

case "${1-}" in
  --list)
    list_targets
    ;;
  --all)
    mapfile -t targets < <(list_targets)
    prepare "${targets[@]}"
    # A failed target does not stop the others; xargs then exits with 123.
    printf '%s\n' "${targets[@]}" |
      xargs -P 2 -I {} tools/fuzz.sh --built {} "${2-$seconds_default}" || exit 1
    ;;
  --built) # For --all: the target is built.
    fuzz "$2" "$3"
    ;;
  '' | -*)
    usage
    ;;
  *)
    if ! list_targets | grep -qx -- "$1"; then
      echo "tools/fuzz.sh: unknown target '$1'; allowed: $(list_targets | paste -sd ' ')" >&2
      exit 2
    fi
    prepare "$1"
    fuzz "$1" "${2-$seconds_default}"
    ;;
esac
