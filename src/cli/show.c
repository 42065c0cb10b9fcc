/* SPDX-License-Identifier: Apache-2.0 */
/* rota show: the tickets of one line. */
#include "cli/cli.h"
#include "cli/connect.h"
#include "cli/json.h"
#include "cli/look.h"
#include "cli/out.h"
#include "cli/ticket.h"

#include <inttypes.h>

static int print_json(const struct rota_line *line)
{
    json_t *tickets = json_array();

    for (size_t i = 0; i < line->count; i++) {
        if (json_array_append_new(tickets, rt_ticket_json(&line->places[i], i)) != 0) {
            json_decref(tickets);
            tickets = NULL;
        }
    }
    return rt_json_print(json_pack("{s:o, s:I, s:I, s:o}", "name", rt_json_text(line->name),
                                   "holders", (json_int_t)line->granted, "waiters",
                                   (json_int_t)(line->count - line->granted), "tickets", tickets),
                         false);
}

/* Fences count from 1 on one engine and are microseconds on another. */
static int fence_width(const struct rota_line *line)
{
    uint64_t most = 0;

    for (size_t i = 0; i < line->count; i++)
        most = line->places[i].number > most ? line->places[i].number : most;
    int digits = snprintf(NULL, 0, "%" PRIu64, most);
    return digits > 8 ? digits : 8;
}

static void print_row(const struct rota_place *place, size_t index, int width)
{
    bool granted = (place->flags & ROTA_PLACE_GRANTED) != 0;
    char text[RT_TICKET_TEXT];

    printf("%-5zu  %s%s%s  %-*" PRIu64 "  ", index + 1,
           rt_out_color(stdout, granted ? RT_OUT_GREEN : RT_OUT_YELLOW),
           granted ? "holds" : "waits", rt_out_color(stdout, RT_OUT_PLAIN), width, place->number);
    rt_out_padded(rt_ticket_mode(place, text, sizeof(text)), 11);
    rt_out_padded(rt_out_time(place->since_ms, text, sizeof(text)), 14);
    rt_out_padded(rt_out_time(place->left_ms, text, sizeof(text)), 14);
    rt_ticket_owner(place, text, sizeof(text));
    rt_out_padded(text[0] != '\0' ? text : "-", 10);
    printf("%s", rt_out_clean(place->label, text, sizeof(text)));
    if (place->value[0] != '\0')
        printf("  %s", rt_out_clean(place->value, text, sizeof(text)));
    putchar('\n');
}

static void print_text(const struct rota_line *line)
{
    int width = fence_width(line);

    if (line->count == 0)
        return;
    printf(
        "%sPLACE  STATE  %-*s  MODE       SINCE         LEFT          THREAD    LABEL  VALUE%s\n",
        rt_out_color(stdout, RT_OUT_BOLD), width, "FENCE", rt_out_color(stdout, RT_OUT_PLAIN));
    for (size_t i = 0; i < line->count; i++)
        print_row(&line->places[i], i, width);
}

int rt_show_main(const struct rt_cli *cli, int argc, char **argv)
{
    struct rt_look look = {.command = "show", .operand = RT_LOOK_NAME};
    struct rota_line *line = NULL;
    struct rota *r;

    int code = rt_look_parse(&look, argc, argv);
    if (code != RT_EXIT_OK || look.done)
        return code;
    code = rt_connect_open(&r, cli, &(struct rota_options){.flags = ROTA_NO_KEEPER});
    if (code != RT_EXIT_OK)
        return code;
    int err = rota_inspect(r, look.name, &line);
    if (err != 0)
        code = rt_connect_report(r, err, "");
    else if (look.json)
        code = print_json(line);
    else
        print_text(line);
    if (err == 0 && line->count == 0 && !look.json)
        rt_out_error("nobody holds or waits for '%s'", look.name);
    rota_line_free(line);
    rota_close(r);
    int flushed = rt_out_flush();
    return code != RT_EXIT_OK ? code : flushed;
}
