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

# quietly NAME COMMAND...: runs it with its output in a file that is shown only if it fails.
quietly() {
  local name=$1 log
  shift
  log=$(mktemp)
  echo "$name …"
  if ! "$@" >"$log" 2>&1; then
    tail -n 60 "$log" >&2
    rm -f "$log"
    echo "$name failed (the last lines are above): $*" >&2
    return 1
  fi
  rm -f "$log"
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
