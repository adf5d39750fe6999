/* SPDX-License-Identifier: BSD-2-Clause */
/* eq.c -- event queues; eq.h says how events flow */
#include "objects/eq.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <rdma/fi_errno.h>

#include "base/log.h"
#include "memory/guard.h"
#include "objects/admit.h"
#include "objects/ep.h"
#include "objects/handshake.h"
#include "objects/strangers.h"
#include "objects/tickets.h"
#include "engine/info.h"
#include "objects/unwrap.h"
#include "progress/queue.h"

/* So many events that are not the application's are read in one call. */
#define MOST_DROPPED 16

/*
 * The application's own events of connections have this bit while the core has them.  No
 * event of libfabric has it: it is for providers (FI_PROV_SPECIFIC, which 2.x has no more).
 */
#define OWN (UINT32_C(1) << 31)

/* Nobody is given this one. */
#define WAKE UINT32_C(0xfffffffe)

/*
 * our_fid -- our object for the one that an event names.  We open the core's endpoints
 * with ours as their context.
 */
static struct fid *our_fid(struct fid *fid)
{
	return !fid || pmv_unwrap_fid(fid) ? fid : fid->context;
}

/* take_handshake -- off the end of an event's CM data */
static void take_handshake(struct pmv_event *event, struct pmv_handshake *handshake)
{
	size_t len = event->len > sizeof(event->cm) ? event->len - sizeof(event->cm) : 0;

	event->len = sizeof(event->cm) + pmv_handshake_decode(event->cm.data, len, handshake);
	if (handshake->other.lowest)
		PMV_ALERT(EP_CTRL,
			  "a peer has another version of pmemverbs (its handshake has versions %u "
			  "to %u, and here %u to %u): commits between the two are refused; install "
			  "the same version at both ends\n",
			  handshake->other.lowest, handshake->other.highest, PMV_HANDSHAKE_LOWEST,
			  PMV_HANDSHAKE_HIGHEST);
}

/* name_provider -- the application knows the provider by our name */
static void name_provider(struct fi_info *info, const struct fi_info *asked)
{
	char *name = asked->fabric_attr->prov_name ? strdup(asked->fabric_attr->prov_name) : NULL;

	if (!name)
		return;
	free(info->fabric_attr->prov_name);
	info->fabric_attr->prov_name = name;
	info->fabric_attr->prov_version = asked->fabric_attr->prov_version;
}

static void translate_connreq(struct pmv_event *event)
{
	struct fi_eq_cm_entry *entry = &event->cm;
	struct pmv_admission *admission;
	struct pmv_handshake handshake;
	struct pmv_pep *pep;

	if (!entry->fid || entry->fid->fclass != FI_CLASS_PEP) {
		/* Nobody has looked at it. */
		event->len = pmv_admission_is_on() ? 0 : event->len;
		return;
	}
	pep = pmv_container_of(entry->fid, struct pmv_pep, pep_fid.fid);
	if (!pmv_admit_connreq(pep, event, &admission))
		return;
	take_handshake(event, &handshake);
	if (entry->info)
		pmv_handshake_keep(pep->fabric, entry->info, &handshake, admission);
	for (struct fi_info *info = entry->info; info; info = info->next) {
		pmv_info_from_core(info, pep->info);
		name_provider(info, pep->info);
	}
}

static struct pmv_ep *ep_of(struct fid *fid)
{
	return fid && fid->ops == &pmv_ep_fi_ops ? pmv_container_of(fid, struct pmv_ep, ep_fid.fid)
						 : NULL;
}

void pmv_eq_refuse(struct pmv_ep *ep, int err)
{
	pmv_ep_attempt(ep, PMV_ATTEMPT_FAILED);
	pmv_silence_forget(&ep->silence);
	pmv_initiator_break(&ep->initiator);
	ep->refused = ep->refusal_untold = true;
	ep->refusal = err;
	ep->eq->refusals++;
}

/* tell_refusal -- of the next such peer */
static ssize_t tell_refusal(struct pmv_eq *eq, struct fi_eq_err_entry *buf)
{
	struct pmv_ep *ep = LIST_FIRST(&eq->eps);

	while (ep && !ep->refusal_untold)
		ep = LIST_NEXT(ep, next_of_eq);
	if (!ep)
		return -FI_EAGAIN;
	ep->refusal_untold = false;
	eq->refusals--;
	*buf = (struct fi_eq_err_entry){.fid = &ep->ep_fid.fid,
					.context = ep->ep_fid.fid.context,
					.err = ep->refusal,
					.prov_errno = FI_EACCES,
					.err_data = buf->err_data};
	return sizeof(*buf);
}

/* translate_connected -- the passive side had the handshake before, and gets no data here */
static void translate_connected(struct pmv_event *event)
{
	struct pmv_ep *ep = ep_of(event->cm.fid);
	struct pmv_handshake handshake = {0};

	if (!ep)
		return;
	if (!pmv_admit_connected(ep, event)) {
		pmv_eq_refuse(ep, FI_ECONNREFUSED);
		event->len = 0;
		return;
	}
	pmv_ep_attempt(ep, PMV_ATTEMPT_OVER);
	atomic_store(&ep->was_connected, true);
	pmv_ep_watch(ep);
	if (ep->mailbox.link.connected) {
		pmv_initiator_established(&ep->initiator);
		return;
	}
	if (event->len <= sizeof(event->cm)) {
		pmv_handshake_connect(ep, &handshake);
		return;
	}
	take_handshake(event, &handshake);
	pmv_handshake_connect(ep, &handshake);
	pmv_initiator_established(&ep->initiator);
	/* Nobody would serve its mailbox. */
	if (pmv_agent_attach(&ep->domain->agent, &ep->mailbox.receiver))
		fi_shutdown(ep->engine.fid, 0);
}

/*
 * end_operations -- the connection is lost: let operations under way fail now.  verbs asks
 * for 7 retries, and Soft-RoCE retries without end then.
 */
static void end_operations(struct fid *fid)
{
	struct pmv_ep *ep = ep_of(fid);

	if (!ep)
		return;
	pmv_ep_attempt(ep, PMV_ATTEMPT_FAILED);
	atomic_store(&ep->was_disconnected, atomic_load(&ep->was_connected));
	if (ep->domain->engine.core->lingers)
		fi_shutdown(ep->engine.fid, 0);
	pmv_initiator_break(&ep->initiator);
}

static bool is_cm(uint32_t event)
{
	return event == FI_CONNREQ || event == FI_CONNECTED || event == FI_SHUTDOWN;
}

/*
 * is_stale -- does the event name an endpoint that is closed?  verbs of libfabric 2.1 looks for
 * completions when it closes one.  If it finds one with an error, it writes FI_SHUTDOWN, which
 * nobody removes any more.  So nothing may be read from what the event names.
 */
static bool is_stale(struct pmv_eq *eq, const struct pmv_event *event)
{
	struct pmv_ep *ep;

	if (event->event == FI_CONNREQ || !event->cm.fid)
		return false;
	LIST_FOREACH(ep, &eq->eps, next_of_eq)
	{
		if (&ep->engine.fid->fid == event->cm.fid)
			return false;
	}
	return true;
}

/* translate -- the core's event of a connection */
static void translate(struct pmv_eq *eq, struct pmv_event *event)
{
	if (is_stale(eq, event)) {
		event->len = 0;
		return;
	}
	event->cm.fid = our_fid(event->cm.fid);
	if (ep_of(event->cm.fid) && ep_of(event->cm.fid)->refused) {
		event->len = 0;
		return;
	}
	if (event->event == FI_CONNREQ)
		translate_connreq(event);
	else if (event->event == FI_CONNECTED)
		translate_connected(event);
	else
		end_operations(event->cm.fid);
}

/* hand_over -- copy a kept event to the caller; if it does not fit it stays for the next read */
static ssize_t hand_over(struct pmv_eq *eq, uint32_t *event, void *buf, size_t len, uint64_t flags)
{
	size_t least = is_cm(eq->kept.event) ? sizeof(struct fi_eq_cm_entry) : eq->kept.len;
	size_t size = eq->kept.len < len ? eq->kept.len : len;

	if (len < least && len < eq->kept.len)
		return -FI_ETOOSMALL;
	/* CM data without room is cut off, as the cores do. */
	memcpy(buf, eq->kept.room, size);
	*event = eq->kept.event;
	if (!(flags & FI_PEEK))
		eq->kept.len = 0;
	return size;
}

/* take_kept -- what was read is the core's, or comes back to the application as it went */
static void take_kept(struct pmv_eq *eq)
{
	struct pmv_event *event = &eq->kept;

	if (event->event == WAKE) {
		event->len = 0;
		return;
	}
	event->own = (event->event & OWN) && is_cm(event->event & ~OWN);
	if (event->own)
		event->event &= ~OWN;
	else if (is_cm(event->event) && !pmv_status_reply(event))
		translate(eq, event);
}

/*
 * The core may copy what has arrived on connections, too.  Of a connection that ends before it has
 * asked for anything, tcp (1.17: rx_cm_data, 2.1: xnet_recv_cm_msg) takes whatever errno there is
 * for the reason.  If an earlier call has left EAGAIN there, it keeps that connection for ever,
 * which is readable: it looks at it in each call, and new ones wait.
 */
void pmv_eq_enter_core(void)
{
	errno = 0;
	pmv_guard_enter();
}

/*
 * put_off -- the kept event, if it is the end of a connection, and the application's call posts
 * over a layer above.  That may read events in such a call: it would close the connection, and post
 * on it.
 */
static void put_off(struct pmv_eq *eq)
{
	struct pmv_ep *ep;

	if (!eq->kept.len || eq->kept.own || eq->kept.event != FI_SHUTDOWN)
		return;
	ep = ep_of(eq->kept.cm.fid);
	if (!ep || !ep->domain->hooks || !ep->domain->hooks->posts())
		return;
	eq->ends += !ep->end_untold;
	ep->end_untold = true;
	eq->kept.len = 0;
}

/* first_end -- whose end was put off; NULL: nobody's, or such a call still goes on */
static struct pmv_ep *first_end(struct pmv_eq *eq)
{
	struct pmv_ep *ep = eq->ends ? LIST_FIRST(&eq->eps) : NULL;

	while (ep && !ep->end_untold)
		ep = LIST_NEXT(ep, next_of_eq);
	return ep && !ep->domain->hooks->posts() ? ep : NULL;
}

/* tell_end -- of a connection, which was put off */
static ssize_t tell_end(struct pmv_eq *eq, struct pmv_ep *ep, uint32_t *event, void *buf,
			size_t len, uint64_t flags)
{
	const struct fi_eq_cm_entry entry = {.fid = &ep->ep_fid.fid};

	if (len < sizeof(entry))
		return -FI_ETOOSMALL;
	memcpy(buf, &entry, sizeof(entry));
	*event = FI_SHUTDOWN;
	if (flags & FI_PEEK)
		return sizeof(entry);
	ep->end_untold = false;
	eq->ends--;
	return sizeof(entry);
}

/* has_to_wait -- the kept event, a connection request, may replace a connection that has ended */
static bool has_to_wait(const struct pmv_eq *eq)
{
	return eq->ends && eq->kept.len && !eq->kept.own && eq->kept.event == FI_CONNREQ;
}

/* take_event -- read the core's next event, if none is kept */
static ssize_t take_event(struct pmv_eq *eq)
{
	ssize_t ret;

	put_off(eq);
	for (unsigned int dropped = 0; !eq->kept.len; dropped++) {
		pmv_tickets_go_on(eq);
		if (eq->refusals)
			return -FI_EAVAIL;
		/* Whoever asks without end must not keep the application here. */
		if (dropped == MOST_DROPPED)
			return -FI_EAGAIN;
		pmv_eq_enter_core();
		ret = fi_eq_read(eq->core_fid, &eq->kept.event, eq->kept.room,
				 sizeof(eq->kept.room), 0);
		pmv_guard_leave();
		if (ret == -FI_EAGAIN)
			pmv_strangers_look(eq);
		if (ret <= 0)
			return ret ? ret : -FI_EAGAIN;
		eq->kept.len = ret;
		take_kept(eq);
		put_off(eq);
	}
	return 0;
}

/* nudge_agents -- tcp 2.1 moves the data of endpoints, too, when their event queue is read */
static void nudge_agents(struct pmv_fabric *fabric)
{
	struct pmv_domain *domain;

	if (!fabric->core->manual_progress)
		return;
	pthread_mutex_lock(&fabric->domains_lock);
	LIST_FOREACH(domain, &fabric->domains, next)
	pmv_agent_nudge(&domain->agent);
	pthread_mutex_unlock(&fabric->domains_lock);
}

/* read_next -- with the lock */
static ssize_t read_next(struct pmv_eq *eq, uint32_t *event, void *buf, size_t len, uint64_t flags)
{
	struct pmv_ep *ended = first_end(eq);
	ssize_t ret;

	if (ended)
		return tell_end(eq, ended, event, buf, len, flags);
	ret = take_event(eq);
	if (ret)
		return ret;
	return has_to_wait(eq) ? -FI_EAGAIN : hand_over(eq, event, buf, len, flags);
}

ssize_t pmv_eq_read(struct fid_eq *fid, uint32_t *event, void *buf, size_t len, uint64_t flags)
{
	struct pmv_eq *eq = pmv_to_eq(fid);
	bool waited;
	ssize_t ret;

	pthread_mutex_lock(&eq->lock);
	waited = has_to_wait(eq);
	ret = read_next(eq, event, buf, len, flags);
	/*
	 * The core has told this thread only: whoever sleeps is to take what was put off.  If a
	 * request was kept before, nothing was read, and the last such wake-up is still there.
	 */
	if (ret == -FI_EAGAIN && eq->ends && !waited)
		pmv_eq_wake(eq);
	pthread_mutex_unlock(&eq->lock);
	nudge_agents(eq->fabric);
	return ret;
}

static void translate_error(struct fi_eq_err_entry *entry)
{
	struct pmv_ep *ep;

	entry->fid = our_fid(entry->fid);
	entry->context = entry->fid ? entry->fid->context : NULL;
	ep = ep_of(entry->fid);
	/* With a reason: somebody is there. */
	if (ep && entry->err_data_size)
		pmv_ep_attempt(ep, PMV_ATTEMPT_REFUSED);
	if (ep && atomic_load(&ep->silence.given_up) && !entry->err_data_size)
		entry->err = FI_ETIMEDOUT;
	pmv_admit_failed(ep, entry);
	end_operations(entry->fid);
}

static ssize_t eq_readerr(struct fid_eq *fid, struct fi_eq_err_entry *buf, uint64_t flags)
{
	struct pmv_eq *eq = pmv_to_eq(fid);
	ssize_t ret;

	/* Under the lock the object is not closed meanwhile. */
	pthread_mutex_lock(&eq->lock);
	ret = eq->refusals ? tell_refusal(eq, buf) : fi_eq_readerr(eq->core_fid, buf, flags);
	if (ret > 0 && buf->fid)
		translate_error(buf);
	pthread_mutex_unlock(&eq->lock);
	return ret;
}

static ssize_t eq_write(struct fid_eq *fid, uint32_t event, const void *buf, size_t len,
			uint64_t flags)
{
	return fi_eq_write(pmv_to_eq(fid)->core_fid, is_cm(event) ? event | OWN : event, buf, len,
			   flags);
}

static const char *eq_strerror(struct fid_eq *fid, int prov_errno, const void *err_data, char *buf,
			       size_t len)
{
	return fi_eq_strerror(pmv_to_eq(fid)->core_fid, prov_errno, err_data, buf, len);
}

static struct fi_ops_eq eq_ops = {
	.size = sizeof(struct fi_ops_eq),
	.read = pmv_eq_read,
	.readerr = eq_readerr,
	.write = eq_write,
	.sread = pmv_eq_sread,
	.strerror = eq_strerror,
};

void pmv_eq_wake(struct pmv_eq *eq)
{
	struct fi_eq_entry entry = {0};

	fi_eq_write(eq->core_fid, WAKE, &entry, sizeof(entry), 0);
}

/* drop_kept -- nobody will read the event; what the application's own has is its own */
static void drop_kept(struct pmv_eq *eq)
{
	if (eq->kept.len && !eq->kept.own && eq->kept.event == FI_CONNREQ)
		fi_freeinfo(eq->kept.cm.info);
	eq->kept.len = 0;
}

void pmv_eq_join(struct pmv_eq *eq, struct pmv_ep *ep)
{
	pthread_mutex_lock(&eq->lock);
	LIST_INSERT_HEAD(&eq->eps, ep, next_of_eq);
	pthread_mutex_unlock(&eq->lock);
}

/* close_core -- with the lock: an event of the endpoint's would have it watched again */
static int close_core(struct fid *fid)
{
	struct pmv_ep *ep = ep_of(fid);

	if (fid->fclass == FI_CLASS_PEP && pmv_to_pep(fid)->listens) {
		pmv_to_pep(fid)->listens = false;
		LIST_REMOVE(pmv_to_pep(fid), next_of_eq);
	}
	if (ep) {
		pmv_tickets_cancel(ep);
		pmv_ep_attempt(ep, PMV_ATTEMPT_OVER);
		pmv_silence_forget(&ep->silence);
	}
	return fi_close(pmv_unwrap_fid(fid));
}

int pmv_eq_close(struct pmv_eq *eq, struct fid *fid)
{
	struct pmv_ep *ep = ep_of(fid);
	int ret;

	if (!eq)
		return close_core(fid);
	pthread_mutex_lock(&eq->lock);
	ret = close_core(fid);
	if (!ret && eq->kept.len && eq->kept.entry.fid == fid)
		drop_kept(eq);
	if (!ret && ep) {
		eq->refusals -= ep->refusal_untold;
		eq->ends -= ep->end_untold;
		LIST_REMOVE(ep, next_of_eq);
	}
	pthread_mutex_unlock(&eq->lock);
	return ret;
}

static int eq_close(struct fid *fid)
{
	struct pmv_eq *eq = pmv_container_of(fid, struct pmv_eq, eq_fid.fid);
	int ret = fi_close(&eq->core_fid->fid);

	if (ret)
		return ret;
	drop_kept(eq);
	pthread_mutex_destroy(&eq->lock);
	free(eq);
	return 0;
}

struct fi_ops pmv_eq_fi_ops = {
	.size = sizeof(struct fi_ops),
	.close = eq_close,
	.control = pmv_unwrap_control,
};

/* find_descriptor -- the one that the core's queue has, or -1 */
static int find_descriptor(const struct pmv_eq *eq, const struct fi_eq_attr *attr)
{
	struct pollfd pollfd = {.fd = -1};
	struct fi_wait_pollfd all = {.nfds = 1, .fd = &pollfd};
	enum fi_wait_obj obj = attr ? attr->wait_obj : FI_WAIT_NONE;
	void *arg = obj == FI_WAIT_POLLFD ? (void *) &all : &pollfd.fd;

	/* verbs has one in any case, and tcp else has none, or several. */
	if (eq->fabric->core->manual_progress && obj != FI_WAIT_UNSPEC && obj != FI_WAIT_FD)
		return -1;
	return fi_control(&eq->core_fid->fid, FI_GETWAIT, arg) ? -1 : pollfd.fd;
}

int pmv_eq_open(struct fid_fabric *fabric_fid, struct fi_eq_attr *attr, struct fid_eq **eq_fid,
		void *context)
{
	struct pmv_fabric *fabric = pmv_to_fabric(fabric_fid);
	struct fi_eq_attr core_attr = attr ? *attr : (struct fi_eq_attr){0};
	struct pmv_eq *eq = calloc(1, sizeof(*eq));
	int ret;

	if (!eq)
		return -FI_ENOMEM;
	eq->fabric = fabric;
	/* We write, too. */
	if (pmv_tickets_are_used(fabric->core))
		core_attr.flags |= FI_WRITE;
	ret = fi_eq_open(fabric->core_fid, attr ? &core_attr : NULL, &eq->core_fid, eq);
	if (ret) {
		free(eq);
		return ret;
	}
	pthread_mutex_init(&eq->lock, NULL);
	eq->core_fd = find_descriptor(eq, attr);
	eq->eq_fid = (struct fid_eq){
		.fid = {.fclass = FI_CLASS_EQ, .context = context, .ops = &pmv_eq_fi_ops},
		.ops = &eq_ops,
	};
	*eq_fid = &eq->eq_fid;
	return 0;
}
