/* SPDX-License-Identifier: Apache-2.0 */
/* What is told of existing keys: INSPECT, LIST and the doctor on an etcd that has a shelf of them: ours, those of other
 * clients, leftovers and somebody's data. The expected text is the test: people decide by it whom to break. */
#include "played.h"
#include "town.h"

#include "lib/scarce.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

struct kept {
    const char *key, *value;
    int64_t number, lease;
};

struct lease {
    int64_t id, ttl; /* -1: over and gone, as etcd says it */
};

static const struct kept *shelf;
static size_t shelf_size;
static const struct lease *leases;
static size_t lease_count;
static bool too_large;        /* values of whole lines are; asked for one by one they come */
static const char *large_key; /* its value alone is more than an answer may have */
static int ranges, lines_asked, pages;
static char said[8192];

/* ---- The server ------------------------------------------------------------------------------------- */

static bool is_in(const struct kept *k, const RtEtcd__RangeRequest *rq)
{
    size_t n = strlen(k->key);
    if (rq->range_end.len == 0)
        return n == rq->key.len && memcmp(k->key, rq->key.data, n) == 0;
    size_t a = n < rq->key.len ? n : rq->key.len, b = n < rq->range_end.len ? n : rq->range_end.len;
    int low = memcmp(k->key, rq->key.data, a), high = memcmp(k->key, rq->range_end.data, b);
    bool from = low > 0 || (low == 0 && n >= rq->key.len);
    bool before = high < 0 || (high == 0 && n < rq->range_end.len);
    return from && (before || (rq->range_end.len == 1 && rq->range_end.data[0] == '\0'));
}

struct range {
    RtEtcd__RangeResponse r;
    RtEtcd__Header header;
    RtEtcd__KeyValue kvs[32], *list[32];
};

static void fill(struct range *out, const RtEtcd__RangeRequest *rq)
{
    rt_etcd__range_response__init(&out->r);
    rt_etcd__header__init(&out->header);
    out->header.revision = 1000;
    out->r.header = &out->header;
    out->r.kvs = out->list;
    for (size_t i = 0; i < shelf_size; i++) {
        if (!is_in(&shelf[i], rq))
            continue;
        RtEtcd__KeyValue *kv = &out->kvs[out->r.n_kvs];
        out->list[out->r.n_kvs++] = kv;
        rt_etcd__key_value__init(kv);
        kv->key = text(shelf[i].key);
        kv->create_revision = shelf[i].number;
        kv->mod_revision = shelf[i].number;
        if (rq->keys_only)
            continue; /* since 3.7 without its lease, too */
        kv->value = text(shelf[i].value);
        kv->lease = shelf[i].lease;
    }
}

static void play_range(struct town_wire *w, size_t i)
{
    static struct range out;
    RtEtcd__RangeRequest *rq = town_read(w, i, &rt_etcd__range_request__descriptor);
    ranges++;
    if (rq->keys_only) {
        assert_int_equal(rq->limit, 1000);
        pages++;
    }
    memset(&out, 0, sizeof(out));
    fill(&out, rq);
    protobuf_c_message_free_unpacked(&rq->base, NULL);
    town_answer(w, i, &out.r);
}

/* One of gets only; false: another. */
static bool play_gets(struct town_wire *w, size_t i)
{
    static struct range out[32];
    RtEtcd__ResponseOp ops[32], *list[32];
    RtEtcd__TxnResponse r = RT_ETCD__TXN_RESPONSE__INIT;
    RtEtcd__TxnRequest *rq = town_read(w, i, &rt_etcd__txn_request__descriptor);
    bool gets = rq->n_success > 0, whole = false, large = false;
    for (size_t k = 0; k < rq->n_success; k++)
        gets = gets && rq->success[k]->request_case == RT_ETCD__REQUEST_OP__REQUEST_RANGE;
    assert_true(rq->n_success <= 32);
    memset(out, 0, sizeof(out));
    for (size_t k = 0; gets && k < rq->n_success; k++) {
        const RtEtcd__RangeRequest *one = rq->success[k]->range;
        whole = whole || one->range_end.len > 0;
        lines_asked += one->range_end.len > 0;
        large = large || (large_key != NULL && one->key.len == strlen(large_key) &&
                          memcmp(one->key.data, large_key, one->key.len) == 0);
        if (one->range_end.len == 0)
            assert_int_equal(one->revision, 1000); /* as of the page that named it */
        fill(&out[k], one);
        rt_etcd__response_op__init(&ops[k]);
        ops[k].response_case = RT_ETCD__RESPONSE_OP__RESPONSE_RANGE;
        ops[k].range = &out[k].r;
        list[k] = &ops[k];
    }
    r.succeeded = true;
    r.responses = list;
    r.n_responses = gets ? rq->n_success : 0;
    protobuf_c_message_free_unpacked(&rq->base, NULL);
    static const uint8_t announced[5] = {0, 0x10}; /* 256 MB follow */
    if ((too_large && whole) || large)
        peer_answer_raw(&w->peer, i, announced, 5, NULL);
    else
        town_answer(w, i, &r);
    return true;
}

static void play_left(struct town_wire *w, size_t i)
{
    RtEtcd__LeaseTimeToLiveResponse r = RT_ETCD__LEASE_TIME_TO_LIVE_RESPONSE__INIT;
    RtEtcd__LeaseTimeToLiveRequest *rq = town_read(
        w, i, &rt_etcd__lease_time_to_live_request__descriptor);
    ProtobufCBinaryData keys[32];
    r.id = rq->id;
    r.ttl = -1;
    for (size_t k = 0; k < lease_count; k++)
        if (leases[k].id == rq->id)
            r.ttl = leases[k].ttl;
    r.keys = keys;
    for (size_t k = shelf_size; rq->keys && k-- > 0;) /* in no order that we count on */
        if (shelf[k].lease == rq->id)
            keys[r.n_keys++] = text(shelf[k].key);
    protobuf_c_message_free_unpacked(&rq->base, NULL);
    town_answer(w, i, &r);
}

static bool play_shelf(struct town *town, struct town_wire *w, size_t i)
{
    (void)town;
    if (town_is_call(w, i, "/etcdserverpb.KV/Range"))
        play_range(w, i);
    else if (town_is_call(w, i, "/etcdserverpb.KV/Txn"))
        return play_gets(w, i);
    else if (town_is_call(w, i, "/etcdserverpb.Lease/LeaseTimeToLive"))
        play_left(w, i);
    else
        return false;
    return true;
}

static void open_shelf(const char *url)
{
    ranges = lines_asked = pages = 0;
    said[0] = '\0';
    town_init(&t, 1);
    t.play = play_shelf;
    scarce_begin();
    town_open(&t, url);
    town_until_ready(&t);
}

static void close_shelf(void)
{
    town_close(&t);
    assert_int_equal(scarce.live, 0); /* all is given back: without a sanitizer, too */
    scarce_end();
    too_large = false;
    large_key = NULL;
}

/* ---- What is told ------------------------------------------------------------------------------------- */

static void add(const char *format, ...) __attribute__((format(printf, 1, 2)));

static void add(const char *format, ...)
{
    size_t used = strlen(said);
    va_list args;
    va_start(args, format);
    vsnprintf(said + used, sizeof(said) - used, format, args);
    va_end(args);
}

static void each_place(void *arg, const char *name, const struct rota_place *p)
{
    (void)arg;
    add("%s #%llu session %llx owner %llu left %lld mode %u %u/%u%s%s%s%s%s since %s '%s' '%s'\n",
        name, (unsigned long long)p->number, (unsigned long long)p->session,
        (unsigned long long)p->owner, (long long)p->left_ms, p->mode, p->take, p->of,
        p->flags & ROTA_PLACE_GRANTED ? " granted" : "",
        p->flags & ROTA_PLACE_DURABLE ? " durable" : "",
        p->flags & ROTA_PLACE_FOREIGN ? " foreign" : "", p->flags & ROTA_PLACE_MINE ? " mine" : "",
        p->flags & ROTA_PLACE_DETECT ? " detect" : "",
        p->since_ms < 0    ? "?"
        : p->since_ms == 0 ? "now"
                           : "then",
        p->label, p->value);
}

static void inspect(const char *name, uint64_t session)
{
    struct rt_op op = {.kind = RT_OP_INSPECT};
    op.inspect.name = name;
    op.inspect.session = session;
    op.inspect.each = each_place;
    if (town_do(&t, &op) != 0)
        fail_msg("%s", t.why);
}

static void each_line(void *arg, const char *name, size_t count, size_t granted)
{
    (void)arg;
    add("%s %zu %zu\n", name, count, granted);
}

static void list(const char *prefix)
{
    struct rt_op op = {.kind = RT_OP_LIST};
    op.list.prefix = prefix;
    op.list.each = each_line;
    if (town_do(&t, &op) != 0)
        fail_msg("%s", t.why);
}

static void each_verdict(void *arg, const struct rota_verdict *v)
{
    (void)arg;
    add("%s: %s: %s%s%s\n", v->promise, v->verdict, v->setting, v->remedy[0] != '\0' ? " -> " : "",
        v->remedy);
}

static void check(void)
{
    struct rt_op op = {.kind = RT_OP_CHECK};
    op.check.each = each_verdict;
    if (town_do(&t, &op) != 0)
        fail_msg("%s", t.why);
}

#define PUT(list)                                      \
    do {                                               \
        shelf = list;                                  \
        shelf_size = sizeof(list) / sizeof((list)[0]); \
    } while (0)

static void put_leases(void)
{
    static const struct lease some[] = {{7, 70}, {8, 1}, {9, 0}, {0xa, -1}};
    leases = some;
    lease_count = 4;
}

/* ---- Tickets ------------------------------------------------------------------------------------------- */

static const struct kept tickets[] = {
    {"+rota/7", "seven", 1, 7},
    {"+rota/8", "eight", 2, 8},
    {"a/7-1", "rota1 0 0 0 - 5 0 1 1 2 me hello", 10, 7},
    {"a/8-2", "rota1 0 0 0 d 6 0 0 2 0  ", 11, 8},
    {"a/9-3", "rota1 0 0 0 - 0 0 99999999999999 3 5 other ", 12, 9},
    {"a/p5-4", "rota1 0 0 0 - 0 0 0 4 4 long x", 13, 0},
    {"b/7-5", "rota1 1 0 0 - 0 0 0 5 0  ", 21, 7},
    {"b/8-6", "rota1 1 0 0 - 0 0 0 6 0  ", 20, 8},
    {"c/7-8", "rota1 2 2 3 - 0 0 0 8 0  ", 30, 7},
    {"c/8-9", "rota1 2 1 3 - 0 0 0 9 0  ", 31, 8},
    {"c/9-a", "rota1 2 1 3 - 0 0 0 10 0  ", 32, 9},
    {"d/7-b", "the leader's", 40, 7},
    {"d/a", "foreign", 41, 0xa},
    {"d/b-1", "rota2 more than we know", 42, 0xb},
    {"e/7-c", "rota1 0 0 0 l 9 0 0 12 2 me ", 50, 8},
    {"f/7-d", "bare, on another lease", 60, 8},
    {"f/1234", "without a lease", 61, 0},
    {"f/deep/er", "data", 62, 0},
    {"g/p0-5", "rota1 0 0 0 - 0 0 0 5 0  ", 70, 0}, /* a durable session may have any id */
};

static void a_line(void **state)
{
    (void)state;
    PUT(tickets);
    put_leases();
    open_shelf("etcd://a");
    inspect("a", 0);
    inspect("b", 0);
    inspect("c", 0);
    assert_string_equal(
        said, "a #10 session 7 owner 5 left 70000 mode 0 0/0 granted since then 'me' 'hello'\n"
              "a #11 session 8 owner 6 left 1000 mode 0 0/0 detect since ? '' ''\n"
              "a #12 session 9 owner 0 left 0 mode 0 0/0 since now 'other' ''\n"
              "a #13 session 0 owner 0 left -1 mode 0 0/0 durable since ? 'long' 'x'\n"
              "b #20 session 8 owner 0 left 1000 mode 1 0/0 granted since ? '' ''\n"
              "b #21 session 7 owner 0 left 70000 mode 1 0/0 granted since ? '' ''\n"
              "c #30 session 7 owner 0 left 70000 mode 2 2/3 granted since ? '' ''\n"
              "c #31 session 8 owner 0 left 1000 mode 2 1/3 granted since ? '' ''\n"
              "c #32 session 9 owner 0 left 0 mode 2 1/3 since ? '' ''\n");
    close_shelf();
}

static void others_in_a_line(void **state)
{
    (void)state;
    PUT(tickets);
    put_leases();
    open_shelf("etcd://a");
    inspect("d", 0);
    inspect("e", 0);
    inspect("f", 0);
    inspect("g", 0);
    inspect("nothing", 0);
    assert_string_equal(
        said,
        "d #40 session 7 owner 0 left 70000 mode 0 0/0 granted since ? 'seven' 'the leader's'\n"
        "d #41 session a owner 0 left 0 mode 0 0/0 foreign since ? 'lease a' 'foreign'\n"
        "d #42 session b owner 0 left 0 mode 0 0/0 since ? 'of a later layout: upgrade' ''\n"
        "e #50 session 0 owner 0 left 1000 mode 0 0/0 granted durable since ? 'me' ''\n"
        "f #60 session 8 owner 0 left 1000 mode 0 0/0 granted foreign since ? 'eight' 'bare, on another lease'\n"
        "f #61 session 0 owner 0 left -1 mode 0 0/0 foreign since ? 'no lease' 'without a lease'\n"
        "f #62 session 0 owner 0 left -1 mode 0 0/0 foreign since ? 'no lease' 'data'\n"
        "g #70 session 0 owner 0 left -1 mode 0 0/0 granted durable since ? '' ''\n");
    close_shelf();
}

/* Where the values of a line are more than one answer may hold, they are requested one by one. */
static void a_line_that_is_too_large(void **state)
{
    (void)state;
    PUT(tickets);
    put_leases();
    open_shelf("etcd://a");
    inspect("a", 0);
    inspect("d", 0);
    char whole[sizeof(said)];
    memcpy(whole, said, sizeof(said));
    close_shelf();
    open_shelf("etcd://a");
    too_large = true;
    inspect("a", 0);
    inspect("d", 0);
    assert_string_equal(said, whole);
    assert_int_equal(pages, 2);
    close_shelf();
}

/* One value that never comes: all others do, and it is shown as one that nobody can read. */
static void a_value_that_is_too_large(void **state)
{
    static const struct {
        const char *key, *text;
    } cases[] = {
        {"a/7-1",
         "a #10 session 0 owner 0 left -1 mode 0 0/0 granted foreign since ? 'no lease' ''\n"
         "a #11 session 8 owner 6 left 1000 mode 0 0/0 detect since ? '' ''\n"
         "a #12 session 9 owner 0 left 0 mode 0 0/0 since now 'other' ''\n"
         "a #13 session 0 owner 0 left -1 mode 0 0/0 durable since ? 'long' 'x'\n"},
        {"a/8-2", "a #10 session 7 owner 5 left 70000 mode 0 0/0 granted since then 'me' 'hello'\n"
                  "a #11 session 0 owner 0 left -1 mode 0 0/0 foreign since ? 'no lease' ''\n"
                  "a #12 session 9 owner 0 left 0 mode 0 0/0 since now 'other' ''\n"
                  "a #13 session 0 owner 0 left -1 mode 0 0/0 durable since ? 'long' 'x'\n"},
        {"a/p5-4", "a #10 session 7 owner 5 left 70000 mode 0 0/0 granted since then 'me' 'hello'\n"
                   "a #11 session 8 owner 6 left 1000 mode 0 0/0 detect since ? '' ''\n"
                   "a #12 session 9 owner 0 left 0 mode 0 0/0 since now 'other' ''\n"
                   "a #13 session 0 owner 0 left -1 mode 0 0/0 foreign since ? 'no lease' ''\n"},
    };
    (void)state;
    PUT(tickets);
    put_leases();
    for (size_t i = 0; i < 3; i++) {
        open_shelf("etcd://a");
        too_large = true;
        large_key = cases[i].key;
        inspect("a", 0);
        assert_string_equal(said, cases[i].text);
        close_shelf();
    }
}

static void of_a_session(void **state)
{
    (void)state;
    PUT(tickets);
    put_leases();
    open_shelf("etcd://a");
    inspect(NULL, 7);
    assert_int_equal(lines_asked, 4); /* each once */
    inspect(NULL, 8);
    inspect(NULL, 99);
    add("--\n");
    inspect(NULL, 0xb); /* which has one alone */
    assert_string_equal(
        said,
        "a #10 session 7 owner 5 left 70000 mode 0 0/0 granted since then 'me' 'hello'\n"
        "b #21 session 7 owner 0 left 70000 mode 1 0/0 granted since ? '' ''\n"
        "c #30 session 7 owner 0 left 70000 mode 2 2/3 granted since ? '' ''\n"
        "d #40 session 7 owner 0 left 70000 mode 0 0/0 granted since ? 'seven' 'the leader's'\n"
        "a #11 session 8 owner 6 left 1000 mode 0 0/0 detect since ? '' ''\n"
        "b #20 session 8 owner 0 left 1000 mode 1 0/0 granted since ? '' ''\n"
        "c #31 session 8 owner 0 left 1000 mode 2 1/3 granted since ? '' ''\n"
        "--\n"
        "d #42 session b owner 0 left 0 mode 0 0/0 since ? 'of a later layout: upgrade' ''\n"); /* a leader has the label of its session, whatever else that has */
    close_shelf();
}

static void lists(void **state)
{
    (void)state;
    PUT(tickets);
    put_leases();
    open_shelf("etcd://a");
    list("");
    add("--\n");
    list("b");
    add("--\n");
    list("bb");
    assert_string_equal(said, "a 4 1\n"
                              "b 2 2\n"
                              "c 3 2\n"
                              "d 3 1\n"
                              "e 1 1\n"
                              "f 2 1\n"
                              "--\n"
                              "b 2 2\n"
                              "--\n");
    close_shelf();
}

/* ---- The doctor ----------------------------------------------------------------------------------------- */

static void nothing_is_left(void **state)
{
    static const struct kept none[] = {{"other/thing", "data", 1, 0}};
    (void)state;
    PUT(none);
    put_leases();
    open_shelf("etcd://a");
    check();
    assert_string_equal(
        said,
        "one holder at a time (I1): kept: a majority has every grant on its disks\n"
        "fences only grow (I2): kept: the create_revision of the ticket's key, unless a snapshot is "
        "restored\n"
        "order of arrival (I7): kept: by create_revision\n"
        "durable tickets: kept: keys without a lease\n"
        "clocks: kept: not compared: the leader alone counts how long a lease lives\n"
        "takeover: kept: a lease lives 2 s at least; ours 10 s\n"
        "space: kept: no alarm; the database has 0 of 2147 MB\n"
        "privacy: limited: no TLS: keys, labels and tokens pass in the clear -> use etcds://\n"
        "users: limited: no user: anybody who reaches it may take, break and revoke -> turn on auth, with a user limited to ?prefix=\n"
        "version: kept: etcd 3.6.16\n"
        "outages survived: limited: 1 of 1 members vote; 0 may fail; 1 of 1 endpoints answer -> run three or five members\n"
        "rights: kept: leases, reading and writing under the prefix\n"
        "nothing stays (I6): kept: 0 sessions, 0 of them over and still there; 0 tickets that nothing ends\n");
    close_shelf();
}

static const struct kept left[] = {
    {"+rota/7", "seven", 1, 7},
    {"+rota/a", "ten", 2, 0xa},
    {"+rota/b", "over", 3, 0xb},
    {"+rota/c", "detached", 4, 0},
    {"data/1234", "somebody's", 5, 0},
    {"data/5678", "somebody's", 6, 0},
    {"lock/7-1", "rota1 0 0 0 - 5 0 1 1 2 me hello", 10, 0},
    {"lock/7-2", "rota1 0 0 0 - 5 0 1 2 2 me hello", 11, 0},
    {"lock/p7-3", "rota1 0 0 0 - 5 0 1 3 2 me hello", 12, 0},
    {"lock/8-4", "rota1 0 0 0 - 5 0 1 4 2 me hello", 13, 8},
};

static const char *leftovers_line(void)
{
    const char *at = strstr(said, "nothing stays");
    return at != NULL ? at : "";
}

static void leftovers(void **state)
{
    static const struct lease some[] = {{7, 70}, {8, 1}, {0xa, -2}, {0xb, -5}};
    (void)state;
    leases = some;
    lease_count = 4;
    PUT(left);
    open_shelf("etcd://a");
    check();
    assert_string_equal(
        leftovers_line(),
        "nothing stays (I6): limited: 4 sessions, 2 of them over and still there; 2 tickets that nothing ends; 2 keys without a lease that stand in a line as if they were tickets (data/1234) -> rota break lock --fence 10\n");
    close_shelf();
    shelf_size = 6; /* no ticket */
    open_shelf("etcd://a");
    check();
    assert_string_equal(
        leftovers_line(),
        "nothing stays (I6): limited: 4 sessions, 2 of them over and still there; 0 tickets that nothing ends; 2 keys without a lease that stand in a line as if they were tickets (data/1234) -> etcdctl lease revoke a\n");
    close_shelf();
    shelf = left + 4; /* data alone */
    shelf_size = 2;
    open_shelf("etcd://a");
    check();
    assert_string_equal(
        leftovers_line(),
        "nothing stays (I6): limited: 0 sessions, 0 of them over and still there; 0 tickets that nothing ends; 2 keys without a lease that stand in a line as if they were tickets (data/1234) -> if they are data: names, or a ?prefix=, that no data begins with\n");
    close_shelf();
}

/* With a prefix: what others keep beside it is not looked at, and the remedy has the name as our user spells it. */
static void leftovers_behind_a_prefix(void **state)
{
    static const struct kept some[] = {
        {"app.+rota/7", "seven", 1, 7},
        {"app.lock/7-1", "rota1 0 0 0 - 5 0 1 1 2 me hello", 10, 0},
        {"data/1234", "somebody's", 5, 0},
    };
    (void)state;
    put_leases();
    PUT(some);
    open_shelf("etcd://a?prefix=app.");
    check();
    assert_string_equal(
        leftovers_line(),
        "nothing stays (I6): limited: 1 sessions, 0 of them over and still there; 1 tickets that nothing ends -> rota break lock --fence 10\n");
    close_shelf();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_line),
        cmocka_unit_test(others_in_a_line),
        cmocka_unit_test(a_line_that_is_too_large),
        cmocka_unit_test(a_value_that_is_too_large),
        cmocka_unit_test(of_a_session),
        cmocka_unit_test(lists),
        cmocka_unit_test(nothing_is_left),
        cmocka_unit_test(leftovers),
        cmocka_unit_test(leftovers_behind_a_prefix),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
