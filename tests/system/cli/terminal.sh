#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Tests of rota run on a terminal, under a shell with job control, as if somebody sat there.
#
#   terminal.sh ROTA BREAK_LOCK PTY [CASE]...
# shellcheck disable=SC2016 # single quotes: for the inner shell
# shellcheck disable=SC2317 # the cases are called by name
# shellcheck disable=SC2154 # holder: of lib.sh
set -u
. "$(dirname "$0")/lib.sh"
rota=$(realpath "$1") break_lock=$(realpath "$2") pty=$(realpath "$3")
export rota break_lock pty
shift 3

test_ctrl_c_reaches_the_command_once()
{
    play <<'END'
send $rota run a -- $pty --interrupts\r
expect counting
send \003
expect told
send \r
expect interrupts=1
expect ready:
send echo code=$?\r
expect code=0
END
}

# With its output elsewhere, the command does not get the terminal, and rota passes the signal on.
test_ctrl_c_with_redirected_output()
{
    mkfifo out
    play <<'END'
send cat out & $rota run a -- $pty --interrupts >out\r
expect counting
send \003
expect told
send \r
expect interrupts=1
END
}

test_ctrl_c_ends_the_command()
{
    play <<'END'
send $rota run a -- sh -c 'echo up; exec cat'\r
expect up
send \003
expect ready:
send echo code=$?\r
expect code=130
send $rota run -n a true; echo code=$?\r
expect code=0
END
}

# As with any program: a shell ends its loop when the program died of Ctrl-C.
test_ctrl_c_ends_a_loop()
{
    play <<'END'
send for i in 1 2 3; do $rota run a -- sh -c 'echo turn; exec sleep 600'; done\r
expect turn
send \003
expect ready:
send echo code=$? turns=$i\r
expect code=130 turns=1
END
}

test_ctrl_c_while_waiting()
{
    hold a
    play <<'END'
send $rota run a true\r
expect waiting for 'a', held by
send \003
expect ready:
send echo code=$?\r
expect code=130
END
    let_go
}

test_ctrl_z_and_fg()
{
    play <<'END'
send $rota run a -- sh -c 'echo up; exec cat'\r
expect up
send \032
expect Stopped
expect ready:
send $rota run -n a true; echo code=$?\r
expect code=75
expect ready:
send fg\r
expect run a
send typed\r
expect typed
send \032
expect Stopped
expect ready:
send fg\r
send again\r
expect again
send \004
expect ready:
send echo code=$?\r
expect code=0
END
}

test_ctrl_z_and_bg()
{
    mkfifo down
    play <<'END'
send $rota run a -- sh -c 'echo up; read -r _ <down; echo through'\r
expect up
send \032
expect Stopped
expect ready:
send bg; echo >down\r
expect through
expect Done
END
}

test_ctrl_z_while_waiting()
{
    hold a
    play <<'END'
send $rota run a -- echo granted\r
expect waiting for 'a', held by
send \032
expect Stopped
expect ready:
run echo >down
send fg\r
expect granted
END
    expect 0 wait "$holder"
}

test_background_job_that_reads()
{
    play <<'END'
send $rota run a -- sh -c 'echo up; exec cat' &\r
expect up
expect Stopped
send fg\r
expect run a
send typed\r
expect typed
send \004
expect ready:
send echo code=$?\r
expect code=0
END
}

test_lost_while_stopped()
{
    play <<'END'
send $rota run a -- sh -c 'trap "" TERM; echo up; exec cat'\r
expect up
send \032
expect Stopped
expect ready:
send $break_lock a; fg\r
expect is lost
expect ready:
send echo code=$?\r
expect code=76
END
}

test_killed_while_stopped()
{
    play <<'END'
send $rota run a -- sh -c 'echo up; exec cat'\r
expect up
send \032
expect Stopped
expect ready:
send kill -9 %1; $rota run -w 30 a echo free\r
expect free
END
}

# Until the command has gone, as the lock tells, it may read what is typed.
test_killed_in_the_foreground()
{
    play <<'END'
send $rota run a -- sh -c 'echo $PPID >pid; echo up; exec cat'\r
expect up
run read -r pid <pid && kill -9 $pid
run $rota run -w 30 a true
expect ready:
send $rota run -w 30 a stty size\r
expect 24 80
END
}

test_window_size()
{
    play <<'END'
send $rota run a -- $pty --window\r
expect looking
size 33 101
expect window=33x101
END
}

test_window_size_with_redirected_output()
{
    mkfifo out
    play <<'END'
send cat out & $rota run a -- $pty --window >out\r
expect looking
size 34 102
expect window=34x102
END
}

test_a_shell_inside()
{
    play <<'END'
send $rota run a -- bash --norc --noprofile --noediting -i\r
expect bash
send cat\r
send typed\r
expect typed
send \032
expect Stopped
send fg\r
send again\r
expect again
send \004
send echo inner=$ROTA_NAME; exit 3\r
expect inner=a
expect ready:
send echo code=$?\r
expect code=3
END
}

# Nobody will ever say fg: the job's shell has gone.
test_orphan_that_reads()
{
    play <<'END'
send sh -c '$rota run a -- sh -c "echo u""p; exec cat" </dev/tty & exit 0'\r
expect up
send $rota run -w 30 a echo free\r
expect free
END
}

run_cases "$@"
