/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * common.c -- what the programs on libfabric share: fabric to connection
 *
 * Connection management is event driven: whoever waits for an event waits in
 * fi_eq_sread with a deadline, so that a silent peer ends in an error, in no
 * case in a hang.
 */
#include <arpa/inet.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

#include "common.h"
#include "stats.h"

#define MR_MODE (FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY)

uint64_t deadline_in(unsigned long seconds)
{
	return now_ns() + seconds * 1000000000ULL;
}

/* ms_until -- the time left, at least 1 ms before the deadline and 0 after it */
static int ms_until(uint64_t deadline)
{
	uint64_t now = now_ns();

	return now >= deadline ? 0 : (int) ((deadline - now) / 1000000 + 1);
}

int close_fid(struct fid *fid, const char *what)
{
	int ret = fi_close(fid);

	if (ret)
		fprintf(stderr, "fi_close of %s: %s (%d)\n", what, fi_strerror(-ret), ret);
	return ret;
}

bool is_core(const struct options *opts)
{
	return strcmp(opts->provider, "pmemverbs") != 0;
}

static int set_source(struct fi_info *hints, const char *address)
{
	struct addrinfo ask = {.ai_socktype = SOCK_STREAM};
	struct addrinfo *found;
	int ret;

	ret = getaddrinfo(address, NULL, &ask, &found);
	if (ret) {
		fprintf(stderr, "%s: %s\n", address, gai_strerror(ret));
		return -FI_EINVAL;
	}
	hints->src_addr = malloc(found->ai_addrlen);
	if (hints->src_addr) {
		memcpy(hints->src_addr, found->ai_addr, found->ai_addrlen);
		hints->src_addrlen = found->ai_addrlen;
	}
	freeaddrinfo(found);
	return hints->src_addr ? 0 : -FI_ENOMEM;
}

/* copy_name -- what fi_freeinfo frees later */
static int copy_name(char **dest, const char *name)
{
	if (!name)
		return 0;
	*dest = strdup(name);
	return *dest ? 0 : -FI_ENOMEM;
}

static int fill_hints(struct fi_info *hints, const struct options *opts,
		      const struct node_attr *attr)
{
	hints->caps = attr->caps;
	hints->mode = FI_RX_CQ_DATA;
	hints->ep_attr->type = attr->type == FI_EP_UNSPEC ? FI_EP_MSG : attr->type;
	hints->domain_attr->mr_mode = MR_MODE;
	hints->domain_attr->threading = attr->threading;
	/* immediate data of 32 bits are what InfiniBand carries */
	hints->domain_attr->cq_data_size = 4;
	hints->tx_attr->op_flags = attr->op_flags;
	return copy_name(&hints->fabric_attr->prov_name, opts->provider) ||
			       copy_name(&hints->fabric_attr->name, opts->fabric) ||
			       copy_name(&hints->domain_attr->name, opts->domain)
		       ? -FI_ENOMEM
		       : 0;
}

int node_offered(const struct options *opts, const struct node_attr *attr, struct fi_info **info)
{
	bool server = !opts->dst_addr;
	struct fi_info *hints = fi_allocinfo();
	int ret;

	if (!hints)
		return -FI_ENOMEM;
	ret = fill_hints(hints, opts, attr);
	if (!ret && !server && opts->src_addr)
		ret = set_source(hints, opts->src_addr);
	if (!ret)
		ret = fi_getinfo(FI_VERSION(FI_MAJOR_VERSION, FI_MINOR_VERSION),
				 server ? opts->src_addr : opts->dst_addr, attr->port,
				 server ? FI_SOURCE : 0, hints, info);
	fi_freeinfo(hints);
	return ret;
}

/* open_fabric -- the part that servers and clients have in common */
static int open_fabric(struct node *node, const struct options *opts, const struct node_attr *attr)
{
	struct fi_eq_attr eq_attr = {.wait_obj = FI_WAIT_UNSPEC};
	int ret;

	memset(node, 0, sizeof(*node));
	node->opts = opts;
	node->next_key = 1;
	ret = node_offered(opts, attr, &node->info);
	if (ret)
		return report_offer(opts, ret);
	ret = fi_fabric(node->info->fabric_attr, &node->fabric, NULL);
	if (ret)
		return report("fi_fabric", ret);
	ret = fi_eq_open(node->fabric, &eq_attr, &node->eq, NULL);
	return ret ? report("fi_eq_open", ret) : 0;
}

int node_domain(struct node *node, struct fi_info *info)
{
	int ret;

	if (node->domain)
		return 0;
	ret = fi_domain(node->fabric, info, &node->domain, NULL);
	if (ret)
		return report("fi_domain", ret);
	node->protocol = info->ep_attr->protocol;
	node->mr_mode = info->domain_attr->mr_mode;
	return 0;
}

static int open_listener(struct node *node)
{
	int ret;

	ret = fi_passive_ep(node->fabric, node->info, &node->pep, NULL);
	if (ret)
		return report("fi_passive_ep", ret);
	ret = fi_pep_bind(node->pep, &node->eq->fid, 0);
	if (ret)
		return report("fi_pep_bind", ret);
	ret = fi_listen(node->pep);
	return ret ? report("fi_listen", ret) : 0;
}

int node_listen(struct node *node, const struct options *opts, const struct node_attr *attr)
{
	int ret = open_fabric(node, opts, attr);

	if (!ret)
		ret = open_listener(node);
	if (ret)
		node_close(node);
	else if (strcmp(attr->port, "0"))
		options_ready(attr->port);
	return ret;
}

int node_open(struct node *node, const struct options *opts, const struct node_attr *attr)
{
	int ret = open_fabric(node, opts, attr);

	if (!ret)
		ret = node_domain(node, node->info);
	if (ret)
		node_close(node);
	return ret;
}

void node_close(struct node *node)
{
	if (node->domain)
		close_fid(&node->domain->fid, "the domain");
	if (node->pep)
		close_fid(&node->pep->fid, "the passive endpoint");
	if (node->eq)
		close_fid(&node->eq->fid, "the event queue");
	if (node->fabric)
		close_fid(&node->fabric->fid, "the fabric");
	fi_freeinfo(node->info);
	memset(node, 0, sizeof(*node));
}

uint16_t node_port(const struct node *node)
{
	struct sockaddr_storage addr = {0};
	size_t len = sizeof(addr);
	int ret = fi_getname(&node->pep->fid, &addr, &len);

	if (ret) {
		report("fi_getname", ret);
		return 0;
	}
	if (addr.ss_family == AF_INET)
		return ntohs(((struct sockaddr_in *) &addr)->sin_port);
	return ntohs(((struct sockaddr_in6 *) &addr)->sin6_port);
}

bool node_is_passive(const struct node *node)
{
	uint32_t protocol = node->protocol;

	return protocol == FI_PROTO_RDMA_CM_IB_RC || protocol == FI_PROTO_IWARP;
}

/*
 * reason -- why a connection has failed
 *
 * tcp tells of a peer that goes away instead of accepting by what some earlier call has left
 * in errno (EINPROGRESS from connect, say).  Only what a network can say is believed.
 */
static int reason(const struct node *node, int err)
{
	switch (err) {
	case FI_EACCES:
	case FI_EADDRNOTAVAIL:
	case FI_ECONNABORTED:
	case FI_ECONNREFUSED:
	case FI_ECONNRESET:
	case FI_EHOSTUNREACH:
	case FI_ENETDOWN:
	case FI_ENETUNREACH:
	case FI_ENOTCONN:
	case FI_ETIMEDOUT:
		return err;
	default:
		return node_is_passive(node) ? err : FI_ECONNABORTED;
	}
}

static int report_event(const struct node *node)
{
	struct fid_eq *eq = node->eq;
	struct fi_eq_err_entry entry = {0};
	ssize_t ret = fi_eq_readerr(eq, &entry, 0);

	if (ret < 0)
		return report("fi_eq_readerr", ret);
	entry.err = reason(node, entry.err);
	/* callers may try again where nobody listens yet, and report it otherwise */
	if (entry.err != FI_ECONNREFUSED)
		fprintf(stderr, "connection event: %s (%d), provider says: %s (%d)\n",
			fi_strerror(entry.err), entry.err,
			fi_eq_strerror(eq, entry.prov_errno, entry.err_data, NULL, 0),
			entry.prov_errno);
	return entry.err ? -entry.err : -FI_EOTHER;
}

ssize_t node_event(struct node *node, struct cm_event *event, uint64_t deadline)
{
	ssize_t ret;
	int ms;

	do {
		ms = ms_until(deadline);
		ret = fi_eq_sread(node->eq, &event->event, event->room, sizeof(event->room), ms, 0);
	} while ((ret == -FI_EAGAIN || ret == -FI_EINTR) && ms);

	if (ret == -FI_EAVAIL)
		return report_event(node);
	if (ret == -FI_EAGAIN) {
		fprintf(stderr, "no connection event in time\n");
		return -FI_ETIMEDOUT;
	}
	return ret < 0 ? report("fi_eq_sread", ret) : ret;
}

/* await_connected -- events of other, older connections may come in between */
static ssize_t await_connected(struct conn *conn, struct cm_event *event)
{
	uint64_t deadline = deadline_in(conn->node->opts->timeout);
	ssize_t len;

	do {
		len = node_event(conn->node, event, deadline);
		if (len < 0)
			return len;
	} while (event->entry.fid != &conn->ep->fid);

	if (event->event == FI_CONNECTED)
		return len;
	fprintf(stderr, "connection event %u instead of FI_CONNECTED\n", event->event);
	return -FI_ECONNABORTED;
}

int cq_create(struct node *node, const struct conn_attr *attr, size_t size, struct fid_cq **cq)
{
	struct fi_cq_attr cq_attr = {
		.size = size,
		.format = attr->format,
		.wait_obj = attr->wait,
	};

	return fi_cq_open(node->domain, &cq_attr, cq, NULL);
}

static int create_queues(struct conn *conn, const struct fi_info *info,
			 const struct conn_attr *attr)
{
	size_t size = attr->cq_size;
	int ret;

	if (attr->cq) {
		conn->txcq = conn->rxcq = attr->cq;
		return 0;
	}
	if (!size)
		size = info->tx_attr->size + info->rx_attr->size;
	conn->own_cq = true;
	ret = cq_create(conn->node, attr, size, &conn->txcq);
	if (ret)
		return report("fi_cq_open", ret);
	conn->rxcq = conn->txcq;
	if (!attr->separate)
		return 0;
	ret = cq_create(conn->node, attr, size, &conn->rxcq);
	return ret ? report("fi_cq_open", ret) : 0;
}

static int bind_all(struct conn *conn, const struct conn_attr *attr)
{
	uint64_t tx = FI_TRANSMIT | (attr->selective ? FI_SELECTIVE_COMPLETION : 0);
	int ret;

	ret = fi_ep_bind(conn->ep, &conn->node->eq->fid, 0);
	if (!ret)
		ret = fi_ep_bind(conn->ep, &conn->txcq->fid, tx);
	if (!ret)
		ret = fi_ep_bind(conn->ep, &conn->rxcq->fid, FI_RECV);
	if (!ret && attr->av)
		ret = fi_ep_bind(conn->ep, &attr->av->fid, 0);
	if (!ret && attr->srx)
		ret = fi_ep_bind(conn->ep, &attr->srx->fid, 0);
	if (!ret && attr->write_cntr)
		ret = fi_ep_bind(conn->ep, &attr->write_cntr->fid, FI_WRITE);
	if (!ret && attr->read_cntr)
		ret = fi_ep_bind(conn->ep, &attr->read_cntr->fid, FI_READ);
	if (!ret && attr->remote_write_cntr)
		ret = fi_ep_bind(conn->ep, &attr->remote_write_cntr->fid, FI_REMOTE_WRITE);
	return ret ? report("fi_ep_bind", ret) : 0;
}

int conn_create(struct conn *conn, struct node *node, struct fi_info *info,
		const struct conn_attr *attr)
{
	int ret;

	memset(conn, 0, sizeof(*conn));
	conn->node = node;
	ret = fi_endpoint(node->domain, info, &conn->ep, NULL);
	if (ret)
		return report("fi_endpoint", ret);
	ret = create_queues(conn, info, attr);
	if (!ret)
		ret = bind_all(conn, attr);
	if (!ret) {
		ret = fi_enable(conn->ep);
		if (ret)
			report("fi_enable", ret);
	}
	if (ret)
		conn_close(conn);
	return ret;
}

int conn_connect(struct conn *conn, const void *param, size_t len, struct cm_event *event)
{
	struct cm_event unused;
	ssize_t ret;

	ret = fi_connect(conn->ep, conn->node->info->dest_addr, param, len);
	if (ret)
		return report("fi_connect", ret);
	ret = await_connected(conn, event ? event : &unused);
	return ret < 0 ? (int) ret : 0;
}

ssize_t conn_request(struct node *node, struct cm_event *event)
{
	uint64_t deadline = deadline_in(node->opts->timeout);
	ssize_t len;

	do {
		len = node_event(node, event, deadline);
		if (len < 0)
			return len;
	} while (event->event != FI_CONNREQ);

	if (node_domain(node, event->entry.info)) {
		fi_reject(node->pep, event->entry.info->handle, NULL, 0);
		fi_freeinfo(event->entry.info);
		return -FI_EOTHER;
	}
	return len;
}

bool conn_again(struct conn *conn, int ret, uint64_t deadline)
{
	struct timespec pause = {.tv_nsec = 50000000};

	if (ret == -FI_ECONNABORTED || ret == -FI_ECONNRESET)
		report_connection(conn->node->opts, ret);
	if (ret != -FI_ECONNREFUSED)
		return false;
	if (now_ns() > deadline) {
		report_connection(conn->node->opts, ret);
		return false;
	}
	conn_close(conn);
	nanosleep(&pause, NULL);
	return true;
}

int conn_accept(struct conn *conn, const void *param, size_t len)
{
	struct cm_event event;
	ssize_t ret;

	ret = fi_accept(conn->ep, param, len);
	if (ret)
		return report("fi_accept", ret);
	ret = await_connected(conn, &event);
	return ret < 0 ? (int) ret : 0;
}

void conn_close(struct conn *conn)
{
	if (conn->ep)
		close_fid(&conn->ep->fid, "the endpoint");
	if (conn->own_cq && conn->rxcq && conn->rxcq != conn->txcq)
		close_fid(&conn->rxcq->fid, "the receive completion queue");
	if (conn->own_cq && conn->txcq)
		close_fid(&conn->txcq->fid, "the completion queue");
	memset(conn, 0, sizeof(*conn));
}

bool cq_error(struct fid_cq *cq, struct fi_cq_err_entry *entry)
{
	memset(entry, 0, sizeof(*entry));
	return fi_cq_readerr(cq, entry, 0) == 1;
}

int cq_report(struct fid_cq *cq)
{
	struct fi_cq_err_entry entry;

	if (!cq_error(cq, &entry)) {
		fprintf(stderr, "fi_cq_readerr: no error entry\n");
		return -FI_EOTHER;
	}
	fprintf(stderr, "completion: %s (%d), provider says: %s (%d)\n", fi_strerror(entry.err),
		entry.err, fi_cq_strerror(cq, entry.prov_errno, entry.err_data, NULL, 0),
		entry.prov_errno);
	return entry.err ? -entry.err : -FI_EOTHER;
}

int region_try(struct node *node, struct region *region, void *buf, size_t len, uint64_t access,
	       uint64_t flags)
{
	uint64_t key = node->mr_mode & FI_MR_PROV_KEY ? 0 : node->next_key++;
	int ret;

	memset(region, 0, sizeof(*region));
	ret = fi_mr_reg(node->domain, buf, len, access, 0, key, flags, &region->mr, NULL);
	if (ret)
		return ret;
	region->buf = buf;
	region->len = len;
	region->desc = fi_mr_desc(region->mr);
	region->key = fi_mr_key(region->mr);
	region->addr = node->mr_mode & FI_MR_VIRT_ADDR ? (uintptr_t) buf : 0;
	return 0;
}

int region_register(struct node *node, struct region *region, void *buf, size_t len,
		    uint64_t access, uint64_t flags)
{
	int ret = region_try(node, region, buf, len, access, flags);

	return ret ? report_memory(ret) : 0;
}

int region_close(struct region *region)
{
	int ret = 0;

	if (region->mr)
		ret = close_fid(&region->mr->fid, "the memory region");
	memset(region, 0, sizeof(*region));
	return ret;
}
