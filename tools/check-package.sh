#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds the Debian packages in a clean clone of the last commit, installs them, runs their tests and
# purges them. Then no file and no user of theirs may be left, and no link to an enabled server.
#
#   tools/check-package.sh                     compiles everything; half an hour on two cores
#   tools/check-package.sh --from BUILD        packs the folder BUILD, which is complete, in a minute
#   tools/check-package.sh [...] --keep FOLDER also leaves the packages in FOLDER
#
# It needs root, and the packages that tools/install-deps.sh --with-ops installs.
set -euo pipefail
# Programs warn about a language that is not installed.
export LC_ALL=C.UTF-8
top=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$top"
source tools/common.sh

fail() {
  echo "tools/check-package.sh: $*" >&2
  exit 1
}

from='' keep=''
while [[ $# -gt 0 ]]; do
  case $1 in
    --from) from=$(cd "${2:?"--from needs a build folder"}" && pwd) && shift 2 ;;
    --keep) keep=${2:?"--keep needs a folder"} && shift 2 ;;
    *) fail "unknown argument '$1'; allowed: --from BUILD, --keep FOLDER" ;;
  esac
done
[[ $(id -u) -eq 0 ]] || fail "installing packages needs root"
for tool in dh lintian help2man; do
  command -v "$tool" >/dev/null || fail "$tool is missing; run: tools/install-deps.sh --with-ops"
done

packages=$(sed -n 's/^Package: //p' debian/control)
for package in $packages; do
  ! dpkg-query -W "$package" >/dev/null 2>&1 || fail "$package is already installed; purge it first"
done

work=$(mktemp -d)
# The link that `systemctl enable tributary@check` makes.
enabled=/etc/systemd/system/multi-user.target.wants/tributary@check.service
export DEBIAN_FRONTEND=noninteractive
clean_up() {
  purge_packages >/dev/null 2>&1 || true
  rm -rf "$work" "$enabled"
}

list_packages() { dpkg-query -W -f='${db:Status-Status} ${Package}:${Architecture}\n' | sort; }

# Installs the packages as an operator does, with the packages that they depend on.
install_packages() {
  list_packages >"$work/packages"
  apt-get install -qq -y --no-install-recommends "$work"/*.deb
}

# Purges what install_packages() has added, and nothing else.
purge_packages() {
  [[ -e $work/packages ]] || return 0
  local added
  added=$(comm -13 "$work/packages" <(list_packages) | sed -n 's/^[a-z-]* \(.*\):[a-z0-9]*$/\1/p')
  [[ -z $added ]] || apt-get purge -qq -y $added
}
trap clean_up EXIT

# Prints every file that a package could leave behind, and every user. Leaves out the records and caches
# that any installation changes, and the control sockets of other servers of this machine.
list_machine() {
  find /etc /usr /run /var -xdev \( -path /var/lib/dpkg -o -path /var/cache -o -path /var/log -o \
    -path /var/lib/apt -o -path /usr/share/info -o -name __pycache__ -o \
    -path '/run/tributary/*.sock' \) -prune -o -print |
    LC_ALL=C sort
  getent passwd
}

# Leaves out the packages of debug symbols, which nobody installs here.
build_packages() {
  (cd "$work/tributary" && TRIBUTARY_BUILD=$from \
    DEB_BUILD_OPTIONS="nocheck noautodbgsym parallel=$(build_jobs)" dpkg-buildpackage -us -uc -b ${from:+-d})
}

# Fails if lintian has a complaint.
check_with_lintian() {
  local tags
  tags=$(lintian --allow-root --tag-display-limit 0 "$work"/*.changes 2>&1 || true)
  [[ -z $tags ]] || { echo "$tags" && return 1; }
}

git clone -q "$top" "$work/tributary"
[[ -z $(git status --porcelain) ]] ||
  echo "tools/check-package.sh: this tree has changes that the packages do not have" >&2
quietly "Building the packages" build_packages
[[ -z $keep ]] || { mkdir -p "$keep" && cp "$work"/*.{deb,changes,buildinfo} "$keep"; }
quietly "Checking the packages with lintian" check_with_lintian

mkdir -p "${enabled%/*}"  # Not every container has it.
list_machine >"$work/before"
quietly "Installing the packages" install_packages
tools/check-package-ops.sh /usr/share/tributary/ops
for test in $(sed -n 's/^Tests: //p' debian/tests/control); do
  mkdir "$work/$test"
  AUTOPKGTEST_TMP="$work/$test" quietly "Running debian/tests/$test" "debian/tests/$test"
done
ln -s /lib/systemd/system/tributary@.service "$enabled"
list_machine >"$work/during"
quietly "Purging the packages" purge_packages
list_machine >"$work/after"

! cmp -s "$work/before" "$work/during" || fail "the installation changed nothing"
diff "$work/before" "$work/after" || fail "the packages left the files and users above"
ls -l "$work"/*.deb | awk '{ sub(/.*\//, "", $NF); printf "%8.1f MB  %s\n", $5 / 1e6, $NF }'
echo "packages: installed, tested and purged"
