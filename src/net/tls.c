/* SPDX-License-Identifier: Apache-2.0 */
/* TLS. */
#include "net/wire.h"
#include <rota.h>
#include <stdio.h>
int rt_tls_new(struct rt_tls **out, const char *ca, const char *cert, const char *key, char *errmsg,
               size_t size)
{
    (void)out;
    (void)ca;
    (void)cert;
    (void)key;
    snprintf(errmsg, size, "TLS is not there yet");
    return ROTA_UNSUPPORTED;
}
void rt_tls_free(struct rt_tls *tls)
{
    (void)tls;
}
void rt_tls_greet(struct rt_stream *s)
{
    rt_stream_fail(s, ROTA_UNSUPPORTED, "TLS");
}
void rt_tls_feed(struct rt_stream *s, const char *bytes, size_t n)
{
    (void)s;
    (void)bytes;
    (void)n;
}
const char *rt_tls_cut(const struct rt_stream *s)
{
    (void)s;
    return "";
}
void rt_tls_encrypt(struct rt_stream *s)
{
    (void)s;
}
void rt_tls_end(struct rt_tls_session *session)
{
    (void)session;
}
