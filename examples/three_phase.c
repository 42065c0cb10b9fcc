/* SPDX-License-Identifier: Apache-2.0 */
/* Five coins from an account in MariaDB to one in PostgreSQL, by three-phase commit: two participants and a
 * coordinator, here in one program; normally each is a separate process, beside its database.
 *
 *   cc three_phase.c $(pkg-config --cflags --libs rota_txn) -lpthread -o three_phase
 *   three_phase mysql://USER@HOST/SHOP postgres://USER@HOST/LEDGER
 *
 * The accounts are those of transfer.c. docs/transactions/three-phase.md says when to use this, and when not. */
#include <rota_txn.h>

#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <unistd.h>

struct place {
    const char *url;
    int stop[2]; /* a pipe: closing it ends the participant */
    uint16_t port;
    sem_t listens;
    pthread_t thread;
};

static void on_listens(void *arg, uint16_t port)
{
    struct place *p = arg;

    p->port = port;
    sem_post(&p->listens);
}

static void on_attention(void *arg, const char *id, const char *resource, const char *line)
{
    (void)arg;
    fprintf(stderr, "a person is needed: %s at %s: %s\n", id, resource, line);
}

static void *take_part(void *arg)
{
    struct place *p = arg;
    const struct rota_participant_options opts = {
        .stop_fd = p->stop[0], .attention = on_attention, .listens = on_listens, .listens_arg = p};

    if (rota_participant_run(p->url, &opts) != 0) { /* blocks, until it is stopped */
        fprintf(stderr, "%s\n", rota_txn_errmsg(NULL));
        sem_post(&p->listens);
    }
    return NULL;
}

static int start(struct place *p, const char *url)
{
    p->url = url;
    sem_init(&p->listens, 0, 0);
    if (pipe(p->stop) != 0 || pthread_create(&p->thread, NULL, take_part, p) != 0)
        return -1;
    sem_wait(&p->listens);
    return p->port != 0 ? 0 : -1;
}

static void stop(struct place *p)
{
    close(p->stop[1]);
    pthread_join(p->thread, NULL);
    close(p->stop[0]);
}

static void transfer(struct rota_txns *m, struct rota_three *c, const struct place places[2])
{
    const char *const take[] = {"UPDATE account SET coins = coins - 5 WHERE id = 1"};
    const char *const give[] = {"UPDATE account SET coins = coins + 5 WHERE id = 7"};
    char shop[64], ledger[64];
    const struct rota_three_part parts[] = {{"shop", shop, take, 1}, {"ledger", ledger, give, 1}};

    snprintf(shop, sizeof(shop), "http://127.0.0.1:%u", places[0].port);
    snprintf(ledger, sizeof(ledger), "http://127.0.0.1:%u", places[1].port);
    switch (rota_three_commit(c, parts, 2, NULL)) {
    case 0:
        printf("five coins: committed by three phases\n");
        break;
    case ROTA_ABORTED:
        printf("five coins: aborted: %s\n", rota_txn_errmsg(m));
        break;
    default: /* ROTA_MIXED: only with ROTA_THREE_COMMIT; ROTA_UNKNOWN: no journal */
        printf("five coins: %s\n", rota_txn_errmsg(m));
    }
}

int main(int argc, char **argv)
{
    static struct place places[2];
    struct rota_txns *m = NULL;
    struct rota_three *c = NULL;

    if (argc != 3 || start(&places[0], argv[1]) != 0 || start(&places[1], argv[2]) != 0)
        return 1;
    if (rota_txns_open(&m, NULL, NULL) != 0) { /* the journal: $ROTA_JOURNAL */
        fprintf(stderr, "%s\n", rota_txn_errmsg(NULL));
        return 1;
    }
    if (rota_three_open(m, NULL, &c) != 0) {
        fprintf(stderr, "%s\n", rota_txn_errmsg(m));
        return 1;
    }
    transfer(m, c, places);
    transfer(m, c,
             places); /* not enough coins: MariaDB says no, and nothing happens at PostgreSQL */
    rota_three_close(c);
    rota_txns_close(m);
    stop(&places[0]);
    stop(&places[1]);
    return 0;
}
