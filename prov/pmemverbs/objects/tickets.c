/* SPDX-License-Identifier: BSD-2-Clause */
/* tickets.c -- who may connect over cores without room for a proof; tickets.h says how */
#include "objects/tickets.h"

#include <stdio.h>
#include <string.h>

#include <rdma/fi_errno.h>

#include "auth/ticket.h"
#include "auth/ticket_client.h"
#include "auth/ticket_server.h"
#include "base/address.h"
#include "base/log.h"
#include "objects/admit.h"

bool pmv_tickets_are_used(const struct pmv_core *core)
{
	return pmv_admission_is_on() && !core->proves;
}

/* The target */

static int complain(int ret, const struct sockaddr *addr)
{
	char text[PMV_ADDRESS_TEXT] = "an address that is unknown";

	pmv_address_text(addr, text);
	PMV_WARN(EP_CTRL,
		 "no tickets can be given out at %s (%s): with FI_PMEMVERBS_KEYS, connections over "
		 "verbs and native need the TCP port of that number, too\n",
		 text, fi_strerror(-ret));
	return ret;
}

int pmv_tickets_open(struct pmv_pep *pep, struct fi_info *info)
{
	struct sockaddr *addr = info->src_addr;
	int ret;

	if (!pmv_tickets_are_used(pep->fabric->core) || !pmv_address_len(addr) ||
	    pmv_address_port(addr))
		return 0;
	ret = pmv_ticket_server_bind(addr, pmv_admit_warn_source, &pep->tickets);
	if (ret)
		return complain(ret, addr);
	pmv_address_set_port(addr, pmv_ticket_server_port(pep->tickets));
	return 0;
}

int pmv_tickets_listen(struct pmv_pep *pep)
{
	union pmv_silence_addr own = {0};
	size_t len = sizeof(own);
	const struct sockaddr *addr = &own.any;
	int ret;

	if (!pmv_tickets_are_used(pep->fabric->core))
		return 0;
	ret = fi_getname(&pep->core_fid->fid, &own, &len);
	if (!ret && (!pmv_address_len(addr) || !pmv_address_port(addr)))
		ret = -FI_EADDRNOTAVAIL;
	/* It may have another name by now. */
	if (pep->tickets && (ret || pmv_ticket_server_port(pep->tickets) != pmv_address_port(addr)))
		pmv_tickets_close(pep);
	if (!ret && !pep->tickets)
		ret = pmv_ticket_server_bind(addr, pmv_admit_warn_source, &pep->tickets);
	if (!ret)
		ret = pmv_ticket_server_listen(pep->tickets, pep->listens_since);
	return ret ? complain(ret, addr) : 0;
}

void pmv_tickets_close(struct pmv_pep *pep)
{
	if (pep->tickets)
		pmv_ticket_server_close(pep->tickets);
	pep->tickets = NULL;
}

/* The initiator */

/* wake -- whoever reads the queue, or sleeps there; called by the poller's thread */
static void wake(void *arg)
{
	struct pmv_ep *ep = arg;

	atomic_store(&ep->eq->has_tickets, true);
	pmv_eq_wake(ep->eq);
}

/* begin -- with the queue's lock: whoever reads it is to know of the ticket that is there */
static int begin(struct pmv_ep *ep, const struct sockaddr *to, const uint8_t *data, size_t len)
{
	const struct sockaddr *from = NULL;
	union pmv_silence_addr own = {0};
	size_t own_len = sizeof(own);
	char why[PMV_KEYS_WHY];

	/* Once: an attempt ends in one event. */
	if (ep->getting || ep->admission || ep->refused)
		return -FI_EALREADY;
	if (!to) {
		pmv_admit_warn_target(NULL, "it is no address of IPv4 or IPv6");
		return -FI_EACCES;
	}
	/* The ticket is good from there only.  verbs of 2.x binds its end when it connects. */
	if (fi_getname(&ep->engine.fid->fid, &own, &own_len) || !pmv_address_len(&own.any))
		own = ep->source;
	if (own.any.sa_family == to->sa_family) {
		pmv_address_set_port(&own.any, 0);
		from = &own.any;
	}
	ep->getting = pmv_ticket_client_begin(from, to, data, len, wake, ep, why);
	if (!ep->getting) {
		pmv_admit_warn_target(to, why);
		return -FI_EACCES;
	}
	memcpy(&ep->target, to, pmv_address_len(to));
	return 0;
}

int pmv_tickets_connect(struct pmv_ep *ep, const void *addr, const uint8_t *data, size_t len)
{
	int ret;

	if (!ep->eq)
		return -FI_ENOEQ;
	pthread_mutex_lock(&ep->eq->lock);
	ret = begin(ep, pmv_address_len(addr) ? addr : NULL, data, len);
	pthread_mutex_unlock(&ep->eq->lock);
	return ret;
}

/* connect_with -- the ticket that is there; 0, or a positive fi_errno: the application reads it */
static int connect_with(struct pmv_ep *ep, char why[PMV_KEYS_WHY])
{
	int ret = pmv_ticket_client_end(ep->getting, &ep->admission, why);

	ep->getting = NULL;
	if (ret)
		return ret == FI_ETIMEDOUT ? FI_ETIMEDOUT : FI_ECONNREFUSED;
	pmv_engine_hold(&ep->engine);
	ret = fi_connect(ep->engine.fid, &ep->target, ep->admission->ticket, PMV_TICKET_SIZE);
	if (ret)
		snprintf(why, PMV_KEYS_WHY, "there is a ticket, but no connection (%s)",
			 fi_strerror(-ret));
	return -ret;
}

void pmv_tickets_go_on(struct pmv_eq *eq)
{
	char why[PMV_KEYS_WHY];
	struct pmv_ep *ep;

	if (!atomic_load(&eq->has_tickets) || !atomic_exchange(&eq->has_tickets, false))
		return;
	LIST_FOREACH(ep, &eq->eps, next_of_eq)
	{
		int err;

		if (!ep->getting || !pmv_ticket_client_is_over(ep->getting))
			continue;
		err = connect_with(ep, why);
		if (!err)
			continue;
		pmv_admit_warn_target(&ep->target.any, why);
		pmv_eq_refuse(ep, err);
	}
}

bool pmv_tickets_cancel(struct pmv_ep *ep)
{
	struct pmv_admission *admission;
	char why[PMV_KEYS_WHY];

	if (!ep->getting)
		return false;
	pmv_ticket_client_end(ep->getting, &admission, why);
	pmv_admission_free(admission);
	ep->getting = NULL;
	return true;
}
