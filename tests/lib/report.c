/* SPDX-License-Identifier: Apache-2.0 */
/* What a check has to say, in words for a person. */
#include "checker.h"

#include <stdio.h>

const char *rt_finding_name(enum rt_finding finding)
{
    static const char *const names[] = {
#define RT_FINDING_NAME(name, text) text,
        RT_FINDINGS(RT_FINDING_NAME)
#undef RT_FINDING_NAME
    };

    return finding < RT_FOUND_COUNT ? names[finding] : "?";
}

static const char *kind_name(uint8_t kind)
{
    static const char *const names[] = {"?",     "acquire", "release", "renew", "belief",
                                        "write", "enqueue", "cancel",  "end"};

    return kind <= RT_END ? names[kind] : "?";
}

static int print_time(char *buf, size_t size, int64_t at)
{
    if (at == INT64_MAX)
        return snprintf(buf, size, "never");
    return snprintf(buf, size, "%lld.%09lld", (long long)(at / 1000000000),
                    (long long)(at % 1000000000));
}

static void print_record(char *buf, size_t size, const struct rt_record *r)
{
    static const char *const results[] = {"info", "ok", "fail"};
    char inv[32], ret[32];

    if (r == NULL) {
        buf[0] = '\0';
        return;
    }
    print_time(inv, sizeof(inv), r->t_inv);
    print_time(ret, sizeof(ret), r->t_ret);
    snprintf(buf, size,
             "\n    %s lock=%llx client=%llu pid=%u fence=%llu ticket=%llu mode=%u [%s, %s) %s",
             kind_name(r->kind), (unsigned long long)r->lock, (unsigned long long)r->client,
             r->process, (unsigned long long)r->fence, (unsigned long long)r->ticket, r->mode, inv,
             ret, r->result <= RT_FAIL ? results[r->result] : "?");
}

void rt_report_add(struct rt_report *report, enum rt_finding finding, const struct rt_record *a,
                   const struct rt_record *b, const char *why)
{
    char text_a[400], text_b[400];
    size_t room = sizeof(report->text) - report->text_len;
    int n;

    report->total++;
    report->found[finding]++;
    if (room < 1000) /* the first findings matter; the rest is counted */
        return;
    print_record(text_a, sizeof(text_a), a);
    print_record(text_b, sizeof(text_b), b);
    n = snprintf(report->text + report->text_len, room, "%s: %s%s%s\n", rt_finding_name(finding),
                 why, text_a, text_b);
    if (n > 0 && (size_t)n < room)
        report->text_len += (size_t)n;
}
