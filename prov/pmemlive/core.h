/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * core.h -- a simulated core provider, and the network between its endpoints
 *
 * It is like tcp: data move in calls only, a socket takes no more than it has room for, and a
 * descriptor is ready while something is to be read, or has room.  Or it is like verbs: a NIC moves
 * data, and a descriptor tells of completions if it was armed before.  What was posted travels in
 * order on a connection, and takes time.
 */
#ifndef CORE_H
#define CORE_H

#include <stdbool.h>
#include <stdint.h>

#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_eq.h>

#include "descriptors.h"
#include "testcore/ep.h"
#include "testcore/mr.h"

struct core_rules {
	bool nic;               /* like verbs */
	bool moves_all;         /* a call moves the data of all endpoints, as in tcp 2.1 */
	unsigned int room;      /* requests that an endpoint takes before they are sent */
	unsigned int socket;    /* messages that are on their way to an endpoint */
	unsigned int busy_in;   /* one of so many posts finds no room all the same; 0: none */
	unsigned int loses_in;  /* one of so many datagrams is lost; 0: none */
	int64_t least_delay_ns; /* of the network */
	int64_t most_delay_ns;
};

extern struct core_rules core_rules;

struct core_ep;
TAILQ_HEAD(core_eps, core_ep);

struct core_domain {
	struct fid_fabric fabric;
	struct fid_domain domain;
	struct testcore_mrs mrs;
	struct core_eps eps;
	uint64_t past_edges; /* of endpoints that are closed */
	int open_objects;
};

struct core_cq {
	struct testcore_cq core;
	struct core_domain *domain;
	struct descriptor_core descriptor;
	int fd; /* -1: none */
	bool signalled;
	bool armed; /* of a NIC: the next entry signals */
	uint64_t signals;
};

/* Of a connection. */
struct core_event {
	STAILQ_ENTRY(core_event) next;
	uint32_t event;
	struct fi_eq_cm_entry entry;
};

struct core_eq {
	struct fid_eq fid;
	struct core_domain *domain;
	struct descriptor_core descriptor;
	int fd;
	STAILQ_HEAD(, core_event) events;
};

/* What was posted, until it is completed. */
struct core_post {
	STAILQ_ENTRY(core_post) next;
	struct testcore_request op;
	char *payload;
	bool acknowledged; /* it completes when the other end says so */
};

STAILQ_HEAD(core_posts, core_post);
STAILQ_HEAD(core_messages, core_message);

struct core_ep {
	struct testcore_ep core;
	TAILQ_ENTRY(core_ep) next;
	struct core_domain *domain;
	struct core_eq *eq;
	struct core_ep *peer;
	bool dead;
	struct core_posts receives;
	struct core_posts sent;       /* that wait for the other end */
	struct core_messages answers; /* not sent yet; before the others */
	struct core_messages out;
	struct core_messages in; /* on their way here */
	unsigned int num_out, num_in;
	uint64_t handled, rooms; /* so many messages were, and so often there was room again */
	int64_t last_arrival_ns;
};

/* core_start -- once; core_open, core_close -- of a process */
void core_start(void);
void core_open(struct core_domain *core);
void core_close(struct core_domain *core);
void core_connect(struct fid_ep *one, struct fid_ep *other);
/* core_cut -- the connection ends.  drops: what is on its way is lost, too */
void core_cut(struct fid_ep *fid, bool drops);

/* core.c, for the objects */
ssize_t core_post(struct testcore_ep *ep, const struct testcore_request *request);
void core_register(struct core_domain *domain);
/* core_move -- what a call moves */
void core_move(struct core_domain *domain, const struct core_cq *cq);
void core_end(struct core_ep *ep, bool tells);
bool core_is_ready(const struct core_ep *ep);
uint64_t core_edges(const struct core_ep *ep);

/* core_events.c */
struct core_ep *core_to_ep(struct fid *fid);
void core_cq_add(struct testcore_cq *cq, const struct testcore_entry *entry);
void core_eq_add(struct core_eq *eq, uint32_t event, struct fid *fid);
/* core_eq_forget -- the events of an object that is closed */
void core_eq_forget(struct core_eq *eq, const struct fid *fid);

/* core_eq.c */
int core_eq_open(struct fid_fabric *fabric, struct fi_eq_attr *attr, struct fid_eq **fid,
		 void *context);
int core_eq_trywait(struct fid *fid);

#endif /* CORE_H */
