#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# on_timeout = commit, the textbook's rule: the simulator finds a mixed outcome, in other schedules each is told (H5), and with
# `block` the same seeds have none.
#
#   mixed.sh SIMULATOR SEEDS
set -u
sim=$1
seeds=$2

fail()
{
    printf 'FAIL  %s\n%s\n' "$1" "$2"
    exit 1
}

out=$("$sim" --three-strict --seeds "$seeds" 2>&1) && fail 'commit: no mixed outcome was found' "$out"
printf '%s\n' "$out" | grep -a -q '^seed .*: H3 is violated' || fail 'commit: something else was found' "$out"
printf 'ok    found: %s\n' "$(printf '%s\n' "$out" | grep -a '^seed ')"

out=$("$sim" --three-commit --seeds "$seeds" 2>&1) || fail 'commit: a mixed outcome is not told' "$out"
mixed=$(printf '%s\n' "$out" | sed -n 's/^ *mixed outcomes *//p')
[ "${mixed:-0}" -gt 0 ] || fail 'commit: no mixed outcome' "$out"
printf '%s\n' "$out"

out=$("$sim" --three --seeds "$seeds" 2>&1) || fail 'block' "$out"
mixed=$(printf '%s\n' "$out" | sed -n 's/^ *mixed outcomes *//p')
[ "${mixed:-1}" -eq 0 ] || fail 'block: a mixed outcome' "$out"
printf '%s\n' "$out"
