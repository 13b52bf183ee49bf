#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Writes the man pages and the shell completions of a built program into FOLDER/share, laid out as
# below /usr/share. The build calls it.
#
#   tools/describe-commands.sh PROGRAM OVERVIEW FOLDER
#
# OVERVIEW is the source of tributary(7). The other pages come from --help and need help2man; without
# it, only the overview and the completions are written.
set -euo pipefail

if [[ $# -ne 3 || ! -x $1 ]]; then
  echo "tools/describe-commands.sh: give PROGRAM, OVERVIEW and FOLDER" >&2
  exit 2
fi
program=$1 overview=$2 folder=$3 share=$3/share
rm -rf "$folder"
mkdir -p "$share"/man/man{1,7} "$share/bash-completion/completions" "$share/zsh/site-functions" \
  "$share/fish/vendor_completions.d"

"$program" completion bash >"$share/bash-completion/completions/tributary"
"$program" completion zsh >"$share/zsh/site-functions/_tributary"
"$program" completion fish >"$share/fish/vendor_completions.d/tributary.fish"
cp "$overview" "$share/man/man7/tributary.7"

# commands [COMMAND...] prints the commands below one, each as its name, a tab and its summary. They are
# in the help text: two spaces, a name, the summary; the next heading ends them.
commands() {
  "$program" "$@" --help | awk '/^[A-Z]/ { listed = /^Subcommands:/ }
    listed && /^  [a-z]/ { name = $1; sub(/^ *[a-z-]+ +/, ""); print name "\t" $0 }'
}

# name_of [COMMAND...] prints the name of a command's page: tributary-job-add.
name_of() { local IFS=-; echo "tributary${*:+-$*}"; }

# page SUMMARY [COMMAND...]
page() {
  local summary=$1 name file command
  shift
  name=$(name_of "$@")
  file=$share/man/man1/$name.1
  {
    printf '[see also]\n'
    while IFS=$'\t' read -r command _; do
      printf '.BR %s (1),\n' "$(name_of "$@" "$command")"
    done < <(commands "$@")
    printf '.BR tributary (7)\n'
  } >"$folder/see-also"
  help2man --no-info --no-discard-stderr --locale=C.UTF-8 --section=1 --source="Tributary $version" \
    --manual="Tributary" --version-string="$name $version" --name="$summary" \
    --include="$folder/see-also" --output="$file" "$program${*:+ $*}"
  # Each key of a flag like --job begins a line, and a list without blanks may be divided at its commas.
  sed -i -E -e '/^[a-z_]+: /i .br' -e '/[^ ]{60}/s/,([^ ,])/,\\:\1/g' "$file"
}

# pages_below [COMMAND...] writes the pages of all commands below one.
pages_below() {
  local command summary
  while IFS=$'\t' read -r command summary; do
    page "${summary,}" "$@" "$command" </dev/null
    pages_below "$@" "$command"
  done < <(commands "$@")
}

if command -v help2man >/dev/null; then
  version=$("$program" --version | sed -n '1s/^tributary //p')
  page "in-network aggregation for distributed training"
  pages_below
else
  echo "help2man is not installed, so there are no man pages of the commands" >&2
fi
touch "$folder/done"
