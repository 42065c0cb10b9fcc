#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# rota bench: what it prints, and in which shape; not how fast anything is.
set -u
rota=$(realpath "$1")
here=$(cd "$(dirname "$0")" && pwd)
. "$here/lib.sh"

test_all_are_measured_and_nothing_stays()
{
    unset ROTA_URL
    mkdir tmp
    TMPDIR=$PWD/tmp expect 0 "$rota" bench --quick >out 2>err
    [ ! -s err ] || fail "progress without a terminal: $(cat err)"
    local word
    for word in pair threads handover takeover waiters held; do
        grep -qx "$word" out || fail "no $word in: $(cat out)"
    done
    grep -Eq '^  our memory for each +[0-9]+ bytes$' out || fail "no memory: $(cat out)"
    same "" "$(ls tmp)"
}

test_json_has_the_shape_of_the_page()
{
    expect 0 "$rota" bench --quick --json pair held >out
    python3 - <<'PY' || fail "$(cat out)"
import json
all = json.load(open("out"))
assert list(all) == ["engine", "quick", "figures"], list(all)
assert all["quick"] is True and all["engine"].startswith("file:")
assert {f["bench"] for f in all["figures"]} == {"pair", "held"}
for f in all["figures"]:
    assert list(f) == ["bench", "what", "value", "unit", "better", "at"], f
    assert f["value"] > 0 and f["better"] in ("less", "more"), f
    assert (f["at"] is None) == (not f["what"].endswith("held already")), f
PY
    expect 0 "$rota" ls >left # on the engine that was named
    same "" "$(cat left)"
}

test_what_grows_is_measured_up_to_the_most()
{
    unset ROTA_URL
    expect 0 "$rota" bench --quick --json --most 20 --server-pid $$ --svg a.svg scale >out
    python3 - <<'PY' || fail "$(cat out)"
import json
import xml.etree.ElementTree as tree
figures = json.load(open("out"))["figures"]
assert {(f["bench"], f["at"]) for f in figures} == {("locks", 20), ("clients", 10), ("clients", 20), ("line", 20), ("names", 20)}
by = {(f["bench"], f["at"], f["what"].split(": ")[1]): f["value"] for f in figures}
for bench, at in ("locks", 20), ("clients", 10), ("clients", 20), ("line", 20):
    assert by[bench, at, "refused or lost"] == 0, by
assert by["clients", 20, "... the client with the fewest"] <= by["clients", 20, "... the client with the most"]
assert by["line", 20, "hand-over, median"] <= by["line", 20, "hand-over, 99 of 100"]
assert ("locks", 20, "at rest, the server's") in by and ("line", 20, "while all wait, the server's") in by
assert not list(tree.parse("a.svg").getroot().iter("{http://www.w3.org/2000/svg}polyline")), "units of many kinds on a curve"
PY
    expect 0 "$rota" bench --quick --most 101 locks line >out
    same "locks
line" "$(grep '^[a-z]' out)"
    same "100 101 " "$(sed -n 's/^  \([0-9]*\): .*processor for each.*/\1/p' out | tr '\n' ' ')"
    ! grep -q "the server's" out || fail "whose? $(cat out)"
}

test_svg_is_drawn()
{
    expect 0 "$rota" bench --quick --svg 'a & b.svg' pair held >out
    python3 - <<'PY' || fail "$(cat 'a & b.svg')"
import xml.etree.ElementTree as tree
root = tree.parse("a & b.svg").getroot()
ns = "{http://www.w3.org/2000/svg}"
words = " ".join(t.text for t in root.iter(ns + "text"))
assert "lock and unlock" in words and "pair" in words and "90" in words, words
assert len(list(root.iter(ns + "rect"))) == 1 + 3 and len(list(root.iter(ns + "polyline"))) == 1
PY
}

test_svg_on_a_full_disk()
{
    # Before measuring where it shows by then, afterwards where it does not.
    expect 74 "$rota" bench --quick --svg /dev/full pair >out 2>err
    grep -q "cannot write '/dev/full': No space left on device" err || fail "$(cat err)"
    same 1 "$(wc -l <err)"
    refused 74 "cannot write '/proc/none/a.svg'" "$rota" bench --quick --svg /proc/none/a.svg pair
}

test_wrong_usage()
{
    refused 64 "no bench 'pears'" "$rota" bench pears
    refused 64 "'--svg' needs a value" "$rota" bench --svg
    refused 64 "--svg needs the name of a file" "$rota" bench --svg '' pair
    refused 64 "most '0' is no number from 1 to 10000000" "$rota" bench --most 0 scale
    refused 64 "server-pid 'x' is no process id" "$rota" bench --server-pid x scale
    refused 64 "there is no process 99999999 on this machine" "$rota" bench --server-pid 99999999 scale
    refused 64 "most and --server-pid are for 'scale' and its parts" "$rota" bench --most 5 pair
    refused 64 "mem:" "$rota" --on mem:x bench
    expect 0 "$rota" bench --help >out
    [ "$(wc -l <out)" -le 32 ] || fail "the help does not fit a screen"
}

test_interrupted_it_cleans_up()
{
    unset ROTA_URL
    mkdir tmp
    local bench signal
    for signal in INT HUP TERM; do
        TMPDIR=$PWD/tmp "$rota" bench handover held >out 2>err &
        bench=$!
        until [ -n "$(ls tmp)" ]; do kill -0 "$bench" || fail "it ended: $(cat err)"; done
        kill -"$signal" "$bench"
        expect $((128 + $(kill -l "$signal"))) wait "$bench"
        same "" "$(ls tmp)"
    done
}

test_its_reader_goes_and_it_cleans_up()
{
    unset ROTA_URL
    mkdir tmp
    TMPDIR=$PWD/tmp "$rota" bench --quick pair 2>err | head -1 >out
    same pair "$(cat out)"
    same "" "$(ls tmp)"
    # Gone before the first line.
    mkfifo to
    TMPDIR=$PWD/tmp "$rota" bench --quick pair >to 2>err &
    local bench=$!
    exec 7<to
    exec 7<&-
    expect 1 wait "$bench"
    grep -q 'cannot write the output: Broken pipe' err || fail "$(cat err)"
    same "" "$(ls tmp)"
}

run_cases "${@:2}"
