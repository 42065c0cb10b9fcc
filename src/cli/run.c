/* SPDX-License-Identifier: Apache-2.0 */
/* rota run: waits for a lock, runs a command while holding it, gives it back. */
#include "cli/cli.h"
#include "cli/connect.h"
#include "cli/hold.h"
#include "cli/prometheus.h"
#include "cli/run_options.h"

int rt_run_main(const struct rt_cli *cli, int argc, char **argv)
{
    struct rt_hold hold;
    bool done = false;

    rt_hold_init(&hold);
    int code = rt_run_options_parse(&hold, argc, argv, &done);
    if (code != RT_EXIT_OK || done)
        return code;
    hold.options.call_ms = rt_run_options_call_ms(&hold.ask, rt_connect_url(cli));
    code = rt_hold_open(&hold, cli);
    if (code == RT_EXIT_OK)
        code = rt_hold_run(&hold);
    if (hold.metrics != NULL && hold.client != NULL) {
        int saved = rt_prometheus_save(hold.client, hold.metrics);
        code = code == RT_EXIT_OK ? saved : code; /* what COMMAND says comes first */
    }
    rt_hold_close(&hold);
    return code;
}
