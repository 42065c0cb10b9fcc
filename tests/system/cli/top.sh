#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# rota top: one look without a terminal; on a terminal it is live, follows its size and leaves it as it was.
set -u
rota=$(realpath "$1") pty=$(realpath "$2")
here=$(cd "$(dirname "$0")" && pwd)
. "$here/lib.sh"
export TERM=xterm rota

# What runs on the terminal: top, between two looks at how the terminal is set.
# shellcheck disable=SC2016
cat_script='stty -g >before; "$rota" top -d 0.2; echo "code=$?"; stty -g >after; echo done'

same_terminal()
{
    same "$(cat before)" "$(cat after)"
    grep -q . before || fail "the terminal was not looked at"
}

test_one_look_without_a_terminal()
{
    hold nightly
    expect 0 "$rota" top >out </dev/null
    same 2 "$(wc -l <out)"
    grep -Eq '^NAME +HOLD +WAIT' out || fail "$(cat out)"
    grep -Eq '^nightly +1 +0 +- ' out || fail "$(cat out)"
    grep -q $'\033' out && fail "colours without a terminal"
    let_go
    expect 0 "$rota" top -1 >out
    same 1 "$(wc -l <out)"
}

test_those_that_wait_come_first()
{
    hold b
    "$rota" run a -- sh -c 'echo >up2; read -r _ <down2' &
    mkfifo up2 down2 2>/dev/null
    wait_for() { until "$rota" show "$1" | grep -q "$2"; do :; done; }
    wait_for a holds
    "$rota" run b -- true &
    local waiter=$!
    wait_for b waits
    expect 0 "$rota" top -1 >out
    same "b a" "$(sed 1d out | awk '{print $1}' | xargs)"
    grep -Eq '^b +1 +1 ' out || fail "$(cat out)"
    let_go
    expect 0 wait "$waiter"
    kill %2 2>/dev/null
}

test_live_it_shows_a_held_lock_and_q_leaves_all_as_it_was()
{
    hold nightly
    "$pty" sh -c "$cat_script" <<'END' || fail "see above"
expect NAME
expect nightly
send q
expect [?1049l
expect code=0
expect done
end
END
    same_terminal
    let_go
}

test_it_follows_what_happens()
{
    hold first
    # shellcheck disable=SC2016
    local hold_second='"$rota" run -w 30 second -- sh -c "echo >up2; read -r _ <down2" & echo $! >second.pid; read -r _ <up2'
    mkfifo up2 down2
    "$pty" sh -c "$cat_script" <<END || fail "see above"
expect first
run $hold_second
expect second
run echo >down2
send q
expect code=0
expect done
end
END
    same_terminal
    let_go
}

test_ctrl_c_leaves_all_as_it_was()
{
    "$pty" sh -c "trap : INT; $cat_script" <<'END' || fail "see above"
expect NAME
send \003
expect [?1049l
expect code=130
expect done
end
END
    same_terminal
}

test_it_fits_the_window()
{
    local escape=$'\033'
    hold a_name_that_is_rather_long_for_a_small_window
    "$pty" sh -c "$cat_script" <<END || fail "see above"
expect WAITED
size 6 20
expect a_name_that_is_rathe${escape}[m
send q
expect code=0
expect done
end
END
    same_terminal
    let_go
}

test_wide_characters_take_two_columns()
{
    local escape=$'\033'
    hold 备份备份备份备份备份备份
    expect 0 "$rota" top -1 >out
    grep -Eq '^(备份){6} {4} +1 +0 ' out || fail "$(cat out)"
    expect 0 "$rota" ls >out
    same "备份备份备份备份备份备份  1        0" "$(sed -n 2p out | grep -o '^备.*  1  *0')"
    same 26 "$(head -1 out | sed 's/HOLDERS.*//' | tr -d '\n' | wc -c)"
    "$pty" sh -c "$cat_script" <<END || fail "see above"
expect WAITED
size 6 9
expect ${escape}[?7l
expect 备份备份${escape}[m${escape}[K
expect ${escape}[?7h
send q
expect code=0
expect done
end
END
    same_terminal
    let_go
}

test_json()
{
    local row
    expect 0 "$rota" top -1 --json >out
    same "engine error holders waiters grants_per_second lines" "$(json 'list(d)' <out)"
    hold nightly
    mkfifo rows
    "$rota" top -d 0.2 --json >rows &
    local top=$!
    exec 5<rows
    for row in first second; do
        read -r -t 30 row <&5 || fail "no row"
    done
    same "1 0 nightly 1" "$(json '[d["holders"], d["waiters"], d["lines"][0]["name"], d["lines"][0]["holders"]]' <<<"$row")"
    same "float" "$(json 'type(d["grants_per_second"]).__name__' <<<"$row")" # of the second look on
    same "name holders waiters grants_per_second held_ms waited_ms holder" "$(json 'list(d["lines"][0])' <<<"$row")"
    exec 5<&- # nobody reads it any more
    expect 0 wait $top
    let_go
}

test_wrong_usage()
{
    refused 64 "-d 'soon'" "$rota" top -d soon
    refused 64 "-d '0'" "$rota" top -d 0
    refused 64 "takes no operand" "$rota" top x
    refused 64 "mem:" "$rota" --on mem:x top
    expect 0 "$rota" top --help >out
    [ "$(wc -l <out)" -le 24 ] || fail "the help does not fit a screen"
}

run_cases "${@:3}"
