/* SPDX-License-Identifier: Apache-2.0 */
/* A link whose server the test plays. */
#include "played.h"

#include "lib/scarce.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* ---- The network ------------------------------------------------------------------------------------------------- */

static int on_open(struct rt_dialer *d, struct rt_stream *s, const struct rt_stream_target *t)
{
    (void)t;
    ((struct played *)(void *)d)->stream = s;
    return 0;
}

static void on_write(struct rt_dialer *d, struct rt_stream *s, const char *bytes, size_t n)
{
    struct played *p = (struct played *)(void *)d;
    assert_ptr_equal(p->stream, s);
    assert_true(n <= sizeof(p->got));
    memcpy(p->got, bytes, n);
    p->size = n;
}

static void on_close(struct rt_dialer *d, struct rt_stream *s)
{
    (void)s;
    ((struct played *)(void *)d)->stream = NULL;
}

/* ---- The user ------------------------------------------------------------------------------------------------------ */

static void on_dropped(struct rt_sql_link *l)
{
    ((struct played *)l->owner)->closed++;
}

static struct played *of(struct rt_sql_link *l)
{
    struct played *p = l->owner;
    assert_ptr_equal(p->link, l);
    assert_int_equal(p->downs, 0); /* nothing comes after it */
    if (p->drops && p->link != NULL) {
        p->drops = false;
        rt_mysql_driver.drop(l, on_dropped);
    }
    return p;
}

static void on_up(struct rt_sql_link *l)
{
    of(l)->ups++;
}

static void on_down(struct rt_sql_link *l, int err, const char *why)
{
    struct played *p = of(l);
    p->downs++;
    p->err = err;
    assert_null(strchr(why, '\n'));
    assert_null(strstr(why, PLAYED_PASSWORD));
    snprintf(p->why, sizeof(p->why), "%s", why);
}

static void on_row(struct rt_sql_link *l, size_t step, const struct rt_sql_cell *cells,
                   size_t count)
{
    struct played *p = of(l);
    size_t used = 0;
    (void)step;
    p->rows++;
    p->row[0] = '\0';
    for (size_t i = 0; i < count && used < sizeof(p->row); i++)
        if (cells[i].null || cells[i].text == NULL)
            used += (size_t)snprintf(p->row + used, sizeof(p->row) - used,
                                     cells[i].null ? "|-" : "|%lld", (long long)cells[i].number);
        else
            used += (size_t)snprintf(p->row + used, sizeof(p->row) - used, "|%.*s",
                                     (int)(cells[i].size % 100), cells[i].text);
}

static void on_changed(struct rt_sql_link *l, size_t step, uint64_t count)
{
    (void)step;
    of(l)->changed = (int64_t)count;
}

static void on_landed(struct rt_sql_link *l, enum rt_sql_end end, size_t step, const char *why)
{
    struct played *p = of(l);
    p->lands++;
    p->end = end;
    p->failed = step;
    snprintf(p->why, sizeof(p->why), "%s", why);
}

static const struct rt_sql_user user = {on_up, on_down, on_row, on_changed, on_landed, NULL};

/* ---- Life ------------------------------------------------------------------------------------------------------------ */

static bool give_up(struct played *p)
{
    assert_int_not_equal(scarce.fail_at, 0);
    free(p->link);
    if (p->self != NULL)
        rt_mysql_driver.close(p->self);
    rt_dial_ring_fini(&p->ring);
    rt_loop_fini(&p->loop);
    return false;
}

bool played_open(struct played *p, const char *text, const char *password)
{
    struct rt_url url;
    memset(p, 0, sizeof(*p));
    p->dialer = (struct rt_dialer){on_open, on_write, on_close};
    rt_loop_init_virtual(&p->loop);
    p->loop.dialer = &p->dialer;
    p->base = (struct rt_conn){.up = &p->up, .loop = &p->loop, .label = "played"};
    rt_dial_times(&p->base);
    long fail_at = scarce.fail_at;
    scarce.fail_at = 0;
    assert_int_equal(rt_url_parse(&url, text, p->why, sizeof(p->why)), 0);
    url.password = password;
    scarce.fail_at = fail_at;
    int rv = rt_mysql_driver.open(&p->base, &url, &p->ring, &p->self);
    if (rv == 0 && p->ring.count == 0)
        rv = rt_dial_hosts(&p->ring, &p->base, &url, rt_mysql_driver.port);
    url.password = "";
    rt_url_fini(&url);
    if (rv != 0)
        return give_up(p);
    p->link = calloc(1, rt_mysql_driver.link_size);
    assert_non_null(p->link);
    *p->link = (struct rt_sql_link){.base = &p->base, .user = &user, .driver = p->self, .owner = p};
    if (rt_mysql_driver.dial(p->link, &p->ring.ends[0], 5000) != 0)
        return give_up(p);
    played_turn(p);
    rt_stream_feed_up(p->stream);
    played_turn(p);
    return true;
}

void played_close(struct played *p)
{
    if (p->closed == 0)
        rt_mysql_driver.drop(p->link, on_dropped);
    p->downs = 0;
    rt_mysql_driver.close(p->self);
    for (int i = 0; i < 4; i++)
        played_turn(p);
    assert_int_equal(p->closed, 1);
    assert_null(p->stream);
    free(p->link);
    rt_dial_ring_fini(&p->ring);
    rt_loop_fini(&p->loop);
}

void played_turn(struct played *p)
{
    rt_loop_arm(&p->loop);
    rt_loop_turn(&p->loop, NULL, NULL);
    rt_loop_arm(&p->loop);
}

void played_pass(struct played *p, uint32_t ms)
{
    rt_loop_advance(&p->loop, rt_loop_now(&p->loop) + ms * RT_MS);
    played_turn(p);
    played_turn(p);
}

void played_bytes(struct played *p, const void *bytes, size_t n)
{
    if (p->stream == NULL || n == 0)
        return;
    p->size = 0;
    rt_stream_feed_data(p->stream, bytes, n);
    played_turn(p);
}

void played_hang_up(struct played *p)
{
    struct rt_stream *ended = p->stream;
    p->stream = NULL;
    rt_stream_feed_down(ended, ROTA_UNREACHABLE, "h:3306 closed the connection");
    played_turn(p);
}

int played_send(struct played *p, const struct rt_sql_step *steps, size_t count)
{
    p->lands = p->rows = 0;
    p->size = 0;
    int rv = rt_mysql_driver.send(p->link, &(struct rt_sql_flight){steps, count});
    played_turn(p);
    return rv;
}

/* ---- What a server says --------------------------------------------------------------------------------------------- */

void said_begin(struct said *s, uint8_t seq)
{
    s->size = 0;
    s->seq = seq;
}

void said_packet(struct said *s, const void *body, size_t n)
{
    assert_true(s->size + n + 4 <= sizeof(s->at));
    uint8_t head[4] = {(uint8_t)n, (uint8_t)(n >> 8), (uint8_t)(n >> 16), s->seq++};
    memcpy(s->at + s->size, head, 4);
    if (n > 0)
        memcpy(s->at + s->size + 4, body, n);
    s->size += n + 4;
}

static void add_packet(struct said *s, struct rt_mysql_bytes *b)
{
    said_packet(s, b->at, b->size);
    rt_mysql_bytes_free(b);
}

void said_greeting(struct said *s, uint32_t caps, const char *plugin)
{
    struct rt_mysql_bytes b = {0};
    rt_mysql_add_int(&b, 10, 1);
    rt_mysql_add(&b, "5.5.5-10.11.6-MariaDB", 22);
    rt_mysql_add_int(&b, 77, 4);
    rt_mysql_add(&b, PLAYED_SALT, 8);
    rt_mysql_add_int(&b, 0, 1);
    rt_mysql_add_int(&b, caps & 0xffff, 2);
    rt_mysql_add_int(&b, 45, 1);
    rt_mysql_add_int(&b, 2, 2);
    rt_mysql_add_int(&b, caps >> 16, 2);
    rt_mysql_add_int(&b, 21, 1);
    rt_mysql_add(&b, "\0\0\0\0\0\0\0\0\0", 10);
    rt_mysql_add(&b, &PLAYED_SALT[8], 13);
    rt_mysql_add(&b, plugin, strlen(plugin) + 1);
    add_packet(s, &b);
}

void said_ok(struct said *s, uint64_t affected, uint64_t id, bool more)
{
    struct rt_mysql_bytes b = {0};
    rt_mysql_add_int(&b, 0, 1);
    rt_mysql_add_length(&b, affected);
    rt_mysql_add_length(&b, id);
    rt_mysql_add_int(&b, more ? 11 : 3, 2); /* inside a transaction */
    rt_mysql_add_int(&b, 0, 2);
    add_packet(s, &b);
}

void said_error(struct said *s, unsigned code, const char *text)
{
    struct rt_mysql_bytes b = {0};
    rt_mysql_add_int(&b, 0xff, 1);
    rt_mysql_add_int(&b, code, 2);
    rt_mysql_add_text(&b, "#HY000");
    rt_mysql_add_text(&b, text);
    add_packet(s, &b);
}

void said_end(struct said *s, bool no_eof, bool more)
{
    static const uint8_t eof[2][5] = {{0xfe, 0, 0, 2, 0}, {0xfe, 0, 0, 10, 0}};
    const uint8_t ok[] = {0xfe, 0, 0, more ? 10 : 2, 0, 0, 0};
    said_packet(s, no_eof ? ok : eof[more], no_eof ? sizeof(ok) : sizeof(eof[0]));
}

void said_columns(struct said *s, size_t count, uint8_t type, bool no_eof)
{
    uint8_t n = (uint8_t)count;
    said_packet(s, &n, 1);
    for (size_t i = 0; i < count; i++) {
        struct rt_mysql_bytes b = {0};
        rt_mysql_add(&b, "\3def\0\0\0\1c\0\x0c\x2d\0\1\0\0\0", 17);
        rt_mysql_add_int(&b, type, 1);
        rt_mysql_add(&b, "\0\0\0\0\0", 5);
        add_packet(s, &b);
    }
    if (!no_eof)
        said_end(s, false, false);
}

void said_row(struct said *s, size_t count, const char *text)
{
    struct rt_mysql_bytes b = {0};
    for (size_t i = 0; i < count; i++) {
        if (text[0] == '\0') {
            rt_mysql_add_int(&b, 0xfb, 1);
            continue;
        }
        rt_mysql_add_length(&b, strlen(text));
        rt_mysql_add_text(&b, text);
    }
    add_packet(s, &b);
}

/* ---- Good answers ----------------------------------------------------------------------------------------------------- */

static void answer_prepare(struct said *s, const struct played *p, bool no_eof)
{
    const struct rt_mysql_link *l = rt_mysql_of(p->link);
    uint8_t body[12] = {0, 1};
    size_t form = l->form;
    size_t marks = rt_mysql_marks(rt_mysql_text(l, form), NULL, NULL);
    body[7] = (uint8_t)marks;
    said_packet(s, body, sizeof(body));
    for (size_t i = 0; i < marks; i++)
        said_packet(s, "\3def\0\0\0\1?\0\x0c\x2d\0\1\0\0\0\x8\0\0\0\0\0", 23);
    if (!no_eof && marks > 0)
        said_end(s, false, false);
}

static void answer_part(struct said *s, const struct rt_mysql_link *l, size_t part)
{
    bool more = part + 1 < l->part_count && !l->singles;
    size_t step = l->parts[part].step;
    const struct rt_mysql_step *t = step != RT_MYSQL_NOBODY ? rt_mysql_step(&l->steps[step]) : NULL;
    bool rows = t != NULL && strncmp(t->sql[0], "select", 6) == 0 &&
                strstr(t->sql[0], "into") == NULL;
    if (!rows) {
        said_ok(s, 1, 1234, more);
        return;
    }
    said_columns(s, 3, l->binary ? 8 : 3, l->no_eof);
    if (l->binary)
        said_packet(s, "\0\x8\1\0\0\0\0\0\0\0\2\0\0\0\0\0\0\0", 18);
    else
        said_row(s, 3, "42");
    said_end(s, l->no_eof, more);
}

bool said_answer(struct said *s, const struct played *p)
{
    const struct rt_mysql_link *l = rt_mysql_of(p->link);
    said_begin(s, l->seq);
    switch (l->state) {
    case RT_MYSQL_HELLO:
        said_greeting(s, PLAYED_CAPS, "mysql_native_password");
        return true;
    case RT_MYSQL_AUTH:
    case RT_MYSQL_UNDOING:
        said_ok(s, 0, 0, false);
        return true;
    case RT_MYSQL_SETTING:
        said_ok(s, 0, 0, true);
        said_ok(s, 0, 0, false);
        return true;
    case RT_MYSQL_PREPARING:
        answer_prepare(s, p, l->no_eof);
        return true;
    case RT_MYSQL_FLYING:
        for (size_t i = l->part; i < l->part_count; i++) {
            if (l->singles && i > l->part)
                s->seq = 1;
            answer_part(s, l, i);
        }
        return true;
    default:
        return false;
    }
}

void played_greet(struct played *p, uint32_t caps)
{
    static struct said s;
    said_begin(&s, 0);
    said_greeting(&s, caps, "mysql_native_password");
    played_bytes(p, s.at, s.size);
    while (p->ups + p->downs == 0 && said_answer(&s, p))
        played_bytes(p, s.at, s.size);
}
