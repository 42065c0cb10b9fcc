/* SPDX-License-Identifier: Apache-2.0 */
/* Takes the locks NAME... in that order on the engine of $ROTA_URL and reports each on stdout; goes
 * on after each line of stdin. One thread, so that a circle of such programs is a deadlock. */
#include <rota.h>
#include <stdio.h>

int main(int argc, char **argv)
{
    struct rota *r;
    int c;

    if (rota_open(&r, NULL, NULL) != 0) {
        fprintf(stderr, "take_locks: %s\n", rota_errmsg(NULL));
        return 1;
    }
    for (int i = 1; i < argc; i++) {
        struct rota_lock *lock;
        if (rota_acquire(r, argv[i], NULL, &lock) != 0) {
            fprintf(stderr, "take_locks: %s\n", rota_errmsg(r));
            rota_close(r);
            return 1;
        }
        puts(argv[i]);
        fflush(stdout);
        while ((c = getchar()) != EOF && c != '\n')
            ;
    }
    rota_close(r); /* and with it the locks */
    return 0;
}
