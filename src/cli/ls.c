/* SPDX-License-Identifier: Apache-2.0 */
/* rota ls: the lines of an engine, one per row. */
#include "cli/cli.h"
#include "cli/connect.h"
#include "cli/json.h"
#include "cli/lines.h"
#include "cli/look.h"
#include "cli/out.h"
#include "cli/ticket.h"

#include <unistd.h>

static json_t *line_json(const struct rota_line *line)
{
    const struct rota_place *front = line->granted > 0 ? &line->places[0] : NULL;

    return json_pack("{s:o, s:I, s:I, s:o, s:o, s:o}", "name", rt_json_text(line->name), "holders",
                     (json_int_t)line->granted, "waiters",
                     (json_int_t)(line->count - line->granted), "holder",
                     front != NULL ? rt_json_text(front->label) : json_null(), "fence",
                     front != NULL ? rt_json_id(front->number) : json_null(), "since_ms",
                     rt_json_ms(front != NULL ? front->since_ms : -1));
}

static int print_json(const struct rt_lines *list)
{
    json_t *rows = json_array();

    for (size_t i = 0; i < list->count; i++) {
        if (json_array_append_new(rows, line_json(list->lines[i])) != 0) {
            json_decref(rows);
            rows = NULL;
        }
    }
    return rt_json_print(json_pack("{s:o}", "lines", rows), false);
}

static size_t widest_name(const struct rt_lines *list)
{
    size_t widest = sizeof("NAME") - 1;
    char text[RT_TICKET_TEXT];

    for (size_t i = 0; i < list->count; i++) {
        size_t width = rt_out_width(rt_out_clean(list->lines[i]->name, text, sizeof(text)));
        widest = width > widest ? width : widest;
    }
    return widest;
}

static void print_text(const struct rt_lines *list)
{
    size_t width = widest_name(list) + 2;
    char age[32], text[RT_TICKET_TEXT];

    if (list->count == 0)
        return;
    printf("%s", rt_out_color(stdout, RT_OUT_BOLD));
    rt_out_padded("NAME", width);
    printf("HOLDERS  WAITERS  AGE           HOLDER%s\n", rt_out_color(stdout, RT_OUT_PLAIN));
    for (size_t i = 0; i < list->count; i++) {
        const struct rota_line *line = list->lines[i];
        const struct rota_place *front = &line->places[0];
        rt_out_padded(rt_out_clean(line->name, text, sizeof(text)), width);
        printf("%-7zu  %-7zu  ", line->granted, line->count - line->granted);
        rt_out_padded(rt_out_time(front->since_ms, age, sizeof(age)), 14);
        printf("%s\n", line->granted > 0 ? rt_out_clean(front->label, text, sizeof(text)) : "-");
    }
}

int rt_ls_main(const struct rt_cli *cli, int argc, char **argv)
{
    struct rt_look look = {.command = "ls", .operand = RT_LOOK_MAY_NAME};
    struct rt_lines list;
    struct rota *r;

    int code = rt_look_parse(&look, argc, argv);
    if (code != RT_EXIT_OK || look.done)
        return code;
    code = rt_connect_open(&r, cli, &(struct rota_options){.flags = ROTA_NO_KEEPER});
    if (code != RT_EXIT_OK)
        return code;
    int err = rt_lines_read(&list, r, look.name);
    if (err != 0)
        code = rt_connect_report(r, err, "");
    else if (look.json)
        code = print_json(&list);
    else
        print_text(&list);
    if (err == 0 && list.count == 0 && !look.json && isatty(STDOUT_FILENO))
        rt_out_error("nobody holds or waits for anything%s", look.name != NULL ? " there" : "");
    rt_lines_free(&list);
    rota_close(r);
    int flushed = rt_out_flush();
    return code != RT_EXIT_OK ? code : flushed;
}
