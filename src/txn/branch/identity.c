/* SPDX-License-Identifier: Apache-2.0 */
/* Which database it is: eight rows in the table of markers, under an id that no journal has (its number is never 0), so
 * that no FORGET deletes them. Row i holds the ith byte of a random number in `kind`, less 128.
 *
 *   READ ──▶ eight rows: that is it
 *     └────▶ none: MAKE, insert-first, all eight in one statement: of two at once the first wins ──▶ READ
 *
 * The layout of the table stays as it is, and so do the rights it takes. A user who may not read or write these rows
 * does not know the identity (0), and goes on without it. */
#include "txn/branch/party.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#define BYTES 8
#define ZERO_ID "00000000000000000000000000000000"

enum { /* party->step: after those of the kinds */
       READ = RT_PARTY_IDENTITY,
       MADE,
       READ_AGAIN,
};

/* Reads "12,-128,...", eight numbers; 0: it is something else. */
static uint64_t number_of(const struct rt_said *said)
{
    const char *at = said->cell[0];
    uint64_t identity = 0;

    if (said->failed || said->rows != 1 || said->null[0])
        return 0;
    for (int i = 0; i < BYTES; i++) {
        char *end;
        long kind = strtol(at, &end, 10);
        if (end == at || *end != (i + 1 < BYTES ? ',' : '\0') || kind < -128 || kind > 127)
            return 0;
        identity = identity << 8 | (uint64_t)(kind + 128);
        at = end + 1;
    }
    return identity;
}

static bool say_read(struct rt_party *p, int next)
{
    const struct rt_party_kind *k = p->kind;

    return RT_PARTY_SAY(p, next, "%s%s WHERE id = %s" ZERO_ID "%s%s", k->identity_read[0], p->marks,
                        k->hex[0], k->hex[1], k->identity_read[1]);
}

static bool say_make(struct rt_party *p)
{
    const struct rt_party_kind *k = p->kind;
    struct rt_talk *t = p->talk;
    uint8_t drawn[BYTES];

    if (getrandom(drawn, sizeof(drawn), 0) != (ssize_t)sizeof(drawn))
        return rt_party_end(p, RT_REPLY_DONE, 0, NULL);
    drawn[0] |= 1; /* never 0 */
    p->step = MADE;
    bool ok = rt_talk_add(t, "%s%s VALUES", k->identity_make[0], p->marks);
    for (int i = 0; ok && i < BYTES; i++)
        ok = rt_talk_add(t, "%s(%s" ZERO_ID "%s, %d, %d)", i > 0 ? ", " : " ", k->hex[0], k->hex[1],
                         i, (int)drawn[i] - 128);
    ok = ok && rt_talk_add(t, "%s", k->identity_make[1]);
    t->size = ok ? t->size : 0;
    return false;
}

bool rt_identity_step(struct rt_party *p)
{
    const struct rt_said *said = &p->talk->said;

    assert(p->op->what == RT_PARTY_ATTACH && p->marks[0] != '\0');
    if (p->step < READ)
        return say_read(p, READ);
    if (p->step == MADE)
        return say_read(p, READ_AGAIN);
    p->identity = number_of(said);
    if (p->step == READ && !said->failed && said->null[0])
        return say_make(p);
    return rt_party_end(p, RT_REPLY_DONE, 0, NULL);
}
