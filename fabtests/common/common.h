/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * common.h -- what the programs on libfabric share: fabric to connection
 *
 * Functions that can fail return 0 or a negative fi_errno, and have printed the
 * failing call and the error; the exceptions say so.
 */
#ifndef PMEM_COMMON_H
#define PMEM_COMMON_H

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
#include "options.h"

/* The most private data of a connection request that a core provider carries */
#define CM_DATA_MAX 256

/* How long a client tries to connect where nobody listens yet */
#define CONNECT_SECONDS 5

/* One use of a provider: what it takes to make connections */
struct node {
	const struct options *opts;
	struct fi_info *info;
	struct fid_fabric *fabric;
	struct fid_eq *eq;
	struct fid_pep *pep;       /* of a listening node */
	struct fid_domain *domain; /* of a listening node: after the first request */
	uint32_t protocol;         /* of its connections; a listener's fi_info need not say */
	uint64_t mr_mode;
	uint64_t next_key;
};

struct node_attr {
	enum fi_ep_type type; /* FI_EP_UNSPEC: FI_EP_MSG */
	uint64_t caps;
	uint64_t op_flags; /* default flags of transmit operations */
	enum fi_threading threading;
	const char *port; /* to listen on, or to connect to */
};

/* is_core -- -p names a core provider, to see what it does by itself: it knows no commits */
bool is_core(const struct options *opts);

/* node_listen -- open the provider as a server */
int node_listen(struct node *node, const struct options *opts, const struct node_attr *attr);

/* node_open -- open the provider as a client of opts->dst_addr */
int node_open(struct node *node, const struct options *opts, const struct node_attr *attr);
void node_close(struct node *node);

/* node_offered -- what fi_getinfo says without opening anything, nothing printed */
int node_offered(const struct options *opts, const struct node_attr *attr, struct fi_info **info);

/*
 * node_domain -- open the domain for a connection request, unless it is open.  It is the first
 * request's fi_info that a listening node's domain is made of.
 */
int node_domain(struct node *node, struct fi_info *info);

/* node_port -- the port that a listening node got, 0 if it can't be told */
uint16_t node_port(const struct node *node);

/* node_is_passive -- a target's data arrive without any call into the library */
bool node_is_passive(const struct node *node);

/*
 * node_event -- wait for a connection event; the length of what was written to
 * entry, or a negative error, which for an error event is the event's
 */
struct cm_event {
	uint32_t event;
	union {
		uint8_t room[sizeof(struct fi_eq_cm_entry) + CM_DATA_MAX];
		struct fi_eq_cm_entry entry;
	};
};
ssize_t node_event(struct node *node, struct cm_event *event, uint64_t deadline);

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
};

/* conn_create -- an endpoint for info, enabled: receives can be posted */
int conn_create(struct conn *conn, struct node *node, struct fi_info *info,
		const struct conn_attr *attr);
int conn_connect(struct conn *conn, const void *param, size_t len, struct cm_event *event);

/*
 * conn_again -- after conn_create and conn_connect: whether to try once more.
 * Scripts start both programs at a time, so nobody may listen yet.
 */
bool conn_again(struct conn *conn, int ret, uint64_t deadline);

/*
 * conn_request -- wait for a connection request at a listening node, and open
 * the domain if it is the first; event->entry.info is the caller's to free
 */
ssize_t conn_request(struct node *node, struct cm_event *event);
int conn_accept(struct conn *conn, const void *param, size_t len);
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

int region_register(struct node *node, struct region *region, void *buf, size_t len,
		    uint64_t access, uint64_t flags);
/* region_try -- the same, nothing printed */
int region_try(struct node *node, struct region *region, void *buf, size_t len, uint64_t access,
	       uint64_t flags);
int region_close(struct region *region);

/* close_fid -- fi_close that prints its error */
int close_fid(struct fid *fid, const char *what);

/* CLOSE -- the same for an object that need not have been opened */
#define CLOSE(object) ((object) ? close_fid(&(object)->fid, #object) : 0)

/* DO -- a call that has to succeed: report, and return from the function, if it does not */
#define DO(call)                                                                                   \
	do {                                                                                       \
		ssize_t ret_ = (call);                                                             \
		if (ret_)                                                                          \
			return report(#call, ret_);                                                \
	} while (0)

/* deadline_in -- the point in time, on now_ns()'s clock */
uint64_t deadline_in(unsigned long seconds);

#endif /* PMEM_COMMON_H */
