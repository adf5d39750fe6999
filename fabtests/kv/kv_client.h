/* SPDX-License-Identifier: BSD-2-Clause */
/* kv_client.h -- GET, PUT and DELETE, each in one round trip unless keys collide */
#ifndef PMEM_KV_CLIENT_H
#define PMEM_KV_CLIENT_H

#include <rdma/fi_ext_pmemverbs.h>

#include "../common/common.h"
#include "kv.h"

/* What of the client's memory the provider reads and writes. */
struct kv_buffers {
	struct kv_lease lease;
	/* These three are written together. */
	uint64_t claim;
	uint64_t bound;
	struct kv_record put;
	/* what READs get, and chains */
	struct kv_slot slot;
	struct kv_record got;
};

/* Whose targets are connected to: what they say, and what of the client's memory is registered for
 * them, which begins with the lease. */
struct kv_dialect {
	const char *hello;
	uint64_t magic;
	size_t buffers;
};

struct kv_client {
	const struct options *opts;
	bool spins; /* waits without sleeping */
	struct node node;
	struct conn conn;
	struct connection_error error; /* what was told last */
	struct region region;
	struct kv_buffers *buffers;
	struct fi_pmemverbs_chain_ops *ops;
	struct kv_welcome welcome;
	struct fi_pmemverbs_step steps[FI_PMEMVERBS_CHAIN_STEPS];
	uint64_t version; /* of the record that was put last */
};

/*
 * Functions return 0 or a negative fi_errno.  -FI_ENOTCONN: the connection is lost, so that a PUT
 * may have been made or not; the text is in `error`, as of all errors.
 */
int kv_connect(struct kv_client *client, const struct options *opts);
int kv_connect_to(struct kv_client *client, const struct options *opts,
		  const struct kv_dialect *dialect);
void kv_disconnect(struct kv_client *client);

/* kv_lost -- is it the connection that has failed? */
bool kv_lost(int ret);

/*
 * kv_get -- into buffers->got, which is whole.  -FI_ENOENT: there is no such key; if it was
 * deleted, got.version says when, else that is 0.
 */
int kv_get(struct kv_client *client, uint64_t key);

/*
 * kv_put -- buffers->put.value, of that length.  It is durable now, unless the option says
 * that it need not be.  -FI_ENOSPC: no buffer is free.
 */
int kv_put(struct kv_client *client, uint64_t key, size_t len);

/* kv_delete -- -FI_ENOENT: no such key since the target has started; it may be deleted already */
int kv_delete(struct kv_client *client, uint64_t key);

/* For comparison: without chains */

/* kv_get_twice -- read the slot, then the record, and check it */
int kv_get_twice(struct kv_client *client, uint64_t key);

/* kv_reserve -- a buffer that belongs to this client; kv_release gives it back */
int kv_reserve(struct kv_client *client, uint64_t *addr);
int kv_release(struct kv_client *client, uint64_t addr);

/* kv_swing -- point the word to a new buffer with so many bytes, both durable if a PUT would be:
 * less than a PUT has to do.  *fresh: the buffer, to be released. */
#define KV_SWING_MAX 256U
int kv_swing(struct kv_client *client, uint64_t word, size_t len, uint64_t *fresh);

/* kv_write -- a record of that length into a reserved buffer, durable if a PUT would be */
int kv_write(struct kv_client *client, uint64_t addr, uint64_t key, size_t len);

#endif /* PMEM_KV_CLIENT_H */
