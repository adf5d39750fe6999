/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * verbs_link.h -- a connection on bare verbs, for pmem_verbs_lat
 *
 * Functions return 0, or -1 and have printed why.
 */
#ifndef PMEM_VERBS_LINK_H
#define PMEM_VERBS_LINK_H

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

#include "../common/memory.h"
#include "../common/options.h"

/* The client asks for memory and the server names it in their private data. */
struct handshake {
	uint64_t addr;
	uint64_t len;
	uint32_t rkey;
	uint32_t ok;
	uint32_t echo;   /* the server has to answer what is sent */
	uint32_t window; /* so many operations at a time */
	uint32_t flush;  /* enum link_flush */
};

/* What is sent: the bytes that were written, and which of the operations it was. */
struct note {
	uint64_t offset;
	uint64_t len;
	uint64_t slot;
};

/* What of RDMA FLUSH is to be used. */
enum link_flush {
	LINK_NO_FLUSH,
	LINK_FLUSH,
	LINK_APPEND, /* and ATOMIC WRITE */
};

struct link {
	const struct options *opts;
	struct rdma_event_channel *channel;
	struct rdma_cm_id *listener;
	struct rdma_cm_id *id;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_mr *mr;
	struct memory memory;
	uint32_t window;
	struct note *notes; /* to receive into: one for each of the window, then to send from */
	struct ibv_mr *notes_mr;
	size_t max_inline;
	enum link_flush flush;
	struct ibv_qp_ex *extended; /* with it, of the queue pair */
	struct handshake peer;
};

/* link_complain -- print errno; -1 */
int link_complain(const char *call);

/* link_connect -- as the client; wanted: what is asked for of the server */
int link_connect(struct link *link, const struct handshake *wanted);

/* link_accept -- as the server: the first client */
int link_accept(struct link *link);

/* link_await_end -- until the client disconnects */
int link_await_end(struct link *link);

/* link_is_over -- the client has disconnected */
bool link_is_over(struct link *link);

void link_close(struct link *link);

/* link_receive -- have a note received: its number is the completion's wr_id */
int link_receive(struct link *link, uint32_t number);

#endif /* PMEM_VERBS_LINK_H */
