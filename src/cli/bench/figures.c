/* SPDX-License-Identifier: Apache-2.0 */
/* What a bench found out, as a table and as JSON. */
#include "cli/bench/figures.h"

#include "cli/json.h"
#include "cli/out.h"

#include <stdarg.h>

struct rt_figure *rt_figures_add(struct rt_figures *f, const char *bench, double value,
                                 const char *unit, const char *format, ...)
{
    static struct rt_figure nowhere;
    struct rt_figure *figure = f->count < RT_FIGURES_MOST ? &f->all[f->count++] : &nowhere;
    va_list args;

    *figure = (struct rt_figure){
        .bench = bench, .value = value, .unit = unit, .at = RT_FIGURE_ALONE};
    va_start(args, format);
    vsnprintf(figure->what, sizeof(figure->what), format, args);
    va_end(args);
    return figure;
}

const char *rt_figures_number(double value, char *out, size_t size)
{
    if (value >= 1000)
        snprintf(out, size, "%.0f", value);
    else
        snprintf(out, size, "%.3g", value);
    return out;
}

void rt_figures_print(const struct rt_figure *figure)
{
    char number[32];

    printf("  ");
    rt_out_padded(figure->what, 44);
    printf(" %10s %s\n", rt_figures_number(figure->value, number, sizeof(number)), figure->unit);
}

static json_t *figure_json(const struct rt_figure *figure)
{
    return json_pack("{s:s, s:o, s:f, s:s, s:s, s:o}", "bench", figure->bench, "what",
                     rt_json_text(figure->what), "value", figure->value, "unit", figure->unit,
                     "better", figure->more ? "more" : "less", "at",
                     figure->at == RT_FIGURE_ALONE ? json_null() : json_integer(figure->at));
}

int rt_figures_json(const struct rt_figures *f)
{
    json_t *rows = json_array();

    for (size_t i = 0; i < f->count; i++) {
        if (json_array_append_new(rows, figure_json(&f->all[i])) != 0) {
            json_decref(rows);
            rows = NULL;
        }
    }
    return rt_json_print(json_pack("{s:o, s:b, s:o}", "engine", rt_json_text(f->engine), "quick",
                                   f->quick, "figures", rows),
                         false);
}
