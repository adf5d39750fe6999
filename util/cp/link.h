/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * link.h -- one connection: its endpoint, its queues, messages
 *
 * Each connection has a domain of its own.  libfabric protects memory by domain, so a peer
 * reaches what was registered for it and nothing else.  One thread at a time uses a link.
 *
 * Functions return 0 (or a count) or a negative fi_errno, and leave a sentence in error.
 */
#ifndef CP_LINK_H
#define CP_LINK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <rdma/fabric.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>

#include <rdma/fi_ext_pmemverbs.h>

#include "proto.h"

#define CP_RECEIVES 4
#define CP_HELLO_LEN sizeof(CP_HELLO)
/* In so many bytes a target says why it refuses a connection: a core takes few. */
#define CP_REASON 63

/* The context of an operation: done when its completion was read. */
struct cp_op {
	bool done;
	size_t len;
};

struct cp_link {
	struct fid_domain *domain;
	struct fid_eq *eq;
	struct fid_cq *cq;
	struct fid_ep *ep;
	struct fid_mr *mr;
	struct cp_message *memory; /* messages out and in, then data */
	size_t memory_len;
	char *data;
	struct cp_op sent;
	struct cp_op received[CP_RECEIVES];
	unsigned int next; /* the receive that is used next */
	bool lost;         /* the peer has gone */
	char error[256];
};

/* An event of an event queue, with room for connection data. */
struct cp_event {
	uint32_t type;
	union {
		struct fi_eq_cm_entry cm;
		char room[sizeof(struct fi_eq_cm_entry) + 256];
	};
};

/*
 * cp_find_provider -- an info for a server (node NULL) or a client; *error has the reason why there
 * is none, and what to look at
 */
int cp_find_provider(const char *node, const char *port, struct fi_info **info, char *error,
		     size_t len);

/* cp_link_open -- an endpoint that can be connected or accepted, with room for data */
int cp_link_open(struct cp_link *link, struct fid_fabric *fabric, struct fi_info *info,
		 size_t data_len);

/*
 * cp_link_connected -- wait until it is; if greeted, by a peer that has sent its greeting with
 * fi_accept
 */
int cp_link_connected(struct cp_link *link, bool greeted, int timeout_ms);

/* cp_link_poll -- read completions, waiting for so long if there is none */
int cp_link_poll(struct cp_link *link, int timeout_ms);

int cp_link_send(struct cp_link *link, const struct cp_message *message, int timeout_ms);

/* cp_link_receive -- 1: a message, whatever it says; 0: none in time */
int cp_link_receive(struct cp_link *link, struct cp_message *message, int timeout_ms);

void cp_link_close(struct cp_link *link);

/* cp_now_ms -- of a clock that nobody sets */
int64_t cp_now_ms(void);

#endif /* CP_LINK_H */
