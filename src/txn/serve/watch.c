/* SPDX-License-Identifier: Apache-2.0 */
/* Finds transactions that no server works on: undone, old enough that whoever began or decided them would have claimed
 * them, and not claimed. And those that this server holds open although somebody else has decided them. */
#include "txn/serve/serve.h"

#include "base/bug.h"
#include "txn/point.h"

#include <stdio.h>
#include <time.h>

#define LOOK_MS 1000 /* at most: what somebody else has decided is noticed that soon */

struct found {
    struct {
        struct rt_txn_id id;
        bool decided, left;
    } rows[RT_JOURNAL_PAGE_MAX];
    size_t count;
    struct rt_serve *s;
    int64_t now_ms;
};

static void on_record(void *arg, const struct rt_journal_record *record)
{
    struct found *f = arg;
    bool decided = record->stands == RT_JOURNAL_COMMIT || record->stands == RT_JOURNAL_ABORT;
    int64_t since = record->deadline_ms - RT_JOURNAL_SERVED;
    bool others = record->claimer != 0 && record->claimer != f->s->who &&
                  record->claimed_ms > f->now_ms && !RT_BUG(RT_BUG_SERVE_ANYBODYS);

    if (decided && record->decided_ms > since)
        since = record->decided_ms;
    bool left = f->now_ms - since >= f->s->takeover_ms && !others;
    if ((decided || left) && f->count < RT_JOURNAL_PAGE_MAX) {
        f->rows[f->count].id = record->id;
        f->rows[f->count].decided = decided;
        f->rows[f->count++].left = left;
    }
}

static void take_over(struct rt_serve *s, const struct rt_txn_id *id)
{
    struct rt_serve_row row;

    if (rt_serve_has(s, id, 0))
        return;
    int claimed = rt_serve_claim(s, id, (uint32_t)(2 * s->takeover_ms));
    rt_point("dtm-claimed");
    if (claimed != 0 && !RT_BUG(RT_BUG_SERVE_ANYBODYS))
        return;
    if (rt_serve_read(s, id, &row) == 0 && !row.done && row.planned && !row.damaged &&
        row.stands >= RT_JOURNAL_OPEN && row.stands <= RT_JOURNAL_ABORT) {
        rt_serve_log(s, ROTA_LOG_INFO,
                     "gid %s: nobody is at work on it, this server goes on with it", row.plan.gid);
        if (rt_serve_take(s, id, &row.plan, row.stands, row.steps, NULL)) {
            pthread_mutex_lock(&s->mu);
            s->counts.taken_over++;
            pthread_mutex_unlock(&s->mu);
        }
    } else if (row.damaged) {
        char text[RT_TXN_ID_TEXT];
        rt_txn_id_text(id, text);
        rt_serve_log(s, ROTA_LOG_WARN, "transaction %s: the journal has no plan of ours for it: %s",
                     text, row.line);
    }
    rt_serve_row_free(&row);
}

/* Whoever has decided it claims it, if it takes long; or it is left, and taken over. */
static void take_or_leave(struct rt_serve *s, const struct rt_txn_id *id, bool decided, bool left)
{
    if (decided && rt_serve_drop(s, id))
        (void)rt_serve_claim(s, id, 0);
    if (left)
        take_over(s, id);
}

static void look(struct rt_serve *s, struct found *f)
{
    struct rt_journal_op op = {.kind = RT_JOURNAL_SCAN};
    int err;

    op.scan.after_deadline_ms = RT_JOURNAL_SERVED - 1;
    op.scan.before_ms = RT_TXN_BIRTH_MAX;
    op.scan.limit = RT_JOURNAL_PAGE_MAX;
    op.scan.each = on_record;
    op.scan.arg = f;
    do {
        f->count = 0;
        f->s = s;
        f->now_ms = rt_serve_now_ms();
        op.deadline = 0;
        err = rt_txns_ask(s->m, &op);
        for (size_t i = 0; err == 0 && i < f->count; i++)
            take_or_leave(s, &f->rows[i].id, f->rows[i].decided, f->rows[i].left);
    } while (err == 0 && op.scan.more && !s->stop);
    if (err != 0)
        rt_serve_log(s, ROTA_LOG_WARN, "looking for what other servers left: %s",
                     rota_txn_errmsg(s->m));
}

void *rt_serve_watch(void *serve)
{
    struct rt_serve *s = serve;
    static struct found f; /* one watcher */

    pthread_mutex_lock(&s->mu);
    while (!s->stop) {
        pthread_mutex_unlock(&s->mu);
        look(s, &f);
        pthread_mutex_lock(&s->mu);
        struct timespec until;
        clock_gettime(CLOCK_REALTIME, &until);
        int64_t pause = s->takeover_ms / 5 < LOOK_MS ? s->takeover_ms / 5 : LOOK_MS;
        until.tv_sec += pause / 1000;
        until.tv_nsec += (pause % 1000) * 1000000;
        until.tv_sec += until.tv_nsec / 1000000000;
        until.tv_nsec %= 1000000000;
        if (!s->stop)
            (void)pthread_cond_timedwait(&s->stopping, &s->mu, &until);
    }
    pthread_mutex_unlock(&s->mu);
    return NULL;
}
