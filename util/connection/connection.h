/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * connection.h -- connections by libfabric, for all programs here that use its public API
 *
 * A node is one use of a provider: fabric, event queue, and (of a server) the passive endpoint.  It
 * has one domain, which its connections share.  A branch is a node with a domain of its own on
 * another node's fabric: libfabric protects memory by domain, so that the peers of a branch reach
 * what was registered there and nothing else.  A conn is an endpoint with its completion queues,
 * and a region is registered memory.
 *
 * What is guaranteed:
 * - A function that can fail returns 0 (or a count) or a negative fi_errno.  What failed, and what
 * to look at, is written once: into the node's error, or on standard error if that is NULL.  Where
 *   something is not told, the function's comment says so.
 * - Each wait has a limit, so that a silent peer ends in an error and in no case in a hang.
 * - After a failure, and before anything was opened, the matching close function may be called.  It
 *   closes what is open and leaves a structure of zeros.
 * - Nothing here is a thread, a lock or global: who shares a structure between threads looks after
 *   that, and a node's threading says what libfabric does.
 * - The strings of struct node_attr, and a branch's info and parent, have to outlive the node.
 */
#ifndef UTIL_CONNECTION_H
#define UTIL_CONNECTION_H

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

#include "explain.h"

/* The most private data of a connection request that a core provider carries */
#define CM_DATA_MAX 256

/* How long a client tries to connect where nobody listens yet */
#define CONNECT_SECONDS 5

struct node_attr {
	uint32_t version;     /* of libfabric's interface; 0: 1.17 */
	const char *provider; /* NULL: pmemverbs, since others offer FI_RMA_PMEM for less */
	const char *fabric;   /* NULL: the first; so is the domain, by name the device */
	const char *domain;
	const char *host;     /* whom to connect to; NULL: a server */
	const char *source;   /* the own address; NULL: any, of IPv4 and of IPv6 */
	const char *port;     /* to listen on, or to connect to */
	enum fi_ep_type type; /* FI_EP_UNSPEC: FI_EP_MSG */
	uint64_t caps;
	uint64_t op_flags; /* default flags of transmit operations */
	enum fi_threading threading;
	size_t receives;                /* room in the receive queue; 0: as the provider likes */
	enum fi_wait_obj wait;          /* of the event queue; FI_WAIT_NONE: FI_WAIT_UNSPEC */
	unsigned long timeout_ms;       /* of making a connection */
	struct connection_error *error; /* NULL: standard error */
};

struct node {
	const char *host; /* for messages */
	const char *port;
	unsigned long timeout_ms;
	struct connection_error *error;
	const struct node *parent; /* of a branch: whose fabric and info it uses */
	struct fi_info *info;
	struct fid_fabric *fabric;
	struct fid_eq *eq;
	struct fid_pep *pep;       /* of a listening node */
	struct fid_domain *domain; /* of a listening node: after the first request */
	uint32_t protocol;         /* of its connections; a listener's fi_info need not say */
	uint64_t mr_mode;
	uint64_t next_key;
};

/* connection_now_ms -- of a clock that nobody sets */
int64_t connection_now_ms(void);

/* node_offered -- what fi_getinfo says without opening anything; nothing is told */
int node_offered(const struct node_attr *attr, struct fi_info **info);

/* conn_lost -- does an error entry say that the operation has ended with its connection? */
static inline bool conn_lost(int err)
{
	return err == FI_ECANCELED || err == FI_ETIMEDOUT;
}

/* node_listen -- open the provider as a server */
int node_listen(struct node *node, const struct node_attr *attr);

/* node_open -- open the provider and a domain, as a client of attr->host */
int node_open(struct node *node, const struct node_attr *attr);

/* node_prepare -- only find the provider, and open its fabric and event queue */
int node_prepare(struct node *node, const struct node_attr *attr);

/*
 * node_branch -- a node on parent's fabric with a domain of its own for this info: parent's (for a
 * client), or that of a connection request.  own_events: it has an event queue of its own, too.
 */
int node_branch(struct node *branch, const struct node *parent, struct fi_info *info,
		bool own_events, struct connection_error *error);

void node_close(struct node *node);

/*
 * node_domain -- open the domain for a connection request, unless it is open.  It is the first
 * request's fi_info that a listening node's domain is made of.
 */
int node_domain(struct node *node, struct fi_info *info);

/* node_port -- the port that a listening node got, 0 if it can't be told */
uint16_t node_port(const struct node *node);

/* node_is_passive -- a target's data arrive without any call into the library */
bool node_is_passive(const struct node *node);

struct cm_event {
	uint32_t event; /* FI_CONNREQ, ... */
	int err;        /* an attempt, or a connection, has failed: fi_errno */
	size_t len;     /* of what the peer has sent, in entry.data: also its reason to refuse */
	union {
		uint8_t room[sizeof(struct fi_eq_cm_entry) + CM_DATA_MAX];
		struct fi_eq_cm_entry entry;
	};
};

/*
 * node_event -- wait so long for a connection event, at most (0: only look, negative: for ever).
 * 1: there was one, and that something has failed is one too; 0: none, which is not told
 */
int node_event(struct node *node, struct cm_event *event, int timeout_ms);

/* node_reject -- refuse a request, with a reason that the peer may print (or NULL), and free its
 * info */
void node_reject(const struct node *node, struct fi_info *info, const char *reason);

struct conn_attr {
	enum fi_wait_obj wait;
	enum fi_cq_format format;
	bool selective;     /* completions only for FI_COMPLETION */
	bool separate;      /* transmit and receive completions in two queues */
	size_t cq_size;     /* 0: what the endpoint's queues hold */
	struct fid_cq *cq;  /* to use instead of an own one */
	struct fid_av *av;  /* of FI_EP_RDM */
	struct fid_ep *srx; /* to receive from instead of own receives */
	struct fid_cntr *write_cntr;
	struct fid_cntr *read_cntr;
	struct fid_cntr *remote_write_cntr;
};

struct conn {
	struct node *node;
	struct fid_ep *ep;
	struct fid_cq *txcq;
	struct fid_cq *rxcq;
	bool own_cq;
	bool lost; /* conn_poll has seen the end of the connection */
};

/* conn_create -- an endpoint for info, enabled: receives can be posted */
int conn_create(struct conn *conn, struct node *node, struct fi_info *info,
		const struct conn_attr *attr);

/*
 * conn_connect -- to where the node's attributes say, and wait until it is.  The event (or NULL)
 * gets the server's data.  -FI_ECONNREFUSED may mean that nobody listens yet: on standard error
 * that is not told, see conn_again.
 */
int conn_connect(struct conn *conn, const void *data, size_t len, struct cm_event *event);

/*
 * conn_again -- after conn_create and conn_connect: whether to try once more.
 * Scripts start both programs at a time, so nobody may listen yet.
 */
bool conn_again(struct conn *conn, int ret, int64_t deadline_ms);

/*
 * conn_request -- wait for a connection request at a listening node, and open
 * the domain if it is the first; event->entry.info is the caller's to free
 */
int conn_request(struct node *node, struct cm_event *event);

/* conn_accept -- and wait until it is connected */
int conn_accept(struct conn *conn, const void *data, size_t len);

/* conn_await -- wait until it is connected; see conn_connect */
int conn_await(struct conn *conn, struct cm_event *event);

/*
 * conn_poll -- completions of the transmit queue, waiting so long for the first; their format is
 * FI_CQ_FORMAT_DATA.  The connection's end is seen here, and only once what has arrived before was
 * read: -FI_ENOTCONN.  The event queue has to be this connection's alone.
 */
ssize_t conn_poll(struct conn *conn, struct fi_cq_data_entry *entries, size_t max, int timeout_ms);

/* conn_end -- from now on the peer can't reach anything by it; its queues are there still */
void conn_end(struct conn *conn);
void conn_close(struct conn *conn);

int cq_create(struct node *node, const struct conn_attr *attr, size_t size, struct fid_cq **cq);

/* cq_error -- read the error entry of a completion queue: false if there is none */
bool cq_error(struct fid_cq *cq, struct fi_cq_err_entry *entry);

/* cq_report -- read and print it, and return it as a negative errno */
int cq_report(struct fid_cq *cq);

struct region {
	struct fid_mr *mr;
	void *buf;
	size_t len;
	void *desc;
	uint64_t key;
	uint64_t addr; /* of the first byte, as the peer has to name it */
};

/* region_register -- flags: FI_RMA_PMEM if it is to be persistent memory */
int region_register(struct node *node, struct region *region, void *buf, size_t len,
		    uint64_t access, uint64_t flags);
/* region_try -- the same, and nothing is told */
int region_try(struct node *node, struct region *region, void *buf, size_t len, uint64_t access,
	       uint64_t flags);
int region_close(struct region *region);

/* close_fid -- fi_close that prints its error */
int close_fid(struct fid *fid, const char *what);

#endif /* UTIL_CONNECTION_H */
