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

#include <netinet/in.h>

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
	bool sockets;     /* like tcp, and the kernel can be asked about its connections */
	int64_t retry_ns; /* a NIC gives a request up that is not answered for so long */
};

extern struct core_rules core_rules;

struct core_ep;
TAILQ_HEAD(core_eps, core_ep);

#define CORE_ACKS 128

/* A call that has not reached its machine is repeated so late. */
#define CORE_REPEAT_NS INT64_C(1000000000)

/* What the kernel knows of a connection, at one end. */
struct core_socket {
	struct descriptor_core descriptor;
	int fd; /* 0: there is none */
	uint64_t cookie;
	bool shut;                   /* nothing more is read or sent: by shutdown(2) */
	bool calling;                /* nobody has answered yet */
	int64_t idle_ns, between_ns; /* of probes */
	int64_t acks[CORE_ACKS];     /* when what was sent is acknowledged; or SCHED_NEVER */
	unsigned int num_acks;
	int64_t sent_ns, acked_ns;
	int64_t resend_ns, backoff_ns; /* when it is sent again; or SCHED_NEVER */
	int64_t probe_ns, answer_ns;   /* the next probe; when the last one is answered */
	unsigned int resends, probes;
	int64_t looked_ns; /* when somebody has asked the kernel how it is */
};

struct core_domain {
	struct fid_fabric fabric;
	struct fid_domain domain;
	struct testcore_mrs mrs;
	struct core_eps eps;
	uint64_t past_edges; /* of endpoints that are closed */
	int open_objects;
	bool cut_off; /* nothing leaves or reaches this machine ... */
	bool near;    /* ... as its own link is down */
	/* Whoever listens there, if it is called: core_cm.c. */
	uint32_t ip;
	uint32_t alias; /* so much higher it sees the others' */
	uint16_t port;  /* 0: nobody */
	uint64_t calls; /* that were made there */
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

#define CORE_CM_DATA 128

/* Of a connection. */
struct core_event {
	STAILQ_ENTRY(core_event) next;
	uint32_t event;
	int err;    /* or 0 */
	size_t len; /* of the data behind it */
	struct fi_eq_cm_entry entry;
	uint8_t data[CORE_CM_DATA];
};

struct core_eq {
	struct fid_eq fid;
	struct core_domain *domain;
	struct descriptor_core descriptor;
	int fd;
	STAILQ_HEAD(, core_event) events;
	struct core_event *last; /* the error that was read last, whose data are still read */
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
	bool connecting; /* until its event queue is read, and says more */
	struct sockaddr_in called;
	struct core_domain *called_domain; /* where that is, or the peer was; or NULL */
	struct core_request *request;      /* that it has made, or is to accept */
	struct core_ep *srx; /* the shared context that it takes receives from; or NULL */
	uint64_t received;   /* messages */
	struct core_posts receives;
	struct core_posts sent;       /* that wait for the other end */
	struct core_messages answers; /* not sent yet; before the others */
	struct core_messages out;
	struct core_messages in; /* on their way here */
	unsigned int num_out, num_in;
	uint64_t handled, rooms; /* so many messages were, and so often there was room again */
	int64_t last_arrival_ns, heard_ns; /* of all; of what was taken in */
	struct core_socket socket;
	int64_t unanswered_ns; /* of a NIC: since then, or SCHED_NEVER */
};

struct core_message {
	STAILQ_ENTRY(core_message) next;
	enum {
		CORE_REQUEST,
		CORE_DONE, /* the answer to one */
		CORE_ACCEPTED,
		CORE_REFUSED,
		CORE_HANGUP,
	} kind;
	int64_t arrives_ns; /* SCHED_NEVER: the link is down */
	struct testcore_request op;
	struct core_post *post; /* of who has sent the request; it is gone if that has ended */
	char *payload;
};

/* core_start -- once; core_open, core_close -- of a process */
void core_start(void);
void core_open(struct core_domain *core);
/* core_kill -- its process is gone, and the kernel closes what it had */
void core_kill(struct core_domain *core);
void core_close(struct core_domain *core);
void core_connect(struct fid_ep *one, struct fid_ep *other);
/* core_received -- so many messages; core_receives -- so many a shared context has room for */
uint64_t core_received(struct fid_ep *fid);
uint64_t core_receives(struct fid_ep *srx);
/* core_cut -- the connection ends.  drops: what is on its way is lost, too */
void core_cut(struct fid_ep *fid, bool drops);

/* links.c: machines that are cut off, and connections whose peer's is */

/*
 * links_cut, links_mend -- the machine is cut off (near: by its own link), and no more; links_pause
 * -- all machines stand still for so long
 */
void links_cut(struct core_domain *domain, bool near);
void links_mend(struct core_domain *domain);
void links_pause(int64_t ns);
/* links_reach -- does what an endpoint sends arrive? */
bool links_reach(const struct core_ep *ep);
/* links_sent -- such an endpoint has sent what arrives then */
void links_sent(struct core_ep *ep, int64_t arrives_ns);
void links_start(void);

/* tcp.c: the sockets of such connections, and what the kernel says of them */
void tcp_open(struct core_ep *ep);
void tcp_close(struct core_ep *ep);
void tcp_sent(struct core_ep *ep, int64_t arrives_ns);
/* tcp_full -- the peer's end has no room for what is to be sent */
void tcp_full(struct core_ep *ep);
/* tcp_cut, tcp_mend, tcp_pause -- of an endpoint; what it has sent arrives behind then */
void tcp_cut(struct core_ep *ep);
void tcp_mend(struct core_ep *ep, int64_t then_ns);
void tcp_pause(struct core_ep *ep, int64_t ns);
/* tcp_set, tcp_name -- an option, and the own address; false: it is no such socket */
bool tcp_set(int fd, int level, int name, int value);
bool tcp_name(int fd, void *addr);
int64_t tcp_next_ns(const struct core_ep *ep);
void tcp_advance(struct core_ep *ep);

/* core.c, for the objects */
ssize_t core_post(struct testcore_ep *ep, const struct testcore_request *request);
void core_register(struct core_domain *domain);
/* core_drop_posts -- nobody hears of them */
void core_drop_posts(struct core_posts *posts);
/* core_move -- what a call moves */
void core_move(struct core_domain *domain, const struct core_cq *cq);
void core_end(struct core_ep *ep, bool tells);
/* core_hang_up -- the end of the connection is on its way to this endpoint */
void core_hang_up(struct core_ep *ep, bool drops);
/* core_tell -- a message of connections, to an endpoint that waits for it */
void core_tell(struct core_ep *to, const struct core_message *message);
/* core_domain_at -- the last one that has had this port; or NULL */
struct core_domain *core_domain_at(uint16_t port);
/* core_for_each -- of all domains */
void core_for_each(void (*call)(struct core_ep *ep));
bool core_is_full(const struct core_ep *ep);
bool core_is_ready(const struct core_ep *ep);
uint64_t core_edges(const struct core_ep *ep);

/* core_cm.c: endpoints that connect to an address */
int core_cm_connect(struct fid_ep *fid, const void *addr, const void *param, size_t paramlen);
/* core_cm_forget -- it is closed */
void core_cm_forget(struct core_ep *ep);
/* core_cm_move -- what a read of event queues moves; eq: of all, or of one */
void core_cm_move(struct core_domain *domain, const struct core_eq *eq);
bool core_cm_is_ready(const struct core_ep *ep);
void core_cm_start(void);

/* core_pep.c: passive endpoints */

/* core_pep_at -- who listens there; or NULL.  core_pep_call -- somebody calls it */
struct core_pep *core_pep_at(const struct core_domain *domain);
void core_pep_call(struct core_pep *pep, struct core_ep *caller, const void *data, size_t len);
/* core_pep_is_asked -- has it a request that was neither accepted nor rejected? */
bool core_pep_is_asked(const struct fid_pep *pep);
/* core_pep_kill -- all of a domain's are gone */
void core_pep_kill(struct core_domain *domain);

/*
 * core_call -- such an endpoint, with some data; core_hang_up_call -- of who has called, or was to
 * accept
 */
int core_call(struct fid_ep *caller, struct fid_pep *pep, const void *data, size_t len);
void core_hang_up_call(struct core_ep *caller);
extern struct fi_ops_ep core_ep_ops;
/* core_take_request -- the endpoint is to accept the one that info comes from, if any */
void core_take_request(struct core_ep *ep, const struct fi_info *info);
int core_accept(struct fid_ep *fid, const void *param, size_t paramlen);
int core_pep_open(struct fid_fabric *fabric, struct fi_info *info, struct fid_pep **fid,
		  void *context);

/* core_srx.c: shared receive contexts: endpoints without a connection */
int core_srx_open(struct fid_domain *domain, struct fi_rx_attr *attr, struct fid_ep **fid,
		  void *context);

/* core_events.c */
struct core_ep *core_to_ep(struct fid *fid);
void core_cq_add(struct testcore_cq *cq, const struct testcore_entry *entry);
struct core_event *core_eq_add(struct core_eq *eq, uint32_t event, struct fid *fid);
/* core_eq_forget -- the events of an object that is closed */
void core_eq_forget(struct core_eq *eq, const struct fid *fid);

/* core_eq.c */
int core_eq_open(struct fid_fabric *fabric, struct fi_eq_attr *attr, struct fid_eq **fid,
		 void *context);
int core_eq_trywait(struct fid *fid);

#endif /* CORE_H */
