/* SPDX-License-Identifier: BSD-2-Clause */
/* getinfo.c -- what is offered to whom: a device for each address */
#include "getinfo.h"

#include <errno.h>
#include <ifaddrs.h>
#include <netdb.h>
#include <net/if.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include <rdma/fi_errno.h>
#include <rdma/rdma_cma.h>

#include "address.h"
#include "flush.h"
#include "info.h"
#include "pmemrdma_post.h"
#include "provider.h"

/* How long the way to an address is looked for. */
#define RESOLVE_MS 2000

struct question {
	uint32_t version;
	const struct fi_info *hints;
	int family;
	struct fi_info *list;
	struct fi_info **tail;
	int ret;
};

/* names_us -- does a list of providers name this one? */
static bool names_us(const char *list)
{
	/* A list that begins with ^ names the unwanted ones. */
	if (!list || *list == '^')
		return false;
	for (;;) {
		size_t len = strcspn(list, ",;");

		if (len == strlen(PMR_NAME) && !strncasecmp(list, PMR_NAME, len))
			return true;
		list += len;
		if (!*list++)
			return false;
	}
}

static bool is_asked_for(const struct fi_info *hints)
{
	if (hints && hints->fabric_attr && hints->fabric_attr->prov_name)
		return names_us(hints->fabric_attr->prov_name);
	return names_us(getenv("FI_PROVIDER"));
}

/* is_in_vain -- is there no device for it?  Then none is opened, and no way is looked for. */
static bool is_in_vain(const struct fi_info *hints)
{
	const struct pmr_device *device;

	if (!hints || !(hints->caps & PMEMRDMA_FLUSHES))
		return false;
	if (!pmr_flush_access(PMEMRDMA_FLUSH_PERSISTENT))
		return true;
	device = pmr_devices();
	while (device && !(device->flush_ways & PMEMRDMA_FLUSH_PERSISTENT))
		device = device->next;
	return !device;
}

/* offer -- a device at these addresses, either of which may be NULL, if it serves the hints */
static void offer(struct question *question, const struct pmr_device *device,
		  const struct sockaddr *src, const struct sockaddr *dest)
{
	struct fi_info *info;

	if (!device || !pmr_info_may_serve(device, question->version, question->hints))
		return;
	info = pmr_info_of(device, question->version, question->hints);
	if (!info || !pmr_info_set_addresses(info, src, dest)) {
		fi_freeinfo(info);
		question->ret = -FI_ENOMEM;
		return;
	}
	*question->tail = info;
	question->tail = &info->next;
}

static bool fits_family(const struct question *question, const union pmr_address *addr)
{
	return question->family == AF_UNSPEC || addr->any.sa_family == question->family;
}

/* drop_id -- one that was made to ask with */
static void drop_id(struct question *question, struct rdma_cm_id *id)
{
	if (rdma_destroy_id(id))
		question->ret = -errno;
}

/* offer_way -- the device by which `dest` is reached, and its address; src may be NULL */
static bool offer_way(struct question *question, const union pmr_address *src,
		      union pmr_address *dest)
{
	struct fi_info *before = question->list;
	union pmr_address own;
	struct rdma_cm_id *id;
	bool offered = false;

	if (rdma_create_id(NULL, &id, NULL, RDMA_PS_TCP))
		return false;
	if (!rdma_resolve_addr(id, src ? (struct sockaddr *) &src->any : NULL, &dest->any,
			       RESOLVE_MS) &&
	    pmr_address_take(&own, rdma_get_local_addr(id), sizeof(own))) {
		/* The port is that of this question. */
		pmr_address_set_port(&own, src ? pmr_address_port(src) : 0);
		offer(question, pmr_device_of(id->verbs), &own.any, &dest->any);
		offered = question->list != before;
	}
	drop_id(question, id);
	return offered;
}

/* device_at -- the device that has this address, or NULL */
static const struct pmr_device *device_at(struct question *question, const union pmr_address *addr)
{
	union pmr_address bound = *addr;
	const struct pmr_device *device = NULL;
	struct rdma_cm_id *id;

	if (rdma_create_id(NULL, &id, NULL, RDMA_PS_TCP))
		return NULL;
	pmr_address_set_port(&bound, 0);
	if (!rdma_bind_addr(id, &bound.any))
		device = pmr_device_of(id->verbs);
	drop_id(question, id);
	return device;
}

/* offer_interfaces -- each device at each of its addresses */
static void offer_interfaces(struct question *question)
{
	struct ifaddrs *list, *at;
	union pmr_address addr;

	if (!pmr_devices() || getifaddrs(&list))
		return;
	for (at = list; at; at = at->ifa_next) {
		if (!at->ifa_addr || !(at->ifa_flags & IFF_UP) || (at->ifa_flags & IFF_LOOPBACK) ||
		    !pmr_address_len(at->ifa_addr))
			continue;
		pmr_address_take(&addr, at->ifa_addr, sizeof(addr));
		if (fits_family(question, &addr))
			offer(question, device_at(question, &addr), &addr.any, NULL);
	}
	freeifaddrs(list);
}

/* offer_source -- the device with this address, or all: it is a wildcard */
static bool offer_source(struct question *question, const union pmr_address *src)
{
	struct fi_info *before = question->list;
	const struct pmr_device *device;

	if (!pmr_address_is_wildcard(src)) {
		offer(question, device_at(question, src), &src->any, NULL);
	} else {
		for (device = pmr_devices(); device; device = device->next)
			offer(question, device, &src->any, NULL);
	}
	return question->list != before;
}

/* A name's addresses, of a family. */
struct name {
	const char *node;
	const char *service;
	uint64_t flags;
	const union pmr_address *src; /* from where it is reached; may be NULL */
};

/* offer_family -- until one of them can be offered; a negative fi_errno: they can't be found out */
static int offer_family(struct question *question, const struct name *name, int family)
{
	const struct addrinfo wanted = {
		.ai_family = family,
		.ai_socktype = SOCK_STREAM,
		.ai_flags = (name->flags & FI_SOURCE ? AI_PASSIVE : 0) |
			    (name->flags & FI_NUMERICHOST ? AI_NUMERICHOST : 0),
	};
	struct addrinfo *list, *at;
	union pmr_address addr;
	bool offered = false;
	int err = getaddrinfo(name->node, name->service, &wanted, &list);

	if (err == EAI_NONAME || err == EAI_NODATA || err == EAI_ADDRFAMILY)
		return 0;
	if (err)
		return -FI_ENODATA;
	for (at = list; at && !offered; at = at->ai_next) {
		if (!pmr_address_take(&addr, at->ai_addr, at->ai_addrlen))
			continue;
		offered = name->flags & FI_SOURCE ? offer_source(question, &addr)
						  : offer_way(question, name->src, &addr);
	}
	freeaddrinfo(list);
	return 0;
}

/* offer_named -- where no format is asked for, verbs means IPv4, and the peer may have verbs */
static int offer_named(struct question *question, const struct name *name)
{
	bool means_ipv4 = !question->hints || question->hints->addr_format == FI_FORMAT_UNSPEC;
	int ret = offer_family(question, name, means_ipv4 ? AF_INET : question->family);

	if (!ret && !question->ret && !question->list && means_ipv4)
		ret = offer_family(question, name, AF_INET6);
	return ret;
}

static int answer(struct question *question, const char *node, const char *service, uint64_t flags)
{
	const struct fi_info *hints = question->hints;
	union pmr_address src, dest;
	bool has_src = hints && pmr_address_take(&src, hints->src_addr, hints->src_addrlen);
	bool has_dest = hints && pmr_address_take(&dest, hints->dest_addr, hints->dest_addrlen);

	if ((has_src && !fits_family(question, &src)) ||
	    (has_dest && !fits_family(question, &dest)))
		return -FI_ENODATA;
	if (node || (service && (flags & FI_SOURCE)))
		return offer_named(question,
				   &(struct name){node, service, flags,
						  has_src && !(flags & FI_SOURCE) ? &src : NULL});
	if (has_dest)
		offer_way(question, has_src ? &src : NULL, &dest);
	else if (has_src)
		offer_source(question, &src);
	else
		offer_interfaces(question);
	return 0;
}

int pmr_getinfo(uint32_t version, const char *node, const char *service, uint64_t flags,
		const struct fi_info *hints, struct fi_info **info)
{
	struct question question = {
		.version = version,
		.hints = hints,
		.family = hints ? pmr_address_family(hints->addr_format) : AF_UNSPEC,
		.tail = &question.list,
	};
	int ret;

	*info = NULL;
	if (!is_asked_for(hints) || question.family < 0 || is_in_vain(hints))
		return -FI_ENODATA;
	ret = answer(&question, node, service, flags);
	if (!ret)
		ret = question.ret;
	if (ret || !question.list) {
		fi_freeinfo(question.list);
		return ret ? ret : -FI_ENODATA;
	}
	*info = question.list;
	return 0;
}
