/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * core_cm.c -- endpoints that connect to an address, as the core's over tcp do
 *
 * A call reaches the machine, or is repeated.  If nobody listens there, the machine refuses it.  If
 * somebody does, the connection is there, whatever that process does, and its event queue has a
 * request.  What is said to that comes first on the connection, and is taken in only when the
 * caller's event queue is read; until then the caller can't post.
 */
#include "core.h"

#include <stdlib.h>
#include <string.h>

#include <rdma/fi_errno.h>

#include "scheduler.h"
#include "testcore/fid.h"

/* On its way to a machine. */
struct call {
	TAILQ_ENTRY(call) next;
	struct core_ep *caller;
	int64_t arrives_ns;
	size_t len;
	uint8_t data[CORE_CM_DATA];
};

static TAILQ_HEAD(, call) calls = TAILQ_HEAD_INITIALIZER(calls);

int core_cm_connect(struct fid_ep *fid, const void *addr, const void *param, size_t paramlen)
{
	struct core_ep *ep = core_to_ep(&fid->fid);
	struct call *call;

	sched_step();
	if (paramlen > CORE_CM_DATA)
		return -FI_EINVAL;
	memcpy(&ep->called, addr, sizeof(ep->called));
	ep->called_domain = core_domain_at(ntohs(ep->called.sin_port));
	ep->connecting = true;
	ep->domain->calls++;
	if (core_rules.sockets)
		tcp_open(ep);
	call = testcore_need(calloc(1, sizeof(*call)));
	call->caller = ep;
	call->arrives_ns =
		sched_now_ns + sched_between(core_rules.least_delay_ns, core_rules.most_delay_ns);
	call->len = paramlen;
	memcpy(call->data, param, paramlen);
	TAILQ_INSERT_TAIL(&calls, call, next);
	sched_trace("calls port %d", ntohs(ep->called.sin_port));
	sched_step();
	return 0;
}

static void end_call(struct call *call)
{
	TAILQ_REMOVE(&calls, call, next);
	free(call);
}

void core_cm_forget(struct core_ep *ep)
{
	struct call *call;

	TAILQ_FOREACH(call, &calls, next)
	{
		if (call->caller == ep) {
			end_call(call);
			return;
		}
	}
}

/* arrive -- or be repeated */
static void arrive(struct call *call)
{
	struct core_ep *caller = call->caller;
	struct core_pep *pep;

	/* Another process may have the port by now, on the same machine. */
	caller->called_domain = core_domain_at(ntohs(caller->called.sin_port));
	if (!links_reach(caller)) {
		call->arrives_ns = sched_now_ns + CORE_REPEAT_NS;
		return;
	}
	pep = caller->called_domain ? core_pep_at(caller->called_domain) : NULL;
	caller->socket.calling = false;
	if (pep)
		core_pep_call(pep, caller, call->data, call->len);
	else
		core_tell(caller, &(struct core_message){.kind = CORE_REFUSED});
	end_call(call);
}

static int64_t next_ns(void)
{
	int64_t next = SCHED_NEVER;
	const struct call *call;

	TAILQ_FOREACH(call, &calls, next)
	{
		if (call->arrives_ns < next)
			next = call->arrives_ns;
	}
	return next;
}

static void advance(void)
{
	struct call *call, *next;

	for (call = TAILQ_FIRST(&calls); call; call = next) {
		next = TAILQ_NEXT(call, next);
		if (call->arrives_ns <= sched_now_ns)
			arrive(call);
	}
}

void core_cm_start(void)
{
	static struct sched_clockwork cm = {.next_ns = next_ns, .advance = advance};

	sched_add(&cm);
}

/* What the caller is told */

static const struct core_message *first_of(const struct core_ep *ep)
{
	const struct core_message *first = STAILQ_FIRST(&ep->in);

	return first && first->arrives_ns <= sched_now_ns ? first : NULL;
}

bool core_cm_is_ready(const struct core_ep *ep)
{
	return ep->connecting && !ep->dead && (ep->socket.shut || first_of(ep));
}

static void fail(struct core_ep *ep, int err, const struct core_message *message)
{
	struct core_event *event = core_eq_add(ep->eq, FI_SHUTDOWN, &ep->core.fid.fid);

	event->err = err;
	event->len = message ? message->op.len : 0;
	if (event->len)
		memcpy(event->data, message->payload, event->len);
	core_end(ep, false);
}

static void succeed(struct core_ep *ep, struct core_message *message)
{
	struct core_event *event = core_eq_add(ep->eq, FI_CONNECTED, &ep->core.fid.fid);

	event->len = message->op.len;
	if (event->len)
		memcpy(event->data, message->payload, event->len);
	STAILQ_REMOVE_HEAD(&ep->in, next);
	free(message->payload);
	free(message);
	ep->num_in--;
	ep->handled++;
	ep->connecting = false;
}

static void take_in(struct core_ep *ep)
{
	struct core_message *first = STAILQ_FIRST(&ep->in);

	if (!first_of(ep) || ep->socket.shut)
		fail(ep, FI_ECONNRESET, NULL);
	else if (first->kind == CORE_ACCEPTED)
		succeed(ep, first);
	else if (first->kind == CORE_REFUSED)
		fail(ep, FI_ECONNREFUSED, first);
	else
		fail(ep, FI_ECONNRESET, NULL);
}

void core_cm_move(struct core_domain *domain, const struct core_eq *eq)
{
	struct core_ep *ep;

	TAILQ_FOREACH(ep, &domain->eps, next)
	{
		if ((!eq || ep->eq == eq) && core_cm_is_ready(ep))
			take_in(ep);
	}
}
