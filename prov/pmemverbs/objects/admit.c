/* SPDX-License-Identifier: BSD-2-Clause */
/* admit.c -- who is not known is refused; admit.h says where */
#include "objects/admit.h"

#include <inttypes.h>
#include <stdio.h>

#include <rdma/fi_errno.h>

#include "auth/ticket.h"
#include "auth/ticket_server.h"
#include "base/address.h"
#include "base/clock.h"
#include "base/log.h"
#include "objects/ep.h"
#include "objects/unwrap.h"

_Static_assert(sizeof(((struct fi_pmemverbs_peer *) 0)->name) == PMV_KEYS_NAME &&
		       sizeof(((struct fi_pmemverbs_peer *) 0)->rights) == PMV_KEYS_RIGHTS,
	       "as in the file peers");

/* Whoever can send requests could fill the log: one place says something once a second. */
struct sparse {
	atomic_int_fast64_t next_ms;
	atomic_uint_fast64_t unsaid;
};

/* may_say -- and how often it was not said since */
static bool may_say(struct sparse *sparse, uint64_t *unsaid)
{
	int64_t now = pmv_clock_ms(), next = atomic_load(&sparse->next_ms);

	if (now < next || !atomic_compare_exchange_strong(&sparse->next_ms, &next, now + 1000)) {
		atomic_fetch_add(&sparse->unsaid, 1);
		return false;
	}
	*unsaid = atomic_exchange(&sparse->unsaid, 0);
	return true;
}

/* known -- an address of IPv4 or IPv6 that is all there; or NULL */
static const struct sockaddr *known(const void *addr, size_t len)
{
	size_t whole = addr && len >= sizeof(struct sockaddr_in) ? pmv_address_len(addr) : 0;

	return whole && len >= whole ? addr : NULL;
}

static const char *text_of(const struct sockaddr *addr, char text[PMV_ADDRESS_TEXT])
{
	return pmv_address_text(addr, text) ? text : "an address that is unknown";
}

/* keep_peer -- who has proved its key */
static void keep_peer(struct pmv_ep *ep)
{
	strcpy(ep->peer.name, ep->admission->name);
	strcpy(ep->peer.rights, ep->admission->rights);
}

int pmv_admit_getopt(struct fid *fid, int level, int optname, void *optval, size_t *optlen)
{
	struct pmv_ep *ep = pmv_container_of(fid, struct pmv_ep, ep_fid.fid);

	if (level != FI_OPT_ENDPOINT || optname != FI_OPT_PMEMVERBS_PEER)
		return pmv_unwrap_getopt(fid, level, optname, optval, optlen);
	if (*optlen < sizeof(ep->peer)) {
		*optlen = sizeof(ep->peer);
		return -FI_ETOOSMALL;
	}
	if (!*ep->peer.name)
		return -FI_ENODATA;
	memcpy(optval, &ep->peer, sizeof(ep->peer));
	*optlen = sizeof(ep->peer);
	return 0;
}

/* The two ways: in CM data, or by a ticket that stands for what was proved before */

static bool established(struct pmv_ep *ep, const uint8_t *data, size_t *len, char *why)
{
	return ep->domain->engine.core->proves
		       ? pmv_admission_established(ep->admission, data, len, why)
		       : pmv_ticket_established(ep->admission, data, len, why);
}

static bool reply(struct pmv_ep *ep, uint8_t *data, size_t *len, char *why)
{
	return ep->domain->engine.core->proves ? pmv_admission_reply(ep->admission, data, len, why)
					       : pmv_ticket_reply(ep->admission, data, len, why);
}

/* The side that connects */

/* A layer above may try again and again. */
void pmv_admit_warn_target(const struct sockaddr *addr, const char *why)
{
	static struct sparse sparse;
	char text[PMV_ADDRESS_TEXT];
	uint64_t unsaid;

	if (may_say(&sparse, &unsaid))
		PMV_WARN(EP_CTRL,
			 "the target at %s is not connected to: %s (FI_PMEMVERBS_KEYS; %" PRIu64
			 " more since the last warning)\n",
			 text_of(addr, text), why, unsaid);
}

int pmv_admit_connect(struct pmv_ep *ep, const void *addr, uint8_t *data, size_t *len)
{
	const struct sockaddr *to = addr;
	char why[PMV_KEYS_WHY];

	/* With tickets, this goes another way. */
	if (!pmv_admission_is_on() || !ep->domain->engine.core->proves)
		return 0;
	if (!pmv_address_len(to))
		to = NULL;
	pmv_admission_free(ep->admission);
	ep->admission = pmv_admission_request(PMV_ADMISSION_WITHIN, to, data, len, why);
	if (ep->admission)
		return 0;
	pmv_admit_warn_target(to, why);
	return -FI_EACCES;
}

void pmv_admit_failed(const struct pmv_ep *ep, const struct fi_eq_err_entry *error)
{
	char why[PMV_KEYS_WHY];

	/* A ticket has proved both keys. */
	if (!ep || !ep->admission || ep->admission->has_ticket || error->err != FI_ECONNREFUSED ||
	    error->err_data_size)
		return;
	pmv_admission_refused(ep->admission, "nobody listens there, or", why);
	pmv_admit_warn_target((const struct sockaddr *) &ep->admission->other, why);
}

/* begin -- it has proved its key, and may reach our memory from now on; false: why */
static bool begin(struct pmv_ep *ep, char *why)
{
	int ret = pmv_engine_establish(&ep->engine);

	if (ret)
		snprintf(why, PMV_KEYS_WHY, "it has proved its key, but the connection fails (%s)",
			 fi_strerror(-ret));
	return !ret;
}

bool pmv_admit_connected(struct pmv_ep *ep, struct pmv_event *event)
{
	size_t len = event->len > sizeof(event->cm) ? event->len - sizeof(event->cm) : 0;
	union pmv_silence_addr peer = {0};
	size_t peer_len = sizeof(peer);
	char why[PMV_KEYS_WHY] = "it was connected to without a proof";
	bool ok;

	/* Without the setting, and of a peer that was accepted. */
	if (pmv_initiator_is_fast(&ep->initiator, PMV_SLOW_UNKNOWN))
		return true;
	ok = ep->admission && established(ep, event->cm.data, &len, why);
	if (ok)
		ok = begin(ep, why);
	if (ok)
		keep_peer(ep);
	pmv_admission_free(ep->admission);
	ep->admission = NULL;
	if (ok) {
		event->len = sizeof(event->cm) + len;
		pmv_held_release(ep);
		return true;
	}
	if (fi_getpeer(ep->engine.fid, &peer, &peer_len))
		peer_len = 0;
	pmv_admit_warn_target(known(&peer, peer_len), why);
	fi_shutdown(ep->engine.fid, 0);
	return false;
}

/* The side that accepts */

void pmv_admit_take(struct pmv_ep *ep, struct pmv_admission *admission)
{
	ep->admission = admission;
	if (admission)
		keep_peer(ep);
}

int pmv_admit_accept(struct pmv_ep *ep, uint8_t *data, size_t *len)
{
	char why[PMV_KEYS_WHY] = "its peer has proved nothing that was not used yet";
	bool ok;

	if (!pmv_admission_is_on())
		return 0;
	ok = ep->admission && reply(ep, data, len, why);
	pmv_admission_free(ep->admission);
	ep->admission = NULL;
	if (ok)
		return 0;
	PMV_WARN(EP_CTRL, "a connection is not accepted: %s (FI_PMEMVERBS_KEYS)\n", why);
	return -FI_EACCES;
}

void pmv_admit_warn_source(const struct sockaddr *addr, const char *why)
{
	static struct sparse sparse;
	char text[PMV_ADDRESS_TEXT];
	uint64_t unsaid;

	if (may_say(&sparse, &unsaid))
		PMV_WARN(EP_CTRL,
			 "a connection request from %s is rejected: %s (FI_PMEMVERBS_KEYS; %" PRIu64
			 " more since the last warning)\n",
			 text_of(addr, text), why, unsaid);
}

/*
 * own -- an endpoint that has the request's id, and closes it; NULL: the core does.  The domain for
 * that is there until nobody can ask any more: the application may have none, or close its own.
 */
static struct fid_ep *own(struct pmv_pep *pep, struct fi_info *info)
{
	struct fid_ep *ep = NULL;

	if (!pmv_core_keeps_rejected(pep->fabric->core))
		return NULL;
	if (pep->rejecting && !fi_endpoint(pep->rejecting, info, &ep, NULL))
		return ep;
	/* There is none, or it is another device's. */
	if (pep->rejecting)
		fi_close(&pep->rejecting->fid);
	if (fi_domain(pep->fabric->core_fid, info, &pep->rejecting, NULL))
		pep->rejecting = NULL;
	return pep->rejecting && !fi_endpoint(pep->rejecting, info, &ep, NULL) ? ep : NULL;
}

/* reject -- without a reason: to strangers there is nobody */
static void reject(struct pmv_pep *pep, struct fi_info *info, const struct sockaddr *from,
		   const char *why)
{
	struct fid_ep *ep;

	pmv_admit_warn_source(from, why);
	if (!info)
		return;
	ep = own(pep, info);
	/* fi_reject frees the request, whose id the endpoint has; closing that rejects. */
	fi_reject(pep->core_fid, info->handle, NULL, 0);
	if (ep)
		fi_close(&ep->fid);
	fi_freeinfo(info);
}

/* listens_at -- the port of a passive endpoint; 0: it is not known, and nobody asks for it */
static uint16_t listens_at(struct pmv_pep *pep)
{
	union pmv_silence_addr own = {0};
	size_t len = sizeof(own);
	const struct sockaddr *addr =
		fi_getname(&pep->core_fid->fid, &own, &len) ? NULL : known(&own, len);

	return addr ? pmv_address_port(addr) : 0;
}

static struct pmv_admission *asked(struct pmv_pep *pep, const struct sockaddr *from, uint8_t *data,
				   size_t *len, char *why)
{
	if (pep->fabric->core->proves)
		return pmv_admission_asked(PMV_ADMISSION_WITHIN, from, listens_at(pep),
					   pep->listens_since, data, len, why);
	return pep->tickets ? pmv_ticket_server_take(pep->tickets, from, data, len, why) : NULL;
}

bool pmv_admit_connreq(struct pmv_pep *pep, struct pmv_event *event,
		       struct pmv_admission **admission)
{
	size_t len = event->len > sizeof(event->cm) ? event->len - sizeof(event->cm) : 0;
	struct fi_info *info = event->cm.info;
	char why[PMV_KEYS_WHY] = "it can't be checked";
	const struct sockaddr *from;

	*admission = NULL;
	if (!pmv_admission_is_on())
		return true;
	from = info ? known(info->dest_addr, info->dest_addrlen) : NULL;
	if (info)
		*admission = asked(pep, from, event->cm.data, &len, why);
	if (*admission) {
		event->len = sizeof(event->cm) + len;
		return true;
	}
	reject(pep, info, from, why);
	event->len = 0;
	return false;
}
