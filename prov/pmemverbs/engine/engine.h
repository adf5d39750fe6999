/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * engine.h -- the few functions that post work requests and reap their completions
 *
 * All that is posted, and every queue that is polled, goes through an engine.  There is one:
 * a libfabric core provider (engine.c).  Another one is such a table, and a row in core.c.
 */
#ifndef PMV_ENGINE_H
#define PMV_ENGINE_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

#include <rdma/fi_atomic.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_rma.h>

#include "engine/core.h"

/* FI_MR_BASIC and FI_MR_SCALABLE (libfabric before 1.5): since 2.0 the headers warn of them. */
#define PMV_MR_BASIC (1 << 0)
#define PMV_MR_SCALABLE (1 << 1)
#define PMV_REG_MR (1ULL << 59)

/*
 * In verbs' cache a closed region stays registered, and its key goes on working.  With this
 * bit (OFI_MR_NOCACHE, since 1.10) a close ends the registration; other cores ignore it.
 */
#define PMV_CORE_MR_NOCACHE (1ULL << 60)

/* An atomic, whatever the call was. */
struct pmv_atomic {
	const struct fi_msg_atomic *msg;
	bool inject; /* by fi_inject_atomic */
	bool fetch;
	bool compare;
	struct fi_ioc *result;
	void **result_desc;
	size_t result_count;
	const struct fi_ioc *operand; /* that is compared */
	void **operand_desc;
	size_t operand_count;
};

struct pmv_engine_ep;

/*
 * All but the last two post a request: 0, -FI_EAGAIN without room, or another negative fi_errno.
 * Keys, and the context in the message, are the core's to see.  flags: FI_COMPLETION, FI_FENCE,
 * FI_INJECT, FI_REMOTE_CQ_DATA.  For a request with FI_COMPLETION one entry of the queue will
 * come.  None comes for what is injected (as by fi_inject*), whose buffer is free at once.
 */
struct pmv_engine_ops {
	ssize_t (*write)(const struct pmv_engine_ep *ep, const struct fi_msg_rma *msg,
			 uint64_t flags);
	ssize_t (*read)(const struct pmv_engine_ep *ep, const struct fi_msg_rma *msg,
			uint64_t flags);
	ssize_t (*send)(const struct pmv_engine_ep *ep, const struct fi_msg *msg, uint64_t flags);
	ssize_t (*recv)(const struct pmv_engine_ep *ep, const struct fi_msg *msg, uint64_t flags);
	ssize_t (*atomic)(const struct pmv_engine_ep *ep, const struct pmv_atomic *op,
			  uint64_t flags);
	ssize_t (*inject_write)(const struct pmv_engine_ep *ep, const struct fi_msg_rma *msg,
				uint64_t flags);
	ssize_t (*inject_send)(const struct pmv_engine_ep *ep, const struct fi_msg *msg,
			       uint64_t flags);
	ssize_t (*inject_atomic)(const struct pmv_engine_ep *ep, const struct pmv_atomic *op);
	/* As fi_cq_read and fi_cq_readerr. */
	ssize_t (*poll)(struct fid_cq *cq, void *buf, size_t count);
	ssize_t (*poll_error)(struct fid_cq *cq, struct fi_cq_err_entry *entry, uint64_t flags);
};

/* A domain, as the engine's users see it. */
struct pmv_engine {
	const struct pmv_core *core;
	struct fid_fabric *fabric_fid;
	struct fid_domain *domain_fid;
	enum pmv_transport transport;
	unsigned caps;   /* enum pmv_engine_cap */
	bool virt_addr;  /* peers address regions by virtual addresses, not by offsets */
	bool draws_keys; /* of regions, at random: a core that counts them is guessed at once */
	void *scratch;   /* where flush READs of all endpoints go; nobody looks at it */
	struct iovec scratch_byte; /* one of its bytes, which is all that most of them read */
	struct fid_mr *scratch_mr; /* NULL: the core wants none */
	void *scratch_desc;
	pthread_mutex_t lock;
	void *spare; /* what pmv_engine_unmap keeps: the first one, and how long each is */
	size_t spare_len;
};

/* The most that one READ can read into the scratch page. */
#define PMV_SCRATCH_SIZE 4096

struct pmemrdma_post_ops;

struct pmv_engine_ep {
	struct pmv_engine *engine;
	const struct pmv_engine_ops *ops; /* the engine's */
	struct fid_ep *fid;
	const struct pmemrdma_post_ops *lists; /* NULL: requests are posted one by one */
};

static inline bool pmv_engine_can(const struct pmv_engine *engine, enum pmv_engine_cap cap)
{
	return engine->caps & cap;
}

/* pmv_engine_fence -- the flag that holds a request back until earlier READs have returned */
static inline uint64_t pmv_engine_fence(const struct pmv_engine *engine)
{
	return pmv_engine_can(engine, PMV_ENGINE_FENCE) ? FI_FENCE : 0;
}

extern const struct pmv_engine_ops pmv_engine_libfabric;

/* pmv_engine_join -- what an endpoint of the core, which is open, has for the engine */
void pmv_engine_join(struct pmv_engine_ep *ep, struct pmv_engine *engine);

/*
 * pmv_engine_hold -- before it connects, if the core can: FI_CONNECTED comes while nothing that the
 * peer sends is received yet
 * pmv_engine_establish -- from now on it is; 0, also if it is not held, or a negative fi_errno
 */
void pmv_engine_hold(const struct pmv_engine_ep *ep);
int pmv_engine_establish(const struct pmv_engine_ep *ep);

/*
 * pmv_engine_write_read -- a WRITE and a READ behind it, of one message each, with one doorbell
 * and, if both succeed, one entry: the READ's.  If the WRITE fails an error entry of its own, with
 * FI_WRITE among its flags, is in front of the READ's.  For endpoints with lists.  Returns how many
 * were posted, none without room for both: -FI_EAGAIN, or another negative fi_errno.
 */
ssize_t pmv_engine_write_read(const struct pmv_engine_ep *ep, const struct fi_msg_rma *write,
			      const struct fi_msg_rma *read);

/* A place at a target that is to be flushed. */
struct pmv_engine_range {
	uint64_t addr;
	uint64_t len;
	uint64_t key; /* the core's */
};

/*
 * pmv_engine_flushes -- can this endpoint, which is connected, post an RDMA FLUSH that makes data
 * persistent?  pmv_engine_atomic_writes -- and an ATOMIC WRITE between two of them?
 * pmv_engine_flush_right -- the flag with which the core registers memory that peers may flush, or
 * 0.  It may refuse that.  pmv_engine_atomic_write_right -- with that flag, if they may ATOMIC
 * WRITE to it, too; -FI_EOPNOTSUPP: no
 */
bool pmv_engine_flushes(const struct pmv_engine_ep *ep);
bool pmv_engine_atomic_writes(const struct pmv_engine_ep *ep);
uint64_t pmv_engine_flush_right(const struct pmv_engine *engine);
extern const uint64_t pmv_engine_atomic_write_right;

/*
 * pmv_engine_write_flush -- as pmv_engine_write_read, with a FLUSH; flags are the WRITE's: FI_FENCE
 * pmv_engine_flush -- a FLUSH alone: 0 or a negative fi_errno
 * pmv_engine_tail -- an ATOMIC WRITE between two FLUSHes, or (before is NULL) with one behind it,
 * as a whole: 0 or a negative fi_errno.  Only the last one has an entry if all succeed; else an
 * error entry of each that has failed, with FI_WRITE among its flags, is in front of that.
 */
ssize_t pmv_engine_write_flush(const struct pmv_engine_ep *ep, const struct fi_msg_rma *write,
			       uint64_t flags, const struct pmv_engine_range *range);
ssize_t pmv_engine_flush(const struct pmv_engine_ep *ep, const struct pmv_engine_range *range,
			 void *context);
ssize_t pmv_engine_tail(const struct pmv_engine_ep *ep, const struct pmv_engine_range *before,
			const struct fi_msg_rma *write, uint64_t flags,
			const struct pmv_engine_range *behind);

/* pmv_engine_open, pmv_engine_close -- a domain's own memory; 0 or a negative fi_errno */
int pmv_engine_open(struct pmv_engine *engine, int mr_mode);
int pmv_engine_close(struct pmv_engine *engine);

/* pmv_engine_region -- the core's region, with a key that nobody guesses, if draws_keys */
int pmv_engine_region(const struct pmv_engine *engine, const struct fi_mr_attr *attr,
		      uint64_t flags, struct fid_mr **mr);

/* pmv_engine_register -- memory of the provider's own, with the core; 0 or a negative fi_errno */
int pmv_engine_register(const struct pmv_engine *engine, void *buf, size_t len, uint64_t access,
			struct fid_mr **mr);

/*
 * pmv_engine_map -- memory of the provider's own that peers may write, all of one length; or NULL
 * pmv_engine_unmap -- its regions are closed, and peers could not write to its last bytes.
 *
 * Over tcp, what a peer of another connection has begun still goes to these addresses: it may send
 * the rest whenever it likes.  So the memory is kept for the next one, until the domain is closed.
 */
void *pmv_engine_map(struct pmv_engine *engine, size_t len);
void pmv_engine_unmap(struct pmv_engine *engine, void *memory, size_t len);

/*
 * pmv_engine_explain -- a core locks what is registered for a NIC, and of that a process may have
 * little; if that can be why so many bytes were not registered, say so
 */
void pmv_engine_explain(int err, size_t len);

#endif /* PMV_ENGINE_H */
