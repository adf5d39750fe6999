/* SPDX-License-Identifier: BSD-2-Clause */
/* cm.c -- connecting endpoints: the core's calls */
#include "objects/ep.h"

#include <string.h>

#include <rdma/fi_errno.h>

#include "base/address.h"
#include "base/log.h"
#include "base/setting.h"
#include "objects/admit.h"
#include "objects/handshake.h"
#include "objects/tickets.h"
#include "objects/unwrap.h"

static int cm_getpeer(struct fid_ep *fid, void *addr, size_t *addrlen)
{
	const struct pmv_ep *ep = pmv_to_ep(fid);

	return ep->stopped ? -FI_ENOTCONN : fi_getpeer(ep->engine.fid, addr, addrlen);
}

bool pmv_ep_may_watch(const struct pmv_ep *ep)
{
	return pmv_setting.timeout && ep->domain->engine.core->uses_sockets;
}

void pmv_ep_watch(struct pmv_ep *ep)
{
	struct fid_ep *core_fid = ep->engine.fid;
	union pmv_silence_addr own = {0}, peer = {0};
	size_t own_len = sizeof(own), peer_len = sizeof(peer);

	if (pmv_ep_may_watch(ep) && !fi_getname(&core_fid->fid, &own, &own_len) &&
	    !fi_getpeer(core_fid, &peer, &peer_len))
		pmv_silence_watch(&ep->silence, &own, &peer, false);
}

/* watch_attempt -- to connect to this address; the core can't tell the peer's yet */
static void watch_attempt(struct pmv_ep *ep, const void *addr)
{
	union pmv_silence_addr own = {0}, peer = {0};
	size_t own_len = sizeof(own);

	if (!pmv_ep_may_watch(ep) || !pmv_address_len(addr) ||
	    fi_getname(&ep->engine.fid->fid, &own, &own_len) || !own.in.sin_port)
		return;
	memcpy(&peer, addr, pmv_address_len(addr));
	pmv_silence_watch(&ep->silence, &own, &peer, true);
}

/* CM data with room for a handshake behind it, and for a proof of who it is. */
struct cm_data {
	size_t len;
	uint8_t data[512];
};

/* copy_data -- the application's, if there is room for the rest */
static int copy_data(struct pmv_ep *ep, const void *param, size_t len, struct cm_data *out)
{
	const size_t most = sizeof(out->data) - PMV_HANDSHAKE_SIZE - PMV_ADMISSION_REQUEST;
	size_t room = most;
	size_t optlen = sizeof(room);

	if (pmv_unwrap_getopt(&ep->ep_fid.fid, FI_OPT_ENDPOINT, FI_OPT_CM_DATA_SIZE, &room,
			      &optlen) ||
	    room > most)
		room = most;
	if (len > room) {
		PMV_WARN(EP_CTRL, "%zu bytes of CM data are more than FI_OPT_CM_DATA_SIZE, %zu\n",
			 len, room);
		return -FI_EINVAL;
	}
	out->len = len;
	if (len)
		memcpy(out->data, param, len);
	return 0;
}

/*
 * promise -- an agent: the application's data with a handshake behind it, if the endpoint can have
 * a mailbox.  Where keys say nothing, nobody commits.
 */
static int promise(struct pmv_ep *ep, const void *param, size_t len, struct cm_data *out)
{
	int ret = ep->domain->keyed ? pmv_agent_promise(&ep->domain->agent, &ep->mailbox.receiver)
				    : 0;

	if (!ret)
		ret = copy_data(ep, param, len, out);
	if (ret || !ep->domain->keyed)
		return ret;
	ret = pmv_mailbox_open(&ep->mailbox);
	if (ret) {
		PMV_WARN(EP_CTRL,
			 "no memory could be registered for commits by an agent (%s): they "
			 "will be refused on this connection\n",
			 fi_strerror(-ret));
		/* It is as if the peer had sent no handshake, either. */
		pmv_handshake_connect(ep, &(struct pmv_handshake){0});
		return 0;
	}
	pmv_mailbox_handshake(&ep->mailbox, out->data + len);
	out->len += PMV_HANDSHAKE_SIZE;
	return 0;
}

void pmv_ep_attempt(struct pmv_ep *ep, enum pmv_attempt attempt)
{
	if (!ep->connecting.len)
		return;
	ep->domain->hooks->attempt(&ep->connecting, attempt);
	if (attempt != PMV_ATTEMPT_BEGUN)
		ep->connecting.len = 0;
}

/* begin_attempt -- before the core sees its end */
static void begin_attempt(struct pmv_ep *ep, const void *addr)
{
	size_t len = pmv_address_len(addr);

	if (!ep->domain->hooks || !len)
		return;
	ep->connecting.len = len;
	memcpy(ep->connecting.addr, addr, len);
	pmv_ep_attempt(ep, PMV_ATTEMPT_BEGUN);
}

static int cm_connect(struct fid_ep *fid, const void *addr, const void *param, size_t paramlen)
{
	struct pmv_ep *ep = pmv_to_ep(fid);
	struct cm_data data;
	int ret = pmv_ep_prepare(ep);

	if (!ret)
		ret = promise(ep, param, paramlen, &data);
	if (!ret)
		ret = pmv_admit_connect(ep, addr, data.data, &data.len);
	if (ret)
		return ret;
	begin_attempt(ep, addr);
	if (pmv_tickets_are_used(ep->domain->engine.core))
		ret = pmv_tickets_connect(ep, addr, data.data, data.len);
	else
		ret = fi_connect(ep->engine.fid, addr, data.data, data.len);
	if (ret)
		pmv_ep_attempt(ep, PMV_ATTEMPT_FAILED);
	else
		watch_attempt(ep, addr);
	return ret;
}

/*
 * accept_plain -- the peer has sent no handshake, so it gets none.  One of other versions gets one
 * that promises nothing: it reads the versions there, and says so.
 */
static int accept_plain(struct pmv_ep *ep, const void *param, size_t paramlen)
{
	bool other = ep->mailbox.link.peer.other.lowest;
	struct cm_data data;
	int ret;

	if (!pmv_admission_is_on() && !other)
		return fi_accept(ep->engine.fid, param, paramlen);
	ret = copy_data(ep, param, paramlen, &data);
	if (!ret && other) {
		pmv_handshake_encode(data.data + data.len, &(struct pmv_handshake){0});
		data.len += PMV_HANDSHAKE_SIZE;
	}
	if (!ret)
		ret = pmv_admit_accept(ep, data.data, &data.len);
	return ret ? ret : fi_accept(ep->engine.fid, data.data, data.len);
}

static int accept_peer(struct pmv_ep *ep, const void *param, size_t paramlen)
{
	struct cm_data data;
	int ret = pmv_ep_prepare(ep);

	if (ret)
		return ret;
	if (!ep->mailbox.link.connected) {
		if (ep->domain->keyed)
			pmv_agent_expect(&ep->domain->agent, &ep->mailbox.receiver);
		return accept_plain(ep, param, paramlen);
	}
	ret = promise(ep, param, paramlen, &data);
	if (!ret)
		ret = pmv_admit_accept(ep, data.data, &data.len);
	if (ret)
		return ret;
	/* The peer may commit as soon as it has the handshake. */
	ret = pmv_agent_attach(&ep->domain->agent, &ep->mailbox.receiver);
	if (!ret)
		ret = fi_accept(ep->engine.fid, data.data, data.len);
	if (ret)
		pmv_agent_detach(&ep->domain->agent, &ep->mailbox.receiver, false);
	return ret;
}

static int cm_accept(struct fid_ep *fid, const void *param, size_t paramlen)
{
	struct pmv_ep *ep = pmv_to_ep(fid);
	int ret = accept_peer(ep, param, paramlen);

	if (!ret)
		pmv_ep_watch(ep);
	return ret;
}

/* shut_down -- who still waits for a ticket has no connection, and will have none */
static int shut_down(struct pmv_ep *ep, uint64_t flags)
{
	bool was_waiting;

	/* Its core's endpoint is closed already; the rest could not be. */
	if (ep->stopped)
		return 0;
	if (!ep->eq || !pmv_tickets_are_used(ep->domain->engine.core))
		return fi_shutdown(ep->engine.fid, flags);
	pthread_mutex_lock(&ep->eq->lock);
	was_waiting = pmv_tickets_cancel(ep);
	if (was_waiting)
		pmv_ep_attempt(ep, PMV_ATTEMPT_FAILED);
	pthread_mutex_unlock(&ep->eq->lock);
	return was_waiting ? 0 : fi_shutdown(ep->engine.fid, flags);
}

static int cm_shutdown(struct fid_ep *fid, uint64_t flags)
{
	struct pmv_ep *ep = pmv_to_ep(fid);
	int ret = shut_down(ep, flags);

	if (!ret)
		pmv_initiator_break(&ep->initiator);
	return ret;
}

static int cm_listen(struct fid_pep *fid)
{
	(void) fid;
	return -FI_ENOSYS;
}

static int cm_reject(struct fid_pep *fid, struct fid *handle, const void *param, size_t paramlen)
{
	(void) fid, (void) handle, (void) param, (void) paramlen;
	return -FI_ENOSYS;
}

struct fi_ops_cm pmv_ep_cm_ops = {
	.size = offsetof(struct fi_ops_cm, join),
	.setname = pmv_unwrap_setname,
	.getname = pmv_unwrap_getname,
	.getpeer = cm_getpeer,
	.connect = cm_connect,
	.listen = cm_listen,
	.accept = cm_accept,
	.reject = cm_reject,
	.shutdown = cm_shutdown,
};
