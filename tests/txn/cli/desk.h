/* SPDX-License-Identifier: Apache-2.0 */
/* The command under test, and what it finds: a MariaDB ("shop"), a PostgreSQL ("ledger") and a file journal, with
 * transactions abandoned at any step. */
#ifndef TEST_DESK_H
#define TEST_DESK_H

#include "txn/branch/site.h"
#include "txn/manager/manager.h"

#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define DESK_LIMIT_S 280 /* nothing takes this long unless it hangs */

extern const struct site *const my, *const pg;
extern struct rota_txns *m; /* on the journal; it recovers nothing */
extern char journal[400], resources[400];
extern const char *program; /* rota-txn */
extern const char *pty;     /* tests/system/cli/pty.c */

/* URL: the journal; NULL: a file. */
void desk_open(const char *rota_txn, const char *url);
void desk_close(void);
int64_t desk_now_ms(void);

/* ---- The command ------------------------------------------------------------ */

struct said {
    int code;
    char out[65536], err[8192];
};

/* Runs rota-txn with --journal, --resources and these words, up to NULL. */
struct said *run(const char *first, ...);
/* The same, with --json: asserts that it answered CODE and one JSON object, which the caller frees. */
json_t *run_json(int code, const char *first, ...);
/* Runs it at a terminal, with SCRIPT as pty.c reads it. Returns its exit code. */
int run_at_terminal(const char *script, const char *words);
/* Asserts that it answered CODE, and a line with TEXT on standard error. */
void refuses(int code, const char *text, const char *first, ...);

/* ---- The daemon ------------------------------------------------------------- */

struct daemon {
    pid_t pid;
    int fd; /* what a service manager hears */
    char metrics[300], log[300];
};

void daemon_start(struct daemon *d);
void hears(const struct daemon *d, const char *text); /* waits until the service manager was told */
void daemon_stop(struct daemon *d);                   /* by SIGTERM: it ends well */
void logs(const struct daemon *d, const char *text);  /* waits until its log has that */

/* ---- What is left behind ------------------------------------------------------- */

struct left {
    struct rt_txn_id id;
    char text[RT_TXN_ID_TEXT];
    int64_t deadline_ms;
    long long row; /* in the table work of both, if it is committed */
};

/* Prepared at both (branch 1: shop, 2: ledger) by connections that are gone. DEADLINE_MS: from now. */
struct left leave_prepared(int64_t deadline_ms);
/* The same, decided. */
struct left leave_decided(bool commit);
void decide(const struct left *l, bool commit,
            const char *third); /* THIRD: branch 3 is there; NULL: none */
void mark_done(const struct left *l);
struct left left_new(int64_t birth_ms, int64_t deadline_ms); /* nothing of it is anywhere */

void is_at_both(const struct left *l, bool there);
long prepared(void); /* at both together */
/* Waits until MariaDB has AT_MY and PostgreSQL AT_PG prepared (-1: it is not asked). */
void wait_until_prepared(long at_my, long at_pg);

/* OBJECT has exactly these keys: docs/json.md. */
void has_keys(const json_t *object, const char *keys);
/* Strings and numbers of an answer; a missing one ends the test. */
const char *text_of(const json_t *object, const char *key);
long long number_of(const json_t *object, const char *key);
/* The first of ARRAY whose KEY is VALUE; NULL: none. */
json_t *entry_of(const json_t *object, const char *array, const char *key, const char *value);

#endif
