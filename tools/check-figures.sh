#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Checks that results in virtual time are the same bytes everywhere:
#   tools/check-figures.sh           quick figures: recorded, one thread and two threads
#   tools/check-figures.sh PROGRAM   also back ends and training with another compiler's program
#   tools/check-figures.sh --record  records the quick figures
# Uses build/release/tributary. The figures are in docs/results/quick.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

program=build/release/tributary
recorded=docs/results/quick
figures=(trio-12 trio-13)
# The back ends whose packets need a payload; the others run with trains.
with_payload=(live asynchronous sharded-live)

[[ -x $program ]] || { echo "check-figures: $program is missing; run ./test.sh or ./demo.sh first" >&2; exit 1; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0

# same NAME FILE FILE: compares two files, and shows the first lines that differ.
same() {
  if cmp -s "$2" "$3"; then
    echo "same: $1"
  else
    echo "DIFFERS: $1" >&2
    diff "$2" "$3" | head -n 6 >&2 || true
    failed=1
  fi
}

for figure in "${figures[@]}"; do
  "$program" lab figure "$figure" --quick --threads 2 --json "$work/two.json" >"$work/out"
  if [[ ${1-} == --record ]]; then
    mkdir -p "$recorded"
    cp "$work/two.json" "$recorded/$figure.json"
    echo "recorded: $figure"
    continue
  fi
  same "$figure --quick, recorded" "$recorded/$figure.json" "$work/two.json"
  "$program" lab figure "$figure" --quick --threads 1 --json "$work/one.json" >"$work/out"
  same "$figure --quick, one thread and two" "$work/one.json" "$work/two.json"
done

if [[ -n ${1-} && $1 != --record ]]; then
  # Whole output first: a closed pipe would end the program.
  "$program" lab list >"$work/list"
  mapfile -t backends < <(awk '/^Back ends/ {on = 1; next} /^$/ {on = 0} on {print $1}' "$work/list")
  [[ ${#backends[@]} -ge 16 ]] || { echo "check-figures: \`lab list\` names no back ends" >&2; exit 1; }
  for backend in "${backends[@]}"; do
    run=(lab run --backend "$backend" --iterations 3
         --straggler.pattern slow-worker --straggler.probability 0.16)
    if [[ " ${with_payload[*]} " == *" $backend "* ]]; then
      run+=(--payload real --model.name custom --model.bucket_bytes 1000000 --model.backward_ms 10)
    else
      run+=(--train 64)
    fi
    "$program" "${run[@]}" --json "$work/ours.json" >"$work/out"
    "$1" "${run[@]}" --json "$work/theirs.json" >"$work/out"
    same "$backend, two compilers" "$work/ours.json" "$work/theirs.json"
  done
  # The figure whose quick runs train a model in the shortest time.
  "$program" lab figure async --quick --json "$work/ours.json" >"$work/out"
  "$1" lab figure async --quick --json "$work/theirs.json" >"$work/out"
  same "async --quick, two compilers" "$work/ours.json" "$work/theirs.json"
fi
exit "$failed"
