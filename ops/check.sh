#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Checks the files of this folder: every metric that they name is one of docs/monitoring.md, and promtool
# accepts the rules and their tests. Exits with 77, which skips the test, if promtool is missing.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

for name in $(grep -oh 'tributary_[a-z_]*[a-z]' alerts.yml grafana.json | sort -u); do
  family=${name%_bucket}
  # The table writes names that share a beginning as "…_receive_bytes_total".
  short=${family#tributary_port}
  if ! grep -q -e "\`$family\`" -e "\`…$short\`" ../docs/monitoring.md; then
    echo "ops/check.sh: no row of docs/monitoring.md has the metric $family" >&2
    exit 1
  fi
done
python3 -m json.tool grafana.json /dev/null

if ! command -v promtool >/dev/null; then
  echo "skipped: promtool is missing; tools/install-deps.sh --with-ops installs it"
  exit 77
fi
promtool check rules alerts.yml
promtool test rules alerts_test.yml
promtool check config --syntax-only prometheus.yml
