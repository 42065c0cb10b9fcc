/* SPDX-License-Identifier: Apache-2.0 */
/* The table of journals, and the common part of opening one. */
#include "txn/journal/journal.h"

#include "base/alloc.h"
#include "engine/kit/dial.h"
#include "engine/kit/words.h"
#include "engine/url.h"
#include "engines.h"
#include "txn/journal/points.h"

#include <assert.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#define PASSWORD_ROOM 1024

#if ROTA_ENGINE_FILE
extern const struct rt_journal_kind rt_journal_file;
#endif
#if ROTA_ENGINE_POSTGRES
extern const struct rt_journal_kind rt_journal_postgres;
#endif
#if ROTA_ENGINE_MYSQL
extern const struct rt_journal_kind rt_journal_mysql;
#endif
#if ROTA_ENGINE_ETCD
extern const struct rt_journal_kind rt_journal_etcd;
#endif

static const struct rt_journal_kind *const kinds[] = {
#if ROTA_ENGINE_FILE
    &rt_journal_file,
#endif
#if ROTA_ENGINE_POSTGRES
    &rt_journal_postgres,
#endif
#if ROTA_ENGINE_MYSQL
    &rt_journal_mysql,
#endif
#if ROTA_ENGINE_ETCD
    &rt_journal_etcd,
#endif
    NULL,
};

const struct rt_journal_kind *rt_journal_find(const char *scheme)
{
    for (const struct rt_journal_kind *const *k = kinds; *k != NULL; k++)
        for (const char *const *s = (*k)->schemes; *s != NULL; s++)
            if (strcmp(*s, scheme) == 0)
                return *k;
    return NULL;
}

struct opened { /* lies before the journal's own struct: what it is given, and frees */
    struct rt_up up;
    struct rt_journal *j;
    _Alignas(max_align_t) char at[];
};

static struct opened *opened_of(struct rt_journal *j)
{
    return (struct opened *)(void *)((char *)j - offsetof(struct opened, at));
}

static void log_line(struct rt_up *up, int level, const char *line)
{
    struct rt_journal *j = ((struct opened *)(void *)up)->j;
    if (j->up->log != NULL)
        j->up->log(j->up, level, line);
}

static int open_url(struct rt_journal **out, struct rt_loop *loop, struct rt_journal_up *up,
                    const struct rt_url *url, uint32_t call_ms, char *errmsg, size_t size)
{
    const struct rt_journal_kind *kind = rt_journal_find(url->scheme);
    if (kind == NULL) {
        snprintf(errmsg, size, "no journal for '%.40s': use file:, postgres, mysql or etcd",
                 url->scheme);
        return ROTA_INVALID;
    }
    int rv = rt_url_check_params(url, kind->params, errmsg, size);
    if (rv != 0)
        return rv;
    struct opened *o = rt_alloc(sizeof(*o) + kind->size);
    if (o == NULL) {
        snprintf(errmsg, size, "out of memory");
        return ROTA_NOMEM;
    }
    struct rt_journal *j = (struct rt_journal *)(void *)o->at;
    o->up.log = log_line;
    o->j = j;
    j->kind = kind;
    j->up = up;
    j->base = (struct rt_conn){.up = &o->up, .loop = loop, .label = "", .call_ms = call_ms};
    rt_dial_times(&j->base);
    rv = kind->open(j, url);
    if (rv != 0) {
        snprintf(errmsg, size, "%s", j->base.errmsg);
        rt_free(o);
        return rv;
    }
    *out = j;
    return 0;
}

int rt_journal_open(struct rt_journal **out, struct rt_loop *loop, struct rt_journal_up *up,
                    const char *url, uint32_t call_ms, char *errmsg, size_t size)
{
    struct rt_url parsed;
    char password[PASSWORD_ROOM];
    int rv = rt_url_parse(&parsed, url, errmsg, size);
    assert(size > 0);
    if (rv != 0)
        return rv;
    const char *in_url = parsed.password;
    rv = rt_url_password(&parsed, password, sizeof(password), errmsg, size);
    if (password[0] != '\0')
        parsed.password = password;
    if (rv == 0)
        rv = open_url(out, loop, up, &parsed, call_ms, errmsg, size);
    parsed.password = in_url;
    explicit_bzero(password, sizeof(password));
    rt_url_fini(&parsed);
    return rv;
}

void rt_journal_close(struct rt_journal *j)
{
    if (j == NULL)
        return;
    j->kind->close(j);
    rt_free(opened_of(j));
}

void rt_journal_submit(struct rt_journal *j, struct rt_journal_op *op)
{
    assert(j->kind != NULL);
    rt_journal_point_asked(op);
    j->kind->submit(j, op);
}
