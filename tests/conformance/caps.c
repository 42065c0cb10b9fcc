/* SPDX-License-Identifier: Apache-2.0 */
/* Appendix A of the design, both ways: what must be there is there, the rest is refused. */
#include "suite.h"

#include <string.h>

#define ALL_CAPS 0x1ffu

#define REDIS_LINE                                                                            \
    (ROTA_CAP_FENCE | ROTA_CAP_ORDER | ROTA_CAP_SHARED | ROTA_CAP_PERMITS | ROTA_CAP_WANTED | \
     ROTA_CAP_DURABLE | ROTA_CAP_TTL | ROTA_CAP_SHARED_HOSTS)

#define ETCD_LINE REDIS_LINE /* strict: versions without the lease bugs */

#define SQL_LINE REDIS_LINE /* strict: what is acknowledged is on disk, and no replica lacks it */

/* A lock that lives with a connection. */
#define SQL_HOLD (ROTA_CAP_FENCE | ROTA_CAP_TTL | ROTA_CAP_SHARED_HOSTS)

#define ZK_ORDERED \
    (ROTA_CAP_FENCE | ROTA_CAP_ORDER | ROTA_CAP_WANTED | ROTA_CAP_TTL | ROTA_CAP_SHARED_HOSTS)

/* For the dialects on Redis, none of which may be strict, whatever the server's settings; and for those on SQL. */
#define REDIS_OWN_GRANTS (ROTA_CAP_FENCE | ROTA_CAP_TTL | ROTA_CAP_SHARED_HOSTS)

/* What an engine and dialect must do (has), and what depends on its settings (may). */
static const struct row {
    const char *scheme, *dialect; /* dialect NULL: the default one */
    uint32_t has, may;
} rows[] = {
    {"redis", "token", REDIS_OWN_GRANTS, 0},
    {"redis", "redisson-rw", REDIS_OWN_GRANTS | ROTA_CAP_SHARED, 0},
    {"redis", "redisson-fair", REDIS_OWN_GRANTS | ROTA_CAP_ORDER, 0},
    {"redis", "redisson", REDIS_OWN_GRANTS, 0},
    {"redis", "getset", ROTA_CAP_TTL | ROTA_CAP_SHARED_HOSTS, 0},
    {"redis", "setnx", ROTA_CAP_TTL | ROTA_CAP_SHARED_HOSTS, 0},
    {"redis:", NULL, REDIS_LINE, ROTA_CAP_STRICT},
    {"rediss:", NULL, REDIS_LINE, ROTA_CAP_STRICT},
    {"redis+unix:", NULL, REDIS_LINE, ROTA_CAP_STRICT},
    {"redlock", NULL, ROTA_CAP_FENCE | ROTA_CAP_TTL | ROTA_CAP_SHARED_HOSTS, ROTA_CAP_STRICT},
    {"etcd:", NULL, ETCD_LINE, ROTA_CAP_STRICT},
    {"etcds:", NULL, ETCD_LINE, ROTA_CAP_STRICT},
    {"postgres:", "row", REDIS_OWN_GRANTS, ROTA_CAP_STRICT},
    {"postgres:", "version", REDIS_OWN_GRANTS, ROTA_CAP_STRICT},
    {"postgres:", "shedlock", ROTA_CAP_TTL | ROTA_CAP_SHARED_HOSTS, 0},
    {"mysql", "row", REDIS_OWN_GRANTS, ROTA_CAP_STRICT},
    {"mysql", "version", REDIS_OWN_GRANTS, ROTA_CAP_STRICT},
    {"mysql", "shedlock", ROTA_CAP_TTL | ROTA_CAP_SHARED_HOSTS, 0},
    {"postgres:", "advisory", SQL_HOLD | ROTA_CAP_SHARED, 0},
    {"postgres:", "forupdate", SQL_HOLD | ROTA_CAP_SHARED, 0},
    {"postgres:", "table", SQL_HOLD, 0},
    {"mysql", "getlock", SQL_HOLD, 0},
    {"mysql", "forupdate", SQL_HOLD | ROTA_CAP_SHARED, 0},
    {"mysql", "table", SQL_HOLD, 0},
    {"postgres:", NULL, SQL_LINE, ROTA_CAP_STRICT},
    {"postgresql:", NULL, SQL_LINE, ROTA_CAP_STRICT},
    {"mysql", NULL, SQL_LINE, ROTA_CAP_STRICT},
    {"mariadb", NULL, SQL_LINE, ROTA_CAP_STRICT},
    {"zk", "curator-rw", ZK_ORDERED | ROTA_CAP_SHARED, ROTA_CAP_STRICT},
    {"zk", "curator-latch", ZK_ORDERED, ROTA_CAP_STRICT},
    {"zk", "kazoo", ZK_ORDERED | ROTA_CAP_SHARED, ROTA_CAP_STRICT},
    {"zk", "simple", ROTA_CAP_FENCE | ROTA_CAP_TTL | ROTA_CAP_SHARED_HOSTS, 0},
    {"zk", NULL, REDIS_LINE, ROTA_CAP_STRICT},
    {"file:", NULL,
     ROTA_CAP_FENCE | ROTA_CAP_ORDER | ROTA_CAP_SHARED | ROTA_CAP_PERMITS | ROTA_CAP_WANTED |
         ROTA_CAP_DURABLE,
     ROTA_CAP_STRICT}, /* where the folder's file system forgets nothing */
    /* Like engines that number tickets when they grant them. */
    {"mem:late", NULL,
     ROTA_CAP_FENCE | ROTA_CAP_SHARED | ROTA_CAP_PERMITS | ROTA_CAP_WANTED | ROTA_CAP_DURABLE |
         ROTA_CAP_TTL,
     0},
    /* The reference: everything but what needs a truth outside the process. */
    {"mem:", NULL,
     ROTA_CAP_FENCE | ROTA_CAP_ORDER | ROTA_CAP_SHARED | ROTA_CAP_PERMITS | ROTA_CAP_WANTED |
         ROTA_CAP_DURABLE | ROTA_CAP_TTL,
     0},
};

/* With ?also=: what the line has, except what the others cannot see, or cannot have. */
#define ALSO_EXCLUSIVE (ROTA_CAP_FENCE | ROTA_CAP_ORDER | ROTA_CAP_TTL | ROTA_CAP_SHARED_HOSTS)

static const struct row also_rows[] = {
    {"redis", "token", ALSO_EXCLUSIVE, 0},
    {"redis", "redisson", ALSO_EXCLUSIVE, 0},
    {"postgres:", "shedlock", ALSO_EXCLUSIVE, 0},
    {"postgres:", "advisory", ALSO_EXCLUSIVE | ROTA_CAP_SHARED, 0},
    {"mysql", "shedlock", ALSO_EXCLUSIVE, 0},
    {"mysql", "getlock", ALSO_EXCLUSIVE, 0},
    {"mem:", "late", ROTA_CAP_FENCE | ROTA_CAP_ORDER | ROTA_CAP_SHARED | ROTA_CAP_TTL, 0},
};

static const struct row *also_find(const char *also)
{
    for (size_t i = 0; i < sizeof also_rows / sizeof also_rows[0]; i++)
        if (strncmp(conf.url, also_rows[i].scheme, strlen(also_rows[i].scheme)) == 0 &&
            strcmp(also, also_rows[i].dialect) == 0)
            return &also_rows[i];
    return NULL;
}

static const struct row *row_find(void)
{
    const char *dialect = strstr(conf.url, "dialect="), *also = strstr(conf.url, "also=");
    if (also != NULL)
        return also_find(also + strlen("also="));
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const struct row *row = &rows[i];
        if (strncmp(conf.url, row->scheme, strlen(row->scheme)) != 0)
            continue;
        if (row->dialect == NULL
                ? dialect == NULL
                : dialect != NULL && strncmp(dialect + 8, row->dialect, strlen(row->dialect)) == 0)
            return row;
    }
    return NULL;
}

static void appendix_a(void)
{
    const struct row *row = row_find();
    struct rota *a = conf_open();
    if (row == NULL)
        fail_msg("%s has no row in caps.c: add what appendix A says of it", conf.url);
    uint32_t caps = rota_caps(a);
    assert_int_equal(caps & ~ALL_CAPS, 0);
    assert_int_equal(caps & row->has, row->has);
    assert_int_equal(caps & ~(row->has | row->may), 0);
    assert_int_equal((caps & ROTA_CAP_TTL) != 0, rota_ttl_ms(a) != 0);
    for (uint32_t cap = 1; cap <= ROTA_CAP_STRICT; cap <<= 1) {
        if ((caps & cap) == 0)
            conf_assert_refused(cap);
    }
}

static void strict_opens_or_is_refused(void)
{
    struct rota_options strict = {.flags = ROTA_STRICT};
    if ((conf.caps & ROTA_CAP_STRICT) == 0) {
        conf_assert_refused(ROTA_CAP_STRICT);
        return;
    }
    struct rota *a = conf_open_with(&strict);
    conf_give(conf_take(a, conf_name("x"), NULL));
}

static void ttl_is_what_was_asked_for(void)
{
    struct rota_options opts = {.ttl_ms = 20000};
    struct rota *a = conf_open(), *b = conf_open_with(&opts);
    assert_true(rota_ttl_ms(a) >= 1000 && rota_ttl_ms(a) <= 3600000);
    assert_true(rota_ttl_ms(b) >= rota_ttl_ms(a)); /* rounded, perhaps */
}

struct verdicts {
    unsigned count, odd;
    bool ordered; /* tickets are granted in the order of arrival */
};

static void on_verdict(void *arg, const struct rota_verdict *v)
{
    struct verdicts *verdicts = arg;
    verdicts->count++;
    if (v->promise == NULL || v->promise[0] == '\0' ||
        (strcmp(v->verdict, "kept") != 0 && strcmp(v->verdict, "limited") != 0 &&
         strcmp(v->verdict, "broken") != 0))
        verdicts->odd++;
    if (strcmp(v->verdict, "broken") == 0 && (v->remedy == NULL || v->remedy[0] == '\0'))
        verdicts->odd++; /* must say what to do */
    if (strncmp(v->promise, "order of arrival", 16) == 0)
        verdicts->ordered = strcmp(v->verdict, "kept") == 0;
}

static void doctor_has_a_verdict(void)
{
    struct verdicts verdicts = {0};
    struct rota *r = conf_open();
    assert_int_equal(rota_doctor(r, on_verdict, &verdicts), 0);
    assert_true(verdicts.count > 0);
    assert_int_equal(verdicts.odd, 0);
    assert_int_equal(verdicts.ordered, (rota_caps(r) & ROTA_CAP_ORDER) != 0);
}

/* ---- What is refused ---------------------------------------------------- */

static int ask_with(struct rota *r, const struct rota_ask *ask)
{
    return conf_try(r, conf_name("refused"), ask, NULL);
}

static void durable_refused(struct rota *r)
{
    const char *name = conf_name("refused");
    assert_int_equal(ask_with(r, &(struct rota_ask){.at_least_ms = 1}), ROTA_UNSUPPORTED);
    assert_int_equal(rota_once(r, name, 1, NULL), ROTA_UNSUPPORTED);
    assert_int_equal(rota_latch_down(r, name, 1, NULL), ROTA_UNSUPPORTED);
    assert_int_equal(rota_latch_wait(r, name, 1, 1), ROTA_UNSUPPORTED);
    assert_int_equal(rota_latch_reset(r, name), ROTA_UNSUPPORTED);
    assert_int_equal(rota_barrier(r, name, 1, 1), ROTA_UNSUPPORTED);
}

static void order_refused(struct rota *r)
{
    const char *name = conf_name("refused");
    struct rota_lock *lock = NULL;
    struct rota_ask detect = {.flags = ROTA_DETECT};
    assert_int_equal(rota_acquire(r, name, &detect, &lock), ROTA_UNSUPPORTED);
    assert_non_null(strstr(rota_errmsg(r), "ROTA_DETECT is not possible on "));
    assert_int_equal(rota_elect(r, name, "me", NULL, &lock), ROTA_UNSUPPORTED);
    assert_non_null(strstr(rota_errmsg(r), "elections are not possible on "));
    assert_null(lock);
}

static void fence_refused(struct rota *r)
{
    uint64_t highest = 0;
    struct rota_lock *lock = conf_take(r, conf_name("refused"), NULL);
    assert_true(rota_fence(lock) == 0);
    assert_int_equal(rota_guard(lock, &highest), ROTA_UNSUPPORTED);
    conf_give(lock);
}

static void strict_refused(void)
{
    struct rota_options strict = {.flags = ROTA_STRICT};
    struct rota *r = NULL;
    assert_int_equal(rota_open(&r, conf.url, &strict), ROTA_UNSAFE);
    assert_null(r);
    assert_true(rota_errmsg(NULL)[0] != '\0');
}

void conf_assert_refused(uint32_t cap)
{
    struct rota *r = conf_open();
    switch (cap) {
    case ROTA_CAP_FENCE:
        fence_refused(r);
        break;
    case ROTA_CAP_ORDER:
        order_refused(r);
        break;
    case ROTA_CAP_SHARED:
        assert_int_equal(ask_with(r, &(struct rota_ask){.mode = ROTA_SHARED}), ROTA_UNSUPPORTED);
        break;
    case ROTA_CAP_PERMITS:
        assert_int_equal(ask_with(r, &(struct rota_ask){.mode = ROTA_PERMITS, .take = 1, .of = 2}),
                         ROTA_UNSUPPORTED);
        break;
    case ROTA_CAP_WANTED:
        assert_int_equal(ask_with(r, &(struct rota_ask){.linger_ms = 1}), ROTA_UNSUPPORTED);
        break;
    case ROTA_CAP_DURABLE:
        durable_refused(r);
        break;
    case ROTA_CAP_TTL:
        assert_int_equal(rota_ttl_ms(r), 0);
        break;
    case ROTA_CAP_STRICT:
        strict_refused();
        break;
    default:
        break; /* other hosts: nothing that could be asked for */
    }
    assert_int_equal(conf_count_lines(r, conf.prefix), 0);
}

const struct conf_case conf_caps[] = {
    CONF_CASE(appendix_a, 0, 0),
    CONF_CASE(strict_opens_or_is_refused, 0, 0),
    CONF_CASE(ttl_is_what_was_asked_for, ROTA_CAP_TTL, 0),
    CONF_CASE(doctor_has_a_verdict, 0, 0),
    CONF_END,
};
