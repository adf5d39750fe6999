/* SPDX-License-Identifier: BSD-2-Clause */
/* node.c -- a fabric, its events and its domain; connection.h says what for */
#include "connection.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define MR_MODE (FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY)

int64_t connection_now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * INT64_C(1000) + ts.tv_nsec / 1000000;
}

int close_fid(struct fid *fid, const char *what)
{
	int ret = fi_close(fid);

	if (ret)
		fprintf(stderr, "fi_close of %s: %s (%d)\n", what, fi_strerror(-ret), ret);
	return ret;
}

/* ---- what is asked for ---- */

static int set_source(struct fi_info *hints, const char *address)
{
	struct addrinfo ask = {.ai_socktype = SOCK_STREAM};
	struct addrinfo *found;

	if (getaddrinfo(address, NULL, &ask, &found))
		return -FI_EINVAL;
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

static const char *provider_of(const struct node_attr *attr)
{
	return attr->provider ? attr->provider : "pmemverbs";
}

static int fill_hints(struct fi_info *hints, const struct node_attr *attr)
{
	hints->caps = attr->caps;
	hints->mode = FI_RX_CQ_DATA;
	hints->ep_attr->type = attr->type == FI_EP_UNSPEC ? FI_EP_MSG : attr->type;
	hints->domain_attr->mr_mode = MR_MODE;
	hints->domain_attr->threading = attr->threading;
	/* Immediate data of 32 bits are what InfiniBand carries. */
	hints->domain_attr->cq_data_size = 4;
	hints->tx_attr->op_flags = attr->op_flags;
	hints->rx_attr->size = attr->receives;
	return copy_name(&hints->fabric_attr->prov_name, provider_of(attr)) ||
			       copy_name(&hints->fabric_attr->name, attr->fabric) ||
			       copy_name(&hints->domain_attr->name, attr->domain)
		       ? -FI_ENOMEM
		       : 0;
}

/*
 * all_addresses -- of this machine, for a server.  libfabric without an address means those of
 * IPv4.  A socket of IPv6 takes both, unless the system says otherwise.
 */
static const char *all_addresses(void)
{
	const struct sockaddr_in6 any = {.sin6_family = AF_INET6};
	int fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0), alone = 1;
	socklen_t len = sizeof(alone);
	bool both;

	if (fd < 0)
		return NULL;
	both = !getsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &alone, &len) && !alone &&
	       !bind(fd, (const struct sockaddr *) &any, sizeof(any));
	close(fd);
	return both ? "::" : NULL;
}

static int ask_for(const struct node_attr *attr, const char *source, struct fi_info *hints,
		   struct fi_info **info)
{
	return fi_getinfo(attr->version ? attr->version : FI_VERSION(1, 17),
			  attr->host ? attr->host : source, attr->port, attr->host ? 0 : FI_SOURCE,
			  hints, info);
}

int node_offered(const struct node_attr *attr, struct fi_info **info)
{
	const char *all = attr->host || attr->source ? NULL : all_addresses();
	struct fi_info *hints = fi_allocinfo();
	int ret;

	if (!hints)
		return -FI_ENOMEM;
	ret = fill_hints(hints, attr);
	if (!ret && attr->host && attr->source)
		ret = set_source(hints, attr->source);
	if (ret)
		goto out;
	ret = ask_for(attr, all ? all : attr->source, hints, info);
	/* A provider that knows no address of IPv6 may have one of IPv4. */
	if (ret && all)
		ret = ask_for(attr, NULL, hints, info);
out:
	fi_freeinfo(hints);
	return ret;
}

/* ---- opening ---- */

static int open_events(struct node *node, enum fi_wait_obj wait)
{
	struct fi_eq_attr attr = {.wait_obj = wait == FI_WAIT_NONE ? FI_WAIT_UNSPEC : wait};
	int ret = fi_eq_open(node->fabric, &attr, &node->eq, NULL);

	return ret ? explain_call(node->error, "fi_eq_open", ret) : 0;
}

int node_prepare(struct node *node, const struct node_attr *attr)
{
	int ret;

	*node = (struct node){
		.host = attr->host,
		.port = attr->port,
		.timeout_ms = attr->timeout_ms,
		.error = attr->error,
		.next_key = 1,
	};
	ret = node_offered(attr, &node->info);
	if (ret)
		return explain_offer(node->error, provider_of(attr),
				     attr->host ? attr->host : attr->source, ret);
	ret = fi_fabric(node->info->fabric_attr, &node->fabric, NULL);
	if (ret)
		return explain_call(node->error, "fi_fabric", ret);
	return open_events(node, attr->wait);
}

int node_domain(struct node *node, struct fi_info *info)
{
	int ret;

	if (node->domain)
		return 0;
	ret = fi_domain(node->fabric, info, &node->domain, NULL);
	if (ret)
		return explain_call(node->error, "fi_domain", ret);
	node->protocol = info->ep_attr->protocol;
	node->mr_mode = info->domain_attr->mr_mode;
	return 0;
}

static int open_listener(struct node *node)
{
	int ret = fi_passive_ep(node->fabric, node->info, &node->pep, NULL);

	if (!ret)
		ret = fi_pep_bind(node->pep, &node->eq->fid, 0);
	if (!ret)
		ret = fi_listen(node->pep);
	return ret ? explain_listen(node->error, node->port, ret) : 0;
}

int node_listen(struct node *node, const struct node_attr *attr)
{
	int ret = node_prepare(node, attr);

	if (!ret)
		ret = open_listener(node);
	if (ret)
		node_close(node);
	return ret;
}

int node_open(struct node *node, const struct node_attr *attr)
{
	int ret = node_prepare(node, attr);

	if (!ret)
		ret = node_domain(node, node->info);
	if (ret)
		node_close(node);
	return ret;
}

int node_branch(struct node *branch, const struct node *parent, struct fi_info *info,
		bool own_events, struct connection_error *error)
{
	int ret = 0;

	*branch = (struct node){
		.host = parent->host,
		.port = parent->port,
		.timeout_ms = parent->timeout_ms,
		.error = error,
		.parent = parent,
		.info = info,
		.fabric = parent->fabric,
		.eq = own_events ? NULL : parent->eq,
		.next_key = 1,
	};
	if (own_events)
		ret = open_events(branch, FI_WAIT_FD);
	if (!ret)
		ret = node_domain(branch, info);
	if (ret)
		node_close(branch);
	return ret;
}

void node_close(struct node *node)
{
	if (node->domain)
		close_fid(&node->domain->fid, "the domain");
	if (node->pep)
		close_fid(&node->pep->fid, "the passive endpoint");
	if (node->eq && !(node->parent && node->eq == node->parent->eq))
		close_fid(&node->eq->fid, "the event queue");
	if (!node->parent) {
		if (node->fabric)
			close_fid(&node->fabric->fid, "the fabric");
		fi_freeinfo(node->info);
	}
	*node = (struct node){0};
}

/* ---- what is known of it ---- */

uint16_t node_port(const struct node *node)
{
	struct sockaddr_storage addr = {0};
	size_t len = sizeof(addr);
	int ret = fi_getname(&node->pep->fid, &addr, &len);

	if (ret) {
		explain_call(node->error, "fi_getname", ret);
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

/* ---- events ---- */

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
		return node_is_passive(node) && err ? err : FI_ECONNABORTED;
	}
}

/* take_failure -- an attempt, or a connection, that has failed, as an event */
static int take_failure(struct node *node, struct cm_event *event)
{
	struct fi_eq_err_entry entry = {0};
	ssize_t ret = fi_eq_readerr(node->eq, &entry, 0);

	if (ret < 0)
		return explain_call(node->error, "fi_eq_readerr", ret);
	*event = (struct cm_event){.event = FI_SHUTDOWN, .err = reason(node, entry.err)};
	event->entry.fid = entry.fid;
	event->len = entry.err_data_size < CM_DATA_MAX ? entry.err_data_size : CM_DATA_MAX;
	if (event->len)
		memcpy(event->entry.data, entry.err_data, event->len);
	return 1;
}

int node_event(struct node *node, struct cm_event *event, int timeout_ms)
{
	ssize_t ret;

	event->err = 0;
	event->len = 0;
	ret = timeout_ms ? fi_eq_sread(node->eq, &event->event, event->room, sizeof(event->room),
				       timeout_ms, 0)
			 : fi_eq_read(node->eq, &event->event, event->room, sizeof(event->room), 0);
	if (ret >= (ssize_t) sizeof(event->entry)) {
		event->len = (size_t) ret - sizeof(event->entry);
		return 1;
	}
	if (ret == -FI_EAVAIL)
		return take_failure(node, event);
	if (ret == -FI_EAGAIN || ret == -FI_EINTR)
		return 0;
	return explain_call(node->error, "reading the event queue", ret < 0 ? ret : -FI_EOTHER);
}

void node_reject(const struct node *node, struct fi_info *info, const char *reason)
{
	if (info->handle)
		fi_reject(node->pep, info->handle, reason, reason ? strlen(reason) + 1 : 0);
	fi_freeinfo(info);
}
