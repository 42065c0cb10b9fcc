/* SPDX-License-Identifier: Apache-2.0 */
/* Names are looked up on a short-lived thread: getaddrinfo blocks, and nothing else knows all that
 * it knows. The thread touches only its own lookup, which goes with the last of the two who know it. */
#include "base/alloc.h"
#include "net/dial.h"
#include "net/fd.h"

#include <errno.h>
#include <netdb.h>
#include <pthread.h>
#include <rota.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

struct rt_lookup {
    struct rt_watch watch; /* of done_fd; first */
    atomic_int users;      /* the thread, and the loop until the watch is closed */
    int done_fd;
    pthread_t thread;
    struct rt_dial *dial; /* the loop's */
    rt_lookup_fn *done;
    struct rt_address addresses[RT_DIAL_ADDRESSES];
    uint32_t count;
    int gai, errnum;
    char port[8];
    char host[];
};

static void unref(struct rt_lookup *l)
{
    if (atomic_fetch_sub(&l->users, 1) > 1)
        return;
    close(l->done_fd);
    rt_free(l);
}

static void *lookup_main(void *arg)
{
    struct rt_lookup *l = arg;
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV};
    struct addrinfo *list = NULL;

    l->gai = getaddrinfo(l->host, l->port, &hints, &list);
    l->errnum = errno;
    for (struct addrinfo *a = list; a != NULL && l->count < RT_DIAL_ADDRESSES; a = a->ai_next) {
        struct rt_address *to = &l->addresses[l->count];
        if (a->ai_addrlen > sizeof(to->at))
            continue;
        memcpy(&to->at, a->ai_addr, a->ai_addrlen);
        to->size = a->ai_addrlen;
        l->count++;
    }
    if (list != NULL)
        freeaddrinfo(list);
    uint64_t one = 1;
    ssize_t sent = write(l->done_fd, &one, sizeof(one));
    (void)sent; /* a fresh eventfd takes it */
    unref(l);
    return NULL;
}

static void watch_closed(struct rt_watch *w)
{
    unref((struct rt_lookup *)(void *)w);
}

static void looked_up(struct rt_watch *w, bool readable, bool writable)
{
    struct rt_lookup *l = (struct rt_lookup *)(void *)w;
    struct rt_dial *d = l->dial;
    uint64_t count;

    (void)readable;
    (void)writable;
    if (read(l->done_fd, &count, sizeof(count)) != sizeof(count))
        return;
    int gai = l->gai, errnum = l->errnum;
    rt_lookup_fn *done = l->done;
    memcpy(d->addresses, l->addresses, sizeof(d->addresses));
    d->count = l->count;
    d->lookup = NULL;
    pthread_join(l->thread, NULL); /* its last step was to tell us */
    rt_watch_stop(&l->watch, watch_closed);
    done(d, gai == 0 && d->count == 0 ? EAI_NONAME : gai, errnum);
}

static int start_thread(struct rt_lookup *l)
{
    sigset_t all, old;

    atomic_fetch_add(&l->users, 1);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old); /* the program's signals are not for our thread */
    int rv = pthread_create(&l->thread, NULL, lookup_main, l);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (rv != 0)
        atomic_fetch_sub(&l->users, 1);
    return rv;
}

int rt_lookup_start(struct rt_dial *d, struct rt_loop *loop, rt_lookup_fn *done)
{
    size_t size = strlen(d->host) + 1;
    struct rt_lookup *l = rt_alloc(sizeof(*l) + size);
    if (l == NULL)
        return ROTA_NOMEM;
    memcpy(l->host, d->host, size);
    snprintf(l->port, sizeof(l->port), "%u", (unsigned)d->port);
    atomic_init(&l->users, 1);
    l->dial = d;
    l->done = done;
    l->done_fd = rt_fd_lift(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
    int rv = ROTA_UNREACHABLE;
    if (l->done_fd < 0)
        goto free_it;
    rv = rt_watch_start(loop, &l->watch, l->done_fd, looked_up);
    if (rv != 0)
        goto close_fd;
    int err = start_thread(l);
    if (err != 0) {
        rt_watch_stop(&l->watch, watch_closed);
        errno = err;
        return ROTA_UNREACHABLE;
    }
    rt_watch_want(&l->watch, true, false);
    d->lookup = l;
    return 0;

close_fd:
    close(l->done_fd);
free_it:
    rt_free(l);
    return rv;
}

void rt_lookup_drop(struct rt_dial *d)
{
    struct rt_lookup *l = d->lookup;

    if (l == NULL)
        return;
    d->lookup = NULL;
    pthread_detach(l->thread); /* the look-up may take long, and nobody waits for it any more */
    rt_watch_stop(&l->watch, watch_closed);
}
