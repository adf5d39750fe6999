/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * rig.h -- the provider mounted on the fake core
 *
 * One domain with a CQ and an endpoint, opened and used as an application
 * does, and short names for what the tests say most.
 */
#ifndef RIG_H
#define RIG_H

#include <criterion/criterion.h>

#include <rdma/fi_errno.h>

#include <rdma/fi_ext_pmemverbs.h>
#include "objects/ep.h"
#include "fake_core.h"

struct rig_options {
	const struct pmv_engine_ops *engine; /* NULL: the one for libfabric's cores */

	bool no_fence; /* a core like tcp */
	bool quiet;    /* ... also in this: what fails has an entry in any case */
	bool delivers; /* it does what FI_DELIVERY_COMPLETE says */
	bool local;    /* its writes complete when they were handed over */
	bool needs_cqs;
	bool sockets;      /* silent peers are given up */
	bool tickets;      /* its CM data have no room for proofs, as with verbs */
	bool imm_receives; /* immediate data uses up a receive, as with verbs */
	bool no_cq;        /* the endpoint gets none */
	size_t tx_size;
	size_t rx_size;
	bool own_rx_cq;
	bool not_enabled; /* the endpoint: more is bound first */
	bool selective;
	bool mr_local;
	bool virt_addr;
	bool unkeyed;       /* applications choose the keys */
	bool events;        /* it is opened with FI_RMA_EVENT ... */
	bool volatile_only; /* ... and without FI_PMEM */
	uint32_t values_until;
	uint64_t tx_op_flags;
	enum fi_cq_format format; /* TAGGED, if none is given */
	enum fi_wait_obj wait_obj;
	enum fi_cq_wait_cond wait_cond;
	size_t cq_size;
};

struct rig {
	struct fake fake;
	struct pmv_core core;
	struct pmv_fabric fabric;
	struct fi_info *info;
	struct rig_options options;
	struct fid_domain *domain;
	struct fid_cq *cq;
	struct fid_cq *rx_cq; /* == cq, unless own_rx_cq */
	struct fid_ep *ep;
	size_t shown; /* posts that rig_posted has shown */
	char posted[1024];
};

/* The core's keys of the regions that the tests write to. */
enum {
	CORE_KEY_MHP = 0x11,
	CORE_KEY_DMP,
	CORE_KEY_DMP_DDIO,
	CORE_KEY_WSP,
	CORE_KEY_PAGE,
	CORE_KEY_NONE,
	CORE_KEY_PLAIN,
};

uint64_t rig_key(uint32_t core_key, enum pmv_persist persist, bool ddio);

#define KEY_MHP rig_key(CORE_KEY_MHP, PMV_MHP, true)
#define KEY_DMP rig_key(CORE_KEY_DMP, PMV_DMP, false)
#define KEY_DMP_DDIO rig_key(CORE_KEY_DMP_DDIO, PMV_DMP, true)
#define KEY_WSP rig_key(CORE_KEY_WSP, PMV_WSP, true)
#define KEY_PAGE rig_key(CORE_KEY_PAGE, PMV_PAGE, true)
#define KEY_NONE rig_key(CORE_KEY_NONE, PMV_NONE, true)
#define KEY_PLAIN ((uint64_t) CORE_KEY_PLAIN)

#define ADDR UINT64_C(0x10000)
#define LEN 200

/* Contexts of the application, none of which is ever looked into. */
#define CONTEXT(n) ((void *) (uintptr_t) (0x1000 + 16 * (n)))

struct rig *rig_open(const struct rig_options *options);
/* rig_close -- close everything; nothing may be left open in the core */
void rig_close(struct rig *rig);
void rig_close_ep(struct rig *rig);

/* rig_ep -- another endpoint on a CQ */
struct fid_ep *rig_ep(struct rig *rig, struct fid_cq *cq);
struct fid_cq *rig_cq(struct rig *rig);

struct fid_cntr *rig_cntr(struct rig *rig);
/* rig_count -- bind a counter of that to the endpoint, which was not enabled, and enable it */
struct fid_cntr *rig_count(struct rig *rig, uint64_t what);

/* A write of LEN bytes to ADDR. */
ssize_t rig_writemsg(struct rig *rig, uint64_t key, void *context, uint64_t flags);
ssize_t rig_commit(struct rig *rig, uint64_t key, void *context, uint64_t flags);
ssize_t rig_write(struct rig *rig, uint64_t key, void *context);
ssize_t rig_read(struct rig *rig, uint64_t key, void *context);
ssize_t rig_readmsg(struct rig *rig, uint64_t key, void *context, uint64_t flags);
ssize_t rig_send(struct rig *rig, void *context);
ssize_t rig_sendmsg(struct rig *rig, void *context, uint64_t flags);
ssize_t rig_fetch(struct rig *rig, uint64_t key, void *context, uint64_t flags);

/*
 * rig_call -- the application makes that call, or for an atomic one like it, without
 * flags: CALL_LEN bytes go between there and ADDR, or are sent from or received there
 */
ssize_t rig_call(struct rig *rig, enum testcore_call call, void *buf, uint64_t key, void *context);
#define CALL_LEN 8

/* The immediate data of all of them. */
#define DATA UINT64_C(0x1337c0de)

/*
 * rig_posted -- what the core was given since the last call, in order:
 * W write, R read, S send, A atomic, X receive; f in front: with a fence; i
 * behind: with immediate data; 0 behind: of no bytes
 */
const char *rig_posted(struct rig *rig);

/* rig_post -- the n-th of all operations that the core was given */
const struct fake_post *rig_post(struct rig *rig, size_t n);

/* rig_expect -- the next entry of the CQ is this operation's success */
void rig_expect(struct rig *rig, const void *context, uint64_t flags);
/* ... or its failure */
void rig_expect_error(struct rig *rig, const void *context, uint64_t flags, int err);
/* ... or there is none */
void rig_expect_nothing(struct rig *rig);

/* rig_end_part -- the next part of an operation ends; err: 0 or a positive fi_errno */
void rig_end_part(struct rig *rig, int err);

/* rig_expect_one_error -- of the operation with CONTEXT(1), which a part that ended has had */
void rig_expect_one_error(struct rig *rig, int err);

/* rig_expect_each -- CONTEXT(first) to CONTEXT(last) have succeeded, in this order, and no more */
void rig_expect_each(struct rig *rig, int first, int last, uint64_t flags);

/*
 * rig_expect_parts -- the core's next operations are so many parts of one: it
 * completes with the last of them, not before, and once
 */
void rig_expect_parts(struct rig *rig, int parts, const void *context, uint64_t flags);

#define RIG_WRITTEN (FI_RMA | FI_WRITE)
#define RIG_SENT (FI_MSG | FI_SEND)
#define RIG_RECEIVED (FI_MSG | FI_RECV)

#define accepted(call) cr_assert_eq((call), 0)
#define refused(call, err) cr_assert_eq((call), -(err))
#define expect_posted(rig, what) cr_assert_str_eq(rig_posted(rig), what)

#endif /* RIG_H */
