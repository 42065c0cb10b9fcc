#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Builds the benches into build/ and runs them one after the other, their reports on the terminal.
set -eu
cd "$(dirname "$0")/.."
make -s build/build.ninja
meson configure build -Dbench=true
ninja -C build
exec meson test -C build --benchmark --no-rebuild --verbose --num-processes 1 "$@"
