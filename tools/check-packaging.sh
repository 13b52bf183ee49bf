#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Checks what packages are made of, without making one: debian/ agrees with the tree, man pages render
# without a warning, completions load, Prometheus finds its rules, the unit is valid, lintian accepts
# the source package. Skips a check whose tool is missing. Part of the tests (package.check); tools/check-package.sh makes packages.
#
#   tools/check-packaging.sh BUILD_FOLDER   a build with the target command_line_files
set -euo pipefail
# Programs warn about a language that is not installed.
export LC_ALL=C.UTF-8
build=$(cd "${1:?"give a build folder"}" && pwd)
cd "$(dirname "${BASH_SOURCE[0]}")/.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failures=0

complain() {
  echo "tools/check-packaging.sh: $*" >&2
  failures=$((failures + 1))
}

# has TOOL: tells whether a tool is installed, and says what is skipped without it.
has() {
  command -v "$1" >/dev/null && return
  echo "skipped: $1 is not installed"
  return 1
}

check_versions() {
  local project package
  project=$(sed -n 's/^project(tributary VERSION \([0-9.]*\).*/\1/p' CMakeLists.txt)
  package=$(sed -n '1s/^tributary (\([^)]*\)).*/\1/p' debian/changelog)
  [[ $package == "$project" ]] ||
    complain "debian/changelog: version '$package'; allowed: '$project', as in CMakeLists.txt"
  grep -q "^## \[$project\]" CHANGELOG.md || complain "CHANGELOG.md: has no section [$project]"
}

# Each package of the core group is a build dependency. Debian's policy implies g++.
check_build_depends() {
  local package
  for package in $(tools/install-deps.sh --list | sed -n 's/^core: //p'); do
    [[ $package != g++ ]] || continue
    sed -n '/^Build-Depends:/,/^[A-Z]/p' debian/control | grep -qE "[ :]$package([, ]|$)" ||
      complain "debian/control: Build-Depends lacks $package, which tools/install-deps.sh has"
  done
}

check_manual() {
  local page warnings
  for page in "$build"/commands/share/man/man*/*; do
    warnings=$(MANROFFSEQ='' MANWIDTH=80 LC_ALL=C.UTF-8 man --warnings -E UTF-8 -l -Tutf8 -Z "$page" \
      2>&1 >"$work/page")
    [[ -z $warnings && -s $work/page ]] || complain "$page: does not render: $warnings"
  done
}

check_completions() {
  local share=$build/commands/share commands
  # Calls the function as bash does after "tributary ".
  commands=$(bash -c 'source "$1"; COMP_WORDS=(tributary ""); COMP_CWORD=1; _tributary
    echo "${COMPREPLY[*]}"' bash "$share/bash-completion/completions/tributary")
  [[ " $commands " == *" serve "* && " $commands " != *" completion "* ]] ||
    complain "bash completion offers '$commands'; expected: serve and the others of --help"
  if has zsh; then zsh -n "$share/zsh/site-functions/_tributary" || complain "zsh completion"; fi
  if has fish; then
    fish --no-execute "$share/fish/vendor_completions.d/tributary.fish" || complain "fish completion"
  fi
}

# The program's package has the files for Prometheus and Grafana, outside the folder that debhelper
# compresses.
check_ops() {
  if DESTDIR=$work/program cmake --install "$build" --component program --prefix /usr >"$work/install.log" 2>&1; then
    tools/check-package-ops.sh "$work/program/usr/share/tributary/ops" || complain "component program: see above"
  else
    complain "cmake --install: $(tail -n 3 "$work/install.log")"
  fi
}

check_unit() {
  # The command must exist, so the unit gets the build's.
  sed "s|^ExecStart=/usr/bin/tributary|ExecStart=$build/tributary|" 'debian/tributary@.service' \
    >"$work/tributary@.service"
  local complaints
  complaints=$(systemd-analyze verify --man=no "$work/tributary@example.service" 2>&1) || true
  complaints=$(grep -F 'tributary@' <<<"$complaints" || true)
  [[ -z $complaints ]] || complain "debian/tributary@.service: $complaints"
  check_exposure
}

# The unit's score in systemd's own list of protections; 0 is none exposed, 10 all. Threshold in tenths.
check_exposure() {
  local threshold=16 report
  report=$(systemd-analyze security --offline=yes --no-pager --threshold=$threshold \
    "$work/tributary@.service" 2>&1) ||
    complain "debian/tributary@.service: exposure above $threshold tenths: $(tail -n 1 <<<"$report")"
}

check_source() {
  local tags
  mkdir "$work/tributary"
  cp -r CMakeLists.txt LICENSE README.md CHANGELOG.md debian docs "$work/tributary"
  (cd "$work/tributary" && dpkg-source --build . >"$work/source.log" 2>&1) ||
    complain "dpkg-source: $(cat "$work/source.log")"
  tags=$(lintian --allow-root --tag-display-limit 0 "$work"/*.dsc 2>&1 || true)
  [[ -z $tags ]] || complain "lintian: $tags"
}

check_versions
check_build_depends
if has man; then check_manual; fi
check_completions
check_ops
if has systemd-analyze; then check_unit; fi
if has lintian && has dpkg-source; then check_source; fi
[[ $failures -eq 0 ]] || exit 1
echo "packaging: no complaint"
