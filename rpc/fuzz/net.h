/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * net.h -- a libfabric without a network, for fuzzers and unit tests of libpmemrpc
 *
 * The library opens its objects as it would those of pmemverbs: fi_getinfo and fi_fabric are
 * replaced (--wrap).  What it posts stays under way until the test says how it ends; what
 * arrives is the test's.  One thread.
 */
#ifndef RPC_FUZZ_NET_H
#define RPC_FUZZ_NET_H

#include <stdbool.h>

#include <rdma/fi_cm.h>

#include "testcore/ep.h"
#include "testcore/mr.h"

#define NET_RECEIVES 64

struct net_domain {
	struct fid_domain fid;
	struct testcore_mrs mrs;
};

struct net_cq {
	struct testcore_cq core;
	int fd;
};

struct net_eq {
	struct fid_eq fid;
	int fd;
	struct net_event *events;
};

struct net_ep {
	struct testcore_ep core;
	struct net_domain *domain;
	struct fid_eq *eq;
	struct net_ep *next; /* of all that are open */
	struct testcore_request *transmits, *receives;
	size_t num_transmits, num_receives;
	unsigned int number; /* of all that were ever open */
};

struct net {
	struct net_ep *eps;  /* the last one first */
	size_t ops_len;      /* of a provider that has no more; 0: all */
	unsigned int method; /* enum fi_pmemverbs_method: of all commits */
	bool relaxed;        /* the path */
	int no_key;          /* why keys say nothing here; 0: they do */
	int no_commit;       /* no commit is taken, for this reason */
	unsigned int opened;
	unsigned int objects; /* that are open */
	unsigned int room;    /* so many requests may be under way; then there is no room */
	struct fid_eq *eq;    /* the last one that was opened */
	unsigned int rejected;
	unsigned int refusals; /* connections that fail, and what the peer says then */
	const char *refusal;
	const char *rights; /* of the peer's key; NULL: there are no keys */
	const char *name;   /* of it; NULL: somebody */
	/* What is posted to be sent or written, before it is under way. */
	void (*on_transmit)(struct net_ep *ep, const struct testcore_request *request);
	/* Somebody has looked, or waits, and there is nothing. */
	void (*on_idle)(int timeout_ms);
};

extern struct net net;

/* net_deliver -- a message, cut off where its receive ends; false: there is no receive */
bool net_deliver(struct net_ep *ep, const void *data, size_t len);

/* net_notice -- what FI_REMOTE_CQ_DATA makes at the target; uses: a receive, too */
bool net_notice(struct net_ep *ep, uint64_t data, bool uses);

/* net_complete -- the oldest that was posted: err is 0 or positive; false: there is none */
bool net_complete(struct net_ep *ep, int err);

/* net_raise -- an event of a connection; net_fail -- its error, with what the peer has said */
void net_raise(struct fid_eq *eq, uint32_t type, struct fid *fid, struct fi_info *info,
	       const void *data, size_t len);
void net_fail(struct fid_eq *eq, struct fid *fid, const void *data, size_t len);

/* net_info -- as fi_getinfo gives them; to be freed */
struct fi_info *net_info(void);

#endif /* RPC_FUZZ_NET_H */
