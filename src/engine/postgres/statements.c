/* SPDX-License-Identifier: Apache-2.0 */
/* Which statement a step is, what it is given and what it answers. */
#include "engine/postgres/postgres.h"

#include "engine/kit/hash.h"

#include <inttypes.h>
#include <stdio.h>

/* X(step, text, types of its parameters, what is told, only once) */
#define STATEMENTS(X)                                  \
    X(FACTS, facts, "pw", ROWS, true)                  \
    X(LAYOUT, layout, "", ROWS, true)                  \
    X(HERE, here, "t", CHANGED, true)                  \
    X(OPEN, open, "iit", ROWS, false)                  \
    X(RENEW, renew, "ii", ROWS, false)                 \
    X(END, end, "i", CHANGED, false)                   \
    X(MINE, mine, "i", ROWS, false)                    \
    X(FOLDED, folded, "ti", ROWS, false)               \
    X(DEAD, dead, "i", ROWS, false)                    \
    X(BURY, bury, "i", CHANGED, false)                 \
    X(IDLE, idle, "tii", ROWS, false)                  \
    X(STRAYS, strays, "i", ROWS, true)                 \
    X(SWEEPER, sweeper, "", ROWS, true)                \
    X(SWEEP, sweep, "ii", ROWS, true)                  \
    X(SWEPT, swept, "iiit", CHANGED, false)            \
    X(TAKE, take, "tiiiiii", ROWS, false)              \
    X(GIVE, give, "tiii", CHANGED, false)              \
    X(VERIFY, verify, "tii", ROWS, false)              \
    X(LOCK, lock, "t", NOTHING, false)                 \
    X(UNFOLD, unfold, "t", CHANGED, false)             \
    X(PURGE, purge, "t", CHANGED, false)               \
    X(SETTLE, settle, "t", CHANGED, false)             \
    X(TELL, tell, "tc", NOTHING, false)                \
    X(GATE, gate, "tiiiiiii", NOTHING, false)          \
    X(JOIN, join, "tiiiiiiiiiiiibtii", CHANGED, false) \
    X(WANT, want, "t", NOTHING, false)                 \
    X(ANSWER, answer, "tii", ROWS, false)              \
    X(LEAVE, leave, "tiiii", ROWS, false)              \
    X(PASS, pass, "tiii", CHANGED, false)              \
    X(CHANGE, change, "tiiiibi", CHANGED, false)       \
    X(STATE, state, "tii", ROWS, false)                \
    X(BREAK, break, "tii", COUNT, false)               \
    X(WATCH, watch, "ti", CHANGED, false)              \
    X(LOOK, look, "tii", ROWS, false)                  \
    X(FRONT, front, "t", ROWS, false)                  \
    X(INSPECT, inspect, "ti", ROWS, false)             \
    X(LIST, list, "t", ROWS, false)                    \
    X(DOCTOR, doctor, "wp", ROWS, true)

#define DECLARE(step, text, types, out, once) extern const char rt_postgres_sql_##text[];
STATEMENTS(DECLARE)

#define STATEMENT(step, text, types, out, once) \
    [RT_SQL_##step] = {rt_postgres_sql_##text, types, RT_POSTGRES_##out, once},

const struct rt_postgres_statement rt_postgres_statements[RT_SQL_STEPS] = {STATEMENTS(STATEMENT)};

void rt_postgres_bell(char *out, int64_t bell)
{
    snprintf(out, RT_POSTGRES_CHANNEL, "rota_%016" PRIx64, (uint64_t)bell);
}

void rt_postgres_line(char *out, const char *name, size_t size)
{
    snprintf(out, RT_POSTGRES_CHANNEL, "rota_o%016" PRIx64, rt_hash(name, size));
}
