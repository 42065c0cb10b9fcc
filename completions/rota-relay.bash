# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# Bash completion for rota-relay(1), 'rota relay' and 'rota demo outbox': options are read from its own --help, so that they cannot fall behind.

_rota_relay()
{
    local cur prev line word cut=
    local -a words program offered=()
    COMPREPLY=()
    read -r -a words <<<"${COMP_LINE:0:COMP_POINT}"
    [[ ${COMP_LINE:0:COMP_POINT} == *[[:space:]] ]] && words+=("")
    cur=${words[-1]} prev=${words[-2]-}
    program=("${words[0]/#\~/$HOME}")
    [[ ${words[1]-} == relay && ${words[0]##*/} == rota ]] && program+=(relay)
    [[ ${words[${#program[@]}]-} == consume ]] && (( ${#words[@]} > ${#program[@]} + 1 )) && program+=(consume)
    [[ ${words[1]-} == demo && ${words[0]##*/} == rota ]] && program+=(demo outbox)
    case $prev in
    --from | --to | --inbox)
        if [[ $prev == --to || ( $prev == --from && ${program[-1]} == consume ) ]]; then
            offered=(amqp:// amqps:// nats:// natss:// redis:// rediss:// redis+unix:)
        else
            offered=(postgres:// mysql:// mariadb:// sqlite:)
        fi
        ;;
    --report) offered=(db: topic: http:// https://) ;;
    --on-dead) offered=(block skip) ;;
    --until) offered=(published processed) ;;
    --map | --metrics | --token-file | --tls-cert | --tls-key) mapfile -t offered < <(compgen -f -- "$cur") ;;
    *)
        (( ${#words[@]} == ${#program[@]} + 1 )) && [[ ${program[-1]} != consume ]] && offered+=(consume)
        while IFS= read -r line; do
            [[ $line =~ ^\ +(-.*)$ ]] || continue
            for word in ${BASH_REMATCH[1]%%  *}; do
                [[ $word == -* ]] && offered+=("${word%,}")
            done
        done < <("${program[@]}" --help 2>/dev/null </dev/null)
        ;;
    esac
    [[ $COMP_WORDBREAKS == *:* && $cur == *:* ]] && cut=${cur%"${cur##*:}"}
    for word in "${offered[@]}"; do
        [[ $word == "$cur"* ]] && COMPREPLY+=("${word#"$cut"}")
    done
    return 0
}

complete -F _rota_relay rota-relay
