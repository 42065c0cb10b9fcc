/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes that wait to be sent: added at one end, gone at the other. */
#include "base/alloc.h"
#include "net/wire.h"

#include <assert.h>
#include <rota.h>
#include <string.h>

#define ROOM_FIRST 4096
#define ROOM_KEPT (256 * 1024) /* more goes back when all was sent */

int rt_bytes_add(struct rt_bytes *b, const void *bytes, size_t n)
{
    if (b->room - b->end < n && b->begin > 0) {
        memmove(b->at, b->at + b->begin, rt_bytes_waiting(b));
        b->end -= b->begin;
        b->begin = 0;
    }
    if (b->room - b->end < n) {
        size_t room = b->room * 2 > b->end + n ? b->room * 2 : b->end + n;
        if (room < ROOM_FIRST)
            room = ROOM_FIRST;
        char *at = rt_realloc_wiped(b->at, b->room, room);
        if (at == NULL)
            return ROTA_NOMEM;
        b->at = at;
        b->room = room;
    }
    memcpy(b->at + b->end, bytes, n);
    b->end += n;
    return 0;
}

void rt_bytes_sent(struct rt_bytes *b, size_t n)
{
    assert(n <= rt_bytes_waiting(b));
    b->begin += n;
    if (b->begin < b->end)
        return;
    b->begin = b->end = 0;
    if (b->room > ROOM_KEPT)
        rt_bytes_free(b);
}

void rt_bytes_free(struct rt_bytes *b)
{
    rt_free_wiped(b->at, b->room);
    *b = (struct rt_bytes){0};
}
