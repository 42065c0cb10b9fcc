#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# What somebody who has read only the README sees: its commands, typed into a tmux of 80 by 24.
#
#   newcomer.sh ROTA SOURCE [CASE]...
#
# With $ROTA_TEST_URL everything happens on that server, test_7 included.
#
# Each screen is printed under a heading, so that it is in the test log, and must show what is required.
# shellcheck disable=SC2016 # single quotes: as the README has it
# shellcheck disable=SC2317 # the cases are called by name
set -u
. "$(dirname "$0")/lib.sh"
rota=$(realpath "$1") source=$(realpath "$2")
shift 2
command -v tmux >/dev/null || { echo "newcomer: needs tmux: apt-get install tmux" >&2; exit 77; }

# A machine that stalls for a while must cost nobody its lock.
export ROTA_TEST_TTL=10s

shell='exec bash --noprofile --rcfile rc -i'
limit_s=30 # for what should come at once: only a hang takes this long, even with sanitizers on a busy machine

# ---- The terminal

t()
{
    tmux -L "rota-$$" -f /dev/null "$@"
}

# A server for the case, with the windows one and two, each with a shell. The prompt tells how many commands were typed
# and the exit code of the last one. As in the README, there is build/rota, and rota once it is installed.
open_terminal()
{
    mkdir build bin
    ln -s "$rota" build/rota
    ln -s "$rota" bin/rota
    export TMUX_TMPDIR=$PWD TERM=xterm-256color LC_ALL=C.UTF-8 PATH=$PWD/bin:$PATH SHELL=/bin/bash
    echo "PS1='\\#:\$? ready> '; unset HISTFILE PROMPT_COMMAND" >rc
    unset TMUX TMUX_PANE
    trap 't kill-server 2>/dev/null' EXIT
    t new-session -d -x 80 -y 24 -s s -n one "$shell" || fail "no tmux"
    t new-window -d -t s: -n two "$shell" || fail "no second window"
    sees one "" '^1:0 ready>$'
    sees two "" '^1:0 ready>$'
    same 80x24 "$(t display-message -p -t s:one '#{window_width}x#{window_height}')"
}

type_in() # WINDOW LINE
{
    t send-keys -t "s:$1" -l -- "$2" || fail "cannot type: $2"
    press "$1" Enter
}

press() # WINDOW KEY
{
    t send-keys -t "s:$1" "$2" || fail "cannot press $2"
}

# What is on the screen of WINDOW, with wrapped lines joined.
screen_of()
{
    t capture-pane -p -J -t "s:$1" | sed 's/ *$//'
}

shows_all() # SCREEN PATTERN...
{
    local pattern
    for pattern in "${@:2}"; do
        grep -Eq -- "$pattern" <<<"$1" || { missing=$pattern; return 1; }
    done
}

print_screen() # WINDOW HEADING
{
    printf -- '---- %s (window %s)\n' "$2" "$1"
    local shown
    shown=$(t capture-pane -p -t "s:$1") # without the empty lines at the end
    printf '    | %s\n' "${shown//$'\n'/$'\n    | '}"
}

# Until the screen of WINDOW shows every PATTERN; then it is printed, unless the heading is empty.
sees() # WINDOW HEADING PATTERN...
{
    local window=$1 heading=$2 missing='' end=$((SECONDS + limit_s))
    shift 2
    until shows_all "$(screen_of "$window")" "$@"; do
        if [ "$SECONDS" -ge "$end" ]; then
            print_screen "$window" "FAILED: $heading"
            fail "no '$missing' on the screen"
        fi
        sleep 0.05 # between two looks
    done
    [ -z "$heading" ] || print_screen "$window" "$heading"
}

# ---- The README

# A command as the README writes it, word for word; the test fails when the README no longer says that.
readme() # COMMAND [WORD REPLACEMENT]...
{
    local command=$1
    grep -qF -- "$command" "$source/README.md" || fail "the README does not say: $command"
    shift
    while [ $# -gt 0 ]; do
        command=${command//"$1"/"$2"}
        shift 2
    done
    printf '%s' "$command"
}

# Types what the README has. (The exit is that of readme, which cannot end the case from inside $().)
follow() # WINDOW COMMAND [WORD REPLACEMENT]...
{
    local line
    line=$(readme "${@:2}") || exit 1
    type_in "$1" "$line"
}

# Somebody in window one holds backup, and says so once it has the lock.
hold_backup() # COMMAND
{
    follow one 'rota run NAME -- CMD' NAME backup CMD "$1"
    sees one "" '^it runs$'
}

long_job='sh -c "echo it runs; exec sleep 600"'

# ---- The cases

test_1_the_first_lock()
{
    open_terminal
    follow one 'build/rota run nightly -- date'
    sees one "the first lock" '^.* [0-9]{2}:[0-9]{2}:[0-9]{2} .*$' '^2:0 ready>$'
}

test_2_a_busy_lock_and_why()
{
    open_terminal
    hold_backup "$long_job"
    print_screen one "a lock is held"
    follow two 'rota run -n backup -- rsync -a /a /b'
    sees two "a busy lock: -n is as silent as flock -n" '^2:75 ready>$'
    same 2 "$(screen_of two | grep -c .)"
    type_in two 'rota run -n --verbose backup -- true'
    sees two "a busy lock, with --verbose" \
        "^rota: not granted: 'backup', held by .*/sh for [0-9]+ s; others waiting: 0$" '^3:75 ready>$'
    follow two 'rota why backup'
    sees two "why" "^'backup' is held by .*/sh \(process [0-9]+ on " 'exclusive, fence [0-9]+$' '^4:0 ready>$'
    press one C-c
    sees one "Ctrl-C ends the command that ran" '\^C' '^(\^C)?2:130 ready>$'
    follow two 'rota why backup'
    sees two "why, of a free lock" "^'backup' is free$" '^5:0 ready>$'
}

test_3_ctrl_c_while_it_waits()
{
    open_terminal
    hold_backup "$long_job"
    follow two 'rota run NAME -- CMD' NAME backup CMD 'echo must not run'
    sees two "it waits, and says for whom" "^rota: waiting for 'backup', held by .*/sh for [0-9]+ s; others waiting: 0$"
    press two C-c
    sees two "Ctrl-C ends the wait" '\^C' '^(\^C)?2:130 ready>$'
    ! screen_of two | grep -q '^must not run' || fail "the command ran"
    follow two 'rota why backup'
    sees two "why: nobody waits any more" "^'backup' is held by " '^3:0 ready>$'
    ! screen_of two | grep -q 'in line:' || fail "the waiter is still in line"
    press one C-c
    sees one "Ctrl-C ends the command that ran" '\^C' '^(\^C)?2:130 ready>$'
}

test_4_a_killed_holder()
{
    local holder command
    open_terminal
    # A dead one that nobody has reaped yet is gone too.
    printf '#!/bin/sh\n! grep "^State:.[^ZX]" "/proc/$1/status" 2>/dev/null && echo the old command has gone\n' >look
    chmod +x look
    hold_backup 'sh -c "echo \$\$ >pid; echo it runs; exec sleep 600"'
    command=$(cat pid)
    holder=$(sed -n 's/^PPid:\t//p' "/proc/$command/status")
    follow two 'rota run NAME -- CMD' NAME backup CMD "./look $command"
    sees two "a waiter" "waiting for 'backup', held by .*/$holder/sh"
    kill -9 "$holder" || fail "rota is not the parent of its command"
    sees one "rota was killed" '^Killed' '^2:137 ready>$'
    sees two "its command has gone, and the waiter has its turn" '^the old command has gone$' '^2:0 ready>$'
}

test_5_once_twice()
{
    open_terminal
    printf '#!/bin/sh\necho 2026-01-31\n' >bin/date # no midnight between the two
    printf '#!/bin/sh\necho the report\n' >report.sh
    chmod +x bin/date report.sh
    local once='rota once --for 48h "report-$(date +\%F)" -- /srv/report.sh'
    follow one "$once" '\%' % /srv/ ./
    sees one "once" '^the report$' '^2:0 ready>$'
    follow one "$once" '\%' % /srv/ ./
    sees one "once, the second time" "^rota: 'report-2026-01-31' was done by somebody before$" '^3:0 ready>$'
    same 1 "$(screen_of one | grep -c '^the report$')"
}

test_6_top()
{
    open_terminal
    hold_backup "$long_job"
    type_in two 'echo here before'
    sees two "" '^here before$' '^2:0 ready>$'
    follow two 'rota top'
    sees two "top" '^NAME +HOLD +WAIT' '^backup +1 +0 '
    ! screen_of two | grep -q '^here before$' || fail "top is not on a screen of its own"
    same 1 "$(t display-message -p -t s:two '#{alternate_on}')"
    press two q
    sees two "after q, all is as it was" '^here before$' 'ready> rota top$' '^3:0 ready>$'
    ! screen_of two | grep -q '^NAME' || fail "top left something on the screen"
    same 0/1 "$(t display-message -p -t s:two '#{alternate_on}/#{cursor_flag}')"
    press one C-c
    sees one "" '\^C' '^(\^C)?2:130 ready>$'
}

# Two shells on a server, found by a URL and by a name of one's own.
test_7_between_machines()
{
    [ -n "${ROTA_TEST_URL-}" ] || return 0
    unset ROTA_URL
    printf '#!/bin/sh\necho it runs; exec sleep 600\n' >job.sh
    chmod +x job.sh
    open_terminal
    follow one 'rota --on redis://localhost run nightly -- ./job.sh' redis://localhost "$ROTA_TEST_URL"
    sees one "a lock on a server" '^it runs$'
    follow two 'mkdir -p ~/.config/rota'
    sees two "" '^2:0 ready>$'
    type_in two "echo 'prod = $ROTA_TEST_URL' >>~/.config/rota/config"
    sees two "" '^3:0 ready>$'
    follow two 'rota --on prod ls'
    sees two "seen from another machine, by a name" '^nightly +1 +0 .*/job.sh$' '^4:0 ready>$'
    type_in two 'rota --on prod run -n --verbose nightly -- true'
    sees two "busy" "^rota: not granted: 'nightly', held by .*/job.sh for" '^5:75 ready>$'
    follow two 'rota --on redis://localhost doctor' redis://localhost prod
    sees two "the doctor" '^(kept|limited) +one holder at a time' '^6:0 ready>$'
    press one C-c
    sees one "" '\^C' '^(\^C)?2:130 ready>$'
}

run_cases "$@"
