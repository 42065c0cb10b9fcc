/* SPDX-License-Identifier: Apache-2.0 */
/* A line's sequence at its end, on a real server: order and exclusion across it. Two billion tickets would take days to
 * make; so the server's log is rewritten while it does not run: the ticket that was made there gets a high number.
 *
 * What ZooKeeper 3.8 does there: a line whose counter is 2^31 - 1 gives that number to all who come, except that, while
 * an earlier one is under way, it gives the next ones, which are negative. No order is left in that. */
#include "engine/zookeeper/ops.h"
#include "lib/players.h"
#include "lib/user.h"
#include "lib/zookeeper_server.h"

#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct rt_zks zks;
static char *url;

/* ---- The log of a server ----------------------------------------------------------------------- */

static uint32_t adler(const uint8_t *at, size_t n)
{
    uint32_t a = 1, b = 0;

    for (size_t i = 0; i < n; i++) {
        a = (a + at[i]) % 65521;
        b = (b + a) % 65521;
    }
    return b << 16 | a;
}

static void put(uint8_t *at, uint64_t value, size_t n)
{
    for (size_t i = 0; i < n; i++)
        at[i] = (uint8_t)(value >> 8 * (n - 1 - i));
}

/* If the entry made a child of LINE, SEQ tickets have been made there. */
static bool age_entry(uint8_t *at, size_t n, const char *line, int32_t seq)
{
    struct rt_jute_in in = {at, n, false};

    (void)rt_jute_get_long(&in); /* session */
    (void)rt_jute_get_int(&in);  /* xid */
    (void)rt_jute_get_long(&in); /* zxid */
    (void)rt_jute_get_long(&in); /* time */
    int32_t call = rt_jute_get_int(&in);
    struct rt_text path = rt_jute_get_bytes(&in);
    if (in.bad || (call != RT_ZK_CREATE && call != RT_ZK_CREATE2) || path.size <= strlen(line) ||
        memcmp(path.at, line, strlen(line)) != 0)
        return false;
    (void)rt_jute_get_bytes(&in);
    for (size_t acls = rt_jute_get_count(&in, 12); acls > 0; acls--) {
        (void)rt_jute_get_int(&in);
        (void)rt_jute_get_bytes(&in);
        (void)rt_jute_get_bytes(&in);
    }
    (void)rt_jute_get_bool(&in); /* ephemeral */
    assert_true(!in.bad && in.left >= 4);
    put(at + (in.at - at), (uint32_t)seq, 4);
    return true;
}

static size_t age_log(uint8_t *at, size_t n, const char *line, int32_t seq)
{
    size_t aged = 0;

    for (size_t i = 16; i + 12 < n;) { /* after its head: a checksum, a size, an entry, 'B' */
        struct rt_jute_in in = {at + i + 8, n - i - 8, false};
        size_t size = (size_t)rt_jute_get_int(&in);
        uint8_t *entry = at + i + 12;

        if (size == 0 || size > in.left)
            break;
        if (age_entry(entry, size, line, seq)) {
            put(at + i, adler(entry, size), 8);
            aged++;
        }
        i += 12 + size + 1;
    }
    return aged;
}

static size_t age_file(const char *path, const char *line, int32_t seq)
{
    static uint8_t bytes[4 << 20];
    FILE *f = fopen(path, "r+e");

    assert_non_null(f);
    size_t n = fread(bytes, 1, sizeof(bytes), f), aged = age_log(bytes, n, line, seq);
    rewind(f);
    assert_int_equal(fwrite(bytes, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
    return aged;
}

/* In LINE, a path with a slash at its end, SEQ tickets have been made. The server is restarted. */
static void age(const char *line, int32_t seq)
{
    char dir[400], path[800];
    size_t aged = 0;

    rt_server_kill(&zks.node[0].server);
    (void)snprintf(dir, sizeof(dir), "%s/data/version-2", zks.node[0].server.dir);
    DIR *d = opendir(dir);
    assert_non_null(d);
    for (struct dirent *e; (e = readdir(d)) != NULL;) {
        (void)snprintf(path, sizeof(path), "%s/%s", dir, e->d_name);
        if (strncmp(e->d_name, "log.", 4) == 0)
            aged += age_file(path, line, seq);
    }
    closedir(d);
    assert_true(aged > 0);
    rt_zks_run(&zks, 0);
}

/* ---- Cases ------------------------------------------------------------------------------------- */

#define TTL_MS 15000

static struct user a, b;

static int try_it(struct user *u, struct rt_join *join)
{
    *join = (struct rt_join){.flags = RT_JOIN_TRY};
    return user_join(u, "prize", join);
}

static int32_t seq_of(struct user *u, uint64_t number)
{
    const struct rt_zk_ticket *t = rt_zk_ticket_find((struct rt_zk *)(void *)u->conn, "prize",
                                                     u->session, number, 0);

    assert_non_null(t);
    return t->id.seq;
}

/* Makes the next ticket in the line "prize" the SEQth. */
static void begin(int32_t seq)
{
    struct rt_join first = {0};

    user_start(&a, url, TTL_MS);
    assert_int_equal(user_join(&a, "prize", &first),
                     0); /* there is a line, and its entry in the log */
    assert_int_equal(user_leave(&a, "prize", first.number), 0);
    user_close(&a);
    age(RT_ZKS_ROOT "/prize/", seq);
    user_start(&a, url, TTL_MS);
    user_start(&b, url, TTL_MS);
}

static void finish(void)
{
    user_close(&a);
    user_close(&b);
}

/* As far as numbers go, everything is as ever. */
static void up_to_the_last(void **state)
{
    struct rt_join held = {0}, waits = {0};

    (void)state;
    begin(RT_ZK_SEQ_LAST - 1);
    assert_int_equal(user_join(&a, "prize", &held), 0);
    assert_true(held.granted);
    assert_int_equal(seq_of(&a, held.number), RT_ZK_SEQ_LAST - 1);
    assert_int_equal(user_join(&b, "prize", &waits), 0);
    assert_false(waits.granted);
    assert_int_equal(seq_of(&b, waits.number), RT_ZK_SEQ_LAST);
    assert_int_equal(user_leave(&a, "prize", held.number), 0);
    (void)user_hear(&b, RT_GRANTED, waits.number, 0);
    assert_int_equal(user_leave(&b, "prize", waits.number), 0);
    finish();
}

/* Nobody is there any more: the line is made anew, and numbers begin with 0; fences keep growing. */
static void who_comes_to_an_empty_one_begins_it_anew(void **state)
{
    struct rt_join last = {0}, next = {0};

    (void)state;
    begin(RT_ZK_SEQ_LAST);
    assert_int_equal(user_join(&a, "prize", &last), 0);
    assert_int_equal(user_leave(&a, "prize", last.number), 0);
    assert_int_equal(user_join(&b, "prize", &next), 0);
    assert_true(next.granted);
    assert_true(seq_of(&b, next.number) < 100);
    assert_true(next.number > last.number);
    assert_int_equal(user_leave(&b, "prize", next.number), 0);
    finish();
}

/* While somebody holds: a newcomer is told so, or asks again; never do two hold. */
static void who_comes_to_one_that_is_held_waits(void **state)
{
    struct rt_join held = {0}, next = {0};

    (void)state;
    begin(RT_ZK_SEQ_LAST);
    assert_int_equal(user_join(&a, "prize", &held), 0);
    for (int i = 0; i < 20; i++) {
        assert_int_equal(try_it(&b, &next), ROTA_BUSY);
        next = (struct rt_join){0};
        assert_int_equal(user_join(&b, "prize", &next), ROTA_UNKNOWN);
        assert_non_null(strstr(b.errmsg, "used up"));
    }
    assert_int_equal(user_lines(&b, "prize"), 1);
    assert_int_equal(user_leave(&a, "prize", held.number), 0);
    assert_int_equal(user_join(&b, "prize", &next), 0);
    assert_true(next.granted && next.number > held.number);
    assert_int_equal(user_leave(&b, "prize", next.number), 0);
    finish();
}

/* Whatever others have made of it: where numbers come twice, none of ours stands. */
static void beyond_the_end(void **state)
{
    struct rt_join next = {0};

    (void)state;
    for (int32_t i = 0; i < 3; i++) {
        begin(INT32_MAX - 2 + i);
        for (int k = 0; k < 3; k++) {
            next = (struct rt_join){0};
            assert_int_equal(user_join(k % 2 == 0 ? &a : &b, "prize", &next), 0);
            assert_true(next.granted);
            assert_true(seq_of(k % 2 == 0 ? &a : &b, next.number) < 100);
            assert_int_equal(user_leave(k % 2 == 0 ? &a : &b, "prize", next.number), 0);
        }
        finish();
    }
}

/* There a ticket could stand before one that was made earlier, and is granted. */
static void never_two(void **state)
{
    (void)state;
    begin(INT32_MAX);
    for (int i = 0; i < 20; i++) {
        struct user *early = i % 2 == 0 ? &a : &b, *late = i % 2 == 0 ? &b : &a;
        struct rt_join held = {0}, waits = {0};

        assert_int_equal(user_join(early, "prize", &held), 0);
        assert_true(held.granted);
        assert_int_equal(user_join(late, "prize", &waits), 0);
        assert_false(waits.granted);
        assert_int_equal(user_leave(early, "prize", held.number), 0);
        (void)user_hear(late, RT_GRANTED, waits.number, 0);
        assert_int_equal(user_leave(late, "prize", waits.number), 0);
    }
    finish();
}

/* Through the whole library: waiters are served, and nobody notices. */
static void nobody_notices(void **state)
{
    struct player_wish wishes[3];
    struct rota_lock *held, *next;
    uint64_t fence;

    (void)state;
    begin(RT_ZK_SEQ_LAST);
    finish();
    struct rota *x = player(url, TTL_MS, 0), *y = player(url, TTL_MS, 0);
    held = player_take(x, "prize", NULL);
    fence = rota_fence(held);
    for (size_t i = 0; i < 3; i++)
        player_wish(y, "prize", ROTA_EXCLUSIVE, &wishes[i]);
    assert_int_equal(rota_release(held), 0);
    for (size_t i = 0; i < 3; i++) {
        next = player_wished(&wishes[i], 0);
        assert_true(rota_fence(next) >= fence);
        fence = rota_fence(next);
        assert_int_equal(rota_release(next), 0);
    }
    rota_close(x);
    rota_close(y);
}

static int setup(void **state)
{
    (void)state;
    rt_zks_start(&zks, 1, NULL);
    url = rt_zks_url(&zks, NULL);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    free(url);
    rt_zks_fini(&zks);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(up_to_the_last),
        cmocka_unit_test(who_comes_to_an_empty_one_begins_it_anew),
        cmocka_unit_test(who_comes_to_one_that_is_held_waits),
        cmocka_unit_test(beyond_the_end),
        cmocka_unit_test(never_two),
        cmocka_unit_test(nobody_notices),
    };

    cmocka_set_test_filter(getenv("ROTA_ONLY")); /* one case by hand */
    return cmocka_run_group_tests(tests, setup, teardown);
}
