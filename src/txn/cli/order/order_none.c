/* SPDX-License-Identifier: Apache-2.0 */
/* rota demo order, where there is no SQLite. */
#include "cli/cli.h"
#include "cli/out.h"
#include "txn/cli/order/order.h"

int rt_order_demo(struct rt_args *args, int argc, char **argv)
{
    (void)args;
    (void)argc;
    (void)argv;
    rt_out_error("this rota-txn was built without SQLite: build it with -Dengine_file=enabled");
    return RT_EXIT_UNREACHABLE;
}
