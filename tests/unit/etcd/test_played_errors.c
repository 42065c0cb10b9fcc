/* SPDX-License-Identifier: Apache-2.0 */
/* Everything with which etcd, or gRPC before it, may refuse a call: what the user is told, in which words, and how
 * often it was tried. Reads may be retried; writes only where it was surely not done, or where a retry is harmless;
 * else it is UNKNOWN (I5). */
#include "lib/scarce.h"
#include "played.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const char *path, *status, *words; /* what is refused, and how */
static int asked, most;                   /* so often; the first `most` are refused */
static char said[65536];

static bool play_refusal(struct town *town, struct town_wire *w, size_t i)
{
    (void)town;
    if (town_is_call(w, i, "/etcdserverpb.KV/Put"))
        return true; /* let in: that is all we want to know */
    if (!town_is_call(w, i, path))
        return false;
    if (++asked > most)
        return play(town, w, i);
    peer_refuse(&w->peer, i, "200", "application/grpc", status, words);
    return true;
}

static const char *err_name(int err)
{
#define ROTA_NAME(name, number, text) [-(number)] = #name,
    static const char *const names[] = {[0] = "ok", ROTA_ERRORS(ROTA_NAME)};
    return names[-err];
}

static void ignore(void *arg, const char *name, size_t count, size_t granted)
{
    (void)arg;
    (void)name;
    (void)count;
    (void)granted;
}

/* One that reads, one that writes and may be repeated, one that creates something. */
static struct rt_op op_of(int kind)
{
    struct rt_op op = {.kind = RT_OP_LIST};
    op.list.prefix = "";
    op.list.each = ignore;
    if (kind == 1)
        op = leave_op("a", 0, 9);
    if (kind == 2) {
        op = (struct rt_op){.kind = RT_OP_BEAT};
        op.beat.open = true;
    }
    return op;
}

static void refused(const char *url, const char *code, const char *text_of)
{
    static const char *const paths[] = {"/etcdserverpb.KV/Range", "/etcdserverpb.KV/Txn",
                                        "/etcdserverpb.Lease/LeaseGrant"};
    static const char *const names[] = {"read", "write", "make"};
    for (int kind = 0; kind < 3; kind++) {
        struct rt_op op = op_of(kind);
        size_t used;
        path = paths[kind];
        status = code;
        words = text_of;
        asked = 0;
        most = 3; /* a fourth time it is let in, and not answered */
        txns = revokes = grants = 0;
        town_init(&t, 1);
        t.play = play_refusal;
        town_open(&t, url);
        town_until_ready(&t);
        int err = town_do(&t, &op);
        used = strlen(said);
        snprintf(said + used, sizeof(said) - used, "%s '%s' %s: %s%s%s, asked %d\n", code,
                 text_of != NULL ? text_of : "", names[kind], err_name(err), err != 0 ? ": " : "",
                 err != 0 ? t.why : "", asked);
        close_town();
    }
}

static void expect_said(const char *want, const char *file, int line)
{
    if (strcmp(said, want) != 0) {
        (void)fputs(said, stderr);
        _fail(file, line);
    }
    said[0] = '\0';
}
#define expect(want) expect_said(want, __FILE__, __LINE__)

static void codes(void **state)
{
    (void)state;
    said[0] = '\0';
    for (int i = 1; i <= 17; i++) {
        char code[8];
        snprintf(code, sizeof(code), "%d", i);
        refused("etcd://a", code, "words");
    }
    expect("1 'words' read: ok, asked 4\n"
           "1 'words' write: UNKNOWN: a:2379 has not answered in time, asked 5\n"
           "1 'words' make: UNKNOWN: a:2379: words, asked 1\n"
           "2 'words' read: PROTOCOL: a:2379: words, asked 1\n"
           "2 'words' write: UNKNOWN: a:2379: words, asked 1\n"
           "2 'words' make: UNKNOWN: a:2379: words, asked 1\n"
           "3 'words' read: INVALID: a:2379: words, asked 1\n"
           "3 'words' write: INVALID: a:2379: words, asked 1\n"
           "3 'words' make: INVALID: a:2379: words, asked 1\n"
           "4 'words' read: ok, asked 4\n"
           "4 'words' write: UNKNOWN: a:2379 has not answered in time, asked 5\n"
           "4 'words' make: UNKNOWN: a:2379: words, asked 1\n"
           "5 'words' read: LOST: a:2379: words, asked 1\n"
           "5 'words' write: LOST: a:2379: words, asked 1\n"
           "5 'words' make: LOST: a:2379: words, asked 1\n"
           "6 'words' read: INVALID: a:2379: words, asked 1\n"
           "6 'words' write: INVALID: a:2379: words, asked 1\n"
           "6 'words' make: INVALID: a:2379: words, asked 1\n"
           "7 'words' read: AUTH: a:2379: words, asked 1\n"
           "7 'words' write: AUTH: a:2379: words, asked 1\n"
           "7 'words' make: AUTH: a:2379: words, asked 1\n"
           "8 'words' read: UNREACHABLE: a:2379: words, asked 1\n"
           "8 'words' write: UNKNOWN: a:2379: words, asked 1\n"
           "8 'words' make: UNKNOWN: a:2379: words, asked 1\n"
           "9 'words' read: INVALID: a:2379: words, asked 1\n"
           "9 'words' write: INVALID: a:2379: words, asked 1\n"
           "9 'words' make: INVALID: a:2379: words, asked 1\n"
           "10 'words' read: ok, asked 4\n"
           "10 'words' write: UNKNOWN: a:2379 has not answered in time, asked 5\n"
           "10 'words' make: UNKNOWN: a:2379: words, asked 1\n"
           "11 'words' read: INVALID: a:2379: words, asked 1\n"
           "11 'words' write: INVALID: a:2379: words, asked 1\n"
           "11 'words' make: INVALID: a:2379: words, asked 1\n"
           "12 'words' read: UNSUPPORTED: a:2379: words, asked 1\n"
           "12 'words' write: UNSUPPORTED: a:2379: words, asked 1\n"
           "12 'words' make: UNSUPPORTED: a:2379: words, asked 1\n"
           "13 'words' read: ok, asked 4\n"
           "13 'words' write: UNKNOWN: a:2379 has not answered in time, asked 5\n"
           "13 'words' make: UNKNOWN: a:2379: words, asked 1\n"
           "14 'words' read: ok, asked 4\n"
           "14 'words' write: UNKNOWN: a:2379 has not answered in time, asked 5\n"
           "14 'words' make: UNKNOWN: a:2379: words, asked 1\n"
           "15 'words' read: ok, asked 4\n"
           "15 'words' write: UNKNOWN: a:2379 has not answered in time, asked 5\n"
           "15 'words' make: UNKNOWN: a:2379: words, asked 1\n"
           "16 'words' read: AUTH: a:2379: words, asked 1\n"
           "16 'words' write: AUTH: a:2379: words, asked 1\n"
           "16 'words' make: AUTH: a:2379: words, asked 1\n"
           "17 'words' read: PROTOCOL: a:2379: words, asked 1\n"
           "17 'words' write: UNKNOWN: a:2379: words, asked 1\n"
           "17 'words' make: UNKNOWN: a:2379: words, asked 1\n");
}

static void sentences(void **state)
{
    static const struct {
        const char *status, *text;
    } all[] = {{"14", "etcdserver: no leader"},
               {"14", "etcdserver: not leader"},
               {"14", "etcdserver: rpc not supported for learner"},
               {"14", "etcdserver: not capable"},
               {"14", "etcdserver: request timed out"},
               {"8", "etcdserver: too many requests"},
               {"8", "etcdserver: mvcc: database space exceeded"},
               {"8", "grpc: received message larger than max (5 vs. 4)"},
               {"11", "etcdserver: mvcc: required revision has been compacted"},
               {"5", "etcdserver: requested lease not found"},
               {"9", "etcdserver: lease already exists"},
               {"16", "etcdserver: invalid auth token"},
               {"3", "etcdserver: revision of auth store is old"},
               {"3", "etcdserver: user name is empty"},
               {"3", "etcdserver: authentication failed, invalid user ID or password"},
               {"9", "etcdserver: authentication is not enabled"},
               {"7", "etcdserver: permission denied"},
               {"13", "etcdserver: something else"}};
    (void)state;
    said[0] = '\0';
    for (size_t i = 0; i < 9; i++)
        refused("etcd://a", all[i].status, all[i].text);
    expect(
        "14 'etcdserver: no leader' read: ok, asked 4\n"
        "14 'etcdserver: no leader' write: UNKNOWN: a:2379 has not answered in time, asked 5\n"
        "14 'etcdserver: no leader' make: UNKNOWN: a:2379 has not answered in time, asked 4\n"
        "14 'etcdserver: not leader' read: ok, asked 4\n"
        "14 'etcdserver: not leader' write: UNKNOWN: a:2379 has not answered in time, asked 5\n"
        "14 'etcdserver: not leader' make: UNKNOWN: a:2379 has not answered in time, asked 4\n"
        "14 'etcdserver: rpc not supported for learner' read: ok, asked 4\n"
        "14 'etcdserver: rpc not supported for learner' write: UNKNOWN: a:2379 has not answered in time, asked 5\n"
        "14 'etcdserver: rpc not supported for learner' make: UNKNOWN: a:2379 has not answered in time, asked 4\n"
        "14 'etcdserver: not capable' read: UNSUPPORTED: a:2379: etcdserver: not capable, asked 1\n"
        "14 'etcdserver: not capable' write: UNSUPPORTED: a:2379: etcdserver: not capable, asked 1\n"
        "14 'etcdserver: not capable' make: UNSUPPORTED: a:2379: etcdserver: not capable, asked 1\n"
        "14 'etcdserver: request timed out' read: ok, asked 4\n"
        "14 'etcdserver: request timed out' write: UNKNOWN: a:2379 has not answered in time, asked 5\n"
        "14 'etcdserver: request timed out' make: UNKNOWN: a:2379: etcdserver: request timed out, asked 1\n"
        "8 'etcdserver: too many requests' read: ok, asked 4\n"
        "8 'etcdserver: too many requests' write: UNKNOWN: a:2379 has not answered in time, asked 5\n"
        "8 'etcdserver: too many requests' make: UNKNOWN: a:2379 has not answered in time, asked 4\n"
        "8 'etcdserver: mvcc: database space exceeded' read: ok, asked 4\n"
        "8 'etcdserver: mvcc: database space exceeded' write: UNKNOWN: a:2379 has not answered in time, asked 5\n"
        "8 'etcdserver: mvcc: database space exceeded' make: UNKNOWN: a:2379 has not answered in time, asked 4\n"
        "8 'grpc: received message larger than max (5 vs. 4)' read: INVALID: a:2379: grpc: received message larger than max (5 vs. 4), asked 1\n"
        "8 'grpc: received message larger than max (5 vs. 4)' write: INVALID: a:2379: grpc: received message larger than max (5 vs. 4), asked 1\n"
        "8 'grpc: received message larger than max (5 vs. 4)' make: INVALID: a:2379: grpc: received message larger than max (5 vs. 4), asked 1\n"
        "11 'etcdserver: mvcc: required revision has been compacted' read: INVALID: a:2379: etcdserver: mvcc: required revision has been compacted, asked 3\n"
        "11 'etcdserver: mvcc: required revision has been compacted' write: INVALID: a:2379: etcdserver: mvcc: required revision has been compacted, asked 1\n"
        "11 'etcdserver: mvcc: required revision has been compacted' make: INVALID: a:2379: etcdserver: mvcc: required revision has been compacted, asked 1\n");
    for (size_t i = 9; i < sizeof(all) / sizeof(all[0]); i++)
        refused("etcd://a", all[i].status, all[i].text);
    expect(
        "5 'etcdserver: requested lease not found' read: LOST: a:2379: etcdserver: requested lease not found, asked 1\n"
        "5 'etcdserver: requested lease not found' write: LOST: a:2379: etcdserver: requested lease not found, asked 1\n"
        "5 'etcdserver: requested lease not found' make: LOST: a:2379: etcdserver: requested lease not found, asked 1\n"
        "9 'etcdserver: lease already exists' read: INVALID: a:2379: etcdserver: lease already exists, asked 1\n"
        "9 'etcdserver: lease already exists' write: INVALID: a:2379: etcdserver: lease already exists, asked 1\n"
        "9 'etcdserver: lease already exists' make: INVALID: a:2379: etcdserver: lease already exists, asked 1\n"
        "16 'etcdserver: invalid auth token' read: AUTH: a:2379 wants a user: write etcd://USER@HOST, and give the password by $ROTA_PASSWORD or ?password_file=, asked 1\n"
        "16 'etcdserver: invalid auth token' write: AUTH: a:2379 wants a user: write etcd://USER@HOST, and give the password by $ROTA_PASSWORD or ?password_file=, asked 1\n"
        "16 'etcdserver: invalid auth token' make: AUTH: a:2379 wants a user: write etcd://USER@HOST, and give the password by $ROTA_PASSWORD or ?password_file=, asked 1\n"
        "3 'etcdserver: revision of auth store is old' read: AUTH: a:2379 wants a user: write etcd://USER@HOST, and give the password by $ROTA_PASSWORD or ?password_file=, asked 1\n"
        "3 'etcdserver: revision of auth store is old' write: AUTH: a:2379 wants a user: write etcd://USER@HOST, and give the password by $ROTA_PASSWORD or ?password_file=, asked 1\n"
        "3 'etcdserver: revision of auth store is old' make: AUTH: a:2379 wants a user: write etcd://USER@HOST, and give the password by $ROTA_PASSWORD or ?password_file=, asked 1\n"
        "3 'etcdserver: user name is empty' read: AUTH: a:2379 wants a user: write etcd://USER@HOST, and give the password by $ROTA_PASSWORD or ?password_file=, asked 1\n"
        "3 'etcdserver: user name is empty' write: AUTH: a:2379 wants a user: write etcd://USER@HOST, and give the password by $ROTA_PASSWORD or ?password_file=, asked 1\n"
        "3 'etcdserver: user name is empty' make: AUTH: a:2379 wants a user: write etcd://USER@HOST, and give the password by $ROTA_PASSWORD or ?password_file=, asked 1\n"
        "3 'etcdserver: authentication failed, invalid user ID or password' read: AUTH: a:2379: etcdserver: authentication failed, invalid user ID or password, asked 1\n"
        "3 'etcdserver: authentication failed, invalid user ID or password' write: AUTH: a:2379: etcdserver: authentication failed, invalid user ID or password, asked 1\n"
        "3 'etcdserver: authentication failed, invalid user ID or password' make: AUTH: a:2379: etcdserver: authentication failed, invalid user ID or password, asked 1\n"
        "9 'etcdserver: authentication is not enabled' read: AUTH: a:2379: etcdserver: authentication is not enabled, asked 1\n"
        "9 'etcdserver: authentication is not enabled' write: AUTH: a:2379: etcdserver: authentication is not enabled, asked 1\n"
        "9 'etcdserver: authentication is not enabled' make: AUTH: a:2379: etcdserver: authentication is not enabled, asked 1\n"
        "7 'etcdserver: permission denied' read: AUTH: a:2379: etcdserver: permission denied, asked 1\n"
        "7 'etcdserver: permission denied' write: AUTH: a:2379: etcdserver: permission denied, asked 1\n"
        "7 'etcdserver: permission denied' make: AUTH: a:2379: etcdserver: permission denied, asked 1\n"
        "13 'etcdserver: something else' read: ok, asked 4\n"
        "13 'etcdserver: something else' write: UNKNOWN: a:2379 has not answered in time, asked 5\n"
        "13 'etcdserver: something else' make: UNKNOWN: a:2379: etcdserver: something else, asked 1\n");
}

/* A client with a user and a prefix is told which rights that user needs. */
static void rights(void **state)
{
    (void)state;
    said[0] = '\0';
    refused("etcd://ada:x@a", "7", "etcdserver: permission denied");
    refused("etcd://ada:x@a?prefix=app.", "7", "etcdserver: permission denied");
    refused("etcd://ada:x@a", "16", "etcdserver: invalid auth token");
    expect(
        "7 'etcdserver: permission denied' read: AUTH: a:2379: permission denied: the user 'ada' needs readwrite on all keys; or name what its keys may begin with by ?prefix=, asked 1\n"
        "7 'etcdserver: permission denied' write: AUTH: a:2379: permission denied: the user 'ada' needs readwrite on all keys; or name what its keys may begin with by ?prefix=, asked 1\n"
        "7 'etcdserver: permission denied' make: AUTH: a:2379: permission denied: the user 'ada' needs readwrite on all keys; or name what its keys may begin with by ?prefix=, asked 1\n"
        "7 'etcdserver: permission denied' read: AUTH: a:2379: permission denied: the user 'ada' needs readwrite on the keys that begin with 'app.', asked 1\n"
        "7 'etcdserver: permission denied' write: AUTH: a:2379: permission denied: the user 'ada' needs readwrite on the keys that begin with 'app.', asked 1\n"
        "7 'etcdserver: permission denied' make: AUTH: a:2379: permission denied: the user 'ada' needs readwrite on the keys that begin with 'app.', asked 1\n"
        "16 'etcdserver: invalid auth token' read: ok, asked 4\n"
        "16 'etcdserver: invalid auth token' write: UNKNOWN: a:2379 has not answered in time, asked 5\n"
        "16 'etcdserver: invalid auth token' make: UNKNOWN: a:2379 has not answered in time, asked 4\n");
}

/* ---- The greeting -------------------------------------------------------------------------- */

/* WHAT is always refused; returns what a read is told in the end. */
static void greeted(const char *url, const char *what, const char *code, const char *text_of)
{
    struct rt_op op = op_of(0);
    path = what;
    status = code;
    words = text_of;
    asked = 0;
    most = 1000;
    txns = revokes = grants = 0;
    town_init(&t, 1);
    t.play = play_refusal;
    town_open(&t, url);
    int err = town_do(&t, &op);
    size_t used = strlen(said);
    snprintf(said + used, sizeof(said) - used, "%s '%s': %s%s%s\n", code, text_of, err_name(err),
             err != 0 ? ": " : "", err != 0 ? t.why : "");
    close_town();
}

static void greetings(void **state)
{
    (void)state;
    said[0] = '\0';
    for (int i = 1; i <= 17; i++) {
        char code[8];
        snprintf(code, sizeof(code), "%d", i);
        greeted("etcd://a", "/etcdserverpb.Maintenance/Status", code, "words");
    }
    greeted("etcd://a", "/etcdserverpb.Maintenance/Status", "3", "etcdserver: user name is empty");
    greeted("etcd://ada:x@a", "/etcdserverpb.Maintenance/Status", "3",
            "etcdserver: user name is empty");
    greeted("etcd://ada:x@a", "/etcdserverpb.Maintenance/Status", "7",
            "etcdserver: permission denied");
    expect("1 'words': UNREACHABLE: etcd cannot be used now: a:2379: asked for its status: words\n"
           "2 'words': UNREACHABLE: etcd cannot be used now: a:2379: asked for its status: words\n"
           "3 'words': UNREACHABLE: etcd cannot be used now: a:2379: asked for its status: words\n"
           "4 'words': UNREACHABLE: etcd cannot be used now: a:2379: asked for its status: words\n"
           "5 'words': UNREACHABLE: etcd cannot be used now: a:2379: asked for its status: words\n"
           "6 'words': UNREACHABLE: etcd cannot be used now: a:2379: asked for its status: words\n"
           "7 'words': ok\n"
           "8 'words': UNREACHABLE: etcd cannot be used now: a:2379: asked for its status: words\n"
           "9 'words': UNREACHABLE: etcd cannot be used now: a:2379: asked for its status: words\n"
           "10 'words': UNREACHABLE: etcd cannot be used now: a:2379: asked for its status: words\n"
           "11 'words': UNREACHABLE: etcd cannot be used now: a:2379: asked for its status: words\n"
           "12 'words': PROTOCOL: a:2379 speaks HTTP/2, but is no etcd\n"
           "13 'words': UNREACHABLE: etcd cannot be used now: a:2379: asked for its status: words\n"
           "14 'words': UNREACHABLE: etcd cannot be used now: a:2379: asked for its status: words\n"
           "15 'words': UNREACHABLE: etcd cannot be used now: a:2379: asked for its status: words\n"
           "16 'words': ok\n"
           "17 'words': UNREACHABLE: etcd cannot be used now: a:2379: asked for its status: words\n"
           "3 'etcdserver: user name is empty': ok\n"
           "3 'etcdserver: user name is empty': ok\n"
           "7 'etcdserver: permission denied': ok\n");
}

static void logins(void **state)
{
    (void)state;
    said[0] = '\0';
    for (int i = 1; i <= 17; i++) {
        char code[8];
        snprintf(code, sizeof(code), "%d", i);
        greeted("etcd://ada:x@a", "/etcdserverpb.Auth/Authenticate", code, "words");
    }
    greeted("etcd://ada:x@a", "/etcdserverpb.Auth/Authenticate", "3",
            "etcdserver: authentication failed, invalid user ID or password");
    greeted("etcd://ada:x@a", "/etcdserverpb.Auth/Authenticate", "9",
            "etcdserver: authentication is not enabled");
    greeted("etcd://ada:x@a", "/etcdserverpb.Auth/Authenticate", "8",
            "etcdserver: too many requests");
    expect(
        "1 'words': UNREACHABLE: etcd cannot be used now: a:2379: authentication failed: words\n"
        "2 'words': UNREACHABLE: etcd cannot be used now: a:2379: authentication failed: words\n"
        "3 'words': AUTH: a:2379 refuses the user 'ada' or the password ($ROTA_PASSWORD, ?password_file=)\n"
        "4 'words': UNREACHABLE: etcd cannot be used now: a:2379: authentication failed: words\n"
        "5 'words': UNREACHABLE: etcd cannot be used now: a:2379: authentication failed: words\n"
        "6 'words': UNREACHABLE: etcd cannot be used now: a:2379: authentication failed: words\n"
        "7 'words': UNREACHABLE: etcd cannot be used now: a:2379: authentication failed: words\n"
        "8 'words': UNREACHABLE: etcd cannot be used now: a:2379: authentication failed: words\n"
        "9 'words': UNREACHABLE: etcd cannot be used now: a:2379: authentication failed: words\n"
        "10 'words': UNREACHABLE: etcd cannot be used now: a:2379: authentication failed: words\n"
        "11 'words': UNREACHABLE: etcd cannot be used now: a:2379: authentication failed: words\n"
        "12 'words': UNREACHABLE: etcd cannot be used now: a:2379: authentication failed: words\n"
        "13 'words': UNREACHABLE: etcd cannot be used now: a:2379: authentication failed: words\n"
        "14 'words': UNREACHABLE: etcd cannot be used now: a:2379: authentication failed: words\n"
        "15 'words': UNREACHABLE: etcd cannot be used now: a:2379: authentication failed: words\n"
        "16 'words': UNREACHABLE: etcd cannot be used now: a:2379: authentication failed: words\n"
        "17 'words': UNREACHABLE: etcd cannot be used now: a:2379: authentication failed: words\n"
        "3 'etcdserver: authentication failed, invalid user ID or password': AUTH: a:2379 refuses the user 'ada' or the password ($ROTA_PASSWORD, ?password_file=)\n"
        "9 'etcdserver: authentication is not enabled': ok\n"
        "8 'etcdserver: too many requests': UNREACHABLE: etcd cannot be used now: a:2379: authentication failed: etcdserver: too many requests\n");
}

static RtEtcd__StatusResponse odd_status;

static bool play_status(struct town *town, struct town_wire *w, size_t i)
{
    (void)town;
    if (!town_is_call(w, i, "/etcdserverpb.Maintenance/Status"))
        return false;
    town_answer(w, i, &odd_status);
    return true;
}

static int read_with_status(uint64_t leader, bool learner)
{
    struct rt_op op = op_of(0);
    rt_etcd__status_response__init(&odd_status);
    odd_status.version = text("3.6.16");
    odd_status.leader = leader;
    odd_status.is_learner = learner;
    txns = revokes = grants = 0;
    town_init(&t, 1);
    t.play = play_status;
    town_open(&t, "etcd://a");
    int err = town_do(&t, &op);
    close_town();
    return err;
}

/* A member that cannot serve us is not asked: it would answer late, or with what it has. */
static void members_that_cannot_serve(void **state)
{
    (void)state;
    assert_int_equal(read_with_status(1, false), 0);
    assert_int_equal(read_with_status(0, false), ROTA_UNREACHABLE);
    assert_string_equal(
        t.why,
        "etcd cannot be used now: a:2379 has no leader: a majority of its cluster is missing");
    assert_int_equal(read_with_status(1, true), ROTA_UNREACHABLE);
    assert_string_equal(t.why,
                        "etcd cannot be used now: a:2379 is a learner, and serves nobody yet");
}

/* Lease answers that make no sense are not taken for a session. */
static int64_t odd_id, odd_ttl;

static bool play_odd_lease(struct town *town, struct town_wire *w, size_t i)
{
    RtEtcd__LeaseGrantResponse lease = RT_ETCD__LEASE_GRANT_RESPONSE__INIT;
    (void)town;
    if (!town_is_call(w, i, "/etcdserverpb.Lease/LeaseGrant"))
        return false;
    lease.id = odd_id;
    lease.ttl = odd_ttl;
    town_answer(w, i, &lease);
    return true;
}

static void odd_leases(void **state)
{
    static const int64_t odd[][2] = {
        {0, 10}, {-1, 10}, {7, 0}, {7, -1}, {7, UINT32_MAX / 1000 + 1}};
    (void)state;
    for (size_t i = 0; i < sizeof(odd) / sizeof(odd[0]); i++) {
        struct rt_op op = op_of(2);
        odd_id = odd[i][0];
        odd_ttl = odd[i][1];
        txns = revokes = grants = 0;
        town_init(&t, 1);
        t.play = play_odd_lease;
        town_open(&t, "etcd://a");
        town_until_ready(&t);
        assert_int_equal(town_do(&t, &op), ROTA_UNKNOWN);
        assert_int_equal(op.beat.session, 0);
        close_town();
    }
}

static bool play_garbage(struct town *town, struct town_wire *w, size_t i)
{
    (void)town;
    if (!town_is_call(w, i, path))
        return false;
    asked++;
    peer_answer(&w->peer, i, "\xff\xff\xff", 3, "0", NULL);
    return true;
}

/* A meaningless answer: a read has failed, a write may have been done. */
static void answers_that_cannot_be_read(void **state)
{
    static const char *const paths[] = {"/etcdserverpb.KV/Range", "/etcdserverpb.KV/Txn",
                                        "/etcdserverpb.Lease/LeaseGrant"};
    (void)state;
    for (int kind = 0; kind < 3; kind++) {
        struct rt_op op = op_of(kind);
        path = paths[kind];
        asked = 0;
        txns = revokes = grants = 0;
        town_init(&t, 1);
        t.play = play_garbage;
        town_open(&t, "etcd://a");
        town_until_ready(&t);
        assert_int_equal(town_do(&t, &op), kind == 0 ? ROTA_PROTOCOL : ROTA_UNKNOWN);
        assert_string_equal(t.why, "a:2379: its answer cannot be understood");
        assert_int_equal(asked, 1);
        close_town();
    }
}

/* ---- Answers that make no sense --------------------------------------------------------------- */

/* A put that succeeded, but shows nothing of the line, or has no revision: the ticket stands there, but how? */
static void odd_joins(void **state)
{
    struct reply replies[4];
    (void)state;
    reply_init(&replies[0], true, 20); /* no look at all */
    reply_init(&replies[1], true, 20); /* an empty line */
    add_put(&replies[1]);
    add_range(&replies[1]);
    reply_init(&replies[2], true, 0); /* no revision */
    add_put(&replies[2]);
    add_range(&replies[2]);
    add_kv(&replies[2], "a/p2a-9", "rota1 0 0 0 - 0 0 0 9 0  ", 20, 0);
    reply_init(&replies[3], false, 20); /* refused, and does not show by whom */
    for (int i = 0; i < 4; i++) {
        struct rt_join one = {.name = "a", .session = 42, .nonce = 9, .flags = RT_JOIN_DURABLE};
        struct rt_op op = {.kind = RT_OP_JOIN};
        op.join.joins = &one;
        op.join.n = 1;
        open_town(play);
        script[0] = &replies[i];
        assert_int_equal(town_do(&t, &op), ROTA_UNKNOWN);
        assert_false(one.granted);
        assert_int_equal(txns, 1);
        close_town();
    }
}

/* A ticket that is missing from the line it was just put into is not taken for granted. */
static void a_line_without_the_ticket(void **state)
{
    struct reply r;
    struct rt_join one = {
        .name = "a", .session = 42, .nonce = 9, .flags = RT_JOIN_DURABLE, .mode = RT_SHARED};
    struct rt_op op = {.kind = RT_OP_JOIN};
    (void)state;
    reply_init(&r, true, 20);
    add_put(&r);
    add_range(&r);
    add_kv(&r, "a/8-1", "rota1 1 0 0 - 0 0 0 1 0  ", 10, 8);
    op.join.joins = &one;
    op.join.n = 1;
    open_town(play);
    script[0] = &r;
    assert_int_equal(town_do(&t, &op), ROTA_UNKNOWN);
    close_town();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(codes),
        cmocka_unit_test(sentences),
        cmocka_unit_test(rights),
        cmocka_unit_test(greetings),
        cmocka_unit_test(logins),
        cmocka_unit_test(members_that_cannot_serve),
        cmocka_unit_test(odd_leases),
        cmocka_unit_test(odd_joins),
        cmocka_unit_test(answers_that_cannot_be_read),
        cmocka_unit_test(a_line_without_the_ticket),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
