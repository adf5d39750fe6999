/* SPDX-License-Identifier: BSD-2-Clause */
/* scale.h -- what both ends of fi_pmem_scale are: hubs of many connections */
#ifndef PMEM_SCALE_H
#define PMEM_SCALE_H

#include "../common/common.h"
#include "../common/control.h"
#include "../common/memory.h"

#define AREA_SIZE ((size_t) 4 << 20)
#define SCALE_CLIENTS 256 /* processes, at most */

/* What the initiator asks for over the control connection */
enum {
	ASK_OPEN,   /* -> port of the provider's */
	ASK_REGION, /* number of a client's own; 0: that of all -> address, key */
	ASK_CHECK,  /* offset, length, seed, number of the region -> bytes that are right */
	ASK_USAGE,  /* connections there shall be -> struct usage */
	ASK_BYE,
};

struct usage {
	uint64_t connections;
	uint64_t heap; /* bytes in use */
	uint64_t resident;
	uint64_t mapped;
	uint64_t fds;
	uint64_t threads;
};

/* A client's own region, in a file of its own. */
struct own_area {
	struct memory memory;
	struct region region;
};

/* An end of all connections: they share a completion queue. */
struct hub {
	const struct options *opts;
	struct node node;
	struct fid_cq *cq;
	struct conn **conns;
	size_t count;
	size_t room;
	struct memory memory;
	struct region region;
	struct own_area *own; /* SCALE_CLIENTS of them; or NULL */
	int control;
};

struct node_attr hub_node_attr(const struct options *opts, const char *port);

/* hub_get_usage -- of this process */
void hub_get_usage(struct usage *usage, size_t connections);

int hub_open_cq(struct hub *hub, const struct fi_info *info, enum fi_wait_obj wait);

/* hub_add -- an endpoint that is not connected yet; NULL: that has been reported */
struct conn *hub_add(struct hub *hub, struct fi_info *info);
void hub_remove(struct hub *hub, size_t i);

/* hub_reap -- nothing is awaited: what the ends of connections leave in the queue is no news */
int hub_reap(struct hub *hub);
void hub_close(struct hub *hub);

/* scale_server -- be the target, for one initiator */
int scale_server(const struct options *opts);

/*
 * scale_clients -- processes that commit for as long as the options say, at this port; ask: the
 * target, over the control connection.  each: every one has a region of its own.
 */
typedef int (*scale_ask)(void *arg, struct control_msg *msg);
int scale_clients(const struct options *opts, const char *port, bool each, scale_ask ask,
		  void *arg);

#endif /* PMEM_SCALE_H */
