/* SPDX-License-Identifier: Apache-2.0 */
/* What a bench found out, as a table, as JSON and as a picture. */
#ifndef RT_BENCH_FIGURES_H
#define RT_BENCH_FIGURES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#define RT_FIGURES_MOST 128
#define RT_FIGURE_ALONE (-1)

struct rt_figure {
    const char *bench; /* a word */
    char what[64];
    double value;
    const char *unit;
    bool more; /* more is better */
    int at; /* where on its bench's curve, the size it was measured at; RT_FIGURE_ALONE: on none */
};

struct rt_figures {
    const char *engine; /* to be printed */
    const char *of;     /* the command that measured them; NULL: bench */
    bool quick;
    struct rt_figure all[RT_FIGURES_MOST];
    size_t count;
};

/* Adds one; any that do not fit are left out. FORMAT makes its `what`. */
struct rt_figure *rt_figures_add(struct rt_figures *f, const char *bench, double value,
                                 const char *unit, const char *format, ...)
    __attribute__((format(printf, 5, 6)));

/* VALUE with as many digits as mean something. Returns OUT. */
const char *rt_figures_number(double value, char *out, size_t size);

void rt_figures_print(const struct rt_figure *figure); /* a row of the table, on stdout */

/* The object that docs/json.md describes, on stdout. Returns an exit code. */
int rt_figures_json(const struct rt_figures *f);

void rt_figures_svg(const struct rt_figures *f, FILE *out);

#endif
