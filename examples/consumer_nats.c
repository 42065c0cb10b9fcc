/* SPDX-License-Identifier: Apache-2.0 */
/* consumer.c on a stream of NATS JetStream: a pull consumer that keeps its place (durable). */
#include "consumer.h"

#include <nats/nats.h>
#include <stdio.h>
#include <stdlib.h>

static natsConnection *conn;
static jsCtx *js;
static natsSubscription *events;
static natsMsgList taken;

static int sound(natsStatus s)
{
    if (s == NATS_OK)
        return 0;
    fprintf(stderr, "NATS: %s\n", natsStatus_GetText(s));
    return -1;
}

int broker_open(const char *host, int port, const char *source)
{
    const char *user = getenv("BROKER_USER"), *password = getenv("BROKER_PASSWORD");
    char url[300];
    natsOptions *options = NULL;
    jsSubOptions how;

    snprintf(url, sizeof(url), "nats://%s:%d", host, port);
    natsStatus s = natsOptions_Create(&options);
    if (s == NATS_OK)
        s = natsOptions_SetURL(options, url);
    if (s == NATS_OK && user != NULL)
        s = natsOptions_SetUserInfo(options, user, password);
    if (s == NATS_OK)
        s = natsConnection_Connect(&conn, options);
    natsOptions_Destroy(options);
    if (s == NATS_OK)
        s = natsConnection_JetStream(&js, conn, NULL);
    jsSubOptions_Init(&how);
    how.Stream = source;
    how.Config.MaxAckPending =
        1; /* one at a time in the whole group: the order is kept, whoever dies */
    if (s == NATS_OK)
        s = js_PullSubscribe(&events, js, ">", GROUP, NULL, &how, NULL);
    return sound(s);
}

int broker_next(struct event *e)
{
    natsStatus s;

    natsMsgList_Destroy(&taken);
    do
        s = natsSubscription_Fetch(&taken, events, 1, 1000, NULL);
    while (s == NATS_TIMEOUT);
    if (sound(s) != 0)
        return -1;
    natsMsg *msg = taken.Msgs[0];
    *e = (struct event){
        .id = "", .body = natsMsg_GetData(msg), .size = (size_t)natsMsg_GetDataLength(msg)};
    (void)natsMsgHeader_Get(msg, "Nats-Msg-Id", &e->id);
    return 0;
}

int broker_ack(void)
{
    return sound(natsMsg_AckSync(taken.Msgs[0], NULL, NULL)); /* waits until the server has it */
}

int broker_back(void)
{
    return sound(natsMsg_NakWithDelay(taken.Msgs[0], 1000, NULL));
}

void broker_close(void)
{
    natsMsgList_Destroy(&taken);
    natsSubscription_Destroy(events);
    jsCtx_Destroy(js);
    natsConnection_Destroy(conn);
    nats_Close();
}
