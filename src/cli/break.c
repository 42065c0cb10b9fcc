/* SPDX-License-Identifier: Apache-2.0 */
/* rota break: takes one ticket out of its line, by the fence that was shown. */
#include "cli/cli.h"
#include "cli/connect.h"
#include "cli/json.h"
#include "cli/look.h"
#include "cli/options.h"
#include "cli/out.h"

#include <inttypes.h>

static int parse(struct rt_look *look, int argc, char **argv, uint64_t *fence)
{
    int code = rt_look_parse(look, argc, argv);

    if (code != RT_EXIT_OK || look->done)
        return code;
    /* Never breaks whoever happens to hold it by now: only the ticket that somebody looked at. */
    if (look->fence == NULL)
        return rt_out_usage("break", "say which ticket: --fence N, as 'rota show %s' shows it",
                            look->name);
    if (!rt_options_number(look->fence, 1, INT64_MAX, fence))
        return rt_out_usage("break", "--fence '%s' is not a number from 'rota show'", look->fence);
    return RT_EXIT_OK;
}

static int report(const struct rota *r, const struct rt_look *look, int err)
{
    if (err != ROTA_LOST)
        return rt_connect_report(r, err, "");
    rt_out_error("that ticket is not there (any more); see 'rota show %s'", look->name);
    return RT_EXIT_BUSY;
}

/* ROTA_PLACE_* of the ticket. */
static uint32_t flags_of(struct rota *r, const struct rt_look *look, uint64_t fence)
{
    struct rota_line *line;
    uint32_t flags = 0;

    if (rota_inspect(r, look->name, &line) != 0)
        return 0; /* the break will say why */
    for (size_t i = 0; i < line->count; i++)
        if (line->places[i].number == fence)
            flags = line->places[i].flags;
    rota_line_free(line);
    return flags;
}

static int print(const struct rt_look *look, uint64_t fence, uint32_t flags)
{
    const char *then = "whoever had it is told";

    if ((flags & ROTA_PLACE_DURABLE) != 0) /* from rota once, say: no session has it */
        then = "the key is free now; a command that still runs for it is not ended";
    else if ((flags & ROTA_PLACE_FOREIGN) != 0)
        then = "it was another program's, which may not notice and go on: end that too";
    if (look->json)
        return rt_json_print(json_pack("{s:o, s:o, s:b}", "name", rt_json_text(look->name), "fence",
                                       rt_json_id(fence), "broken", 1),
                             false);
    printf("'%s': the ticket with fence %" PRIu64 " was taken out; %s\n", look->name, fence, then);
    return RT_EXIT_OK;
}

int rt_break_main(const struct rt_cli *cli, int argc, char **argv)
{
    struct rt_look look = {
        .command = "break", .operand = RT_LOOK_NAME, .takes = RT_LOOK_TAKES_FENCE};
    struct rota *r;
    uint64_t fence;

    int code = parse(&look, argc, argv, &fence);
    if (code != RT_EXIT_OK || look.done)
        return code;
    code = rt_connect_open(&r, cli, &(struct rota_options){.flags = ROTA_NO_KEEPER});
    if (code != RT_EXIT_OK)
        return code;
    uint32_t flags = flags_of(r, &look, fence);
    int err = rota_break(r, look.name, fence);
    code = err != 0 ? report(r, &look, err) : print(&look, fence, flags);
    rota_close(r);
    int flushed = rt_out_flush();
    return code != RT_EXIT_OK ? code : flushed;
}
