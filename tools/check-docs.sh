#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs the commands that README.md and the pages of docs/ print, literally and in order, in a clean
# clone of the last commit. README.md builds the clone itself. Then names the results of the lab in
# docs/results that another version of its models has made.
#
#   tools/check-docs.sh            commands that need neither privileges nor hours
#   tools/check-docs.sh --all      also those marked long, and as root those marked root
#   tools/check-docs.sh --list     prints the commands and the reasons of skipped ones; runs nothing
#   tools/check-docs.sh --here     runs in this tree with its build/release, not in a clone
#   tools/check-docs.sh PAGE...    only these pages; a clone is built with ./demo.sh first
#
# tools/docs/blocks.py describes the marks of blocks.
set -euo pipefail
top=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

in_place=no
options=() pages=()
for argument in "$@"; do
  case "$argument" in
    --here) in_place=yes ;;
    --list) in_place=yes options+=(--list) ;;
    --all) options+=(--all) ;;
    -h | --help) sed -n '3,/^[^#]/s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" && exit 0 ;;
    -*)
      echo "tools/check-docs.sh: unknown argument '$argument'; allowed: --all, --list, --here," \
        "pages" >&2
      exit 2
      ;;
    *) pages+=("$argument") ;;
  esac
done

check() {
  local status=0
  python3 "$1/tools/docs/check.py" --top "$1" "${options[@]}" "${pages[@]}" || status=$?
  # Names the recorded results that this program would not write. It fails nothing: runs take hours.
  if [[ ${#pages[@]} -eq 0 && " ${options[*]} " != *" --list "* ]]; then
    python3 "$1/tools/fill-docs.py" --root "$1" --outdated
  fi
  return "$status"
}

if [[ $in_place == yes ]]; then
  check "$top"
else
  clone=$(mktemp -d)
  trap 'rm -rf "$clone"' EXIT
  git clone -q "$top" "$clone/tributary"
  [[ -z $(git -C "$top" status --porcelain) ]] ||
    echo "tools/check-docs.sh: this tree has changes that the clone does not have" >&2
  if [[ ${#pages[@]} -gt 0 && " ${pages[*]} " != *" README.md "* ]]; then
    (cd "$clone/tributary" && ./demo.sh >/dev/null)
  fi
  check "$clone/tributary"
fi
