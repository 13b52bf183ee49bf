#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs the fault campaign over seeds derived from the commit, and prints the command to repeat it.
#
#   commit_seeds.sh PROGRAM SEEDS [FLAG…]
set -euo pipefail
program=$1
seeds=$2
shift 2
# Twelve hexadecimal digits of the commit; a tree without git has fixed seeds.
commit=$(git -C "$(dirname "${BASH_SOURCE[0]}")" rev-parse --short=12 HEAD 2>/dev/null) || commit=1
first_seed=$((16#${commit:0:12}))
echo "again: $program lab faults --seeds $seeds --first-seed $first_seed $*"
exec "$program" lab faults --seeds "$seeds" --first-seed "$first_seed" --threads 1 "$@"
