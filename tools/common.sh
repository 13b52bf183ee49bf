# SPDX-License-Identifier: Apache-2.0
# Sourced by test.sh, demo.sh and .ci/run, from the top of the tree.

# Jobs for a build. A job of this tree takes up to 1 GB, so a small machine runs fewer than it has
# cores.
build_jobs() {
  local cores memory_gb
  cores=$(nproc)
  memory_gb=$(awk '/^MemAvailable:/ {print int($2 / 1048576)}' /proc/meminfo)
  echo $((memory_gb < 1 ? 1 : (memory_gb < cores ? memory_gb : cores)))
}

# show_progress NAME LOG: on a terminal, how far the build is whose output goes to LOG, for as long as
# the script runs.
show_progress() {
  while sleep 1 && kill -0 $$ 2>/dev/null; do
    printf '\r%s … %s ' "$1" "$(tail -c 4096 "$2" | grep -aoE '^\[[0-9]+/[0-9]+\]' | tail -n 1)"
  done
}

# quietly NAME COMMAND...: runs it with its output in a file that is shown only if it fails.
quietly() {
  local name=$1 log progress='' status=0
  shift
  log=$(mktemp)
  if [[ -t 1 ]]; then
    show_progress "$name" "$log" &
    progress=$!
  else
    echo "$name …"
  fi
  "$@" >"$log" 2>&1 || status=$?
  if [[ -n $progress ]]; then
    kill "$progress" && wait "$progress" 2>/dev/null || true
    printf '\r%s … %s\033[K\n' "$name" "$([[ $status -eq 0 ]] && echo done || echo failed)"
  fi
  if [[ $status -ne 0 ]]; then
    tail -n 60 "$log" >&2
    echo "$name failed (the last lines are above): $*" >&2
  fi
  rm -f "$log"
  return "$status"
}

# configure PRESET ARGUMENTS...: (re)configures build/PRESET.
configure() {
  local preset=$1
  shift
  quietly "Configuring $preset" cmake --preset "$preset" "$@"
}

# The kernel may lay out memory so randomly that ThreadSanitizer of GCC 12 finds no room; with
# randomisation off it always does. Some containers forbid the switch, and then run as they are.
without_randomisation() {
  if setarch "$(uname -m)" -R true 2>/dev/null; then
    setarch "$(uname -m)" -R "$@"
  else
    "$@"
  fi
}

# build PRESET TARGET: builds one target of build/PRESET ("all" for everything). Test programs are
# run once during the build, to list their tests.
build() {
  quietly "Building $2 ($1)" without_randomisation \
    cmake --build --preset "$1" --target "$2" -j "$(build_jobs)"
}

# run_tests PRESET: shows failures whole, and of what passed only the summary.
run_tests() {
  echo "Running the tests ($1) …"
  without_randomisation ctest --preset "$1" -j "$(nproc)" |
    grep -vE '^ *(Start +[0-9]+:|[0-9]+/[0-9]+ Test +#[0-9]+: .* Passed )'
}
