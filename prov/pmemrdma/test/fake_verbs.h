/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fake_verbs.h -- libibverbs and librdmacm without a device
 *
 * The provider's objects are linked with these functions in the libraries' place.  Requests wait
 * until the test ends them; a device's rules are asserted: no queue overruns, and a work
 * queue's entries are free only when a completion behind them was read.  Any call may fail, once.
 */
#ifndef FAKE_VERBS_H
#define FAKE_VERBS_H

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>
#include <stdbool.h>

#define FAKE_MAX_INLINE 128
#define FAKE_MAX_CQE 600
#define FAKE_ADDR "10.1.2.3"

struct fake_flush {
	uint64_t addr;
	size_t len;
	uint32_t key;
	uint8_t type, level;
};

struct fake {
	int live;  /* objects that are open */
	int calls; /* that may fail */
	/* Not 0: calls that are none of the provider's.  Compilers think that calloc reads nothing.
	 */
	volatile int own;
	int fail_at;             /* the number of the one that fails; 0: none does */
	const char *failed;      /* which one that was */
	int references;          /* to the devices */
	int resizes;             /* of completion queues */
	int doorbells;           /* calls of ibv_post_send and ibv_wr_complete */
	int accept_at_most;      /* of a list's requests, if not 0; -1: none */
	int refusal;             /* what a post that fails returns; 0: EINVAL */
	struct rdma_cm_id *id;   /* the latest one */
	struct ibv_qp *qp;       /* the latest one */
	struct ibv_send_wr last; /* the latest request that was posted, and that before it */
	struct ibv_send_wr before;
	int access;                  /* of the latest region */
	unsigned flush_ways;         /* of the device: 1 GLOBAL, 2 PERSISTENT, 4 ATOMIC WRITE */
	bool no_flush_qp;            /* it makes no queue pair for that, all the same */
	uint8_t depth;               /* how many READs and the like the peer keeps */
	struct fake_flush flush;     /* the latest one */
	uint64_t atomic_write;       /* the data of the latest one */
	struct rdma_conn_param conn; /* of the latest connect or accept */
	bool flushes;                /* a queue pair in error tells what was under way */
	bool ends_late;              /* the oldest request succeeds as its queue pair goes */
	bool rejected;
	void *left;   /* it goes with the process */
	bool removed; /* the device is: calls for it fail with EIO, or this */
	int removed_errno;
	bool established;        /* by rdma_establish */
	enum ibv_qp_state state; /* of the latest queue pair, as far as it was told */
	bool has_ece;            /* the device has something beyond the standard ... */
	struct ibv_ece peer_ece; /* ... and the peer says that of his */
	struct ibv_ece ece;      /* what they have agreed on */
	uint8_t sent[64];        /* private data of the latest connect, accept or reject */
	size_t sent_len;
};

extern struct fake fake;

/*
 * fake_plug_in -- the device has an entry in sysfs; before devices are looked for.  fake_take_out
 * -- that is gone, and `another`: the next device has its name.  What is left is the process's.
 */
void fake_plug_in(void);
void fake_take_out(bool another);

/* fake_end -- the oldest request of the send queue has ended; after an error all others are flushed
 */
void fake_end(struct ibv_qp *qp, enum ibv_wc_status status);

/* fake_sends -- the requests that were posted to it, from the first one on */
struct ibv_send_wr *fake_sends(struct ibv_qp *qp);

/* fake_waiting -- requests of the send queue that have not ended */
unsigned fake_waiting(struct ibv_qp *qp);

/* fake_arrive -- a message, or (opcode) a write with immediate data, at the oldest receive */
void fake_arrive(struct ibv_qp *qp, enum ibv_wc_opcode opcode, uint32_t len, uint32_t immediate);

/* fake_event -- of the connection manager, with private data */
void fake_event(struct rdma_cm_id *id, enum rdma_cm_event_type type, const void *data, size_t len);

/* fake_request -- for a connection, to a passive endpoint's id; the new id */
struct rdma_cm_id *fake_request(struct rdma_cm_id *listening, const void *data, size_t len);

#endif /* FAKE_VERBS_H */
