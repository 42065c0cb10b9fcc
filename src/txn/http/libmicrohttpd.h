/* SPDX-License-Identifier: Apache-2.0 */
/* libmicrohttpd, loaded when the first server is started. Its header is needed to build, the library only to run. */
#ifndef RT_LIBMICROHTTPD_H
#define RT_LIBMICROHTTPD_H

#include <microhttpd.h>
#include <stddef.h>

/* X(result, name without MHD_, arguments) */
#define RT_LIBMICROHTTPD(X)                                                                        \
    X(struct MHD_Daemon *, start_daemon,                                                           \
      (unsigned, uint16_t, MHD_AcceptPolicyCallback, void *, MHD_AccessHandlerCallback, void *,    \
       ...))                                                                                       \
    X(void, stop_daemon, (struct MHD_Daemon *))                                                    \
    X(MHD_socket, quiesce_daemon, (struct MHD_Daemon *))                                           \
    X(void, suspend_connection, (struct MHD_Connection *))                                         \
    X(void, resume_connection, (struct MHD_Connection *))                                          \
    X(int, get_connection_values,                                                                  \
      (struct MHD_Connection *, enum MHD_ValueKind, MHD_KeyValueIterator, void *))                 \
    X(const char *, lookup_connection_value,                                                       \
      (struct MHD_Connection *, enum MHD_ValueKind, const char *))                                 \
    X(struct MHD_Response *, create_response_from_buffer,                                          \
      (size_t, void *, enum MHD_ResponseMemoryMode))                                               \
    X(enum MHD_Result, add_response_header, (struct MHD_Response *, const char *, const char *))   \
    X(enum MHD_Result, queue_response, (struct MHD_Connection *, unsigned, struct MHD_Response *)) \
    X(void, destroy_response, (struct MHD_Response *))                                             \
    X(enum MHD_Result, is_feature_supported, (enum MHD_FEATURE))

struct rt_libmicrohttpd {
#define RT_LIBMICROHTTPD_FIELD(result, name, arguments) result(*name) arguments;
    RT_LIBMICROHTTPD(RT_LIBMICROHTTPD_FIELD)
#undef RT_LIBMICROHTTPD_FIELD
};
extern struct rt_libmicrohttpd rt_mhd; /* written once, by rt_libmicrohttpd_load */

/* 0, or ROTA_UNSUPPORTED with one line in ERRMSG. From any thread. It is never unloaded. */
int rt_libmicrohttpd_load(char *errmsg, size_t size);

#endif
