/* SPDX-License-Identifier: Apache-2.0 */
#include "txn/cli/plans.h"

#include "cli/json.h"
#include "cli/out.h"
#include "txn/serve/serve.h"

#include <stdio.h>

bool rt_plans_has(const struct rt_item *item)
{
    return item->deadline_ms >= RT_JOURNAL_SERVED;
}

int64_t rt_plans_begun_ms(const struct rt_item *item)
{
    return item->deadline_ms - RT_JOURNAL_SERVED;
}

/* What became of a step, or will: its server's query shows tries and answers. */
static const char *word_of(const struct rt_serve_row *row, size_t i)
{
    static const char *const words[][5] = {
        /* open, to be done, done, to be undone, undone */
        [RT_PLAN_TCC] = {"perhaps reserved", "to be confirmed", "confirmed", "to be cancelled",
                         "cancelled"},
        [RT_PLAN_SAGA] = {"asked", "done", "done", "to be compensated", "compensated"},
        [RT_PLAN_MSG] = {"not sent yet", "to be delivered", "delivered", "not sent", "not sent"},
    };
    bool commit = row->stands == RT_JOURNAL_COMMIT;

    if (row->plan.kind == RT_PLAN_SAGA && !row->steps[i] && !commit)
        return "not asked";
    if (row->stands == RT_JOURNAL_OPEN)
        return words[row->plan.kind][0];
    return words[row->plan.kind][(commit ? 1 : 3) + row->done];
}

static const char *who(const struct rt_item *item, int64_t now_ms)
{
    if (item->done)
        return "it is over";
    return item->claimer != 0 && item->claimed_ms > now_ms
               ? "a server is working on it"
               : "any server on this journal will take it";
}

static void print(const struct rt_serve_row *row, const struct rt_item *item, int64_t now_ms)
{
    char text[512];

    printf("served    %s, by 'rota txn serve': %s\n", rt_plan_word(row->plan.kind),
           who(item, now_ms));
    if (row->plan.count > 0)
        printf("\n%s%-10s  %-18s  %s%s\n", rt_out_color(stdout, RT_OUT_BOLD), "BRANCH", "STATE",
               "URL", rt_out_color(stdout, RT_OUT_PLAIN));
    for (size_t i = 0; i < row->plan.count; i++) {
        const struct rt_plan_step *s = &row->plan.steps[i];
        const char *url = row->stands == RT_JOURNAL_ABORT ? s->back : s->forward;
        rt_out_padded(rt_out_clean(s->id, text, sizeof(text)), 10);
        printf("  %-18s  %s\n", word_of(row, i),
               url[0] != '\0' ? rt_out_clean(url, text, sizeof(text)) : "-");
    }
}

static json_t *to_json(const struct rt_serve_row *row, const struct rt_item *item, int64_t now_ms)
{
    json_t *branches = json_array();

    for (size_t i = 0; i < row->plan.count; i++) {
        const struct rt_plan_step *s = &row->plan.steps[i];
        json_array_append_new(branches,
                              json_pack("{s:o, s:s, s:o, s:o}", "branch", rt_json_text(s->id),
                                        "state", word_of(row, i), "forward",
                                        rt_json_text(s->forward), "back", rt_json_text(s->back)));
    }
    return json_pack("{s:s, s:b, s:o}", "kind", rt_plan_word(row->plan.kind), "claimed",
                     !item->done && item->claimer != 0 && item->claimed_ms > now_ms, "branches",
                     branches);
}

int rt_plans_show(const struct rt_visit *v, const struct rt_item *item, json_t **out)
{
    static struct rt_serve s; /* it is large; only the manager is used */
    struct rt_serve_row row;
    char text[RT_PLAN_LINE];

    s.m = v->m;
    int err = rt_serve_read(&s, &item->id, &row);
    bool known = err == 0 && row.planned && !row.damaged;
    if (err == 0 && out != NULL)
        *out = known ? to_json(&row, item, v->now_ms) : json_null();
    else if (known)
        print(&row, item, v->now_ms);
    else if (err == 0)
        printf("served    by 'rota txn serve'; its plan cannot be read%s%s\n",
               row.line[0] != '\0' ? ": " : "", rt_out_clean(row.line, text, sizeof(text)));
    rt_serve_row_free(&row);
    return err;
}
