/* SPDX-License-Identifier: Apache-2.0 */
/* libnats, loaded when the first URL asks for it. Its headers are needed to build, the library only to run. */
#ifndef RT_LIBNATS_H
#define RT_LIBNATS_H

#include <nats/nats.h>
#include <stddef.h>

#define RT_LIBNATS(X)                        \
    X(jsOptions_Init)                        \
    X(jsSubOptions_Init)                     \
    X(js_PullSubscribe)                      \
    X(jsCtx_Destroy)                         \
    X(natsConnection_Connect)                \
    X(natsConnection_Destroy)                \
    X(natsConnection_FlushTimeout)           \
    X(natsConnection_GetMaxPayload)          \
    X(natsConnection_JetStream)              \
    X(natsConnection_PublishMsg)             \
    X(natsConnection_SubscribeSync)          \
    X(natsInbox_Create)                      \
    X(natsInbox_Destroy)                     \
    X(natsMsgHeader_Get)                     \
    X(natsMsgHeader_Set)                     \
    X(natsMsgList_Destroy)                   \
    X(natsMsg_AckSync)                       \
    X(natsMsg_Create)                        \
    X(natsMsg_Destroy)                       \
    X(natsMsg_GetData)                       \
    X(natsMsg_GetDataLength)                 \
    X(natsMsg_GetSubject)                    \
    X(natsMsg_InProgress)                    \
    X(natsMsg_NakWithDelay)                  \
    X(natsMsg_Term)                          \
    X(natsOptions_Create)                    \
    X(natsOptions_Destroy)                   \
    X(natsOptions_LoadCATrustedCertificates) \
    X(natsOptions_LoadCertificatesChain)     \
    X(natsOptions_SetAllowReconnect)         \
    X(natsOptions_SetExpectedHostname)       \
    X(natsOptions_SetName)                   \
    X(natsOptions_SetSecure)                 \
    X(natsOptions_SetTimeout)                \
    X(natsOptions_SetToken)                  \
    X(natsOptions_SetURL)                    \
    X(natsOptions_SetUserInfo)               \
    X(natsOptions_SetWriteDeadline)          \
    X(natsStatus_GetText)                    \
    X(natsSubscription_Destroy)              \
    X(natsSubscription_Fetch)                \
    X(natsSubscription_NextMsg)              \
    X(natsSubscription_SetPendingLimits)     \
    X(nats_GetLastError)

struct rt_libnats {
#define RT_LIBNATS_FIELD(name) __typeof__(&name) name;
    RT_LIBNATS(RT_LIBNATS_FIELD)
#undef RT_LIBNATS_FIELD
};
extern struct rt_libnats rt_nats; /* written once, by rt_libnats_load */

/* 0, or ROTA_UNSUPPORTED with one line in ERRMSG. From any thread. It is never unloaded. */
int rt_libnats_load(char *errmsg, size_t size);

#endif
