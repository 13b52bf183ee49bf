# SPDX-License-Identifier: Apache-2.0
# Sourced by test.sh, demo.sh, tools/fuzz.sh and .ci/run, from the top of the tree.

# Prints the number of jobs for a build. A job of this tree takes up to 1 GB, so a machine with little
# memory runs fewer jobs than it has cores.
build_jobs() {
  local cores memory_gb
  cores=$(nproc)
  memory_gb=$(awk '/^MemAvailable:/ {print int($2 / 1048576)}' /proc/meminfo)
  echo $((memory_gb < 1 ? 1 : (memory_gb < cores ? memory_gb : cores)))
}

# show_progress NAME LOG: shows the last "[done/all]" of the build log LOG on a terminal, once a second
# until the script ends.
show_progress() {
  while sleep 1 && kill -0 $$ 2>/dev/null; do
    printf '\r%s … %s ' "$1" "$(tail -c 4096 "$2" | grep -aoE '^\[[0-9]+/[0-9]+\]' | tail -n 1)"
  done
}

# quietly NAME COMMAND...: runs the command with its output in a file, and shows the file's end only if
# the command fails.
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

# configure PRESET ARGUMENTS...: configures build/PRESET.
configure() {
  local preset=$1
  shift
  quietly "Configuring $preset" cmake --preset "$preset" "$@"
}

# without_randomisation COMMAND...: runs the command with a fixed memory layout. With a random layout
# the ThreadSanitizer of GCC 12 may find no room. Some containers forbid the switch; then the command
# runs with a random layout.
without_randomisation() {
  if setarch "$(uname -m)" -R true 2>/dev/null; then
    setarch "$(uname -m)" -R "$@"
  else
    "$@"
  fi
}

# build PRESET TARGET...: builds targets of build/PRESET ("all" for everything). The build runs each
# test program once, to list its tests.
build() {
  local preset=$1
  shift
  quietly "Building $* ($preset)" without_randomisation \
    cmake --build --preset "$preset" --target "$@" -j "$(build_jobs)"
}

# run_tests PRESET: runs the tests. Shows the output of failed tests, and only the summary of the
# others. Failed tests run a second time, because on a busy machine a process of a test may start too
# late, but not if a sanitizer has found a defect.
run_tests() {
  echo "Running the tests ($1) …"
  run_ctest "$1" && return
  if grep -qE 'ERROR: (Address|Leak)Sanitizer|WARNING: ThreadSanitizer|runtime error:' \
    "build/$1/Testing/Temporary/LastTest.log"; then
    return 1
  fi
  echo "Running the failed tests again ($1) …"
  run_ctest "$1" --rerun-failed
}

# run_ctest PRESET ARGUMENTS...: runs ctest without lines about tests that pass.
run_ctest() {
  local preset=$1
  shift
  without_randomisation ctest --preset "$preset" -j "$(nproc)" "$@" |
    grep -vE '^ *(Start +[0-9]+:|[0-9]+/[0-9]+ Test +#[0-9]+: .* Passed )'
}
