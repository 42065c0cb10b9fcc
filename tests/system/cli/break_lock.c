/* SPDX-License-Identifier: Apache-2.0 */
/* Breaks whoever holds NAME on the engine of $ROTA_URL: what a holder must survive. */
#include <rota.h>
#include <stdio.h>

static int break_front(struct rota *r, const char *name)
{
    struct rota_line *line;

    int err = rota_inspect(r, name, &line);
    if (err != 0)
        return err;
    err = line->granted > 0 ? rota_break(r, name, line->places[0].number) : ROTA_LOST;
    rota_line_free(line);
    return err;
}

int main(int argc, char **argv)
{
    struct rota *r;

    if (argc != 2 || rota_open(&r, NULL, NULL) != 0) {
        fprintf(stderr, "break_lock: %s\n", rota_errmsg(NULL));
        return 1;
    }
    int err = break_front(r, argv[1]);
    if (err != 0)
        fprintf(stderr, "break_lock: %s\n", rota_errmsg(r));
    rota_close(r);
    return err != 0;
}
