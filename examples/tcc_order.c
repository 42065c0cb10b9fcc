/* SPDX-License-Identifier: Apache-2.0 */
/* An order over two services: both reserve, then both sell, or neither does. Services are called over HTTP; the file of
 * resources (~/.config/rota/txn) says where they are:
 *
 *   stock = http://127.0.0.1:8081/
 *   money = http://127.0.0.1:8082/
 *
 *   tcc_order HOW_MANY
 *
 * tcc_service.c and tcc_service.py are such services. Kill this program wherever you like: `rota txn recover` finishes
 * what it left. */
#include <rota_txn.h>

#include <stdio.h>
#include <string.h>

/* The next branch of T: asks SERVICE to try and, after the decision, to confirm or to cancel, each with BODY. */
static int reserve(struct rota_txn *t, const char *service, const char *body)
{
    const struct rota_tcc_http what = {
        .resource = service,
        .try_url = "/try", /* below the service's own URL */
        .confirm_url = "/confirm",
        .cancel_url = "/cancel",
        .content_type = "text/plain",
        .body = body,
        .size = strlen(body),
    };

    return rota_tcc_http(t, &what, NULL, 0);
}

int main(int argc, char **argv)
{
    const char *many = argc > 1 ? argv[1] : "1";
    const struct rota_txn_options opts = {.flags = ROTA_TXN_WAIT, .label = "order"};
    struct rota_txns *m = NULL;
    struct rota_txn *t = NULL;

    if (rota_txns_open(&m, NULL, NULL) != 0) { /* the journal: $ROTA_JOURNAL */
        fprintf(stderr, "%s\n", rota_txn_errmsg(NULL));
        return 1;
    }
    int err = rota_txn_begin(m, &opts, &t);
    if (err == 0)
        err = reserve(t, "stock", many);
    if (err == 0)
        err = reserve(t, "money", many);
    if (err == 0) {
        err = rota_txn_commit(t);
        if (err == ROTA_UNFINISHED) /* committed; a service confirms later */
            err = 0;
    } else if (t != NULL) {
        printf("%s\n", rota_txn_errmsg(m));
        rota_txn_abort(t); /* what was reserved is given back */
    }
    printf("%s\n", err == 0 ? "ordered" : "not ordered");
    rota_txns_close(m);
    return err == 0 ? 0 : 2;
}
