/* SPDX-License-Identifier: Apache-2.0 */
/* A ticket of a line, in words and in JSON. */
#include "cli/ticket.h"

#include "cli/json.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MODE_LATCH 3
#define MODE_BARRIER 4
#define OWNER_IS_THREAD (UINT64_C(1) << 63) /* the library numbers threads from here */

bool rt_ticket_who(const char *label, struct rt_ticket_who *who)
{
    const char *first = strchr(label, '/');
    const char *second = first == NULL ? NULL : strchr(first + 1, '/');
    char *end;

    if (second == NULL || first == label || first[1] < '0' || first[1] > '9' || second[1] == '\0')
        return false;
    errno = 0;
    long process = strtol(first + 1, &end, 10);
    if (end != second || errno != 0)
        return false;
    *who = (struct rt_ticket_who){(int)(first - label), process, second + 1};
    return true;
}

const char *rt_ticket_mode(const struct rota_place *place, char *out, size_t size)
{
    switch (place->mode) {
    case ROTA_EXCLUSIVE:
        snprintf(out, size, "exclusive");
        break;
    case ROTA_SHARED:
        snprintf(out, size, "shared");
        break;
    case ROTA_PERMITS:
        snprintf(out, size, "%" PRIu32 " of %" PRIu32, place->take, place->of);
        break;
    default:
        snprintf(out, size, "%s of %" PRIu32, place->mode == MODE_LATCH ? "latch" : "barrier",
                 place->of);
    }
    return out;
}

const char *rt_ticket_owner(const struct rota_place *place, char *out, size_t size)
{
    if (place->owner == 0)
        snprintf(out, size, "%s", "");
    else if ((place->owner & OWNER_IS_THREAD) != 0)
        snprintf(out, size, "thread %" PRIu64, place->owner & ~OWNER_IS_THREAD);
    else
        snprintf(out, size, "owner %" PRIu64, place->owner);
    return out;
}

static const char *mode_word(uint32_t mode)
{
    static const char *const words[] = {"exclusive", "shared", "permits", "latch", "barrier"};

    return mode <= MODE_BARRIER ? words[mode] : "unknown";
}

/* host, process and program, or nulls. */
static int add_who(json_t *ticket, const char *label)
{
    struct rt_ticket_who who;
    char host[RT_TICKET_TEXT];

    if (!rt_ticket_who(label, &who))
        return json_object_set_new(ticket, "host", json_null()) |
               json_object_set_new(ticket, "process", json_null()) |
               json_object_set_new(ticket, "program", json_null());
    snprintf(host, sizeof(host), "%.*s", who.host_bytes, label);
    return json_object_set_new(ticket, "host", rt_json_text(host)) |
           json_object_set_new(ticket, "process", json_integer(who.process)) |
           json_object_set_new(ticket, "program", rt_json_text(who.program));
}

static json_t *owner_json(const struct rota_place *place, bool thread)
{
    bool is_thread = (place->owner & OWNER_IS_THREAD) != 0;

    if (place->owner == 0 || is_thread != thread)
        return json_null();
    return rt_json_id(place->owner & ~OWNER_IS_THREAD);
}

json_t *rt_ticket_json(const struct rota_place *place, size_t index)
{
    bool granted = (place->flags & ROTA_PLACE_GRANTED) != 0;
    bool counted = place->mode != ROTA_EXCLUSIVE && place->mode != ROTA_SHARED;
    json_t *ticket = json_pack(
        "{s:I, s:s, s:o, s:s, s:o, s:o, s:o}", "place", (json_int_t)index + 1, "state",
        granted ? "holds" : "waits", "fence", rt_json_id(place->number), "mode",
        mode_word(place->mode), "take", counted ? json_integer(place->take) : json_null(), "of",
        counted ? json_integer(place->of) : json_null(), "label", rt_json_text(place->label));

    if (ticket == NULL)
        return NULL;
    int failed = add_who(ticket, place->label);
    failed |= json_object_set_new(ticket, "session",
                                  place->session != 0 ? rt_json_id(place->session) : json_null());
    failed |= json_object_set_new(ticket, "thread", owner_json(place, true));
    failed |= json_object_set_new(ticket, "owner", owner_json(place, false));
    failed |= json_object_set_new(ticket, "since_ms", rt_json_ms(place->since_ms));
    failed |= json_object_set_new(ticket, "left_ms", rt_json_ms(place->left_ms));
    failed |= json_object_set_new(ticket, "durable",
                                  json_boolean((place->flags & ROTA_PLACE_DURABLE) != 0));
    failed |= json_object_set_new(ticket, "detect",
                                  json_boolean((place->flags & ROTA_PLACE_DETECT) != 0));
    failed |= json_object_set_new(ticket, "value", rt_json_text(place->value));
    if (failed == 0)
        return ticket;
    json_decref(ticket);
    return NULL;
}
