/* SPDX-License-Identifier: Apache-2.0 */
/* libpq, loaded for the first URL that needs it: only its users pay for it.
 *
 * Include this instead of libpq-fe.h, and call its functions as rt_pq.PQ...: a call by the plain name
 * does not link. */
#ifndef RT_LIBPQ_H
#define RT_LIBPQ_H

#include <libpq-fe.h>
#include <stddef.h>

#define RT_LIBPQ(X)              \
    X(PQbackendPID)              \
    X(PQclear)                   \
    X(PQcmdStatus)               \
    X(PQcmdTuples)               \
    X(PQconnectPoll)             \
    X(PQconnectStartParams)      \
    X(PQconnectionNeedsPassword) \
    X(PQconninfo)                \
    X(PQconninfoFree)            \
    X(PQconsumeInput)            \
    X(PQenterPipelineMode)       \
    X(PQerrorMessage)            \
    X(PQfinish)                  \
    X(PQflush)                   \
    X(PQfreemem)                 \
    X(PQftype)                   \
    X(PQgetResult)               \
    X(PQgetisnull)               \
    X(PQgetlength)               \
    X(PQgetvalue)                \
    X(PQisBusy)                  \
    X(PQnfields)                 \
    X(PQnotifies)                \
    X(PQntuples)                 \
    X(PQpipelineStatus)          \
    X(PQpipelineSync)            \
    X(PQresultErrorField)        \
    X(PQresultStatus)            \
    X(PQsendPrepare)             \
    X(PQsendQuery)               \
    X(PQsendQueryParams)         \
    X(PQsendQueryPrepared)       \
    X(PQserverVersion)           \
    X(PQsetErrorVerbosity)       \
    X(PQsetNoticeReceiver)       \
    X(PQsetnonblocking)          \
    X(PQsocket)                  \
    X(PQsslInUse)                \
    X(PQstatus)                  \
    X(PQtransactionStatus)

struct rt_libpq {
#define RT_LIBPQ_FIELD(name) __typeof__(name) *name;
    RT_LIBPQ(RT_LIBPQ_FIELD)
#undef RT_LIBPQ_FIELD
};
extern struct rt_libpq rt_pq; /* written once, by rt_libpq_load */

/* 0, or ROTA_UNSUPPORTED with one line in ERRMSG. From any thread. It is never unloaded. */
int rt_libpq_load(char *errmsg, size_t size);

#endif
