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

# page NAME SUMMARY [COMMAND]
page() {
  local file=$share/man/man1/$1.1
  help2man --no-info --no-discard-stderr --locale=C.UTF-8 --section=1 --source="Tributary $version" \
    --manual="Tributary" --version-string="$1 $version" --name="$2" --include="$folder/see-also" \
    --output="$file" "$program${3:+ $3}"
  # Each key of a flag like --job begins a line.
  sed -i -E '/^[a-z_]+: /i .br' "$file"
}

if command -v help2man >/dev/null; then
  version=$("$program" --version | sed -n '1s/^tributary //p')
  printf '[see also]\n.BR tributary (7)\n' >"$folder/see-also"
  page tributary "in-network aggregation for distributed training"
  # The commands are in the help text: two spaces, a name, the summary.
  "$program" --help | awk '/^Subcommands:/ { listed = 1 }
    listed && /^  [a-z]/ { name = $1; sub(/^ *[a-z-]+ +/, ""); print name "\t" $0 }' |
    while IFS=$'\t' read -r command summary; do
      page "tributary-$command" "${summary,}" "$command" </dev/null
    done
else
  echo "help2man is not installed, so there are no man pages of the commands" >&2
fi
touch "$folder/done"
