/* SPDX-License-Identifier: BSD-2-Clause */
/* tx_client.h -- transactions, by chains (tx_client.c) or by FaRM's protocol (tx_farm.c) */
#ifndef PMEM_TX_CLIENT_H
#define PMEM_TX_CLIENT_H

#include "../kv/kv_client.h"
#include "tx.h"

/* What of the client's memory the provider reads and writes. */
struct tx_buffers {
	struct kv_lease lease;
	struct tx_record put[TX_KEYS];
	struct tx_record got;
};

/* A slot's stamps that a chain compares together */
struct tx_prepared {
	struct rs_tag pr, pw;
};

/* A stage's busy and running */
struct tx_running {
	uint64_t busy;
	struct rs_tag stamp;
};

/* A key of the transaction. */
struct tx_access {
	uint64_t key;
	bool writes;         /* the caller says so, and has changed the value */
	struct tx_slot slot; /* as it was read, and so is the record */
	struct tx_record record;
	struct tx_prepared expected, wanted, was; /* of the chain that prepares it */
	size_t step;                              /* ... and its number there */
	bool prepared;                            /* to be written */
};

struct tx_rpc;
struct tx_client;

/* How transactions are carried out. */
struct tx_protocol {
	const char *name;
	/* 0 or a negative fi_errno, as all of these; the text is in link.error */
	int (*open)(struct tx_client *client);
	/* Read access->key. */
	int (*read)(struct tx_client *client, struct tx_access *access);
	/* 0: all is durable now, unless the option says that it need not be.  -FI_EAGAIN: nothing
	 * has been made, as others were faster.  Others: it was made completely, or not at all. */
	int (*commit)(struct tx_client *client);
	void (*close)(struct tx_client *client);
};

extern const struct tx_protocol tx_chains, tx_farm;

struct tx_client {
	const struct tx_protocol *protocol;
	struct kv_client link;
	struct tx_rpc *rpc; /* of FaRM's protocol */
	unsigned int count;
	struct tx_access accesses[TX_KEYS];
	uint64_t own[TX_KEYS];               /* buffers, as the stage has them */
	uint64_t left[TX_KEYS];              /* that the transaction leaves to it */
	struct rs_tag stamp;                 /* the last one */
	struct tx_running ready, committing; /* what the stage has of it */
};

/* tx_connect -- the link's `spins` is set before */
int tx_connect(struct tx_client *client, const struct options *opts,
	       const struct tx_protocol *protocol);
void tx_disconnect(struct tx_client *client);

/* tx_begin -- a transaction that has no key yet */
static inline void tx_begin(struct tx_client *client)
{
	client->count = 0;
}

/* tx_read -- one more key, of TX_KEYS at most, and none twice */
int tx_read(struct tx_client *client, uint64_t key, struct tx_access **access);

/* tx_commit -- see struct tx_protocol */
int tx_commit(struct tx_client *client);

/* tx_pause -- for a random while, longer the more often this has been tried */
void tx_pause(unsigned int tries);

static inline struct tx_buffers *tx_buffers(const struct tx_client *client)
{
	return (struct tx_buffers *) client->link.buffers;
}

/* ---- the parts of the protocol on chains, for tests ---- */

/* tx_look -- at a key, without waiting for whoever is prepared to write it */
int tx_look(struct tx_client *client, struct tx_access *access);

/* tx_prepare -- -FI_EAGAIN: it can't commit, and is put back */
int tx_prepare(struct tx_client *client);

/* tx_send -- the records that were prepared, to the client's own buffers; *count: how many */
int tx_send(struct tx_client *client, unsigned int *count);

/* tx_install -- send them, and commit */
int tx_install(struct tx_client *client);

#endif /* PMEM_TX_CLIENT_H */
