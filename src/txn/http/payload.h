/* SPDX-License-Identifier: Apache-2.0 */
/* What the journal keeps of a branch that is an HTTP service: where to call it, and what to send.
 *
 *   u8 version (1) | u16 bytes of try | u16 confirm | u16 cancel | u16 content type | u32 body     highest byte first
 *   the four texts, each with a 0 behind it (not counted) | the body
 *
 * Whoever reads it trusts none of it: a journal may be shared, and its bytes may come from a later version. */
#ifndef RT_HTTP_PAYLOAD_H
#define RT_HTTP_PAYLOAD_H

#include "txn/manager/service.h"

#include <stdbool.h>

#define RT_HTTP_TYPE_MAX 127 /* bytes of a content type */
/* Half of a journal op (RT_JOURNAL_BYTES_MAX), as for every service. */
#define RT_HTTP_PAYLOAD_MAX 32768

struct rt_http_payload {
    /* By enum rt_service_op - 1; as in address.h. "": no call is made, and the answer is YES or DONE at once. */
    const char *urls[3];
    const char *type; /* of the body; "": none is sent */
    const void *body; /* the same for all three */
    size_t size;
};

/* How many bytes it needs; or ROTA_INVALID, and ERRMSG says what is wrong: a URL, a content type with bytes that a header
 * cannot have, all of it larger than RT_HTTP_PAYLOAD_MAX. */
int rt_http_payload_check(const struct rt_http_payload *p, size_t *bytes, char *errmsg,
                          size_t size);
/* Writes one that was checked, into as many bytes as the check said. */
void rt_http_payload_write(const struct rt_http_payload *p, void *out);
/* False: the bytes are no payload, or not a valid one (then OUT is as before). OUT points into BYTES. */
bool rt_http_payload_read(const void *bytes, size_t size, struct rt_http_payload *out);

#endif
