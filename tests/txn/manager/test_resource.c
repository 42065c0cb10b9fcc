/* SPDX-License-Identifier: Apache-2.0 */
/* Resources and their workers, on a real server: SITE is the one of this program. */
#include <setjmp.h> // IWYU pragma: keep
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "txn/branch/site.h"

#include "lib/proc.h"
#include "lib/scarce.h"
#include "txn/manager/resource.h"

#include <rota.h>

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#ifdef SITE_IS_MYSQL
#define HERE (&site_mysql)
#define IS_MYSQL true
#else
#define HERE (&site_postgres)
#define IS_MYSQL false
#endif

#ifdef SITE_IS_MYSQL
#include "lib/mysql_server.h"

static struct rt_mariadb next_door;

/* Another server, which knows nothing of us. To be freed. */
static char *url_next_door(void)
{
    rt_mariadb_start(&next_door, NULL);
    rt_mariadb_do(&next_door, "GRANT PROCESS ON *.* TO rota@'%%'");
    return rt_mariadb_url(&next_door, 0);
}

static void close_next_door(void)
{
    rt_mariadb_fini(&next_door);
}
#else
/* The database next door: what is prepared here is not there. */
static char *url_next_door(void)
{
    char *url = HERE->url(0);
    char *slash = strrchr(url, '/'), *out = NULL;

    HERE->admin("CREATE DATABASE other");
    if (asprintf(&out, "%.*s/other", (int)(slash - url), url) < 0)
        abort();
    free(url);
    return out;
}

static void close_next_door(void)
{
    HERE->admin("DROP DATABASE other WITH (FORCE)");
}
#endif

#define SECRET "hunter2-of-the-test"

static long long row;
static pthread_mutex_t mu = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t told = PTHREAD_COND_INITIALIZER;

/* ---- A table that remembers what it was told ------------------------------------------ */

struct book {
    struct rt_resources *table;
    int backs, downs, err, answered;
    char line[256];
};

static void on_back(void *arg, struct rt_resource *r)
{
    struct book *b = arg;

    pthread_mutex_lock(&mu);
    assert_true(rt_resource_is_up(r));
    b->backs++;
    pthread_cond_broadcast(&told);
    pthread_mutex_unlock(&mu);
}

static void on_down(void *arg, struct rt_resource *r, int err, const char *line)
{
    struct book *b = arg;

    pthread_mutex_lock(&mu);
    (void)r;
    b->downs++;
    b->err = err;
    snprintf(b->line, sizeof(b->line), "%s", line);
    pthread_cond_broadcast(&told);
    pthread_mutex_unlock(&mu);
}

static void book_open(struct book *b)
{
    *b = (struct book){0};
    const struct rt_resources_hooks hooks = {.arg = b, .back = on_back, .down = on_down};
    assert_int_equal(rt_resources_open(&b->table, &hooks), 0);
}

static struct rt_resource *named(struct book *b, const char *name, const char *url)
{
    char errmsg[256] = "";

    if (rt_resources_add(b->table, name, url, errmsg, sizeof(errmsg)) != 0)
        fail_msg("%s", errmsg);
    return rt_resources_find(b->table, name);
}

/* "here", at PORT (0: its own). */
static struct rt_resource *here(struct book *b, uint16_t port)
{
    char *url = HERE->url(port);
    struct rt_resource *r = named(b, "here", url);

    free(url);
    return r;
}

static void await(struct book *b, const int *count, int least)
{
    (void)b;
    pthread_mutex_lock(&mu);
    while (*count < least)
        pthread_cond_wait(&told, &mu);
    pthread_mutex_unlock(&mu);
}

/* ---- Errands ----------------------------------------------------------------------------- */

struct ask {
    struct rt_errand e;
    struct book *book;
    bool done;
    int turn; /* its place among those answered */
};

static void on_done(struct rt_errand *e)
{
    struct ask *a = e->user;

    pthread_mutex_lock(&mu);
    assert_false(a->done);
    a->done = true;
    a->turn = ++a->book->answered;
    pthread_cond_broadcast(&told);
    pthread_mutex_unlock(&mu);
}

static int64_t in_ms(int64_t ms)
{
    struct timespec now;

    clock_gettime(CLOCK_BOOTTIME, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec + ms * 1000000;
}

static void ignore(void *arg, const struct rt_party_seen *seen)
{
    (void)arg;
    (void)seen;
}

static void send(struct book *b, struct rt_resource *r, struct ask *a, enum rt_party_what what)
{
    a->e.op = (struct rt_party_op){.what = what, .flags = a->e.op.flags};
    a->e.op.deadline = a->e.op.deadline == 0 ? in_ms(SITE_LIMIT_MS) : a->e.op.deadline;
    if (what == RT_PARTY_LIST) {
        a->e.op.list.journal = SITE_JOURNAL;
        a->e.op.list.each = ignore;
    }
    a->e.done = on_done;
    a->e.user = a;
    a->book = b;
    a->done = false;
    assert_int_equal(rt_resource_ask(r, &a->e), 0);
}

static enum rt_reply answer(struct ask *a)
{
    pthread_mutex_lock(&mu);
    while (!a->done)
        pthread_cond_wait(&told, &mu);
    pthread_mutex_unlock(&mu);
    return a->e.op.reply;
}

static enum rt_reply ask(struct book *b, struct rt_resource *r, struct ask *a,
                         enum rt_party_what what)
{
    send(b, r, a, what);
    return answer(a);
}

static void says(const struct ask *a, const char *words)
{
    if (strstr(a->e.errmsg, words) == NULL || strchr(a->e.errmsg, '\n') != NULL ||
        strstr(a->e.errmsg, SECRET) != NULL)
        fail_msg("'%s' is not in: %s", words, a->e.errmsg);
}

/* A prepared branch whose connection is still S. */
static void prepare(struct seat *s, struct ask *a)
{
    *a = (struct ask){.e = {.part = part_new(1)}};
    seat_open(s, HERE, 0, false);
    seat_work(s, &a->e.part, ++row);
    assert_int_equal(seat_do(s, RT_PARTY_PREPARE, &a->e.part), RT_REPLY_YES);
    rt_place_of(s->party, &a->e.place);
    assert_true(a->e.place.identity != 0);
    a->e.part.by = NULL;
}

/* Until the gate is clear, then COMMIT or ROLLBACK. */
static enum rt_reply take_over(struct book *b, struct rt_resource *r, struct ask *a, bool commit)
{
    enum rt_reply said = RT_REPLY_HELD;

    while (said == RT_REPLY_HELD)
        said = ask(b, r, a, RT_PARTY_GATE);
    if (said != RT_REPLY_CLEAR)
        return said;
    return ask(b, r, a, commit ? RT_PARTY_COMMIT : RT_PARTY_ROLLBACK);
}

/* ---- Takeover --------------------------------------------------------------------------------- */

static void a_takeover(void **state)
{
    struct book b;
    struct seat s;
    struct ask a;

    (void)state;
    book_open(&b);
    struct rt_resource *r = here(&b, 0);
    assert_string_equal(rt_resource_kind(r)->name, IS_MYSQL ? "xa-mysql" : "xa-postgres");
    for (int commit = 1; commit >= 0; commit--) {
        prepare(&s, &a);
        seat_close(&s);
        assert_int_equal(take_over(&b, r, &a, commit), RT_REPLY_DONE);
        assert_false(a.e.unsent);
        assert_string_equal(a.e.errmsg, "");
        assert_true(a.e.seen.identity == a.e.place.identity);
        assert_int_equal(has_row(HERE, row), commit);
        assert_int_equal(HERE->prepared(), 0);
        assert_int_equal(ask(&b, r, &a, RT_PARTY_ASK),
                         commit ? RT_REPLY_COMMITTED : RT_REPLY_ABSENT);
    }
    assert_int_equal(b.backs, 1);
    assert_int_equal(b.downs, 0);
    rt_resources_close(b.table);
}

/* The keeper's URL leads elsewhere; the branch said where its marker is. */
static void a_url_of_another_database(void **state)
{
    char other[600];
    struct book b;
    struct seat s;
    struct ask a;

    (void)state;
    if (!IS_MYSQL)
        return; /* a branch of PostgreSQL is in its database, and nowhere else */
    char *url = HERE->url(0);
    HERE->admin("CREATE DATABASE IF NOT EXISTS elsewhere");
    HERE->admin("GRANT ALL ON elsewhere.* TO rota@'%'");
    const char *end = strchr(url, '?');
    for (int i = 0; i < 2; i++) {
        char *slash = strstr(url + 8, "/");
        snprintf(other, sizeof(other), "%.*s/%s%s", (int)(slash - url), url,
                 i == 0 ? "elsewhere" : "", end);
        book_open(&b);
        struct rt_resource *r = named(&b, "here", other);
        prepare(&s, &a);
        seat_close(&s);
        assert_int_equal(take_over(&b, r, &a, true), RT_REPLY_DONE);
        assert_true(has_row(HERE, row));
        assert_int_equal(ask(&b, r, &a, RT_PARTY_ASK), RT_REPLY_COMMITTED);
        struct ask list = {0};
        assert_int_equal(ask(&b, r, &list, RT_PARTY_LIST), RT_REPLY_DONE);
        if (i == 1) { /* nobody said where to look */
            a.e.place = (struct rt_place){0};
            assert_int_equal(ask(&b, r, &a, RT_PARTY_ASK), RT_REPLY_REFUSED);
            says(&a, "no database is selected");
        }
        rt_resources_close(b.table);
    }
    free(url);
}

/* ---- Another server ----------------------------------------------------------------------------- */

static void another_database_answers(void **state)
{
    char *url = HERE->url(0), *other = url_next_door();
    struct book b;
    struct seat s;
    struct ask a;

    (void)state;
    book_open(&b);
    struct rt_resource *r = here(&b, 0);
    prepare(&s, &a);
    seat_close(&s);
    r = named(&b, "here", other);
    assert_int_equal(ask(&b, r, &a, RT_PARTY_COMMIT), RT_REPLY_REFUSED); /* no such table */
    assert_int_equal(a.e.op.err, ROTA_INVALID);
    assert_true(a.e.unsent);
    says(&a, "another database answers there");
    struct ask made = {.e = {.part = part_new(1)}}; /* by somebody who works there */
    assert_int_equal(ask(&b, r, &made, RT_PARTY_ASK), RT_REPLY_ABSENT);
    assert_int_equal(ask(&b, r, &a, RT_PARTY_COMMIT), RT_REPLY_REFUSED); /* another identity */
    assert_int_equal(a.e.op.err, ROTA_INVALID);
    says(&a, "here: another database answers there");
    assert_true(a.e.seen.identity != 0 && a.e.seen.identity != a.e.place.identity);
    assert_int_equal(ask(&b, r, &a, RT_PARTY_GATE), RT_REPLY_REFUSED);
    assert_int_equal(HERE->prepared(), 1);
    r = named(&b, "here", url); /* corrected */
    assert_int_equal(take_over(&b, r, &a, true), RT_REPLY_DONE);
    assert_true(has_row(HERE, row));
    rt_resources_close(b.table);
    close_next_door();
    free(other);
    free(url);
}

/* Restarts and FORGET leave it as it is; two that come first at the same time agree. */
static void an_identity_stays(void **state)
{
    struct seat s[2];
    struct rt_party_op attach[2];

    (void)state;
    seat_open(&s[0], HERE, 0, true);
    uint64_t was = s[0].party->identity;
    assert_true(was != 0);
    struct rt_party_op forget = {.what = RT_PARTY_FORGET};
    forget.forget.journal = SITE_JOURNAL;
    forget.forget.before_ms = INT64_MAX;
    assert_int_equal(seat_op(&s[0], &forget), RT_REPLY_DONE);
    forget.forget.journal = UINT32_MAX;
    assert_int_equal(seat_op(&s[0], &forget), RT_REPLY_DONE);
    seat_close(&s[0]);
    seat_open(&s[0], HERE, 0, false);
    assert_true(s[0].party->identity == was);
    seat_close(&s[0]);
    HERE->admin("DELETE FROM rota_mark");
    for (int i = 0; i < 2; i++) {
        seat_bare(&s[i], HERE, 0, false);
        if (IS_MYSQL)
            assert_true(HERE->sql(s[i].conn, "SET autocommit = 0"));
        attach[i] = (struct rt_party_op){.what = RT_PARTY_ATTACH};
    }
    bool over[2] = {rt_party_start(s[0].party, &attach[0]), rt_party_start(s[1].party, &attach[1])};
    while (!over[0] || !over[1]) {
        struct pollfd fds[2];
        for (int i = 0; i < 2; i++) {
            struct rt_party_wait w = {.fd = -1};
            if (!over[i])
                w = rt_party_wait(s[i].party);
            fds[i] = (struct pollfd){.fd = w.fd, .events = w.events};
        }
        assert_true(poll(fds, 2, SITE_LIMIT_MS) > 0);
        for (int i = 0; i < 2; i++)
            if (!over[i] && fds[i].revents != 0)
                over[i] = rt_party_go(s[i].party, fds[i].revents);
    }
    assert_int_equal(attach[0].reply, RT_REPLY_DONE);
    assert_int_equal(attach[1].reply, RT_REPLY_DONE);
    assert_true(s[0].party->identity != 0 && s[0].party->identity != was);
    assert_true(s[0].party->identity == s[1].party->identity);
    for (int i = 0; i < 2; i++) { /* nothing stays open: a branch can begin */
        struct rt_part part = part_new(1);
        seat_work(&s[i], &part, ++row);
        assert_int_equal(seat_do(&s[i], RT_PARTY_ROLLBACK, &part), RT_REPLY_DONE);
        seat_close(&s[i]);
    }
}

/* ---- Not there ------------------------------------------------------------------------------------ */

static void down_then_back(void **state)
{
    struct book b;
    struct seat s;
    struct ask a;

    (void)state;
    book_open(&b);
    struct rt_resource *r = here(&b, 0);
    prepare(&s, &a);
    struct ask list = {0};
    assert_int_equal(ask(&b, r, &list, RT_PARTY_LIST), RT_REPLY_DONE);
    HERE->kill();
    seat_close(&s);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(ask(&b, r, &a, RT_PARTY_COMMIT), RT_REPLY_LOST);
        assert_int_equal(a.e.op.err, ROTA_UNREACHABLE);
        assert_true(a.e.unsent);
        says(&a, "127.0.0.1");
    }
    assert_int_equal(b.downs, 1);
    assert_false(rt_resource_is_up(r));
    HERE->run();
    await(&b, &b.backs, 2); /* nobody asked: it looks by itself */
    assert_true(rt_resource_is_up(r));
    a.e.part.connection = 0;
    assert_int_equal(take_over(&b, r, &a, true), RT_REPLY_DONE);
    assert_true(has_row(HERE, row));
    rt_resources_close(b.table);
}

static void refused(void **state)
{
    struct rt_proxy *proxy = rt_proxy_start(
        &(struct rt_proxy_options){.port = HERE->port(), .framing = HERE->framing});
    struct rt_proxy_counts counts;
    char url[300];
    struct book b;
    struct ask a = {.e = {.part = part_new(1)}};

    (void)state;
    book_open(&b);
    snprintf(url, sizeof(url),
             IS_MYSQL ? "mysql://rota:" SECRET "@127.0.0.1:%u/locks"
                      : "postgres://nobody:" SECRET "@127.0.0.1:%u/postgres",
             (unsigned)rt_proxy_port(proxy));
    struct rt_resource *r = named(&b, "here", url);
    rt_resource_url(r, url, sizeof(url));
    assert_null(strstr(url, SECRET));
    for (int i = 0; i < 5; i++) {
        assert_int_equal(ask(&b, r, &a, RT_PARTY_ASK), RT_REPLY_REFUSED);
        assert_int_equal(a.e.op.err, ROTA_AUTH);
        assert_true(a.e.unsent);
        says(&a, IS_MYSQL ? "Access denied" : "nobody");
    }
    rt_proxy_counts(proxy, &counts);
    assert_true(counts.connections <= 4); /* the first, and after a second, three, seven */
    assert_int_equal(b.downs, 1);
    assert_int_equal(b.err, ROTA_AUTH);
    assert_null(strstr(b.line, SECRET));
    char *good = HERE->url(rt_proxy_port(proxy));
    r = named(&b, "here", good); /* corrected: at once */
    free(good);
    assert_int_equal(ask(&b, r, &a, RT_PARTY_ASK), RT_REPLY_ABSENT);
    rt_resources_close(b.table);
    rt_proxy_stop(proxy);
}

/* A connection that ended while nobody used it costs nobody an errand. */
static void a_connection_that_ended(void **state)
{
    struct rt_proxy *proxy = rt_proxy_start(
        &(struct rt_proxy_options){.port = HERE->port(), .framing = HERE->framing});
    struct book b;
    struct ask a = {.e = {.part = part_new(1)}};

    (void)state;
    book_open(&b);
    struct rt_resource *r = here(&b, rt_proxy_port(proxy));
    assert_int_equal(ask(&b, r, &a, RT_PARTY_ASK), RT_REPLY_ABSENT);
    rt_proxy_end(proxy, RT_PROXY_CUT, 0);
    assert_int_equal(ask(&b, r, &a, RT_PARTY_ASK), RT_REPLY_ABSENT);
    rt_proxy_fault(proxy, &(struct rt_fault){.on = RT_FAULT_REPLY, .what = RT_FAULT_CUT});
    assert_int_equal(ask(&b, r, &a, RT_PARTY_ASK), RT_REPLY_LOST); /* under way */
    assert_false(a.e.unsent);
    assert_int_equal(ask(&b, r, &a, RT_PARTY_ASK), RT_REPLY_ABSENT);
    assert_int_equal(b.downs, 0);
    rt_resources_close(b.table);
    rt_proxy_stop(proxy);
}

/* ---- Hanging --------------------------------------------------------------------------------------- */

static void closed_while_it_hangs(void **state)
{
    struct rt_proxy *proxy = rt_proxy_start(
        &(struct rt_proxy_options){.port = HERE->port(), .framing = HERE->framing});
    struct book b;
    struct ask a = {.e = {.part = part_new(1)}}, second = a;

    (void)state;
    book_open(&b);
    struct rt_resource *r = here(&b, rt_proxy_port(proxy));
    assert_int_equal(ask(&b, r, &a, RT_PARTY_ASK), RT_REPLY_ABSENT);
    uint32_t fault = rt_proxy_fault(
        proxy, &(struct rt_fault){.on = RT_FAULT_REPLY, .what = RT_FAULT_SILENCE});
    send(&b, r, &a, RT_PARTY_ASK);
    assert_true(rt_proxy_await_hits(proxy, fault, 1, SITE_LIMIT_MS));
    send(&b, r, &second, RT_PARTY_LIST);
    rt_resources_close(b.table);
    assert_true(a.done && second.done);
    assert_int_equal(a.e.op.reply, RT_REPLY_LOST);
    assert_false(a.e.unsent);
    assert_int_equal(second.e.op.reply, RT_REPLY_LOST);
    assert_int_equal(second.e.op.err, ROTA_CANCELED);
    assert_true(second.e.unsent);
    rt_proxy_stop(proxy);
}

static bool has_one(void *arg, const struct rt_proxy_counts *counts)
{
    (void)arg;
    return counts->connections > 0;
}

static void closed_while_it_connects(void **state)
{
    struct rt_proxy *proxy = rt_proxy_start(
        &(struct rt_proxy_options){.port = HERE->port(), .framing = HERE->framing});
    struct book b;
    struct ask a = {.e = {.part = part_new(1)}}, late = a;

    (void)state;
    rt_proxy_door(proxy, RT_PROXY_MUTE);
    book_open(&b);
    struct rt_resource *r = here(&b, rt_proxy_port(proxy));
    late.e.op.deadline = in_ms(50);
    send(&b, r, &a, RT_PARTY_ASK);
    late.e.done = on_done;
    late.e.user = &late;
    late.book = &b;
    late.e.op.what = RT_PARTY_ASK;
    assert_int_equal(rt_resource_ask(r, &late.e), 0);
    assert_true(rt_proxy_await(proxy, has_one, NULL, SITE_LIMIT_MS));
    assert_int_equal(answer(&late), RT_REPLY_LOST); /* while the other one waits on */
    assert_true(late.e.unsent);
    says(&late, "no answer in time");
    rt_resources_close(b.table);
    assert_true(a.done && a.e.unsent);
    assert_int_equal(a.e.op.reply, RT_REPLY_LOST);
    rt_proxy_stop(proxy);
}

/* ---- Order ------------------------------------------------------------------------------------------ */

enum { GATES = 5 };

static void gates_are_one(void **state)
{
    struct rt_proxy *proxy = rt_proxy_start(
        &(struct rt_proxy_options){.port = HERE->port(), .framing = HERE->framing});
    struct book b;
    struct seat s[GATES];
    struct ask gate[GATES], list = {0}, last = {0}, first = {.e = {.part = part_new(1)}};

    (void)state;
    book_open(&b);
    struct rt_resource *r = here(&b, rt_proxy_port(proxy));
    for (int i = 0; i < GATES; i++) {
        prepare(&s[i], &gate[i]);
        if (i > 0)
            seat_close(&s[i]);
    }
    struct ask stranger = {.e = {.part = part_new(9), .place = gate[0].e.place}};
    assert_int_equal(ask(&b, r, &stranger, RT_PARTY_ASK), RT_REPLY_ABSENT); /* attached now */
    for (bool clear = false; !clear;) { /* their connections have ended, as far as it can be seen */
        poll(NULL, 0, 120);
        clear = true;
        for (int i = 1; i < GATES; i++)
            clear = clear && ask(&b, r, &gate[i], RT_PARTY_GATE) == RT_REPLY_CLEAR;
    }
    uint32_t hold = rt_proxy_fault(
        proxy, &(struct rt_fault){.on = RT_FAULT_REQUEST, .what = RT_FAULT_DELAY});
    uint32_t looks = rt_proxy_fault(proxy, &(struct rt_fault){.on = RT_FAULT_REQUEST,
                                                              .what = RT_FAULT_LOOK,
                                                              .match = "START ",
                                                              .times = RT_FAULT_ALWAYS});
    send(&b, r, &list, RT_PARTY_LIST);
    assert_true(rt_proxy_await_hits(proxy, hold, 1, SITE_LIMIT_MS));
    send(&b, r, &last, RT_PARTY_LIST);
    for (int i = 0; i < GATES; i++)
        send(&b, r, &gate[i], RT_PARTY_GATE);
    send(&b, r, &stranger, RT_PARTY_GATE);
    send(&b, r, &first, RT_PARTY_ASK);
    rt_proxy_fault_release(proxy, hold);
    for (int i = 0; i < GATES; i++)
        (void)answer(&gate[i]);
    assert_int_equal(answer(&list), RT_REPLY_DONE);
    assert_int_equal(answer(&last), RT_REPLY_DONE);
    assert_int_equal(answer(&first), RT_REPLY_ABSENT);
    assert_true(list.turn < first.turn && first.turn < last.turn);
    if (IS_MYSQL) {
        assert_int_equal(answer(&stranger), RT_REPLY_ABSENT);
        assert_int_equal(gate[0].e.op.reply, RT_REPLY_HELD); /* its connection is there */
        assert_int_equal(rt_proxy_fault_hits(proxy, looks), 1);
    } else {
        assert_int_equal(answer(&stranger), RT_REPLY_CLEAR);
        assert_int_equal(gate[0].e.op.reply, RT_REPLY_CLEAR);
    }
    for (int i = 1; i < GATES; i++)
        assert_int_equal(abs(gate[i].turn - gate[i - 1].turn), 1);
    seat_close(&s[0]);
    for (int i = 0; i < GATES; i++)
        assert_int_equal(take_over(&b, r, &gate[i], false), RT_REPLY_DONE);
    assert_int_equal(HERE->prepared(), 0);
    rt_resources_close(b.table);
    rt_proxy_stop(proxy);
}

/* ---- No memory ------------------------------------------------------------------------------------------ */

/* Each allocation fails once, from the table to an errand's answer. */
static void every_allocation_fails(void **state)
{
    char *url = HERE->url(0);
    bool went_well = false;
    long n = 0;

    (void)state;
    for (; !went_well; n++) {
        struct rt_resources *table = NULL;
        struct book b = {0};
        struct ask a = {.e = {.part = part_new(1), .done = on_done}, .book = &b};
        char errmsg[256] = "";
        scarce_begin();
        scarce.fail_at = n + 1;
        int err = rt_resources_open(&table, NULL);
        if (err == 0)
            err = rt_resources_add(table, "here", url, errmsg, sizeof(errmsg));
        if (err == 0) {
            a.e.user = &a;
            a.e.op = (struct rt_party_op){.what = RT_PARTY_ASK, .deadline = in_ms(SITE_LIMIT_MS)};
            err = rt_resource_ask(rt_resources_find(table, "here"), &a.e);
        }
        if (err == 0) {
            enum rt_reply said = answer(&a);
            went_well = said == RT_REPLY_ABSENT;
            assert_true(went_well || (a.e.op.err == ROTA_NOMEM && said == RT_REPLY_LOST));
        } else {
            assert_int_equal(err, ROTA_NOMEM);
        }
        rt_resources_close(table);
        assert_int_equal(scarce.live, 0);
        scarce_end();
    }
    assert_true(n > 8);
    free(url);
}

static int up(void **state)
{
    (void)state;
    HERE->start();
    return 0;
}

static int down(void **state)
{
    (void)state;
    HERE->fini();
    return 0;
}

int main(int argc, char **argv)
{
    static const struct CMUnitTest all[] = {
        cmocka_unit_test(a_takeover),
        cmocka_unit_test(a_url_of_another_database),
        cmocka_unit_test(another_database_answers),
        cmocka_unit_test(an_identity_stays),
        cmocka_unit_test(refused),
        cmocka_unit_test(a_connection_that_ended),
        cmocka_unit_test(closed_while_it_hangs),
        cmocka_unit_test(closed_while_it_connects),
        cmocka_unit_test(gates_are_one),
        cmocka_unit_test(every_allocation_fails),
        cmocka_unit_test(down_then_back),
    };

    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    signal(SIGPIPE, SIG_IGN);
    rt_watchdog(240, "the resources hang");
    return cmocka_run_group_tests_name("resource", all, up, down);
}
