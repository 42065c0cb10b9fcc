/* SPDX-License-Identifier: Apache-2.0 */
/* What a doctor said. */
#include "findings.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

void rt_findings_take(void *arg, const struct rota_verdict *v)
{
    struct rt_findings *f = arg;
    assert_true(f->count < RT_FINDINGS_MAX);
    snprintf(f->at[f->count].promise, sizeof(f->at->promise), "%s", v->promise);
    snprintf(f->at[f->count].verdict, sizeof(f->at->verdict), "%s", v->verdict);
    snprintf(f->at[f->count].setting, sizeof(f->at->setting), "%s", v->setting);
    snprintf(f->at[f->count++].remedy, sizeof(f->at->remedy), "%s", v->remedy);
    if (strcmp(v->verdict, "kept") != 0)
        assert_true(v->setting[0] != '\0' && v->remedy[0] != '\0');
}

static size_t find(const struct rt_findings *f, const char *promise)
{
    size_t i = 0;
    while (i < f->count && strncmp(f->at[i].promise, promise, strlen(promise)) != 0)
        i++;
    return i;
}

const char *rt_findings_verdict(const struct rt_findings *f, const char *promise)
{
    size_t i = find(f, promise);
    return i < f->count ? f->at[i].verdict : "";
}

const char *rt_findings_setting(const struct rt_findings *f, const char *promise)
{
    size_t i = find(f, promise);
    return i < f->count ? f->at[i].setting : "";
}

const char *rt_findings_remedy(const struct rt_findings *f, const char *promise)
{
    size_t i = find(f, promise);
    return i < f->count ? f->at[i].remedy : "";
}
