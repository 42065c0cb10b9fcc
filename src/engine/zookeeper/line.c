/* SPDX-License-Identifier: Apache-2.0 */
/* Names of tickets, and which tickets of a line hold. */
#include "engine/zookeeper/line.h"

#include "base/alloc.h"
#include "base/sum.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ORDERED \
    (ROTA_CAP_FENCE | ROTA_CAP_ORDER | ROTA_CAP_WANTED | ROTA_CAP_TTL | ROTA_CAP_SHARED_HOSTS)
#define ALL (ORDERED | ROTA_CAP_SHARED | ROTA_CAP_PERMITS | ROTA_CAP_DURABLE)
#define ALONE (ROTA_CAP_FENCE | ROTA_CAP_TTL | ROTA_CAP_SHARED_HOSTS)
#define HEX_ID 32

static const struct rt_zk_dialect dialects[] = {
    {"curator", "_c_", "-lock-", NULL, true, false, true, ALL, NULL},
    {"curator-rw", "_c_", "-__WRIT__", "-__READ__", true, false, false, ORDERED | ROTA_CAP_SHARED,
     NULL},
    {"curator-latch", "_c_", "-latch-", NULL, true, true, true, ORDERED, NULL},
    {"kazoo", "", "__lock__", "__rlock__", false, false, true, ORDERED | ROTA_CAP_SHARED, NULL},
    {"simple", "_c_", "-holds", NULL, true, false, false, ALONE, "lock"},
};

const struct rt_zk_dialect *rt_zk_dialect(const char *name)
{
    for (size_t i = 0; i < sizeof(dialects) / sizeof(dialects[0]); i++)
        if (strcmp(dialects[i].name, name) == 0)
            return &dialects[i];
    return NULL;
}

/* ---- Writing a name --------------------------------------------------------------------------- */

static size_t put_id(char *out, const struct rt_zk_dialect *d, const struct rt_zk_id *id)
{
    uint64_t s = id->session, n = id->nonce;
    if (!d->dashes)
        return (size_t)sprintf(out, "%s%016" PRIx64 "%016" PRIx64, d->begin, s, n);
    return (size_t)sprintf(out, "%s%08x-%04x-%04x-%04x-%012" PRIx64, d->begin, (unsigned)(s >> 32),
                           (unsigned)(s >> 16 & 0xffff), (unsigned)(s & 0xffff),
                           (unsigned)(n >> 48), n & UINT64_C(0xffffffffffff));
}

void rt_zk_node(char out[RT_ZK_NODE_ROOM], const struct rt_zk_dialect *d, const struct rt_zk_id *id,
                const int32_t *seq)
{
    char *at = out + put_id(out, d, id);
    bool word = id->mode == RT_SHARED && d->shared != NULL;
    if (id->mode == RT_SHARED && !word)
        at += sprintf(at, "-r");
    else if (id->mode == RT_PERMITS)
        at += sprintf(at, "-p%" PRIu32 "of%" PRIu32, id->take, id->of);
    else if (id->mode == RT_COUNT || id->mode == RT_GATHER)
        at += sprintf(at, "-%c%" PRIu32, id->mode == RT_COUNT ? 'c' : 'g', id->of);
    if (id->detect)
        at += sprintf(at, "-w");
    if (id->durable)
        at += sprintf(at, "-d");
    if (id->until_ms > 0)
        at += sprintf(at, "-t%" PRId64, id->until_ms);
    if (id->keep_ms > 0)
        at += sprintf(at, "-k%" PRId64, id->keep_ms);
    if (id->number != 0)
        at += sprintf(at, "-n%" PRIx64, id->number);
    at += sprintf(at, "%s", word ? d->shared : d->word);
    if (seq != NULL)
        (void)sprintf(at, "%010" PRId32, *seq);
}

/* ---- Reading it ------------------------------------------------------------------------------- */

/* N lower-case hex digits; dashes between them are ignored. NULL: there are not that many. */
static const char *read_hex(const char *at, size_t n, uint64_t *value)
{
    for (*value = 0; n > 0; at++) {
        if (*at == '-')
            continue;
        if (!isxdigit((unsigned char)*at))
            return NULL;
        *value = *value << 4 |
                 (uint64_t)(isdigit((unsigned char)*at) ? *at - '0' : (*at | 32) - 'a' + 10);
        n--;
    }
    return at;
}

static bool read_mark(const char *at, const char *end, struct rt_zk_id *id)
{
    char *stop = NULL;
    char kind = *at++;
    uint64_t n = strtoull(at, &stop, kind == 'n' ? 16 : 10);
    bool number = stop > at && isxdigit((unsigned char)*at);
    if (kind == 'p' && number && n > 0 && n <= UINT32_MAX && strncmp(stop, "of", 2) == 0) {
        uint64_t of = strtoull(stop + 2, &stop, 10);
        id->mode = RT_PERMITS;
        id->take = (uint32_t)n;
        id->of = (uint32_t)of;
        return stop == end && of <= UINT32_MAX && rt_grant_valid(RT_PERMITS, id->take, id->of);
    }
    if ((kind == 'c' || kind == 'g') && number && n > 0 && n <= UINT32_MAX) {
        id->mode = kind == 'c' ? RT_COUNT : RT_GATHER;
        id->of = (uint32_t)n;
    } else if (kind == 't' && number && n <= INT64_MAX) {
        id->until_ms = (int64_t)n;
    } else if (kind == 'k' && number && n <= INT64_MAX) {
        id->keep_ms = (int64_t)n;
    } else if (kind == 'n' && number) {
        id->number = n;
    } else if (strchr("rwd", kind) != NULL && kind != '\0') {
        id->mode = kind == 'r' ? RT_SHARED : id->mode;
        id->detect = id->detect || kind == 'w';
        id->durable = id->durable || kind == 'd';
        return at == end;
    } else {
        return false;
    }
    return stop == end;
}

/* Session, nonce and marks before END; false: it is not one of ours. */
static bool read_head(const struct rt_zk_dialect *d, const char *node, const char *end,
                      struct rt_zk_id *id)
{
    size_t n = strlen(d->begin);
    if (strncmp(node, d->begin, n) != 0)
        return false;
    const char *at = read_hex(node + n, HEX_ID / 2, &id->session);
    at = at != NULL ? read_hex(at, HEX_ID / 2, &id->nonce) : NULL;
    if (at == NULL || at > end)
        return false;
    while (at < end) {
        const char *stop = memchr(at + 1, '-', (size_t)(end - at - 1));
        stop = stop != NULL ? stop : end;
        if (*at != '-' || stop == at + 1 || !read_mark(at + 1, stop, id))
            return false;
        at = stop;
    }
    return rt_grant_valid(id->mode, id->take, id->of);
}

static bool ends_with(const char *node, const char *end, const char *word)
{
    size_t n = strlen(word);
    return (size_t)(end - node) >= n && memcmp(end - n, word, n) == 0;
}

/* The word is that of another recipe, which does not count ours, or counts them wrongly: one of the same family;
 * `simple`, which counts nobody, among the others; and anybody's, for `simple`. */
static bool is_other(const struct rt_zk_dialect *d, const char *node, const char *end, bool placed)
{
    static const char *const words[] = {"-lock-", "-__WRIT__", "-__READ__", "-latch-"};
    if (!placed)
        return d->lone == NULL && strncmp(node, "_c_", 3) == 0 && ends_with(node, end, "-holds");
    if (d->lone != NULL && (ends_with(node, end, "__lock__") || ends_with(node, end, "__rlock__")))
        return true;
    for (size_t i = 0; d->dashes && i < sizeof(words) / sizeof(words[0]); i++)
        if (ends_with(node, end, words[i]))
            return strcmp(words[i], d->word) != 0 &&
                   (d->shared == NULL || strcmp(words[i], d->shared) != 0);
    return false;
}

void rt_zk_node_read(const struct rt_zk_dialect *d, const char *node, struct rt_zk_id *id)
{
    const char *end = node + strlen(node), *digits = end;
    struct rt_zk_id read = {0};
    *id = (struct rt_zk_id){0};
    while (digits > node && end - digits < 10 && isdigit((unsigned char)digits[-1]))
        digits--;
    if (end - digits == 10) {
        bool minus = digits > node + 1 && digits[-1] == '-' && strchr("-_", digits[-2]) != NULL;
        int64_t seq = strtoll(digits, NULL, 10);
        digits -= minus;
        id->seq = (int32_t)(uint32_t)(uint64_t)(minus ? -seq : seq);
        id->placed = true;
    }
    id->other = is_other(d, node, id->placed ? digits : end, id->placed);
    read.seq = id->seq;
    read.placed = id->placed;
    read.ours = true;
    bool shared = d->shared != NULL && ends_with(node, digits, d->shared);
    if ((!id->placed && d->lone == NULL) || (!shared && !ends_with(node, digits, d->word)))
        return;
    read.mode = shared ? RT_SHARED : RT_EXCLUSIVE;
    if (read_head(d, node, digits - strlen(shared ? d->shared : d->word), &read))
        *id = read;
    else if (shared)
        id->mode = RT_SHARED;
}

/* ---- A line ----------------------------------------------------------------------------------- */

/* Those without a place first; then by the sequence, where negative numbers follow its end. It is one order for
 * all numbers: comparing by how far two are apart would allow circles of three, and a list without an order
 * puts anybody first. */
static int by_place(const void *a, const void *b)
{
    const struct rt_zk_id *x = &((const struct rt_zk_place *)a)->id;
    const struct rt_zk_id *y = &((const struct rt_zk_place *)b)->id;
    uint32_t at = (uint32_t)x->seq, other = (uint32_t)y->seq;
    int apart = (at > other) - (at < other);
    if (x->placed != y->placed)
        return x->placed ? 1 : -1;
    if (x->placed && apart != 0)
        return apart;
    if (x->durable != y->durable) /* a keeper comes after what it stands beside */
        return x->durable ? 1 : -1;
    return strcmp(((const struct rt_zk_place *)a)->node, ((const struct rt_zk_place *)b)->node);
}

static bool is_keeper(const struct rt_zk_place *p)
{
    return p->id.durable && p->id.keep_ms > 0;
}

/* P is no place of its own, but one with BEFORE. */
static bool is_beside(const struct rt_zk_dialect *d, const struct rt_zk_place *p,
                      const struct rt_zk_place *before)
{
    if (d->lone != NULL)
        return before->id.ours && strcmp(p->node, d->lone) == 0;
    return is_keeper(p) && before->id.placed && before->id.seq == p->id.seq;
}

static void merge_keepers(struct rt_zk_line *line, const struct rt_zk_dialect *d)
{
    size_t n = 0;
    for (size_t i = 0; i < line->count; i++) {
        struct rt_zk_place *p = &line->places[i], *before = n > 0 ? &line->places[n - 1] : NULL;
        if (before != NULL && is_beside(d, p, before))
            before->keeper = p->node;
        else
            line->places[n++] = *p;
    }
    line->count = n;
}

int rt_zk_line_read(struct rt_zk_line *line, const struct rt_zk_dialect *d, struct rt_jute_in *in)
{
    size_t room = in->left + 1, used = 0;
    rt_zk_line_fini(line);
    size_t n = rt_jute_get_count(in, 4);
    line->places = rt_alloc((n + 1) * sizeof(*line->places));
    line->text = rt_alloc(room);
    if (line->places == NULL || line->text == NULL)
        return ROTA_NOMEM;
    for (; line->count < n; line->count++) {
        struct rt_zk_place *p = &line->places[line->count];
        struct rt_text node = rt_jute_get_bytes(in);
        if (in->bad || used + node.size + 1 > room)
            return ROTA_PROTOCOL;
        p->node = line->text + used;
        memcpy(line->text + used, node.at, node.size);
        used += node.size + 1;
        rt_zk_node_read(d, p->node, &p->id);
        line->gathers = line->gathers || p->id.mode == RT_GATHER;
    }
    if (n > 1)
        qsort(line->places, n, sizeof(*line->places), by_place);
    line->lone = d->lone != NULL;
    merge_keepers(line, d);
    for (size_t i = 0; i < line->count && line->other == NULL; i++)
        line->other = line->places[i].id.other ? line->places[i].node : NULL;
    return in->bad ? ROTA_PROTOCOL : 0;
}

void rt_zk_line_fini(struct rt_zk_line *line)
{
    rt_free(line->places);
    rt_free(line->text);
    *line = (struct rt_zk_line){0};
}

int64_t rt_zk_ends_ms(const struct rt_zk_place *p)
{
    int64_t ms = is_keeper(p) ? p->id.keep_ms : p->id.until_ms;
    if (ms == 0 || !p->id.durable || p->stat.czxid == 0)
        return 0;
    int64_t ends = rt_sum(p->stat.ctime, ms);
    return ends != INT64_MAX ? ends : 0;
}

static void gather(struct rt_zk_line *line)
{
    uint32_t waiting = 0;
    for (size_t i = 0; i < line->count; i++) {
        struct rt_zk_place *p = &line->places[i];
        if (p->id.mode != RT_GATHER)
            continue;
        p->granted = line->bounded && (int32_t)((uint32_t)p->id.seq - (uint32_t)line->bound) <= 0;
        if (!p->granted && ++waiting == p->id.of)
            line->opener = p;
    }
}

/* Moves those whose time is over behind the others, which stay in order. Returns how many. */
static size_t set_apart(struct rt_zk_line *line, int64_t now_ms)
{
    size_t all = line->count;
    line->count = 0;
    for (size_t i = 0; i < all; i++) {
        struct rt_zk_place p = line->places[i];
        int64_t ends = rt_zk_ends_ms(&p);
        if (ends != 0 && ends <= now_ms)
            continue;
        line->places[i] = line->places[line->count];
        line->places[line->count++] = p;
    }
    return all - line->count;
}

size_t rt_zk_line_judge(struct rt_zk_line *line, int64_t now_ms)
{
    struct rt_grant g;
    bool stopped = false;
    size_t over = set_apart(line, now_ms);
    line->waiting = 0;
    gather(line);
    rt_grant_init(&g, 0);
    for (size_t i = 0; i < line->count; i++) {
        struct rt_zk_place *p = &line->places[i];
        const struct rt_zk_id *id = &p->id;
        if (id->mode != RT_GATHER) {
            stopped = stopped ||
                      rt_grant_next(&g, id->mode, id->take, id->of, false) == RT_GRANT_WAITS;
            p->granted = !stopped || line->lone;
        }
        line->waiting += !p->granted;
    }
    return over;
}

const struct rt_zk_place *rt_zk_line_node(const struct rt_zk_line *line, const char *node)
{
    for (size_t i = 0; i < line->count; i++)
        if (strcmp(line->places[i].node, node) == 0)
            return &line->places[i];
    return NULL;
}

const struct rt_zk_place *rt_zk_line_find(const struct rt_zk_line *line, uint64_t session,
                                          uint64_t nonce, uint64_t number)
{
    for (size_t i = 0; i < line->count; i++) {
        const struct rt_zk_id *id = &line->places[i].id;
        if (id->ours && id->session == session && !is_keeper(&line->places[i]) &&
            (nonce != 0 ? id->nonce == nonce : rt_zk_number(&line->places[i]) == number))
            return &line->places[i];
    }
    return NULL;
}

const struct rt_zk_place *rt_zk_line_aim(const struct rt_zk_line *line,
                                         const struct rt_zk_place *place)
{
    const struct rt_zk_place *p = place - 1;
    if (place == line->places || place->id.mode == RT_GATHER)
        return NULL;
    if (place->id.mode == RT_PERMITS) /* a touch tells when the one ahead holds (wait.c) */
        return p->granted ? NULL : p;
    while (place->id.mode == RT_SHARED && p > line->places && p->id.mode == RT_SHARED)
        p--;
    return p;
}
