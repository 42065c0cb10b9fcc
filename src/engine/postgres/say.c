/* SPDX-License-Identifier: Apache-2.0 */
/* What PostgreSQL's errors mean. */
#include "engine/postgres/postgres.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#define STATE 5 /* characters of a SQLSTATE */

struct meaning {
    const char *begins;
    int what;
};

static const struct meaning *find(const struct meaning *list, const char *sqlstate)
{
    while (list->begins != NULL && strncmp(list->begins, sqlstate, strlen(list->begins)) != 0)
        list++;
    return list;
}

/* https://www.postgresql.org/docs/current/errcodes-appendix.html; the first that fits. */
enum rt_sql_end rt_postgres_meaning(const char *sqlstate)
{
    static const struct meaning meanings[] = {
        {"40", RT_SQL_AGAIN},     /* deadlock, serialisation */
        {"55P03", RT_SQL_AGAIN},  /* lock_timeout */
        {"57014", RT_SQL_AGAIN},  /* statement_timeout, or somebody canceled it */
        {"57P", RT_SQL_AGAIN},    /* shutting down, starting up */
        {"53300", RT_SQL_AGAIN},  /* too many connections */
        {"53", RT_SQL_FULL},      /* disk, memory */
        {"42P01", RT_SQL_ABSENT}, /* table */
        {"42703", RT_SQL_ABSENT}, /* column */
        {"42501", RT_SQL_DENIED},  {"28", RT_SQL_DENIED},
        {"25006", RT_SQL_REPLICA}, /* a read-only transaction: also on a standby */
        {NULL, RT_SQL_REFUSED},
    };
    return (enum rt_sql_end)find(meanings, sqlstate)->what;
}

void rt_postgres_one_line(char *out, size_t size, const char *text)
{
    text += strspn(text, " \t\r\n");
    size_t n = strcspn(text, "\r\n");
    while (n > 0 && isspace((unsigned char)text[n - 1]))
        n--;
    snprintf(out, size, "%.*s", (int)n, text);
    for (char *c = out; *c != '\0'; c++) /* if it is no server, it may have said anything */
        if (iscntrl((unsigned char)*c))
            *c = '?';
}

/* "SEVERITY:  SQLSTATE: text", as PQERRORS_VERBOSE has it: copies the state to STATE and returns what follows it. */
static const char *cut_state(const char *text, char *state)
{
    const char *end = text + strcspn(text, "\n");
    for (const char *at = strchr(text, ':'); at != NULL && at < end; at = strchr(at + 1, ':')) {
        const char *code = at + 1 + strspn(at + 1, " ");
        size_t n = strspn(code, "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ");
        if (n == STATE && code[STATE] == ':') {
            memcpy(state, code, STATE);
            state[STATE] = '\0';
            return code + STATE + 1;
        }
    }
    return text;
}

/* What libpq itself says, rather than a server. */
static int by_words(const char *text)
{
    static const struct meaning words[] = {
        {"received invalid response", ROTA_PROTOCOL},
        {"expected authentication request", ROTA_PROTOCOL},
        {"certificate", ROTA_AUTH},
        {"no password supplied", ROTA_AUTH},
        {"authentication", ROTA_AUTH},
        {"SCRAM", ROTA_AUTH},
        {"server does not support SSL", ROTA_AUTH},
        {"private key", ROTA_INVALID},
        {"SSL error", ROTA_PROTOCOL},
        {"unsupported", ROTA_PROTOCOL},
        {"protocol", ROTA_PROTOCOL},
        {"out of memory", ROTA_NOMEM},
        {NULL, ROTA_UNREACHABLE},
    };
    const struct meaning *m = words;
    while (m->begins != NULL && strstr(text, m->begins) == NULL)
        m++;
    return m->what;
}

/* libpq tries several ways (TLS, then plain) and lists them all: the last counts. */
static const char *last_try(const char *message)
{
    const char *last = message;
    for (const char *at = message; (at = strstr(at, " failed: ")) != NULL; last = at)
        at += strlen(" failed: ");
    return last;
}

int rt_postgres_refusal(const char *message, char *gist, size_t size)
{
    static const struct meaning states[] = {
        {"28", ROTA_AUTH},        {"42501", ROTA_AUTH}, /* no right to connect to this database */
        {"3D000", ROTA_INVALID},                        /* no such database */
        {"08P01", ROTA_PROTOCOL}, {"0A000", ROTA_PROTOCOL}, {NULL, ROTA_UNREACHABLE},
    };
    char state[STATE + 1] = "";
    const char *text = cut_state(last_try(message), state);

    rt_postgres_one_line(gist, size, text);
    return state[0] != '\0' ? find(states, state)->what : by_words(gist);
}
