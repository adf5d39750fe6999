/* SPDX-License-Identifier: BSD-2-Clause */
/* tx_chain.h -- what a target is asked: the steps of each request */
#ifndef PMEM_TX_CHAIN_H
#define PMEM_TX_CHAIN_H

#include "tx_client.h"

/* These put the steps into client->link.steps, and return their number. */
size_t tx_make_own(struct tx_client *client, unsigned int number);
size_t tx_make_look(struct tx_client *client, struct tx_access *access);
size_t tx_make_prepare(struct tx_client *client);
size_t tx_make_undo(struct tx_client *client);
size_t tx_make_install(struct tx_client *client);

/* tx_make_stop -- take away the transaction of another client, unless its commit has begun;
 * *was: what stood there */
size_t tx_make_stop(struct tx_client *client, const struct rs_tag *stamp, struct tx_running *was);

/* tx_make_clear -- put a key's pw back if it is of that transaction, which can't commit any more */
size_t tx_make_clear(struct tx_client *client, uint64_t key, const struct rs_tag *stamp);

#endif /* PMEM_TX_CHAIN_H */
