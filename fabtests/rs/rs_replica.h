/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * rs_replica.h -- a client's connection to one of the targets
 *
 * Nothing here waits: whoever wants an answer calls rs_replica_poll until there is one.  A target
 * that is away is tried again, for ever.  One request is under way at a time; if it is an old one,
 * which a majority has answered without this target, the next one waits for it.
 */
#ifndef PMEM_RS_REPLICA_H
#define PMEM_RS_REPLICA_H

#include <rdma/fi_ext_pmemverbs.h>

#include "../common/common.h"
#include "rs.h"

enum rs_what {
	RS_TAG,   /* read the block's tag */
	RS_READ,  /* read its record, and which tag is durable */
	RS_WRITE, /* have the client's record there, unless there is one with a greater tag */
	/* These are for the protocol with locks. */
	RS_LOCK,
	RS_READ_PLACE,  /* read the record, ... */
	RS_WRITE_PLACE, /* ... and overwrite it where it is */
	RS_UNLOCK,
};

/* What a client asks of its targets. */
struct rs_request {
	uint64_t number; /* no other one of this client has it; 0: none */
	enum rs_what what;
	uint64_t block;
	uint64_t writer; /* who locks */
};

/* What of the client's memory the provider reads and writes: the stage from its claim on, and what
 * was read. */
struct rs_buffers {
	struct kv_lease lease;
	uint64_t claim; /* in no case anything but 0: nothing is claimed yet */
	struct rs_record record;
	struct rs_record got;
	struct rs_tag tag;     /* of RS_TAG */
	struct rs_tag durable; /* of RS_READ */
	uint64_t place[2];     /* of RS_LOCK: address of the record, and who has had the lock */
};

enum rs_state { RS_AWAY, RS_CONNECTING, RS_MEETING, RS_READY };

struct rs_replica {
	struct options opts; /* with this target as the host */
	struct connection_error error;
	enum rs_state state;
	int64_t retry_at;
	struct node node;
	struct conn conn;
	struct region region;
	struct rs_buffers *buffers;
	struct fi_pmemverbs_chain_ops *ops;
	struct kv_welcome welcome;
	struct fi_pmemverbs_step steps[FI_PMEMVERBS_CHAIN_STEPS];
	bool busy;                 /* something has been posted and has not ended */
	struct rs_request request; /* that, or the last one */
	bool staged;               /* its record has been posted */
	uint64_t answered;         /* the number of the last request that was answered */
	bool locked;               /* the answer to RS_LOCK */
};

/* These return 0 or a negative fi_errno, and the text is in `error`. */
int rs_replica_open(struct rs_replica *replica, const struct options *opts, unsigned int number);
void rs_replica_close(struct rs_replica *replica);

/*
 * rs_replica_poll -- go on with what is under way, then with this request, unless its number is 0
 * or it was answered.  `record` is what is to be written.  True: something has changed.
 */
bool rs_replica_poll(struct rs_replica *replica, const struct rs_request *request,
		     const struct rs_record *record);

/* rs_replica_concerns -- is that to be asked of this target?  A place is used by who has its lock.
 */
bool rs_replica_concerns(const struct rs_replica *replica, enum rs_what what);

#endif /* PMEM_RS_REPLICA_H */
