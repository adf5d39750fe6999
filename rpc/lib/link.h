/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * link.h -- one connection: domain, endpoint, queue, and buffers for messages
 *
 * Each connection has a domain of its own: libfabric protects memory by domain, so a peer
 * reaches what was registered for it and nothing else.
 */
#ifndef RPC_LINK_H
#define RPC_LINK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>

#include "../../util/connection/explain.h"
#include "wire.h"

/* What the context of an operation is part of. */
enum rpc_kind { RPC_RECEIVE, RPC_SEND, RPC_COMMIT };

struct rpc_buffer {
	enum rpc_kind kind; /* first, as in whatever a context is */
	struct rpc_buffers *set;
	void *data;
};

/* Buffers of one length: receives, then sends. */
struct rpc_buffers {
	struct rpc_link *link;
	struct fid_mr *mr;
	char *memory;
	bool lent; /* it is somebody else's memory */
	struct rpc_buffer *buffers;
	unsigned int receives, sends;
	unsigned int share;  /* the last one of so many sends has a completion */
	uint64_t sent, done; /* so many were sent, and so many of them are over */
	size_t len;
};

struct rpc_link {
	struct fi_info *info; /* not the link's */
	struct fid_domain *domain;
	struct fid_cq *cq;
	struct fid_ep *ep;
	struct connection_error *error;
};

/* An event of an event queue, with room for connection data. */
struct rpc_event {
	uint32_t type;
	union {
		struct fi_eq_cm_entry cm;
		char room[sizeof(struct fi_eq_cm_entry) + 256];
	};
};

/* rpc_find_provider -- for a server, with the address to listen at or NULL, or for a client */
int rpc_find_provider(const char *provider, bool server, const char *node, const char *service,
		      unsigned int window, struct fi_info **info, struct connection_error *error);

/*
 * rpc_link_open -- an enabled endpoint without buffers.  `lends`: this side has persistent memory
 * that the peer commits to.
 */
int rpc_link_open(struct rpc_link *link, struct fid_fabric *fabric, struct fid_eq *eq,
		  struct fi_info *info, bool lends, struct connection_error *error);

/* rpc_buffer_len -- what a buffer for so much takes */
static inline size_t rpc_buffer_len(size_t len)
{
	return (len + 63) / 64 * 64;
}

/* rpc_buffers_open -- the receives are posted; a set that is all zeros can be closed, too */
int rpc_buffers_open(struct rpc_buffers *set, struct rpc_link *link, unsigned int receives,
		     unsigned int sends, size_t len);
void rpc_buffers_close(struct rpc_buffers *set);

/* rpc_buffers_lend -- receives in persistent memory, which stays the caller's; none is posted yet
 */
int rpc_buffers_lend(struct rpc_buffers *set, struct rpc_link *link, void *memory,
		     unsigned int receives, size_t len);

int rpc_buffer_receive(struct rpc_buffer *buffer);

/*
 * rpc_buffers_unused -- the next one to be sent, to be filled; NULL: it is under way.  Sends are
 * over in their order, so one completion for half of the buffers tells of all of them.
 */
struct rpc_buffer *rpc_buffers_unused(struct rpc_buffers *set);

/* rpc_buffer_send -- the unused one; -FI_EAGAIN: no room, and the buffer is not used */
int rpc_buffer_send(struct rpc_buffer *buffer, size_t len);

/* rpc_buffer_sent -- its completion */
void rpc_buffer_sent(const struct rpc_buffer *buffer);

/* rpc_link_register -- memory for this peer alone */
int rpc_link_register(struct rpc_link *link, void *base, size_t len, uint64_t access,
		      uint64_t flags, struct fid_mr **mr);

/*
 * rpc_link_end -- the connection: from now on the peer can't write anything any more.  Pools
 * and other regions are closed next, and rpc_link_close is last.
 */
void rpc_link_end(struct rpc_link *link);
void rpc_link_close(struct rpc_link *link);

/* rpc_now_ms -- of a clock that nobody sets */
int64_t rpc_now_ms(void);
int64_t rpc_now_ns(void);

#endif /* RPC_LINK_H */
