/* SPDX-License-Identifier: Apache-2.0 */
/* Which statements a step is. Their text is in sql/. */
#include "engine/mysql/mysql.h"

#include <assert.h>
#include <string.h>

#define T(name) rt_mysql_sql_##name[]
extern const char T(facts), T(layout), T(here), T(open), T(renew), T(end), T(mine), T(folded),
    T(dead), T(bury), T(find_idle), T(unfold_idle), T(idle), T(looked), T(strays), T(sweeper),
    T(first_sweep), T(sweep), T(sweeps), T(swept), T(take), T(give), T(verify), T(lock), T(unfold),
    T(unfolded), T(mark), T(purge), T(gather), T(settle), T(gate), T(join), T(answer), T(leaving),
    T(keep), T(leave), T(change), T(state), T(break), T(watch), T(look), T(look_ahead), T(front),
    T(inspect), T(list), T(passing), T(passed), T(pass), T(rights), T(notes), T(doctor), T(recount),
    T(bell_take), T(bell_ring), T(bell_wait);
#undef T
#define SQL1(a) .sql = {rt_mysql_sql_##a}
#define SQL2(a, b) .sql = {rt_mysql_sql_##a, rt_mysql_sql_##b}
#define SQL3(a, b, c) .sql = {rt_mysql_sql_##a, rt_mysql_sql_##b, rt_mysql_sql_##c}
#define SQL4(a, b, c, d) \
    .sql = {rt_mysql_sql_##a, rt_mysql_sql_##b, rt_mysql_sql_##c, rt_mysql_sql_##d}

static const struct rt_mysql_step steps[RT_SQL_STEPS] = {
    [RT_SQL_FACTS] = {SQL1(facts), .plain = true, .reads = true},
    [RT_SQL_LAYOUT] = {SQL1(layout), .plain = true, .reads = true},
    [RT_SQL_MAKE] = {SQL1(ddl), .plain = true},
    [RT_SQL_HERE] = {SQL1(here)},
    [RT_SQL_OPEN] = {SQL1(open), .by_id = true},
    [RT_SQL_RENEW] = {SQL1(renew), .by_id = true, .loose = true},
    [RT_SQL_END] = {SQL1(end)},
    [RT_SQL_MINE] = {SQL1(mine), .reads = true},
    [RT_SQL_FOLDED] = {SQL1(folded), .reads = true},
    [RT_SQL_DEAD] = {SQL1(dead), .reads = true},
    [RT_SQL_BURY] = {SQL1(bury), .loose = true},
    [RT_SQL_IDLE] = {SQL4(find_idle, unfold_idle, idle, looked), .loose = true},
    [RT_SQL_STRAYS] = {SQL1(strays), .reads = true},
    [RT_SQL_SWEEPER] = {SQL1(sweeper), .plain = true, .reads = true},
    [RT_SQL_SWEEP] = {SQL3(first_sweep, sweep, sweeps), .loose = true},
    [RT_SQL_SWEPT] = {SQL1(swept), .loose = true},
    [RT_SQL_TAKE] = {SQL1(take), .by_id = true, .single = true},
    [RT_SQL_GIVE] = {SQL1(give), .single = true},
    [RT_SQL_VERIFY] = {SQL1(verify), .reads = true},
    [RT_SQL_LOCK] = {SQL1(lock)},
    [RT_SQL_UNFOLD] = {SQL2(unfold, unfolded), .recounts = true},
    [RT_SQL_PURGE] = {SQL2(mark, purge), .recounts = true},
    [RT_SQL_SETTLE] = {SQL2(gather, settle), .recounts = true},
    [RT_SQL_GATE] = {SQL1(gate), .gate = true},
    [RT_SQL_JOIN] = {SQL1(join), .recounts = true},
    [RT_SQL_ANSWER] = {SQL1(answer), .reads = true},
    [RT_SQL_LEAVE] = {SQL3(leaving, keep, leave), .recounts = true},
    [RT_SQL_PASS] = {SQL3(passing, passed, pass)},
    [RT_SQL_CHANGE] = {SQL1(change)},
    [RT_SQL_STATE] = {SQL1(state), .reads = true},
    [RT_SQL_BREAK] = {SQL1(break), .recounts = true},
    [RT_SQL_WATCH] = {SQL1(watch), .loose = true},
    [RT_SQL_LOOK] = {SQL1(look), .reads = true},
    [RT_SQL_LOOK_AHEAD] = {SQL1(look_ahead), .reads = true},
    [RT_SQL_FRONT] = {SQL1(front), .reads = true},
    [RT_SQL_INSPECT] = {SQL1(inspect), .reads = true},
    [RT_SQL_LIST] = {SQL1(list), .reads = true},
    [RT_SQL_DOCTOR] = {SQL3(rights, notes, doctor), .plain = true, .reads = true},
    [RT_SQL_BELL_TAKE] = {SQL1(bell_take), .reads = true},
    [RT_SQL_BELL_RING] = {SQL1(bell_ring), .reads = true, .behind = true},
    [RT_SQL_BELL_WAIT] = {SQL1(bell_wait), .reads = true},
};

/* A dialect's own, by whether it is said once and whether it changes nothing. Its text is the saying's. */
#define OWN .sql = {""}
static const struct rt_mysql_step own[2][2] = {
    {{OWN}, {OWN, .reads = true}},
    {{OWN, .plain = true}, {OWN, .plain = true, .reads = true}},
};

const struct rt_mysql_step *rt_mysql_step(const struct rt_sql_step *s)
{
    assert(s->kind < RT_SQL_STEPS);
    return s->kind == RT_SQL_SAYING ? &own[s->saying->slot == RT_SQL_ONCE][s->saying->reads]
                                    : &steps[s->kind];
}

size_t rt_mysql_form(const struct rt_sql_step *s, size_t k)
{
    assert(s->kind != RT_SQL_SAYING || (k == 0 && s->saying->slot < RT_SQL_SLOTS));
    return s->kind == RT_SQL_SAYING ? (size_t)RT_MYSQL_OWN + s->saying->slot
                                    : s->kind * RT_MYSQL_PARTS + k;
}

const char *rt_mysql_sql(size_t form)
{
    assert(form <= RT_MYSQL_RECOUNT);
    if (form == RT_MYSQL_RECOUNT)
        return rt_mysql_sql_recount;
    return steps[form / RT_MYSQL_PARTS].sql[form % RT_MYSQL_PARTS];
}

size_t rt_mysql_marks(const char *sql, struct rt_mysql_bytes *out, uint8_t *args)
{
    size_t count = 0;
    for (const char *at = sql; *at != '\0';) {
        size_t plain = strcspn(at, "?");
        if (out != NULL)
            rt_mysql_add(out, at, plain);
        at += plain;
        if (*at != '?')
            break;
        uint8_t number = 0;
        for (at++; *at >= '0' && *at <= '9'; at++)
            number = (uint8_t)(10 * number + (*at - '0'));
        assert(number >= 1 && number <= RT_SQL_ARGS && count < RT_MYSQL_MARKS);
        if (args != NULL)
            args[count] = number;
        count++;
        if (out != NULL)
            rt_mysql_add(out, "?", 1);
    }
    return count;
}
