/* SPDX-License-Identifier: Apache-2.0 */
/* Replies: read by hiredis into an arena of bounded size; what their errors mean.
 *
 * hiredis 0.14 asks its functions for arrays of any length that a reply announces, and keeps
 * feeding a buffer without a limit. Both are bounded here: what answers garbage costs at most
 * RT_RESP_ARENA_MAX and RT_RESP_REPLY_MAX, and its connection. */
#include "engine/resp/link.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- The functions of hiredis' reader ------------------------------------------------------------ */

static redisReply *make(const redisReadTask *task, int type)
{
    redisReply *r = rt_arena_get(task->privdata, sizeof(*r));
    if (r == NULL)
        return NULL;
    *r = (redisReply){.type = type};
    if (task->parent != NULL) {
        redisReply *parent = task->parent->obj;
        parent->element[task->idx] = r;
    }
    return r;
}

static void *make_string(const redisReadTask *task, char *text, size_t size)
{
    static const char wordless[] = "ERR an error without words"; /* no error is "" */
    bool odd = task->type == REDIS_REPLY_ERROR && (size == 0 || text[0] == '\0');
    size = odd ? sizeof(wordless) - 1 : size;
    char *copy = rt_arena_get(task->privdata, size + 1);
    redisReply *r = copy != NULL ? make(task, task->type) : NULL;
    if (r == NULL)
        return NULL;
    memcpy(copy, odd ? wordless : text, size);
    copy[size] = '\0';
    r->str = copy;
    r->len = size;
    return r;
}

static void *make_array(const redisReadTask *task, int elements)
{
    if (elements < 0 || elements > RT_RESP_ARRAY_MAX)
        return NULL;
    size_t n = (size_t)elements;
    redisReply **list = rt_arena_get(task->privdata, n * sizeof(redisReply *));
    redisReply *r = list != NULL ? make(task, REDIS_REPLY_ARRAY) : NULL;
    if (r == NULL)
        return NULL;
    memset(list, 0, n * sizeof(redisReply *));
    r->element = list;
    r->elements = n;
    return r;
}

static void *make_integer(const redisReadTask *task, long long value)
{
    redisReply *r = make(task, REDIS_REPLY_INTEGER);
    if (r != NULL)
        r->integer = value;
    return r;
}

static void *make_nil(const redisReadTask *task)
{
    return make(task, REDIS_REPLY_NIL);
}

static void free_nothing(void *reply)
{
    (void)reply; /* the arena's */
}

static redisReplyObjectFunctions functions = {
    make_string, make_array, make_integer, make_nil, free_nothing,
};

/* ---- Reading ---------------------------------------------------------------------------------------- */

int rt_resp_reader_open(struct rt_resp_link *l)
{
    l->reader = redisReaderCreateWithFunctions(&functions);
    if (l->reader == NULL)
        return ROTA_NOMEM;
    l->arena.most = RT_RESP_ARENA_MAX;
    l->reader->privdata = &l->arena;
    return 0;
}

void rt_resp_reader_close(struct rt_resp_link *l)
{
    if (l->reader == NULL)
        return;
    redisReaderFree(l->reader);
    l->reader = NULL;
    rt_arena_fini(&l->arena);
}

/* What waits for its rest must be worth waiting for. */
static bool may_go_on(const redisReader *r)
{
    size_t waits = r->len - r->pos;
    if (waits > RT_RESP_REPLY_MAX)
        return false;
    if (waits <= RT_RESP_LINE_MAX)
        return true;
    return r->ridx >= 0 && r->rstack[r->ridx].type == REDIS_REPLY_STRING &&
           memchr(r->buf + r->pos, '\n', 32) != NULL; /* a string that has said how long it is */
}

int rt_resp_reader_next(struct rt_resp_link *l, redisReply **reply, const char **why)
{
    void *got = NULL;
    if (l->reader->reply == NULL)
        rt_arena_reset(&l->arena); /* no reply is half read */
    if (redisReaderGetReply(l->reader, &got) != REDIS_OK) {
        bool large = l->reader->err == REDIS_ERR_OOM;
        *why = large ? "its answer is too large" : "its answer is not RESP";
        return l->arena.no_memory ? ROTA_NOMEM : ROTA_PROTOCOL;
    }
    *reply = got;
    *why = "its answer is too large";
    return got == NULL && !may_go_on(l->reader) ? ROTA_PROTOCOL : 0;
}

/* ---- Errors ---------------------------------------------------------------------------------------------- */

struct meaning {
    const char *code;
    enum rt_resp_class class;
    int err;
    bool early;       /* of a script: raised by its first write, or before */
    const char *text; /* behind "redis AT"; NULL: what the server said */
};

static const struct meaning meanings[] = {
    {"NOSCRIPT", RT_RESP_NOSCRIPT, ROTA_PROTOCOL, false, NULL},
    {"MOVED", RT_RESP_MOVED, ROTA_UNREACHABLE, false, "does not have that room any more"},
    /* Not followed: where the keys of a room have not all come yet, lines look empty. */
    {"ASK", RT_RESP_SICK, ROTA_UNREACHABLE, false, "is giving that room away"},
    {"READONLY", RT_RESP_SICK, ROTA_UNREACHABLE, true, "is a replica: it cannot be written to"},
    {"LOADING", RT_RESP_SICK, ROTA_UNREACHABLE, true, "is loading its data"},
    {"MASTERDOWN", RT_RESP_SICK, ROTA_UNREACHABLE, true, "is a replica that lost its primary"},
    {"CLUSTERDOWN", RT_RESP_SICK, ROTA_UNREACHABLE, true, "says that the cluster is down"},
    {"TRYAGAIN", RT_RESP_SICK, ROTA_UNREACHABLE, false, "is moving that room"},
    {"BUSY", RT_RESP_SICK, ROTA_UNREACHABLE, true, "is busy with somebody's script"},
    {"NOREPLICAS", RT_RESP_SICK, ROTA_UNREACHABLE, true,
     "has fewer replicas than its min-replicas-to-write asks for"},
    {"MISCONF", RT_RESP_SICK, ROTA_UNREACHABLE, true,
     "refuses writes because it cannot save: look into its log"},
    {"OOM", RT_RESP_FINAL, ROTA_UNREACHABLE, true,
     "is out of memory: raise its maxmemory, or make room on it"},
    {"NOAUTH", RT_RESP_FINAL, ROTA_AUTH, true,
     "asks for a password: give it by ?password_file= or ROTA_PASSWORD"},
    {"WRONGPASS", RT_RESP_FINAL, ROTA_AUTH, false, "refused the user or the password"},
    {"NOPERM", RT_RESP_FINAL, ROTA_AUTH, false, NULL},
    {"WRONGTYPE", RT_RESP_FINAL, ROTA_PROTOCOL, false,
     "has a key of another type where Rota keeps its own (rota:...): delete it, or use another "
     "database"},
};

static bool begins(const char *error, const char *code)
{
    size_t size = strlen(code);
    return strncmp(error, code, size) == 0 && (error[size] == ' ' || error[size] == '\0');
}

/* Before Redis 7 the error of a script stands behind "-ERR Error running script ...: ". */
static const struct meaning *meaning_of(const char *error)
{
    for (size_t i = 0; i < sizeof(meanings) / sizeof(meanings[0]); i++)
        if (begins(error, meanings[i].code))
            return &meanings[i];
    if (strstr(error, "a non local key") != NULL) /* a room that is being moved, key by key */
        return meaning_of("TRYAGAIN");
    const char *inside = begins(error, "ERR") ? strstr(error, "@user_script") : NULL;
    for (const char *at = inside; at != NULL; at = strchr(at + 1, ' '))
        for (size_t i = 0; i < sizeof(meanings) / sizeof(meanings[0]); i++)
            if (begins(at + (*at == ' '), meanings[i].code) && meanings[i].class == RT_RESP_FINAL)
                return &meanings[i];
    return NULL;
}

enum rt_resp_class rt_resp_classify(const char *error)
{
    const struct meaning *m = meaning_of(error);
    return m != NULL ? m->class : RT_RESP_FINAL;
}

void rt_resp_clean(const struct rt_resp_conn *c, const char *text, char *out, size_t size)
{
    size_t secret = c->password != NULL ? strlen(c->password) : 0;
    size_t n = 0;
    while (*text != '\0' && n + 4 < size) {
        if (secret > 0 && strncmp(text, c->password, secret) == 0) {
            memcpy(out + n, "***", 3);
            n += 3;
            text += secret;
            continue;
        }
        unsigned char ch = (unsigned char)*text++;
        out[n++] = isprint(ch) ? (char)ch : '?';
    }
    out[n] = '\0';
}

/* Scripts that lack a right: Redis names the command, in several ways. */
static bool is_rights(const char *error)
{
    return strstr(error, "ACL failure in script") != NULL ||
           strstr(error, "executing the script can't") != NULL;
}

/* Where in its text the script failed: the error has its hash and its line. NULL: it does not say. */
static const char *find_line(const struct rt_resp_conn *c, const char *error, const char **text)
{
    const char *line_at = strstr(error, "@user_script:");
    long line = line_at != NULL ? strtol(line_at + strlen("@user_script:"), NULL, 10) : 0;
    for (int i = 0; line > 0 && i < c->on->scripts; i++) {
        struct rt_resp_text t = c->on->text(c, i);
        if (strstr(error, t.sha1) == NULL)
            continue;
        const char *at = *text = t.text;
        while (--line > 0 && (at = strchr(at, '\n')) != NULL)
            at++;
        return at;
    }
    return NULL;
}

/* Which command the script was about to do. */
static bool find_command(const struct rt_resp_conn *c, const char *error, char *out, size_t size)
{
    const char *text, *at = find_line(c, error, &text);
    const char *call = at != NULL ? strstr(at, "call('") : NULL;
    if (call == NULL || memchr(at, '\n', (size_t)(call - at)) != NULL)
        return false;
    snprintf(out, size, "%.*s", (int)strcspn(call + 6, "'"), call + 6);
    return true;
}

static bool only_reads(const char *command)
{
    static const char *const reads[] = {
        "TIME",    "EXISTS", "HGET",   "HMGET",  "HGETALL",       "HKEYS", "HVALS", "HLEN",
        "HEXISTS", "ZCARD",  "ZSCORE", "ZRANGE", "ZRANGEBYSCORE", "GET",   "TYPE",  "PTTL"};
    size_t length = strcspn(command, "'");
    for (size_t i = 0; i < sizeof(reads) / sizeof(reads[0]); i++)
        if (strlen(reads[i]) == length && strncmp(command, reads[i], length) == 0)
            return true;
    return false;
}

/* Without an earlier call that writes, and without a function, which may run later than it stands
 * there, nothing was done before the line that failed. */
bool rt_resp_half_done(const struct rt_resp_conn *c, const char *error)
{
    const struct meaning *m = meaning_of(error);
    bool inside = strstr(error, "@user_script") != NULL || strstr(error, " script: ") != NULL;
    if (!inside || (m != NULL && m->early))
        return false;
    const char *text, *at = find_line(c, error, &text);
    const char *function = at != NULL ? strstr(text, "function") : NULL;
    if (at == NULL || (function != NULL && function < at))
        return true;
    const char *call = strstr(text, "call('");
    while (call != NULL && call < at && only_reads(call + 6))
        call = strstr(call + 6, "call('");
    return call != NULL && call < at;
}

/* NOPERM in its many forms. */
static void explain_right(const struct rt_resp_link *l, const char *error, const char *said,
                          char *out, size_t size)
{
    char command[32];
    const char *keys = l->conn->on->keys != NULL ? l->conn->on->keys : "~rota:*";
    if (strstr(error, " keys") != NULL || strstr(error, " channel") != NULL)
        snprintf(out, size,
                 "redis %s: the user lacks the right to %s: grant it %s (see the ACL line in "
                 "docs/engines/%s.md)",
                 rt_resp_at(l), strstr(error, " keys") != NULL ? "keys of Rota's" : "channels",
                 strstr(error, " keys") != NULL ? keys : "&rota:*", l->conn->on->name);
    else if (find_command(l->conn, error, command, sizeof(command)))
        snprintf(out, size,
                 "redis %s: the user lacks the right to run '%s' (see the ACL line in "
                 "docs/engines/%s.md)",
                 rt_resp_at(l), command, l->conn->on->name);
    else
        snprintf(out, size,
                 "redis %s: the user lacks a right: %s (see the ACL line in docs/engines/%s.md)",
                 rt_resp_at(l), said, l->conn->on->name);
}

int rt_resp_explain(const struct rt_resp_link *l, const char *error, char *out, size_t size)
{
    const struct meaning *m = meaning_of(error);
    char said[160];

    rt_resp_clean(l->conn, error, said, sizeof(said));
    if ((m != NULL && strcmp(m->code, "NOPERM") == 0) || is_rights(error)) {
        explain_right(l, error, said, out, size);
        return ROTA_AUTH;
    }
    if (m != NULL && m->text != NULL)
        snprintf(out, size, "redis %s %s", rt_resp_at(l), m->text);
    else
        snprintf(out, size, "redis %s answered: %s", rt_resp_at(l), said);
    return m != NULL ? m->err : ROTA_PROTOCOL;
}
