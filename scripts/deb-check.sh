#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# make deb-check: installs the packages by apt on a bare Debian, in a folder, and uses them there.
#
#   MIRROR=URL SUITE=bookworm scripts/deb-check.sh      as root; the mirror is else the one apt uses here
set -eu
cd "$(dirname "$0")/.."
[ "$(id -u)" = 0 ] || { echo "deb-check: as root, please: it makes a root folder"; exit 69; }
suite=${SUITE:-$(. /etc/os-release && echo "$VERSION_CODENAME")}
# shellcheck disable=SC2016 # for apt to expand
mirror=${MIRROR:-$(apt-get indextargets --format '$(CODENAME) $(SITE)' | awk -v s="$suite" '$1 == s { print $2; exit }')}

room=$(mktemp -d)
cleanup()
{
    mountpoint -q "$room/root/proc" && umount "$room/root/proc"
    rm -rf "$room"
}
trap cleanup EXIT

scripts/deb.sh >/dev/null
echo "a bare $suite in a folder ..."
debootstrap --variant=minbase "$suite" "$room/root" "$mirror" >"$room/log" 2>&1 ||
    { tail -n 20 "$room/log"; exit 1; }
mkdir "$room/root/debs"
cp build-deb/*.deb "$room/root/debs"
rm -f "$room"/root/debs/*-dbgsym_*
# The file engine speaks to its neighbours through /proc/self/fd.
mount -t proc proc "$room/root/proc"
# As this machine reaches the mirror.
cp /etc/resolv.conf "$room/root/etc/" 2>/dev/null || true
cp /etc/apt/apt.conf.d/*proxy* "$room/root/etc/apt/apt.conf.d/" 2>/dev/null || true

# A program that was linked on another machine, to the library of the package.
for package in librota1 librota-dev; do
    dpkg -x build-deb/"$package"_*.deb "$room/linked"
done
gcc examples/first_lock.c -I"$room/linked/usr/include" "$room"/linked/usr/lib/*/librota.so -o "$room/root/debs/first"

inside() { chroot "$room/root" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8 \
    http_proxy="${http_proxy:-}" https_proxy="${https_proxy:-}" "$@"; }
inside sh -c 'apt-get update -q && DEBIAN_FRONTEND=noninteractive \
    apt-get install -y -q --no-install-recommends /debs/*.deb' >"$room/log" 2>&1 ||
    { tail -n 40 "$room/log"; exit 1; }
inside dpkg -l librota1 librota-dev rota librota-txn1 librota-txn-dev rota-txn | grep ^ii
inside rota --version
# shellcheck disable=SC2016 # for the inner shell
inside rota run first -- sh -c 'echo "$ROTA_NAME runs, fence $ROTA_FENCE"'
inside /debs/first
inside rota txn --version
inside rota txn ls --json
inside sh -c 'rota txn outcome 0123; [ $? = 64 ]'
inside sh -c 'systemd-analyze verify /usr/lib/systemd/system/rota-txn-recover.service 2>&1 || [ $? = 127 ]'
inside sh -c 'rota run first -- rota run -n first -- true; [ $? = 75 ]'
# Root and the group rota share a folder, and nobody else.
inside useradd -G rota ada
inside useradd bob
# shellcheck disable=SC2016 # for the inner shell
inside sh -ec 'for user in ada bob; do chmod 755 /root; printf "%s " "$(stat -c "%U:%G %a" /var/lib/rota)"
    code=0; su $user -c "HOME=/tmp rota --system run -n first -- true" || code=$?; echo "$user $code"; done
    rota --system run first -- su ada -c "HOME=/tmp rota run --system -n -E 9 first -- true" || [ $? = 9 ]' >"$room/shared" 2>"$room/log"
printf 'root:rota 2770 ada 0\nroot:rota 2770 bob 69\n' | cmp - "$room/shared" || { cat "$room/log"; exit 1; }
inside dpkg --purge rota-txn librota-txn-dev librota-txn1 rota librota-dev librota1 >"$room/log" 2>&1 || { cat "$room/log"; exit 1; }
[ ! -e "$room/root/var/lib/rota" ] || { echo "purge left /var/lib/rota"; exit 1; }
left=$(find "$room/root/usr" "$room/root/etc" -name 'rota*' -o -name 'librota*')
[ -z "$left" ] || { printf 'left after purge:\n%s\n' "$left"; exit 1; }
echo "deb-check: installed, ran, purged"
