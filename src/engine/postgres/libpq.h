/* SPDX-License-Identifier: Apache-2.0 */
/* libpq, loaded at the first URL that needs it: only its users pay for it.
 *
 * Include this and not libpq-fe.h; its functions are then called as always. A function that is missing below does not
 * link. */
#ifndef RT_LIBPQ_H
#define RT_LIBPQ_H

#include <libpq-fe.h>
#include <stddef.h>

#define RT_LIBPQ(X)              \
    X(PQbackendPID)              \
    X(PQclear)                   \
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
    X(PQpipelineSync)            \
    X(PQresultErrorField)        \
    X(PQresultStatus)            \
    X(PQsendPrepare)             \
    X(PQsendQueryParams)         \
    X(PQsendQueryPrepared)       \
    X(PQserverVersion)           \
    X(PQsetErrorVerbosity)       \
    X(PQsetNoticeReceiver)       \
    X(PQsetnonblocking)          \
    X(PQsocket)                  \
    X(PQsslInUse)                \
    X(PQstatus)

struct rt_libpq {
#define RT_LIBPQ_FIELD(name) __typeof__(name) *name##_;
    RT_LIBPQ(RT_LIBPQ_FIELD)
#undef RT_LIBPQ_FIELD
};
extern struct rt_libpq rt_libpq; /* written once, by rt_libpq_load */

/* 0, or ROTA_UNSUPPORTED with one line in ERRMSG. From any thread. It is never unloaded. */
int rt_libpq_load(char *errmsg, size_t size);

#define PQbackendPID rt_libpq.PQbackendPID_
#define PQclear rt_libpq.PQclear_
#define PQcmdTuples rt_libpq.PQcmdTuples_
#define PQconnectPoll rt_libpq.PQconnectPoll_
#define PQconnectionNeedsPassword rt_libpq.PQconnectionNeedsPassword_
#define PQconnectStartParams rt_libpq.PQconnectStartParams_
#define PQconninfo rt_libpq.PQconninfo_
#define PQconninfoFree rt_libpq.PQconninfoFree_
#define PQconsumeInput rt_libpq.PQconsumeInput_
#define PQenterPipelineMode rt_libpq.PQenterPipelineMode_
#define PQerrorMessage rt_libpq.PQerrorMessage_
#define PQfinish rt_libpq.PQfinish_
#define PQflush rt_libpq.PQflush_
#define PQfreemem rt_libpq.PQfreemem_
#define PQftype rt_libpq.PQftype_
#define PQgetResult rt_libpq.PQgetResult_
#define PQgetisnull rt_libpq.PQgetisnull_
#define PQgetlength rt_libpq.PQgetlength_
#define PQgetvalue rt_libpq.PQgetvalue_
#define PQisBusy rt_libpq.PQisBusy_
#define PQnfields rt_libpq.PQnfields_
#define PQnotifies rt_libpq.PQnotifies_
#define PQntuples rt_libpq.PQntuples_
#define PQpipelineSync rt_libpq.PQpipelineSync_
#define PQresultErrorField rt_libpq.PQresultErrorField_
#define PQresultStatus rt_libpq.PQresultStatus_
#define PQsendPrepare rt_libpq.PQsendPrepare_
#define PQsendQueryParams rt_libpq.PQsendQueryParams_
#define PQsendQueryPrepared rt_libpq.PQsendQueryPrepared_
#define PQserverVersion rt_libpq.PQserverVersion_
#define PQsetErrorVerbosity rt_libpq.PQsetErrorVerbosity_
#define PQsetNoticeReceiver rt_libpq.PQsetNoticeReceiver_
#define PQsetnonblocking rt_libpq.PQsetnonblocking_
#define PQsocket rt_libpq.PQsocket_
#define PQsslInUse rt_libpq.PQsslInUse_
#define PQstatus rt_libpq.PQstatus_

#endif
