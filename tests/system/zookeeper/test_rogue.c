/* SPDX-License-Identifier: Apache-2.0 */
/* Servers that are no ZooKeeper, and malicious ones: through the whole library each gives one clear error.
 *
 * The last case plays a server whose answers are well-formed and make no sense: test_zookeeper_rogue [ROUNDS [SEED]] */
#include "engine/zookeeper/zk.h"
#include "lib/meeting.h"
#include "lib/refusal.h"
#include "lib/user.h"

#include <rota.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define CALL_MS 600
#define ROUNDS 200
#define SESSION 0x1234567
static struct rt_jute_out first, then;
static int rounds = ROUNDS;
static uint64_t seed = 1;

/* ---- Parts of a conversation -------------------------------------------------------------------- */

/* Puts the size before what was written from AT on. */
static void sized(struct rt_jute_out *o, size_t at)
{
    rt_jute_set_int(o, at, (int32_t)(o->size - at - 4));
}

static void connect_reply(struct rt_jute_out *o, int32_t timeout, uint64_t id, size_t password)
{
    size_t at = o->size;

    rt_jute_int(o, 0);
    rt_jute_int(o, 0);
    rt_jute_int(o, timeout);
    rt_jute_long(o, (int64_t)id);
    rt_jute_bytes(o, "0123456789abcdef", password);
    rt_jute_bool(o, false);
    sized(o, at);
}

static void header(struct rt_jute_out *o, int32_t xid, int32_t said)
{
    rt_jute_int(o, 0);
    rt_jute_int(o, xid);
    rt_jute_long(o, 1);
    rt_jute_int(o, said);
}

/* So far it is a ZooKeeper: a session, and no config that could be read. */
static void greet(void)
{
    connect_reply(&first, 10000, SESSION, 16);
    size_t at = then.size;
    header(&then, 0, -101);
    sized(&then, at);
}

static void event(struct rt_jute_out *o, const char *path)
{
    size_t at = o->size;

    header(o, -1, 0);
    rt_jute_int(o, RT_ZK_DELETED);
    rt_jute_int(o, 3);
    rt_jute_text(o, path);
    sized(o, at);
}

static void reply(struct rt_jute_out *o, int32_t xid, int32_t said)
{
    size_t at = o->size;

    header(o, xid, said);
    sized(o, at);
}

/* ---- Cases -------------------------------------------------------------------------------------- */

static void meet(enum rogue_way way, const char *what, int err, const char *words)
{
    static const char *const secrets[] = {NULL};
    struct rogue_options opts = {.way = way,
                                 .first = first.at,
                                 .first_size = first.size,
                                 .then = then.at,
                                 .then_size = then.size,
                                 .seed = 1};

    meeting(&opts, "zk", "/rota", CALL_MS, what, err, words, secrets);
    rt_jute_free(&first);
    rt_jute_free(&then);
}

static int forget(void **state)
{
    (void)state;
    rt_jute_free(&first); /* of a case that was broken off */
    rt_jute_free(&then);
    return 0;
}

static void raw(struct rt_jute_out *o, const void *bytes, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        rt_jute_bool(o, false);
        o->at[o->size - 1] = ((const uint8_t *)bytes)[i];
    }
}

static void says(const char *words)
{
    raw(&first, words, strlen(words));
    meet(ROGUE_SAYS, "words", ROTA_PROTOCOL, "no ZooKeeper|client port");
}

static void other_protocols(void **state)
{
    (void)state;
    says("HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n");
    says("-ERR unknown command\r\n");
    says("SSH-2.0-OpenSSH_9.2p1 Debian-2\r\n");
    raw(&first, "\x15\x03\x01\x00\x02\x02\x46", 7);
    meet(ROGUE_SAYS, "TLS", ROTA_PROTOCOL, "TLS|zks://");
    meet(ROGUE_NOISE, "noise", MEETING_EITHER, NULL);
    meet(ROGUE_ECHOES, "echoes", ROTA_PROTOCOL, NULL);
    meet(ROGUE_MUTE, "mute", ROTA_UNREACHABLE, "answer");
    meet(ROGUE_CLOSES, "closes", ROTA_UNREACHABLE, "connection");
}

static void sizes_that_cannot_be(void **state)
{
    static const uint32_t sizes[] = {0, 0x80000000, 0xffffffff, 0x7fffffff, (64u << 20) + 1};

    (void)state;
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        rt_jute_int(&first, (int32_t)sizes[i]);
        meet(ROGUE_SAYS, "a size", ROTA_PROTOCOL, "no ZooKeeper");
        greet();
        rt_jute_int(&then, (int32_t)sizes[i]);
        meet(ROGUE_TALKS, "a size, later", ROTA_UNREACHABLE, "no message of ZooKeeper");
    }
}

static void cut_in_the_middle(void **state)
{
    (void)state;
    connect_reply(&first, 10000, SESSION, 16);
    first.size -= 10;
    meet(ROGUE_HANGS_UP, "cut in the greeting", ROTA_UNREACHABLE, "connection");
    connect_reply(&first, 10000, SESSION, 16);
    meet(ROGUE_HANGS_UP, "cut after the greeting", ROTA_UNREACHABLE, "connection");
    connect_reply(&first, 10000, SESSION, 16);
    rt_jute_int(&then, 100);
    meet(ROGUE_TALKS, "the rest does not come", ROTA_UNREACHABLE, "answer");
}

static void greetings_that_are_wrong(void **state)
{
    (void)state;
    connect_reply(&first, 10000, SESSION, 3);
    meet(ROGUE_TALKS, "a password of 3 bytes", ROTA_PROTOCOL, "no ZooKeeper");
    connect_reply(&first, 0, 0, 16);
    meet(ROGUE_TALKS, "no session", ROTA_UNREACHABLE, "session");
    connect_reply(&first, -5, SESSION, 16);
    meet(ROGUE_TALKS, "less than no time", ROTA_UNREACHABLE, "session");
    connect_reply(&first, 10000, SESSION, 16);
    reply(&then, 77, 0);
    meet(ROGUE_TALKS, "a wrong xid", ROTA_UNREACHABLE, "no greeting");
    connect_reply(&first, 10000, SESSION, 16);
    rt_jute_int(&then, 3);
    raw(&then, "abc", 3);
    meet(ROGUE_TALKS, "half a header", ROTA_UNREACHABLE, "no greeting");
}

static void answers_that_are_wrong(void **state)
{
    (void)state;
    greet();
    reply(&then, 99, 0);
    meet(ROGUE_TALKS, "an answer to nothing", ROTA_UNREACHABLE, "no answer to what was asked");
    greet();
    rt_jute_int(&then, 3);
    raw(&then, "abc", 3);
    meet(ROGUE_TALKS, "half a header, later", ROTA_UNREACHABLE, "no answer to what was asked");
    greet();
    meet(ROGUE_TALKS, "the greeting again", ROTA_UNREACHABLE, "no answer to what was asked");
}

static void floods(void **state)
{
    (void)state;
    connect_reply(&first, 10000, SESSION, 16);
    event(&then, "/rota/some%20lock/x");
    meet(ROGUE_FLOODS, "events for ever", ROTA_UNREACHABLE, NULL);
    connect_reply(&first, 10000, SESSION, 16);
    reply(&first, 0, -101);
    event(&then, "/rota/some%20lock/x");
    meet(ROGUE_FLOODS, "events for ever, later", ROTA_UNREACHABLE, NULL);
    connect_reply(&first, 10000, SESSION, 16);
    reply(&first, 0, -101);
    reply(&then, -8, 0);
    meet(ROGUE_FLOODS, "watches set for ever", ROTA_UNREACHABLE, NULL);
    connect_reply(&first, 10000, SESSION, 16);
    rt_jute_int(&first, 64 << 20);
    raw(&then, "for ever and ever", 17);
    meet(ROGUE_FLOODS, "a message of 64 MiB", ROTA_UNREACHABLE, NULL);
}

/* ---- Answers in order, that make no sense -------------------------------------------------------- */

struct play { /* the server's thread has it */
    uint64_t state, answers;
};

static uint32_t roll(struct play *p, uint32_t below)
{
    p->state = p->state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(p->state >> 33) % below;
}

/* Names like those of tickets, whole or in pieces, of sessions that may be ours. */
static void put_name(struct play *p, struct rt_jute_out *o)
{
    static const char *const parts[] = {
        "_c_", "-lock-", "0000000001", "-p1of2",   "-g2",
        "-d",  "-t9",    "-k1",        "-n5",      "2147483647",
        "-r",  "/",      "-w",         "__READ__", "00000000-0123-4567-0000-0000000000"};
    char name[256] = "";

    if (roll(p, 2) == 0)
        (void)snprintf(name, sizeof(name), "_c_00000000-0123-4567-0000-%012x%s-lock-%010u",
                       roll(p, 300), roll(p, 3) == 0 ? "-g2" : "", roll(p, 5));
    for (uint32_t k = roll(p, 4); k > 0 && strlen(name) < 200; k--)
        strcat(name, parts[roll(p, sizeof(parts) / sizeof(parts[0]))]);
    rt_jute_text(o, name);
}

static void put_stat(struct play *p, struct rt_jute_out *o)
{
    for (int i = 0; i < 4; i++)
        rt_jute_long(o, roll(p, 4) == 0 ? (int64_t)p->state : (int64_t)roll(p, 9));
    for (int i = 0; i < 3; i++)
        rt_jute_int(o, (int32_t)roll(p, 3));
    rt_jute_long(o, SESSION);
    rt_jute_int(o, 0);
    rt_jute_int(o, 0);
    rt_jute_long(o, 1);
}

/* What such a call is answered with, more or less. */
static void put_body(struct play *p, struct rt_jute_out *o, int32_t call)
{
    uint32_t n = roll(p, 5);

    if (call == RT_ZK_MULTI) {
        for (; n > 0; n--) {
            rt_jute_int(o, roll(p, 2) == 0 ? -1 : RT_ZK_CREATE);
            rt_jute_bool(o, roll(p, 9) == 0);
            rt_jute_int(o, -1);
            if (roll(p, 2) == 0)
                put_name(p, o);
            else
                rt_jute_int(o, -(int32_t)roll(p, 120));
        }
    } else if (call == RT_ZK_CHILDREN || call == RT_ZK_EPHEMERALS) {
        rt_jute_int(o, (int32_t)(roll(p, 9) == 0 ? roll(p, UINT32_MAX) : n));
        for (; n > 0; n--)
            put_name(p, o);
    } else {
        put_name(p, o);
        put_stat(p, o);
    }
}

static void answer_one(struct play *p, struct rt_jute_out *o, int32_t xid, int32_t call)
{
    static const int32_t words[] = {-101, -101, -110, -111, -103, -102, -8,   -6,
                                    -114, -125, -127, -118, -112, -4,   -115, -1};
    size_t at = o->size;

    if (roll(p, 8) == 0)
        event(o, roll(p, 2) == 0 ? "/rota/a" : "/rota/b");
    at = o->size;
    header(o, roll(p, 60) == 0 ? xid + 1 : xid,
           xid == 0 || roll(p, 3) != 0 ? 0 : words[roll(p, sizeof(words) / sizeof(words[0]))]);
    put_body(p, o, call);
    uint32_t body = (uint32_t)(o->size - at - 20);
    for (uint32_t k = body > 0 && roll(p, 9) == 0 ? roll(p, 4) : 0; k > 0; k--)
        o->at[at + 20 + roll(p, body)] = (uint8_t)roll(p, 256);
    if (body > 0 && roll(p, 9) == 0) /* less than there should be */
        o->size -= roll(p, body);
    sized(o, at);
    p->answers++;
}

static size_t play(void *arg, bool begins, const void *got, size_t n, void *out, size_t room)
{
    struct rt_jute_in in = {got, n, false};
    struct rt_jute_out o = {0};
    struct play *p = arg;

    while (in.left >= 12) {
        size_t size = (size_t)(uint32_t)rt_jute_get_int(&in);
        struct rt_jute_in one = {in.at, size < in.left ? size : in.left, false};
        in.at += one.left;
        in.left -= one.left;
        if (begins) {
            connect_reply(&o, 10000, SESSION, 16);
        } else {
            int32_t xid = rt_jute_get_int(&one), call = rt_jute_get_int(&one);
            answer_one(p, &o, xid, call);
        }
        begins = false;
    }
    size_t said = o.size < room ? o.size : room;
    if (said > 0)
        memcpy(out, o.at, said);
    rt_jute_free(&o);
    return said;
}

static void count_place(void *arg, const char *name, const struct rota_place *place)
{
    (void)name;
    *(size_t *)arg += place->label != NULL;
}

static void count_line(void *arg, const char *name, size_t count, size_t granted)
{
    *(size_t *)arg += strlen(name) + count + granted;
}

static void count_verdict(void *arg, const struct rota_verdict *verdict)
{
    (void)verdict;
    ++*(size_t *)arg;
}

/* Some op, with some deadline: whatever comes of it, it ends once, and leaves nothing. */
static void some_op(struct user *u, uint64_t i)
{
    struct rt_join joins[2] = {{.name = "a", .nonce = i + 1, .session = u->session},
                               {.name = "b", .nonce = i + 1, .session = u->session}};
    struct rt_op op = {.kind = RT_OP_JOIN, .deadline = rt_loop_tick(&u->loop) + 20 * RT_MS};
    size_t n = 0;

    switch (i % 10) {
    case 0:
        op.kind = RT_OP_BEAT;
        op.beat.open = true;
        break;
    case 1:
    case 2:
        op.join.joins = joins;
        op.join.n = i % 10;
        op.kind = i % 10 == 2 ? RT_OP_JOIN_ALL : RT_OP_JOIN;
        joins[0].flags = i % 3 == 0 ? RT_JOIN_TRY : i % 3 == 1 ? RT_JOIN_ARM : 0;
        joins[1].flags = joins[0].flags;
        joins[0].at_least_ms = i % 4 == 0 ? 5 : 0;
        break;
    case 3:
        op.join.joins = joins;
        op.join.n = 1;
        joins[0].mode = i % 20 < 10 ? RT_PERMITS : RT_GATHER;
        joins[0].take = joins[0].mode == RT_PERMITS ? 1 : 0;
        joins[0].of = 2;
        break;
    case 4:
        op.kind = RT_OP_LEAVE;
        op.leave.name = "a";
        op.leave.session = u->session;
        op.leave.nonce = i - 2;
        break;
    case 5:
        op.kind = RT_OP_INSPECT;
        op.inspect.name = "a";
        op.inspect.each = count_place;
        op.inspect.arg = &n;
        break;
    case 6:
        op.kind = RT_OP_LIST;
        op.list.prefix = "";
        op.list.each = count_line;
        op.list.arg = &n;
        break;
    case 7:
        op.kind = RT_OP_BREAK;
        op.brk.name = "a";
        op.brk.number = i % 20 < 10 ? 0 : 1;
        break;
    case 8:
        if (i % 100 != 8) /* its side requests have their own time */
            return;
        op.kind = RT_OP_CHECK;
        op.check.each = count_verdict;
        op.check.arg = &n;
        break;
    default:
        op.kind = RT_OP_BEAT;
        op.beat.session = u->session;
    }
    int err = user_do(u, &op);
    assert_true(err <= 0);
    if (op.kind == RT_OP_BEAT && op.beat.open && err == 0)
        u->session = op.beat.session;
    u->told_count = u->held_count = 0;
}

static void whatever_it_answers(void **state)
{
    struct play p = {.state = seed};
    struct rogue_options opts = {.way = ROGUE_PLAYS, .play = play, .arg = &p};
    struct rogue *server = rogue_start(&opts);
    static struct user u;
    char url[64];

    (void)state;
    (void)snprintf(url, sizeof(url), "zk://127.0.0.1:%u/rota", (unsigned)rogue_port(server));
    assert_int_equal(user_open(&u, url), 0);
    for (int i = 0; i < rounds; i++)
        some_op(&u, (uint64_t)i);
    user_close(&u);
    rogue_stop(server);
    print_message("seed %llu: %d ops, %llu answers\n", (unsigned long long)seed, rounds,
                  (unsigned long long)p.answers);
    assert_true(p.answers > (uint64_t)rounds / 4);
}

/* What a process keeps from its first client on is not counted. */
static int warm_up(void **state)
{
    (void)state;
    return refusal_of("mem:warm", CALL_MS).err;
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(other_protocols, forget),
        cmocka_unit_test_setup(sizes_that_cannot_be, forget),
        cmocka_unit_test_setup(cut_in_the_middle, forget),
        cmocka_unit_test_setup(greetings_that_are_wrong, forget),
        cmocka_unit_test_setup(answers_that_are_wrong, forget),
        cmocka_unit_test_setup(floods, forget),
        cmocka_unit_test(whatever_it_answers),
    };

    rounds = argc > 1 ? atoi(argv[1]) : ROUNDS;
    seed = argc > 2 ? strtoull(argv[2], NULL, 10) : seed;
    cmocka_set_test_filter(getenv("ROTA_ONLY")); /* one case by hand */
    return cmocka_run_group_tests(tests, warm_up, NULL);
}
