/* SPDX-License-Identifier: Apache-2.0 */
/* rota doctor: a verdict per promise of the engine, with the setting and the remedy; or its tables. */
#include "cli/cli.h"
#include "cli/connect.h"
#include "cli/json.h"
#include "cli/look.h"
#include "cli/out.h"

#include <stdio.h>
#include <string.h>

struct visit {
    json_t *verdicts; /* NULL: in words */
    size_t broken;
};

static void add_json(struct visit *visit, const struct rota_verdict *v)
{
    json_array_append_new(visit->verdicts,
                          json_pack("{s:o, s:o, s:o, s:o}", "promise", rt_json_text(v->promise),
                                    "verdict", rt_json_text(v->verdict), "setting",
                                    rt_json_text(v->setting), "remedy", rt_json_text(v->remedy)));
}

static void print_text(const struct rota_verdict *v)
{
    bool kept = strcmp(v->verdict, "kept") == 0;
    bool broken = strcmp(v->verdict, "broken") == 0;
    char text[1024];

    printf("%s", rt_out_color(stdout, kept ? RT_OUT_GREEN : broken ? RT_OUT_RED : RT_OUT_YELLOW));
    rt_out_padded(v->verdict, 9);
    printf("%s", rt_out_color(stdout, RT_OUT_PLAIN));
    rt_out_padded(rt_out_clean(v->promise, text, sizeof(text)), 28);
    printf("%s\n", rt_out_clean(v->setting, text, sizeof(text)));
    if (v->remedy[0] != '\0')
        printf("         remedy: %s\n", rt_out_clean(v->remedy, text, sizeof(text)));
}

static void on_verdict(void *arg, const struct rota_verdict *v)
{
    struct visit *visit = arg;

    visit->broken += strcmp(v->verdict, "broken") == 0;
    if (visit->verdicts != NULL)
        add_json(visit, v);
    else
        print_text(v);
}

/* The engine as it was named, without a password. */
static json_t *engine_json(const struct rt_cli *cli)
{
    const char *url = rt_connect_url(cli);
    char engine[4200];

    rt_connect_redact(url != NULL ? url : "file:", engine, sizeof(engine));
    return rt_json_text(engine);
}

static int print_json(const struct visit *visit, const struct rt_cli *cli)
{
    return rt_json_print(json_pack("{s:o, s:I, s:O}", "engine", engine_json(cli), "broken",
                                   (json_int_t)visit->broken, "verdicts", visit->verdicts),
                         false);
}

/* ---- The tables --------------------------------------------------------- */

static void take_json(void *arg, const char *text)
{
    *(json_t **)arg = rt_json_text(text);
}

static void take_text(void *arg, const char *text)
{
    *(bool *)arg = true;
    fputs(text, stdout); /* as it is: it goes to the engine's own shell */
}

/* What a shell reads stays empty if there is nothing to create: stderr says so. */
static int print_ddl(const struct rt_cli *cli, bool json)
{
    json_t *ddl = json_null();
    bool told = false;
    int err = json ? rota_ddl(rt_connect_url(cli), take_json, &ddl)
                   : rota_ddl(rt_connect_url(cli), take_text, &told);

    if (err != 0)
        return rt_connect_report(NULL, err, "");
    if (json)
        return rt_json_print(json_pack("{s:o, s:o}", "engine", engine_json(cli), "ddl", ddl),
                             false);
    if (!told)
        rt_out_error("this engine needs no tables: there is nothing to create");
    return rt_out_flush();
}

/* ---- The command -------------------------------------------------------- */

int rt_doctor_main(const struct rt_cli *cli, int argc, char **argv)
{
    struct rt_look look = {
        .command = "doctor", .operand = RT_LOOK_NO_NAME, .takes = RT_LOOK_TAKES_DDL};
    struct rota *r;

    int code = rt_look_parse(&look, argc, argv);
    if (code != RT_EXIT_OK || look.done)
        return code;
    if (look.ddl)
        return print_ddl(cli, look.json);
    code = rt_connect_open(&r, cli, &(struct rota_options){.flags = ROTA_NO_KEEPER});
    if (code != RT_EXIT_OK)
        return code;
    struct visit visit = {look.json ? json_array() : NULL, 0};
    int err = rota_doctor(r, on_verdict, &visit);
    if (err != 0)
        code = rt_connect_report(r, err, "");
    else if (look.json)
        code = print_json(&visit, cli);
    rota_close(r);
    json_decref(visit.verdicts);
    int flushed = rt_out_flush();
    if (code == RT_EXIT_OK)
        code = flushed;
    return code == RT_EXIT_OK && visit.broken > 0 ? RT_EXIT_FAILED : code;
}
