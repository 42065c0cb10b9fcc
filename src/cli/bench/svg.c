/* SPDX-License-Identifier: Apache-2.0 */
/* The picture of a bench: a panel for each, bars for single figures, a curve for those on one. Where figures of several
 * units have a place on the curve, all are bars. */
#include "cli/bench/figures.h"

#include <string.h>

#define WIDTH 760
#define MARGIN 20
#define LABELS 290 /* the bars begin here */
#define BARS 350   /* width of the longest */
#define ROW 24
#define TITLE 34
#define CURVE 130

struct panel {
    const struct rt_figure *first;
    size_t count;
    size_t points; /* of them, on the curve */
};

static void put_text(FILE *out, const char *text)
{
    for (; *text != '\0'; text++) {
        if (*text == '<')
            fputs("&lt;", out);
        else if (*text == '>')
            fputs("&gt;", out);
        else if (*text == '&')
            fputs("&amp;", out);
        else if ((unsigned char)*text >= 0x20)
            fputc(*text, out);
    }
}

static bool is_point(const struct panel *p, const struct rt_figure *f)
{
    return p->points > 0 && f->at != RT_FIGURE_ALONE;
}

/* The panel that begins at figure I. */
static struct panel panel_at(const struct rt_figures *f, size_t i)
{
    struct panel p = {.first = &f->all[i]};
    const char *unit = NULL;
    bool one_unit = true;

    for (; i < f->count && strcmp(f->all[i].bench, p.first->bench) == 0; i++) {
        p.count++;
        if (f->all[i].at == RT_FIGURE_ALONE)
            continue;
        p.points++;
        one_unit = one_unit && (unit == NULL || strcmp(unit, f->all[i].unit) == 0);
        unit = f->all[i].unit;
    }
    p.points = one_unit ? p.points : 0;
    return p;
}

static int panel_height(const struct panel *p)
{
    int rows = (int)(p->count - p->points) * ROW;

    return TITLE + rows + (p->points > 1 ? CURVE + ROW : 0) + MARGIN;
}

/* Bars are compared with those of the same unit in their panel. */
static double longest(const struct panel *p, const char *unit)
{
    double most = 0;

    for (size_t i = 0; i < p->count; i++) {
        const struct rt_figure *f = &p->first[i];
        if (!is_point(p, f) && strcmp(f->unit, unit) == 0 && f->value > most)
            most = f->value;
    }
    return most > 0 ? most : 1;
}

static void put_bar(FILE *out, const struct panel *p, const struct rt_figure *f, int y)
{
    double length = f->value / longest(p, f->unit) * BARS;
    char number[32];

    fprintf(out, "<text x=\"%d\" y=\"%d\" text-anchor=\"end\">", LABELS - 8, y + 15);
    put_text(out, f->what);
    fprintf(out, "</text><rect x=\"%d\" y=\"%d\" width=\"%.1f\" height=\"%d\" fill=\"%s\"/>",
            LABELS, y + 3, length < 1 ? 1 : length, ROW - 7, f->more ? "#2f855a" : "#2b6cb0");
    fprintf(out, "<text x=\"%.1f\" y=\"%d\" class=\"v\">%s ", LABELS + length + 6, y + 15,
            rt_figures_number(f->value, number, sizeof(number)));
    put_text(out, f->unit);
    fputs("</text>\n", out);
}

/* The points of the curve, from 0 upwards, so that flat looks flat. */
static void put_curve(FILE *out, const struct panel *p, int y)
{
    double most = 0;
    int right = 1;
    char number[32];
    const struct rt_figure *last = NULL;

    for (size_t i = 0; i < p->count; i++) {
        const struct rt_figure *f = &p->first[i];
        if (!is_point(p, f))
            continue;
        most = f->value > most ? f->value : most;
        right = f->at > right ? f->at : right;
        last = f;
    }
    if (most <= 0)
        most = 1;
    fprintf(out, "<path d=\"M%d %dV%dH%d\" class=\"a\"/>\n<polyline class=\"c\" points=\"", LABELS,
            y, y + CURVE, LABELS + BARS);
    for (size_t i = 0; i < p->count; i++) {
        const struct rt_figure *f = &p->first[i];
        if (is_point(p, f))
            fprintf(out, "%.1f,%.1f ", LABELS + (double)f->at / right * BARS,
                    y + CURVE - f->value / most * (CURVE - 12));
    }
    fprintf(out, "\"/>\n<text x=\"%d\" y=\"%d\" text-anchor=\"end\" class=\"v\">%s %s</text>",
            LABELS - 8, y + 14, rt_figures_number(most, number, sizeof(number)), last->unit);
    fprintf(out, "<text x=\"%d\" y=\"%d\" text-anchor=\"end\" class=\"v\">0</text>", LABELS - 8,
            y + CURVE);
    fprintf(out, "<text x=\"%d\" y=\"%d\" text-anchor=\"end\" class=\"v\">%d held</text>\n",
            LABELS + BARS, y + CURVE + 16, right);
}

static void put_panel(FILE *out, const struct panel *p, int y)
{
    fprintf(out, "<text x=\"%d\" y=\"%d\" class=\"t\">", MARGIN, y + 20);
    put_text(out, p->first->bench);
    fputs("</text>\n", out);
    y += TITLE;
    for (size_t i = 0; i < p->count; i++) {
        if (is_point(p, &p->first[i]))
            continue;
        put_bar(out, p, &p->first[i], y);
        y += ROW;
    }
    if (p->points > 1)
        put_curve(out, p, y + 8);
}

void rt_figures_svg(const struct rt_figures *f, FILE *out)
{
    int y = 60, height = y;

    for (size_t i = 0; i < f->count;) {
        struct panel p = panel_at(f, i);
        height += panel_height(&p);
        i += p.count;
    }
    fprintf(out,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" "
            "viewBox=\"0 0 %d %d\">\n"
            "<style>text{font:13px sans-serif;fill:#1a202c}.t{font-weight:bold;font-size:15px}"
            ".v{fill:#4a5568}.a{stroke:#a0aec0;fill:none}"
            ".c{stroke:#c05621;stroke-width:2;fill:none}</style>\n"
            "<rect width=\"100%%\" height=\"100%%\" fill=\"#ffffff\"/>\n"
            "<text x=\"%d\" y=\"34\" class=\"t\">rota %s on ",
            WIDTH, height, WIDTH, height, MARGIN, f->of != NULL ? f->of : "bench");
    put_text(out, f->engine);
    fprintf(out, "%s</text>\n", f->quick ? ", quick and rough" : "");
    for (size_t i = 0; i < f->count;) {
        struct panel p = panel_at(f, i);
        put_panel(out, &p, y);
        y += panel_height(&p);
        i += p.count;
    }
    fputs("</svg>\n", out);
}
