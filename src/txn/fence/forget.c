/* SPDX-License-Identifier: Apache-2.0 */
/* A keeper deletes rows of the fence, and promises of three-phase commit, in the database its URL leads to, as it does
 * with markers: what was born below the journal's floor, except what is undone.
 *
 * A row of the fence goes if its deadline passed a day ago; fence.h says what stays. A promise goes if it has ended,
 * knows the decision, and is not mixed. Its deadline, too, passed a day ago, for outcomes are kept for at least twice
 * as long as a transaction may take; so its participant promises nothing for that id any more (txn/phase). */
#include "txn/fence/forget.h"

#include "txn/fence/fence.h"

#include <rota.h>

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define PAGE 1000
#define MARKS "rota_mark"

enum { FIRST, GONE };
enum { NO_DATABASE = 1046, NO_TABLE_RIGHT = 1142, NO_TABLE = 1146 }; /* MariaDB's */

#define PROMISES "rota_promise"

static bool is_fence(const struct rt_party *p)
{
    return (p->op->flags & RT_PARTY_FENCES) != 0;
}

/* The table next to that of the markers. */
static void table_of(const struct rt_party *p, char *out, size_t size)
{
    size_t length = strlen(p->marks), tail = sizeof(MARKS) - 1;
    bool named = length > tail && strcmp(p->marks + length - tail, MARKS) == 0;

    snprintf(out, size, "%.*s%s", named ? (int)(length - tail) : 0, p->marks,
             is_fence(p) ? RT_FENCE_TABLE : PROMISES);
}

static int64_t wall_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* WHERE ...: ids sort by birth, also as texts. */
static bool add_where(struct rt_party *p)
{
    const struct rt_txn_id to = rt_txn_id_make(p->op->forget.journal, p->op->forget.before_ms, 0);
    const char *column = is_fence(p) ? "txn" : "id";
    char id[RT_TXN_ID_TEXT];

    rt_txn_id_text(&to, id);
    bool ok = rt_talk_add(p->talk, "WHERE %s >= '%08x' AND %s < '%.20s' AND ", column,
                          p->op->forget.journal, column, id) &&
              (is_fence(p) ? rt_talk_add(p->talk, "state <> %d AND deadline < %" PRId64,
                                         RT_FENCE_TRIED, wall_ms() - RT_FENCE_CLEAN_MS)
                           : rt_talk_add(p->talk, "ended = 1 AND sure = 1 AND mixed = 0"));
    for (size_t i = 0; ok && i < p->op->forget.keep_count; i++) {
        rt_txn_id_text(&p->op->forget.keep[i], id);
        ok = i > 0 ? rt_talk_add(p->talk, ", '%s'", id)
                   : rt_talk_add(p->talk, " AND substr(%s, 1, 32) NOT IN ('%s'", column, id);
    }
    return ok && rt_talk_add(p->talk, "%s LIMIT %d", p->op->forget.keep_count > 0 ? ")" : "", PAGE);
}

static bool say(struct rt_party *p)
{
    char table[RT_PARTY_MARKS_MAX + sizeof(PROMISES)];
    const char *key = is_fence(p) ? "(txn, branch)" : "(id)";
    bool limits = p->kind->talk == &rt_talk_mysql; /* its DELETE has LIMIT */

    p->step = GONE;
    table_of(p, table, sizeof(table));
    bool ok = limits ? rt_talk_add(p->talk, "DELETE FROM %s ", table)
                     : rt_talk_add(p->talk, "DELETE FROM %s WHERE %s IN (SELECT %.*s FROM %s ",
                                   table, key, (int)strlen(key) - 2, key + 1, table);
    ok = ok && add_where(p) && (limits || rt_talk_add(p->talk, ")"));
    p->talk->size = ok ? p->talk->size : 0;
    return false;
}

/* Most databases are not a service's and have no such table. MariaDB may also say so by a missing right. */
static bool is_missing(const struct rt_said *said)
{
    return said->code == NO_TABLE || said->code == NO_DATABASE || said->code == NO_TABLE_RIGHT ||
           strcmp(said->state, "42P01") == 0;
}

bool rt_forget_step(struct rt_party *p)
{
    const struct rt_said *said = &p->talk->said;

    if (p->step == FIRST)
        return say(p);
    p->op->forget.count = said->failed ? 0 : said->affected;
    p->op->forget.more = !said->failed && said->affected == PAGE;
    if (!said->failed || is_missing(said))
        return rt_party_end(p, RT_REPLY_DONE, 0, NULL);
    return rt_party_end(p, RT_REPLY_REFUSED,
                        strcmp(said->state, "42501") == 0 ? ROTA_AUTH : ROTA_INVALID, "%s",
                        said->text);
}
