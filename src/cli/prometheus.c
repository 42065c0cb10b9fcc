/* SPDX-License-Identifier: Apache-2.0 */
/* Prometheus' text format, version 0.0.4. */
#include "cli/prometheus.h"

#include "cli/cli.h"
#include "cli/connect.h"
#include "cli/save.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

const char *rt_prometheus_label(const char *text, char *out, size_t size)
{
    size_t n = 0;

    for (; *text != '\0' && n + 2 < size; text++) {
        if (*text == '"' || *text == '\\' || *text == '\n')
            out[n++] = '\\';
        out[n++] = *text;
        if (*text == '\n')
            out[n - 1] = 'n';
    }
    while (*text != '\0' && n > 0 && ((unsigned char)*text & 0xc0) == 0x80)
        text--, n--; /* not in the middle of a character */
    out[n] = '\0';
    return out;
}

static void print_head(struct rt_prometheus *p, const struct rota_metric *m)
{
    static const char *const types[] = {"counter", "gauge", "histogram"};

    if (strcmp(p->last, m->name) == 0)
        return;
    snprintf(p->last, sizeof(p->last), "%s", m->name);
    fprintf(p->out, "# HELP %s %s\n# TYPE %s %s\n", m->name, m->help, m->name, types[m->type]);
}

static void print_histogram(FILE *out, const struct rota_metric *m)
{
    const char *comma = m->labels[0] != '\0' ? "," : "";
    const char *open = m->labels[0] != '\0' ? "{" : "", *close = m->labels[0] != '\0' ? "}" : "";

    for (uint32_t i = 0; i < m->buckets; i++) {
        char bound[32] = "+Inf";
        if (!isinf(m->bounds[i]))
            snprintf(bound, sizeof(bound), "%.9g", m->bounds[i]);
        fprintf(out, "%s_bucket{%s%sle=\"%s\"} %" PRIu64 "\n", m->name, m->labels, comma, bound,
                m->counts[i]);
    }
    fprintf(out, "%s_sum%s%s%s %.9g\n", m->name, open, m->labels, close, m->value);
    fprintf(out, "%s_count%s%s%s %" PRIu64 "\n", m->name, open, m->labels, close, m->count);
}

void rt_prometheus_print(void *arg, const struct rota_metric *m)
{
    struct rt_prometheus *p = arg;

    print_head(p, m);
    if (m->type == ROTA_HISTOGRAM)
        print_histogram(p->out, m);
    else if (m->labels[0] != '\0')
        fprintf(p->out, "%s{%s} %.15g\n", m->name, m->labels, m->value);
    else
        fprintf(p->out, "%s %.15g\n", m->name, m->value);
}

int rt_prometheus_save(struct rota *r, const char *path)
{
    struct rt_save save;
    struct rt_prometheus p;

    int code = rt_save_begin(&save, path);
    if (code != RT_EXIT_OK)
        return code;
    p = (struct rt_prometheus){.out = save.file};
    int err = rota_metrics(r, rt_prometheus_print, &p);
    code = rt_save_end(&save);
    return err != 0 ? rt_connect_report(r, err, "") : code;
}
