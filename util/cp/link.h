/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * link.h -- one connection with messages: a branch of a node (../connection/connection.h), so that
 * a peer reaches what was registered for it and nothing else.  One thread at a time uses a link.
 *
 * Functions return 0 (or a count) or a negative fi_errno, and leave a sentence in error.
 */
#ifndef CP_LINK_H
#define CP_LINK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <rdma/fi_ext_pmemverbs.h>

#include "../connection/connection.h"
#include "proto.h"

#define CP_RECEIVES 4
/* In so many bytes a target says why it refuses a connection: a core takes few. */
#define CP_REASON 63

/* The context of an operation: done when its completion was read. */
struct cp_op {
	bool done;
	size_t len;
};

struct cp_link {
	struct node node;
	struct conn conn;
	struct region region;
	struct cp_message *memory; /* messages out and in, then data */
	size_t memory_len;
	char *data;
	struct cp_op sent;
	struct cp_op received[CP_RECEIVES];
	unsigned int next; /* the receive that is used next */
	struct connection_error error;
};

/* cp_prepare -- the provider for a server (host NULL) or a client, without a domain */
int cp_prepare(struct node *node, const char *host, const char *port, int timeout_ms,
	       struct connection_error *error);

/* cp_link_open -- an endpoint that can be connected or accepted, with room for data */
int cp_link_open(struct cp_link *link, const struct node *parent, struct fi_info *info,
		 size_t data_len);

/* cp_link_connect -- to a peer that sends its greeting with fi_accept */
int cp_link_connect(struct cp_link *link);

/* cp_link_greeted -- wait for that greeting */
int cp_link_greeted(struct cp_link *link);

/* cp_link_poll -- read completions, waiting for so long if there is none */
int cp_link_poll(struct cp_link *link, int timeout_ms);

int cp_link_send(struct cp_link *link, const struct cp_message *message, int timeout_ms);

/* cp_link_receive -- 1: a message, whatever it says; 0: none in time */
int cp_link_receive(struct cp_link *link, struct cp_message *message, int timeout_ms);

void cp_link_close(struct cp_link *link);

#endif /* CP_LINK_H */
