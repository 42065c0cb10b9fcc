#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# flock(1) and rota run side by side: each row of docs/flock.md is a case here, of the same name.
#
#   flock.sh ROTA DOCS_FLOCK_MD [CASE]...
#
# Every script runs twice, each time in an empty folder: with L='flock' and with L='rota run'. What
# it prints and its exit code are compared.
# shellcheck disable=SC2016 # single quotes: for the inner shell
# shellcheck disable=SC2317 # the cases are called by name
set -u
. "$(dirname "$0")/lib.sh"
rota=$(realpath "$1") table=$(realpath "$2")
shift 2

# Somebody who holds a until they read from down; $holder is the pid.
holder='mkfifo up down; $L $O a sh -c "echo >up; read -r _ <down" & holder=$!; read -r _ <up; '

# And not just a zombie that nobody has reaped yet.
alive() # PID
{
    grep -q '^State:.[^ZX]' "/proc/$1/status" 2>/dev/null
}
export -f alive

outcome() # L SCRIPT: what it prints, and its exit code
{
    local room code=0
    room=$(mktemp -d -p "$PWD")
    (
        cd "$room" || exit 1
        export L=$1 O='' ROTA_URL="file:$room/rota"
        exec timeout 60 bash -c "$2" 2>err
    ) || code=$?
    echo "exit $code"
}

alike() # SCRIPT
{
    local flock ours
    flock=$(outcome flock "$1")
    ours=$(outcome "$rota run" "$1")
    [ "$flock" = "$ours" ] || fail "$1
    flock: $flock
    rota:  $ours"
}

gives() # OUTPUT SCRIPT: both this
{
    alike "$2"
    same "$1" "$(outcome flock "$2")"
}

unlike() # FLOCK_OUTPUT ROTA_OUTPUT SCRIPT
{
    same "$1" "$(outcome flock "$3")"
    same "$2" "$(outcome "$rota run" "$3")"
}

# ---- Alike

test_runs_the_command()
{
    gives $'a b c\nexit 0' '$L -x a echo "a b c"'
    gives '-n|x y|--|exit 0' '$L a printf "%s|" -n "x y" --'
}

test_exit_code_of_the_command()
{
    gives 'exit 0' '$L a true'
    gives 'exit 3' '$L a sh -c "exit 3"'
    gives 'exit 255' '$L a sh -c "exit 255"'
}

test_command_ended_by_a_signal()
{
    gives 'exit 137' '$L a sh -c "kill -9 \$\$"; exit $?'
    gives 'exit 143' '$L a sh -c "kill -15 \$\$"; exit $?'
}

test_stdin_stdout_stderr()
{
    gives $'in\nexit 0' 'echo in | $L a cat'
    gives $'err\nexit 0' '$L a sh -c "echo err >&2" 2>&1'
    alike 'head -c 300000 /dev/zero | $L a cat | cksum'
}

test_environment_folder_and_descriptors()
{
    gives $'there\nexit 0' 'mkdir d; cd d; touch here; X=there $L ../a sh -c "[ -e here ] && echo \$X"'
    gives $'through\nexit 0' 'exec 9>out; $L a sh -c "echo through >&9"; cat out'
}

test_ignored_signals()
{
    gives $'alive\nexit 0' 'trap "" HUP; $L a sh -c "kill -HUP \$\$; echo alive"'
}

test_holds_while_it_runs()
{
    gives 'exit 9' '$L a $L -n -E 9 a true'
    gives 'exit 0' '$L a $L -n -E 9 b true'
    gives 'exit 0' '$L a true && $L -n -E 9 a true'
}

test_waits()
{
    gives $'first\nsecond\nexit 0' \
        'mkfifo up down; $L a sh -c "echo >up; read -r _ <down; echo first" & read -r _ <up
        $L a echo second & echo >down; wait'
}

test_n()
{
    local option
    for option in -n --nb --nonblock; do
        gives $'9\nexit 0' "$holder \$L $option -E 9 a true; echo \$?; echo >down; wait"
    done
}

test_w()
{
    local option
    for option in '-w .007' '-w 0.01' '--wait 0.01' '--timeout 0.01' '-w 0'; do
        gives $'9\nexit 0' "$holder \$L $option -E 9 a true; echo \$?; echo >down; wait"
    done
    gives $'ran\nexit 0' "$holder \$L -w 50 a echo ran & waiter=\$!; echo >down; wait \$waiter"
    gives 'exit 64' '$L -w soon a true'
}

test_E()
{
    gives $'0\nexit 0' "$holder \$L -n --conflict-exit-code 0 a false; echo \$?; echo >down; wait"
    gives $'255\nexit 0' "$holder \$L -n -E 255 a true; echo \$?; echo >down; wait"
    gives 'exit 5' '$L -E 9 a sh -c "exit 5"'
    gives 'exit 64' '$L -E 256 a true'
    gives 'exit 64' '$L -E x a true'
}

test_s()
{
    local option
    for option in -s --shared; do
        gives $'0\nexit 0' "O=$option; $holder \$L -n -E 9 $option a true; echo \$?; echo >down; wait"
    done
    gives $'9\nexit 0' "O=-s; $holder \$L -n -E 9 a true; echo \$?; echo >down; wait"
    gives $'9\nexit 0' "$holder \$L -n -E 9 -s a true; echo \$?; echo >down; wait"
}

test_x()
{
    local option
    for option in -x -e --exclusive '-s -x' '-s -e'; do
        gives $'9\nexit 0' "O=-s; $holder \$L -n -E 9 $option a true; echo \$?; echo >down; wait"
    done
    gives $'0\nexit 0' "O=-s; $holder \$L -n -E 9 -x -s a true; echo \$?; echo >down; wait"
}

test_c()
{
    gives $'a b\nexit 3' '$L a -c "echo a  b; exit 3"'
    gives $'ok\nexit 0' '$L a --command "true && echo ok"'
    gives $'/bin/sh\nexit 0' 'unset SHELL; $L a -c "echo \$0"'
    gives $'/bin/bash\nexit 0' 'SHELL=/bin/bash; export SHELL; $L a -c "echo \$0"'
    gives 'exit 64' '$L a -c'
    gives 'exit 64' '$L a -c true x'
}

test_o()
{
    gives $'0\nexit 0' '$L -o a sh -c "sleep 1000 >/dev/null 2>&1 & echo \$! >pid"
        $L -n -E 9 a true; echo $?; kill $(cat pid)'
    gives 'exit 3' '$L --close a sh -c "exit 3"'
}

test_usage()
{
    gives 'exit 64' '$L'
    gives 'exit 64' '$L -n'
    gives 'exit 64' '$L a'
    gives 'exit 64' '$L --nonsense a true'
    gives 'exit 0' '$L --help >/dev/null'
    gives 'exit 0' '$L -h >/dev/null'
}

test_killed_command_frees_it()
{
    gives $'137 0\nexit 0' 'mkfifo up; $L a sh -c "echo \$\$ >up; exec sleep 1000" & read -r pid <up
        kill -9 $pid; wait $!; echo $? $($L -w 50 -E 9 a true; echo $?)'
}

test_script_that_locks_itself()
{
    gives $'once\n9\nexit 0' 'cat >self <<END
[ "\${LOCKER-}" != "\$0" ] && exec env LOCKER="\$0" $L -en -E 9 "\$0" bash "\$0" "\$@"
[ -n "\${1-}" ] && exit; echo once; LOCKER= bash "\$0" again; echo \$?
END
        bash ./self'
}

# ---- Unlike, and meant to be

test_busy_is_75()
{
    unlike $'1\nexit 0' $'75\nexit 0' "$holder \$L -n a true; echo \$?; echo >down; wait"
}

test_command_that_cannot_run()
{
    unlike 'exit 69' 'exit 127' '$L a no-such-command'
    unlike 'exit 69' 'exit 126' 'touch plain; $L a ./plain'
}

test_name_is_no_file()
{
    unlike $'there\nexit 0' 'exit 1' '$L a true; [ -e a ] && echo there'
    unlike 'exit 66' 'exit 0' '$L no/such/folder true'
}

# Another user is one with another home; --system (in commands.sh) is one folder for all.
test_users()
{
    local script="unset ROTA_URL XDG_STATE_HOME; mkdir one two; export HOME=\$PWD/one; $holder HOME=\$PWD/two \$L -n -E 9 a true; echo \$?
        HOME=\$PWD/one \$L -n -E 9 a true; echo \$?; echo >down; wait"
    unlike $'9\n9\nexit 0' $'0\n9\nexit 0' "$script"
}

test_file_removed_meanwhile()
{
    unlike $'0\nexit 0' $'9\nexit 0' "$holder rm -f a; \$L -n -E 9 a true; echo \$?; echo >down; wait"
}

test_descriptor_form()
{
    unlike 'exit 0' 'exit 64' 'exec 9>a; $L 9'
}

test_u()
{
    unlike 'exit 0' 'exit 64' 'exec 9>a; $L 9; $L -u 9'
    unlike 'exit 0' 'exit 64' '$L --unlock a true'
}

test_F()
{
    unlike 'exit 3' 'exit 64' '$L -F a sh -c "exit 3"'
}

test_verbose()
{
    unlike $'took\nexit 0' $'granted\nexit 0' '$L --verbose a true 2>&1 | grep -oE "took|granted"'
    unlike $'failed to get\nexit 0' $'held by\nexit 0' \
        "$holder \$L --verbose -n a true 2>&1 | grep -oE 'failed to get|held by'; echo >down; wait"
}

test_times_with_units()
{
    unlike 'exit 64' 'exit 0' '$L -w 5m a true'
}

test_background_processes()
{
    unlike $'9\nexit 0' $'0\nexit 0' '$L a sh -c "sleep 1000 >/dev/null 2>&1 & echo \$! >pid"
        $L -n -E 9 a true; echo $?; kill $(cat pid)'
}

test_process_group()
{
    unlike $'same\nexit 0' $'own\nexit 0' \
        'cat >group <<END
[ \$(cut -d" " -f5 /proc/\$\$/stat) = \$(cut -d" " -f5 /proc/\$PPID/stat) ] && echo same || echo own
END
        $L a sh ./group'
}

test_sigterm()
{
    # The command under flock goes on, and is let go by hand; the one under rota ends with 7.
    unlike $'143 running\nexit 0' $'7 gone\nexit 0' 'mkfifo up down
        $L a sh -c "trap \"exit 7\" TERM; echo \$\$ >up; while ! read -r _; do :; done <down" <>down &
        read -r pid <up; kill -TERM $!; wait $!; code=$?
        alive $pid && echo $code running || echo $code gone; kill -9 $pid 2>/dev/null; true'
}

test_killed()
{
    # flock's command has the lock until it ends; rota's is ended first.
    unlike $'9 running\nexit 0' $'0 gone\nexit 0' 'mkfifo up
        $L a sh -c "echo \$\$ >up; exec sleep 1000" >/dev/null & read -r pid <up; kill -9 $!; wait $!
        if [ "$L" = flock ]; then $L -n -E 9 a true; else $L -w 50 a true; fi; code=$?
        alive $pid && echo $code running || echo $code gone; kill -9 $pid 2>/dev/null; true'
}

test_descriptors_left_open()
{
    unlike $'a\nexit 0' 'exit 0' '$L a sh -c "readlink /proc/\$\$/fd/*" | grep -oE "(^|/)(a|rota(/.*)?)\$" |
        tr -d /'
}

test_environment_is_added_to()
{
    unlike $'none\nexit 0' $'a\nexit 0' '$L a sh -c "echo \${ROTA_NAME-none}"'
}

test_version()
{
    unlike 'exit 0' 'exit 64' '$L -V >/dev/null'
}

# ---- The table

test_the_table_is_complete()
{
    local here there
    here=$(declare -F | sed -n 's/^declare -f test_//p' | grep -v '^the_table_is_complete$' | sort)
    there=$(sed -n 's/^| `\([A-Za-z0-9_]*\)` |.*/\1/p' "$table" | sort)
    diff <(echo "$there") <(echo "$here") || fail "rows of $table (<) and cases (>) differ"
}

run_cases "$@"
