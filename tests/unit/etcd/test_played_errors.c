/* SPDX-License-Identifier: Apache-2.0 */
/* Everything that etcd, or gRPC before it, may refuse a call with: what the user is told, in which words, and how often it was
 * asked. What reads may be asked again; what writes only where it was surely not done, or where asking again is harmless; else
 * it is UNKNOWN (I5). */
#include "../scarce.h"
#include "played.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const char *path, *status, *words; /* what is refused, and how */
static int asked, most;                   /* so often; the first so many are refused */
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

/* What reads, what writes and may be written again, what makes something anew. */
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

/* Who has a user, and a prefix, is told which rights that one needs. */
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(codes),
        cmocka_unit_test(sentences),
        cmocka_unit_test(rights),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
