/* SPDX-License-Identifier: Apache-2.0 */
/* One message now and then. */
#include "txn/relay/outlet.h"

#include <rota.h>
#include <stdio.h>

#define LIMIT_NS (5 * INT64_C(1000000000))

void rt_outlet_close(struct rt_outlet *o)
{
    if (o->broker != NULL)
        o->kind->close(o->broker);
    o->broker = NULL;
}

int rt_outlet_send(struct rt_outlet *o, const struct rt_message *m, char *errmsg, size_t size)
{
    const struct rt_broker_options opts = {.app = "rota-relay consume"};
    enum rt_sent sent = RT_SENT_LOST;
    const char *why = NULL;
    int64_t deadline = rt_relay_now() + LIMIT_NS;
    int err = o->broker != NULL ? 0
                                : o->kind->open(&o->broker, o->url, &opts, deadline, errmsg, size);

    if (err != 0)
        return err;
    err = o->kind->publish(o->broker, m, 1, deadline, &sent, &why);
    if (err == 0 && sent == RT_SENT_CONFIRMED)
        return 0;
    if (sent == RT_SENT_REFUSED) {
        snprintf(errmsg, size, "%s: %s", m->topic, why != NULL ? why : "refused");
        return ROTA_INVALID;
    }
    snprintf(errmsg, size, "%s: %s", m->topic,
             err != 0      ? o->kind->errmsg(o->broker)
             : why != NULL ? why
                           : "nobody confirmed it");
    rt_outlet_close(o);
    return err != 0 ? err : ROTA_UNREACHABLE;
}
