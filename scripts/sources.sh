#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Prints the C files of the tree that are ours to format and to check; with arguments, of those folders.
set -eu
cd "$(dirname "$0")/.."
[ $# -gt 0 ] || set -- src include tests bench examples
for folder in "$@"; do
    [ ! -d "$folder" ] || find "$folder" -name '*.[ch]'
done | LC_ALL=C sort
