# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# Bash completion for rota(1): commands, options, engines, and the names of locks. Commands and options are
# read from rota's own --help, so that they cannot fall behind.

# Sets opts (all options) and valued (those that take a value), each word between spaces. A line of the help
# is "  -w, --wait SECONDS   what it does" or "  --take K --of N  what it does".
_rota_options() # ROTA COMMAND
{
    local line word names
    opts=" -h --help --on --system " valued=" --on " # every command has these
    while IFS= read -r line; do
        [[ $line =~ ^\ +(-.*)$ ]] || continue
        names=
        for word in ${BASH_REMATCH[1]%%  *}; do
            if [[ $word == -* ]]; then
                word=${word%,}
                names+="$word "
                [[ $opts == *" $word "* ]] || opts+="$word "
            else
                valued+=$names names=
            fi
        done
    done < <("$@" --help 2>/dev/null </dev/null)
}

# The words that a help lists with two spaces on each side: commands, or what a command can do.
_rota_words() # ROTA [COMMAND]
{
    "$@" --help 2>/dev/null </dev/null | sed -n 's/^  \([a-z][a-z-]*\)  \{1,\}[a-z0-9].*/\1/p'
}

# One name a line, of the engine chosen on the command line. An engine that does not answer within a second gets no say.
_rota_names() # ROTA...
{
    # A name with a quote or a backslash in it is left to the user.
    timeout "${_rota_limit:-1}" "$@" ls --json 2>/dev/null </dev/null | sed -n 's/^ *"name": "\([^"\\]*\)",*$/\1/p'
}

_rota_engines()
{
    printf '%s\n' file: redis:// rediss:// redis+unix: redlock:// redlocks:// etcd:// etcds:// postgres:// mysql:// mariadb:// \
        zk:// zks://
    sed -n 's/^[[:space:]]*\([^#=[:space:]][^=[:space:]]*\)[[:space:]]*=.*/\1/p' \
        "${XDG_CONFIG_HOME:-$HOME/.config}/rota/config" /etc/rota/config 2>/dev/null
}

# The dialects that the engine of a URL has, behind what was typed up to "dialect=".
_rota_dialects() # URL...dialect=
{
    local all=
    case $1 in
    redis*) all="token redisson redisson-fair redisson-rw getset setnx" ;;
    postgres*) all="row version shedlock advisory forupdate table" ;;
    mysql:* | mariadb:*) all="row version shedlock getlock forupdate table" ;;
    zk*) all="curator-rw curator-latch kazoo simple" ;;
    esac
    for all in $all; do printf '%s%s\n' "$1" "$all"; done
}

# Puts those candidates of stdin (one a line) into COMPREPLY that go on from $cur, quoted for the shell.
_rota_reply()
{
    local word plain=${cur//\\/} cut=
    # Readline counts what stands before a colon or an equals sign as a word of its own.
    [[ $COMP_WORDBREAKS == *:* && $plain == *:* ]] && cut=${plain%"${plain##*:}"}
    [[ $COMP_WORDBREAKS == *=* && $plain == *[?\&]dialect=* ]] && cut=${plain%"${plain##*=}"}
    while IFS= read -r word; do
        [[ $word == "$plain"* ]] || continue
        printf -v word %q "${word#"$cut"}"
        COMPREPLY+=("$word")
    done
}

_rota()
{
    local cur prev i=1 name=0 command=
    local -a words rota
    local opts valued
    COMPREPLY=()

    # By white space: COMP_WORDS is cut at colons too, and names have them.
    read -r -a words <<<"${COMP_LINE:0:COMP_POINT}"
    [[ ${COMP_LINE:0:COMP_POINT} == *[[:space:]] ]] && words+=("")
    cur=${words[-1]} prev=${words[-2]-}
    local last=$((${#words[@]} - 1))
    rota=("${words[0]/#\~/$HOME}")

    # Options of rota itself, then the command.
    while ((i < last)); do
        case ${words[i]} in
        --on) rota+=(--on "${words[i + 1]-}"); ((i += 2)) ;;
        --on=* | --system) rota+=("${words[i]}"); ((i += 1)) ;;
        --ttl) ((i += 2)) ;;
        -*) ((i += 1)) ;;
        *) command=${words[i]}; ((i += 1)); break ;;
        esac
    done
    if [[ -z $command ]]; then
        case $prev/$cur in
        --on/*[?\&]dialect=*) _rota_reply < <(_rota_dialects "${cur%"${cur##*=}"}") ;;
        --on/*) _rota_reply < <(_rota_engines) ;;
        */-*) _rota_reply <<<$'--on\n--system\n--help\n--version' ;;
        *) _rota_reply < <(_rota_words "${rota[0]}") ;;
        esac
        return 0
    fi

    # Transactions have a completion of their own, which is installed beside this one.
    if [[ $command == txn ]] || { [[ $command == demo && ${words[i]} =~ ^(bank|order)$ ]] && ((i < last)); }; then
        declare -F _rota_txn >/dev/null || . "${BASH_SOURCE[0]%/*}/rota-txn" 2>/dev/null ||
            . "${BASH_SOURCE[0]%/*}/rota-txn.bash" 2>/dev/null
        if declare -F _rota_txn >/dev/null; then _rota_txn; fi
        return 0
    fi
    if [[ $command == relay ]] || { [[ $command == demo && ${words[i]} == outbox ]] && ((i < last)); }; then
        declare -F _rota_relay >/dev/null || . "${BASH_SOURCE[0]%/*}/rota-relay" 2>/dev/null ||
            . "${BASH_SOURCE[0]%/*}/rota-relay.bash" 2>/dev/null
        if declare -F _rota_relay >/dev/null; then _rota_relay; fi
        return 0
    fi
    _rota_options "${rota[0]}" "$command"
    while ((i < last)); do
        case ${words[i]} in
        --) break ;;
        --on) ((i + 1 < last)) && rota+=(--on "${words[i + 1]}"); ((i += 2)) ;;
        --on=* | --system) rota+=("${words[i]}"); ((i += 1)) ;;
        --*=*) ((i += 1)) ;;
        -*) [[ $valued == *" ${words[i]} "* ]] && ((i += 1)); ((i += 1)) ;;
        *) name=1; ((i += 1)); break ;;
        esac
    done

    if ((name)); then
        case $command in
        run | once | elect) ;;
        guard) [[ $cur == -* ]] || compopt -o default 2>/dev/null ;;& # the path
        demo) [[ $cur == -* ]] || _rota_reply < <("${rota[0]}" demo traps --list 2>/dev/null | sed 's/ .*//') ;;&
        bench) [[ $cur == -* ]] || _rota_reply < <(_rota_words "${rota[0]}" bench) ;;&
        *) [[ $cur == -* ]] && _rota_reply < <(tr ' ' '\n' <<<"$opts"); return 0 ;;
        esac
        # What follows the name is another command's business.
        [[ ${words[i]-} == -- ]] && ((i < last)) && ((i += 1))
        if [[ $cur == -* && ${words[last - 1]} != -- ]] && ((i == last)); then
            COMPREPLY=(--)
        elif declare -F _command_offset >/dev/null && [[ ${words[i - 1]} == -- ]]; then
            for ((i = 1; i < COMP_CWORD; i++)); do
                [[ ${COMP_WORDS[i]} == -- ]] && break
            done
            _command_offset $((i + 1))
        elif ((i == last)); then
            mapfile -t COMPREPLY < <(compgen -c -- "$cur")
        else
            mapfile -t COMPREPLY < <(compgen -f -- "$cur")
        fi
        return 0
    fi
    if ((i > last)) || [[ $valued == *" $prev "* ]]; then
        case $prev in
        --on)
            case $cur in
            *[?\&]dialect=*) _rota_reply < <(_rota_dialects "${cur%"${cur##*=}"}") ;;
            *) _rota_reply < <(_rota_engines) ;;
            esac
            ;;
        --on-lost) _rota_reply <<<$'term\nkill\nignore' ;;
        --svg | --metrics) compopt -o default 2>/dev/null ;;
        esac
        return 0
    fi
    case $command/$cur in
    bench/[^-]* | bench/ | guard/[^-]* | guard/) _rota_reply < <(_rota_words "${rota[0]}" "$command") ;;
    demo/[^-]* | demo/) _rota_reply <<<$'traps\nbank\norder\noutbox' ;;
    help/*) _rota_reply < <(_rota_words "${rota[0]}") ;;
    */-*) _rota_reply < <(tr ' ' '\n' <<<"$opts" | sed '/^$/d') ;;
    run/* | once/* | elect/* | show/* | why/* | watch/* | break/* | ls/*) _rota_reply < <(_rota_names "${rota[@]}") ;;
    esac
    return 0
}

complete -F _rota rota
