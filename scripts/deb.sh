#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# make deb: builds the Debian packages of this tree, on a copy of it; they end up in build-deb/.
set -eu
cd "$(dirname "$0")/.."

rm -rf build-deb
mkdir -p build-deb/rota
tar -c --exclude='./build*' --exclude=./.git . | tar -x -C build-deb/rota

# The version is meson.build's; the changelog of the packages must not fall behind.
version=$(sed -n "s/^ *version: '\([0-9.]*\)',$/\1/p" meson.build | head -n 1)
packaged=$(dpkg-parsechangelog -l debian/changelog -S Version)
[ "$version" = "$packaged" ] ||
    { echo "debian/changelog says $packaged, meson.build $version: make them one" >&2; exit 1; }

# A date that both the packages and a second build of them agree on: the changelog's, which dpkg exports.
(cd build-deb/rota && dpkg-buildpackage -b -uc -us) >build-deb/log 2>&1 ||
    { tail -n 40 build-deb/log; exit 1; }
rm -rf build-deb/rota
ls build-deb/*.deb
