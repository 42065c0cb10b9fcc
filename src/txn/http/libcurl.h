/* SPDX-License-Identifier: Apache-2.0 */
/* libcurl, loaded when the first service is called. Its headers are needed to build, the library only to run. */
#ifndef RT_LIBCURL_H
#define RT_LIBCURL_H

#define CURL_DISABLE_TYPECHECK /* it checks calls by name, and ours go through pointers */
#include <curl/curl.h>
#include <stddef.h>

/* X(result, name without curl_, arguments) */
#define RT_LIBCURL(X)                                                         \
    X(CURLcode, global_init, (long))                                          \
    X(CURL *, easy_init, (void))                                              \
    X(void, easy_cleanup, (CURL *))                                           \
    X(void, easy_reset, (CURL *))                                             \
    X(CURLcode, easy_setopt, (CURL *, CURLoption, ...))                       \
    X(CURLcode, easy_getinfo, (CURL *, CURLINFO, ...))                        \
    X(const char *, easy_strerror, (CURLcode))                                \
    X(struct curl_slist *, slist_append, (struct curl_slist *, const char *)) \
    X(void, slist_free_all, (struct curl_slist *))                            \
    X(CURLM *, multi_init, (void))                                            \
    X(CURLMcode, multi_cleanup, (CURLM *))                                    \
    X(CURLMcode, multi_setopt, (CURLM *, CURLMoption, ...))                   \
    X(CURLMcode, multi_add_handle, (CURLM *, CURL *))                         \
    X(CURLMcode, multi_remove_handle, (CURLM *, CURL *))                      \
    X(CURLMcode, multi_assign, (CURLM *, curl_socket_t, void *))              \
    X(CURLMcode, multi_socket_action, (CURLM *, curl_socket_t, int, int *))   \
    X(CURLMsg *, multi_info_read, (CURLM *, int *))

struct rt_libcurl {
#define RT_LIBCURL_FIELD(result, name, arguments) result(*name) arguments;
    RT_LIBCURL(RT_LIBCURL_FIELD)
#undef RT_LIBCURL_FIELD
};
extern struct rt_libcurl rt_curl; /* written once, by rt_libcurl_load; tests make some of it fail */

/* 0, or ROTA_UNSUPPORTED with one line in ERRMSG. From any thread. It is never unloaded. */
int rt_libcurl_load(char *errmsg, size_t size);

#endif
