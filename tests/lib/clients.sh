# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=sh
# For tests: makes the clients of a server (psql, mariadb, redis-cli, etcdctl, and programs on their libraries) reach the one of a
# URL, as with-postgres and its like give it, without a word on their command lines. Sourced.

reach() # URL FOLDER: for files that clients read
{
    _host=${1#*://}
    _host=${_host#*@}
    _host=${_host%%[/?]*}
    case $1 in
    postgres:*)
        export PGHOST="${_host%:*}" PGPORT="${_host#*:}" PGUSER=postgres PGDATABASE=postgres
        ;;
    mysql:*)
        _database=${1%\?*}
        printf '[client]\nhost=%s\nport=%s\nuser=rota\npassword=%s\ndatabase=%s\n' "${_host%:*}" "${_host#*:}" \
            "$(cat "${1#*password_file=}")" "${_database##*/}" >"$2/.my.cnf"
        export HOME="$2"
        ;;
    redis:*)
        mkdir -p "$2/bin"
        printf '#!/bin/sh\nexec %s -h %s -p %s "$@"\n' "$(command -v redis-cli)" "${_host%:*}" "${_host#*:}" >"$2/bin/redis-cli"
        chmod +x "$2/bin/redis-cli"
        export PATH="$2/bin:$PATH" REDIS_HOST="${_host%:*}" REDIS_PORT="${_host#*:}"
        ;;
    etcd:*)
        export ETCDCTL_ENDPOINTS="http://$_host"
        ;;
    esac
}
