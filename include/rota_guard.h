/* SPDX-License-Identifier: Apache-2.0 */
/* Guards: a fence is worth what the resource checks. Part of librota; docs/guides/guards.md has the whole.
 *
 * A guard remembers, where the data is, the highest fence that came, and refuses an older one in the same step
 * as the write: ROTA_LOST, and nothing was written. So a holder that slept past its time does no harm.
 *
 * The rule: a tenure's first guarded step comes BEFORE it looks at what it is going to change. A look that the
 * guard does not know of can be followed by the late write of an earlier holder, and be out of date. In SQL
 * that is the order guard, look, write, in one transaction; elsewhere looking is a guarded step of its own.
 *
 * Fences are those of exclusive holds (rota_fence, $ROTA_FENCE): 1 to INT64_MAX, else ROTA_INVALID. Those of shared
 * holds and permits do not fence. Keep to one lock, on one engine, for each resource: fences of two do not compare.
 *
 * rota_errmsg(NULL) says more about the last failing call of this thread. What needs a client library is inline
 * and appears if that library's header (libpq-fe.h, mysql.h, hiredis/hiredis.h) was included before this one. */
#ifndef ROTA_GUARD_H
#define ROTA_GUARD_H

#include <rota.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Sets what rota_errmsg(NULL) says in this thread, TEXT or with NULL the sentence for ERR; returns ERR. For the inline
 * functions here, and for guards of your own. */
int rota_guard_say(int err, const char *text);

/* ---- A file -------------------------------------------------------------- */

/* Replaces the file PATH by BYTES in one step, unless a later fence than FENCE was here: LOST, nothing changed. With
 * BYTES NULL it only claims: from then on earlier fences are refused; do that before you read the file. The
 * highest fence is in PATH.fence, beside it, which is never removed. Symbolic links are followed; owner rights are
 * those of the file before. 0: on the disk. UNKNOWN: in place, but the disk did not confirm that it will be after a
 * crash. UNREACHABLE: the file system refuses. Waits for others that are inside, also for one that is stopped there.
 * Local file systems, and network file systems on which flock(2) excludes machines. */
int rota_guard_file(const char *path, uint64_t fence, const void *bytes, size_t size);

/* ---- etcd ---------------------------------------------------------------- */

/* The body of a POST to etcd's /v3/kv/txn that sets KEY to VALUE unless a later fence was here, and notes FENCE in
 * KEY.fence, in one step; with VALUE NULL it claims and reads. *OUT goes back by rota_guard_etcd_free. No I/O. */
int rota_guard_etcd(const char *key, uint64_t fence, const void *value, size_t size, char **out);
void rota_guard_etcd_free(char *request);

/* What ANSWER, the body that came back, means: 0 done, LOST a later fence was here; AUTH, INVALID: etcd refused;
 * UNKNOWN: it may have been done; PROTOCOL: this is no such answer. Of a request that reads, the value goes to
 * VALUE, ROOM bytes, and its size to *SIZE (0: also if there is no such key); both may be NULL. INVALID: more than ROOM. */
int rota_guard_etcd_answer(const char *answer, void *value, size_t room, size_t *size);

/* ---- Optimistic updates -------------------------------------------------- */

/* Calls FN until it returns something else than ROTA_BUSY, at most TRIES times (0: INVALID), and returns that.
 * Between two tries it sleeps, a random time below 1 ms, then 2, 4, ... up to 128 ms. For updates by
 * version (UPDATE ... WHERE version = what I saw; no row: ROTA_BUSY), and for transactions that the server
 * gives up because of others. */
typedef int rota_retry_fn(void *arg);
int rota_retry(uint32_t tries, rota_retry_fn *fn, void *arg);

/* ---- Redis --------------------------------------------------------------- */

/* KEYS: the guard. ARGV: the fence, then a command, which is run if no later fence was here. Numbers are compared as
 * digits: Lua's own are exact up to 2^53 only. The fence is noted first: it is ours, whatever becomes of the command. */
#define ROTA_GUARD_REDIS_SCRIPT                                                                     \
    "local seen, mine = redis.call('GET', KEYS[1]) or '0', ARGV[1] "                                \
    "if not mine:find('^[1-9]%d*$') then return redis.error_reply('ERR no fence was given') end "   \
    "if not seen:find('^%d+$') then return redis.error_reply('ERR the guard key is no fence') end " \
    "if #seen > #mine or #seen == #mine and seen > mine then "                                      \
    "return redis.error_reply('LOST fence ' .. seen .. ' was here already') end "                   \
    "if seen ~= mine then redis.call('SET', KEYS[1], mine) end "                                    \
    "return redis.pcall(unpack(ARGV, 2))"

#ifdef __HIREDIS_H

static inline int rota_guard_impl_redis_error(const char *text)
{
    static const struct {
        const char *begins;
        int err;
    } known[] = {
        {"LOST ", ROTA_LOST},
        {"NOAUTH", ROTA_AUTH},
        {"NOPERM", ROTA_AUTH},
        {"WRONGPASS", ROTA_AUTH},
        {"READONLY", ROTA_UNREACHABLE},
        {"LOADING", ROTA_UNREACHABLE},
        {"MASTERDOWN", ROTA_UNREACHABLE},
        {"CLUSTERDOWN", ROTA_UNREACHABLE},
        {"MOVED", ROTA_UNREACHABLE},
        {"ASK ", ROTA_UNREACHABLE},
        {"TRYAGAIN", ROTA_UNREACHABLE},
        {"NOREPLICAS", ROTA_UNREACHABLE},
        {"BUSY ", ROTA_UNREACHABLE},
        {"OOM", ROTA_UNREACHABLE},
        {"MISCONF", ROTA_UNREACHABLE},
    };

    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
        if (strncmp(text, known[i].begins, strlen(known[i].begins)) == 0)
            return known[i].err;
    /* A script is not told NOPERM. */
    return strstr(text, "user executing the script") != NULL ? ROTA_AUTH : ROTA_INVALID;
}

/* What REPLY, which may be NULL, means; it goes to *OUT, or back to hiredis. */
static inline int rota_guard_impl_redis_judge(const redisContext *c, redisReply *reply,
                                              redisReply **out)
{
    int err = 0;

    if (reply == NULL) /* sent, perhaps */
        return rota_guard_say(ROTA_UNKNOWN, c->errstr);
    if (reply->type == REDIS_REPLY_ERROR)
        err = rota_guard_say(rota_guard_impl_redis_error(reply->str), reply->str);
    else if (reply->type == REDIS_REPLY_STATUS && strcmp(reply->str, "QUEUED") == 0)
        err = rota_guard_say(ROTA_INVALID, "inside MULTI nobody can be told what became of it");
    else if (out != NULL)
        *out = reply;
    if (err != 0 || out == NULL)
        freeReplyObject(reply);
    return err;
}

/* Runs the command ARGV[0..ARGC) on C unless a later fence was here: LOST, and it was not run. The highest fence is in
 * KEY, a key of its own, without a ttl; in a cluster of the same hash slot as what the command touches: "{account:7}:fence"
 * for "account:7". A read is guarded too (GET): then earlier fences are refused from there on. LENGTHS may
 * be NULL: strings. *REPLY (may be NULL) is the command's, the caller's to free. INVALID: also what the command itself
 * ended with. UNKNOWN: no answer, it may have been run. C blocks, and is not inside MULTI. */
static inline int rota_guard_redis(redisContext *c, const char *key, uint64_t fence, int argc,
                                   const char **argv, const size_t *lengths, redisReply **reply)
{
    const char *head[] = {"EVAL", ROTA_GUARD_REDIS_SCRIPT, "1", key, NULL};
    char number[24];

    if (c == NULL || key == NULL || key[0] == '\0' || argc < 1 || argv == NULL || fence == 0 ||
        fence > INT64_MAX || (c->flags & REDIS_BLOCK) == 0)
        return rota_guard_say(ROTA_INVALID, NULL);
    if (c->err != 0)
        return rota_guard_say(ROTA_UNREACHABLE, c->errstr);
    snprintf(number, sizeof(number), "%llu", (unsigned long long)fence);
    head[4] = number;
    const char **words = (const char **)calloc((size_t)argc + 5, sizeof(*words));
    size_t *sizes = (size_t *)calloc((size_t)argc + 5, sizeof(*sizes));
    int err = ROTA_NOMEM;
    if (words != NULL && sizes != NULL) {
        for (int i = 0; i < argc + 5; i++) {
            words[i] = i < 5 ? head[i] : argv[i - 5];
            sizes[i] = i < 5 || lengths == NULL ? strlen(words[i]) : lengths[i - 5];
        }
        err = rota_guard_impl_redis_judge(
            c, (redisReply *)redisCommandArgv(c, argc + 5, words, sizes), reply);
    }
    free((void *)words);
    free(sizes);
    return err == ROTA_NOMEM ? rota_guard_say(err, NULL) : err;
}

#endif /* hiredis */

#ifdef __cplusplus
}
#endif
#endif
