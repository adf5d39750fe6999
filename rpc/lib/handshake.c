/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * handshake.c -- what a client and the server say before there are calls, and to be forgotten
 *
 * The listener reads HELLO and finds the slot.  The worker of the slot greets the client: it ends
 * an older connection of the same client, has everything executed that is valid in the ring, makes
 * a new key, and sends WELCOME.  READY says which replies the client wants.
 */
#include <stdio.h>
#include <string.h>

#include "server.h"

#define LOST_ALL "it has lost all calls of this identity"
#define LOST_SOME "it has lost some calls, or another client has this identity"

/* wrong -- the client has broken the protocol */
int rpc_session_wrong(struct rpc_session *session, const char *what)
{
	session->state = RPC_ENDED;
	session->server->counters.refused++;
	rpc_server_say(session->server, "client %d: %s", session->slot, what);
	return 0;
}

/* lost -- the connection, or this side could not go on with it */
int rpc_session_lost(struct rpc_session *session)
{
	session->state = RPC_ENDED;
	return 0;
}

/* answer -- WELCOME, REFUSED or FORGOTTEN; the client has asked, so there is room */
static int answer(struct rpc_session *session, uint32_t type, int error, const char *text)
{
	struct rpc_buffer *buffer = rpc_buffers_unused(&session->replies);
	struct rpc_welcome_message *message;

	if (!buffer)
		return rpc_session_wrong(session, "it asks, and takes no answers");
	message = buffer->data;
	memset(message, 0, sizeof(*message));
	message->type = htole32(type);
	message->lowest = htole16(RPC_LOWEST);
	message->highest = htole16(RPC_HIGHEST);
	message->error = htole32((uint32_t) -error);
	strncpy(message->text, text, sizeof(message->text) - 1);
	if (type == RPC_MSG_WELCOME) {
		const struct rpc_sizes *sizes = &session->server->store.sizes;
		unsigned int slot = (unsigned int) session->slot;
		const struct rpc_slot *state = rpc_store_slot(&session->server->store, slot);
		struct rpc_ring ring = rpc_store_ring(&session->server->store, slot);

		message->window =
			htole32((uint32_t) (ring.cell ? ring.size / ring.cell : sizes->window));
		message->ring = htole64(ring.size);
		message->cell = htole64(ring.cell);
		if (session->ring_mr)
			message->ring_mr_key = htole64(fi_mr_key(session->ring_mr));
		if (session->info->domain_attr->mr_mode & FI_MR_VIRT_ADDR)
			message->ring_addr = htole64((uint64_t) (uintptr_t) ring.base);
		message->check_key = htole64(state->key);
		message->reply_max = htole64(sizes->reply_max);
		message->executed = htole64(state->executed);
		message->position = htole64(state->position);
		message->pace = htole64(rpc_throttle_pace(&session->server->throttle,
							  session->server->counters.clients + 1));
	}
	return rpc_buffer_send(buffer, sizeof(*message)) ? rpc_session_lost(session) : 0;
}

static int refuse(struct rpc_session *session, int error, const char *text)
{
	session->server->counters.refused++;
	rpc_server_say(session->server, "refused: %s", text);
	/* It goes when it has read that, or when its time is over. */
	return answer(session, RPC_MSG_REFUSED, error, text);
}

/*
 * empty -- execute what is left in a ring; -FI_EAGAIN: the pool does that, or the server ends, so
 * call it again
 */
static int empty(struct rpc_session *session, struct rpc_work *work)
{
	int ret = 0;

	if (!session->empties || !session->server->pool.count)
		ret = rpc_work_drain(work);
	else if (!rpc_work_is_idle(work))
		ret = -FI_EAGAIN;
	session->empties = ret == -FI_EAGAIN;
	return ret;
}

/*
 * take_over -- the slot is this client's alone: an older connection of its is not one any more.
 * -FI_EAGAIN as above
 */
static int take_over(struct rpc_session *session, struct rpc_work *work)
{
	struct rpc_session *other = work->session;
	int ret;

	/* The loop may stand at the other one: it is ended here, and freed there. */
	if (other) {
		other->state = RPC_ENDED;
		rpc_link_end(&other->link);
		if (other->ring_mr)
			fi_close(&other->ring_mr->fid);
		other->ring_mr = NULL;
		rpc_cells_close(&other->cells);
		other->slot = -1;
		work->session = NULL;
		/* It may have come while this one waited, and written since. */
		session->empties = false;
	}
	ret = empty(session, work);
	if (ret)
		return ret;
	session->slot = (int) work->slot;
	work->session = session;
	work->rights = session->rights;
	return 0;
}

/*
 * cannot_resume -- a client that comes back to its calls, and why it can't; or NULL.  After another
 * one had its ring they share the identity.  The later one of them keeps it: it may be the
 * same program, started again.
 */
static const char *cannot_resume(const struct rpc_session *session, unsigned int slot)
{
	uint64_t process = rpc_store_process(&session->server->store, slot);

	if (!session->hello.resumes || process == le64toh(session->hello.process))
		return NULL;
	return process ? "another process has used this identity" : LOST_ALL;
}

/*
 * resume -- a client that comes back goes on where it was; -ENOENT: calls that were durable are
 * lost, -EINVAL: that can't be
 */
static int resume(const struct rpc_session *session)
{
	const struct rpc_request_message *hello = &session->hello;

	if (!hello->resumes)
		return 0;
	return rpc_store_resume(&session->server->store, (unsigned int) session->slot,
				le64toh(hello->executed), le64toh(hello->position),
				le64toh(hello->durable));
}

/* lend_ring -- from now on the client can write or send entries there */
static int lend_ring(struct rpc_session *session)
{
	struct rpc_store *store = &session->server->store;
	unsigned int slot = (unsigned int) session->slot;
	struct rpc_ring ring = rpc_store_ring(store, slot);

	if (session->sends)
		return rpc_cells_open(&session->cells, &session->link, &ring,
				      rpc_store_slot(store, slot)->position);
	return rpc_link_register(&session->link, ring.base, ring.size, FI_REMOTE_WRITE, FI_RMA_PMEM,
				 &session->ring_mr);
}

/*
 * greet -- by the worker that its slot has; -ENOENT: the slot is somebody else's meanwhile.
 * -FI_EAGAIN: the pool is busy with it
 */
static int greet(struct rpc_session *session)
{
	struct pmemrpc_server *server = session->server;
	const struct rpc_request_message *message = &session->hello;
	size_t cell = session->sends ? rpc_cells_size(&server->store, message) : 0;
	const char *reason;
	uint64_t key;
	int slot = session->claimed, ret;

	if (!rpc_store_is_of(&server->store, (unsigned int) slot, message->id))
		return -ENOENT;
	reason = cannot_resume(session, (unsigned int) slot);
	if (reason)
		return refuse(session, -EUCLEAN, reason);
	ret = take_over(session, &server->work[slot]);
	if (ret == -FI_EAGAIN)
		return ret;
	if (!ret && resume(session))
		return refuse(session, -EUCLEAN, LOST_SOME);
	if (!ret)
		ret = rpc_server_random(&key, sizeof(key));
	if (!ret)
		ret = rpc_store_greet(&server->store, (unsigned int) slot,
				      le64toh(message->process), key, cell,
				      session->rights.reads_only);
	if (ret)
		return rpc_server_fail(server, "the persistent memory", ret);
	ret = lend_ring(session);
	if (ret)
		return refuse(session, ret, "the server can't lend its memory");
	session->state = RPC_WELCOMED;
	/* It may have waited for a call of its slot. */
	session->deadline = rpc_now_ms() + RPC_HANDSHAKE_MS;
	return answer(session, RPC_MSG_WELCOME, 0, "");
}

/* claim -- in the listener: find the slot of its identity */
static int claim(struct rpc_session *session)
{
	struct pmemrpc_server *server = session->server;
	const struct fi_info *info = session->info;
	const char *name = session->rights.name;
	uint64_t secret = server->store.secret;
	const struct rpc_peer peer = {
		.who = *name ? rpc_peer_name(name, secret)
			     : rpc_peer_address(info->dest_addr, info->dest_addrlen, secret),
		.rings = server->rings_per_peer};
	int slot =
		rpc_store_claim(&server->store, session->hello.id, !session->hello.resumes, &peer);

	session->arrives = false;
	if (slot == -ENOENT)
		return refuse(session, -EUCLEAN, LOST_ALL);
	if (slot == -ENOSPC)
		return refuse(session, -FI_EBUSY, "all rings have an owner");
	if (slot == -EDQUOT)
		return refuse(session, -FI_EBUSY,
			      *name ? "this key has as many rings as it may"
				    : "this address has as many rings as it may");
	session->arrives = true;
	if (slot < 0)
		return rpc_server_fail(server, "the persistent memory", slot);
	session->claimed = slot;
	return rpc_worker_unwatch(&server->listener, &session->link.cq->fid)
		       ? rpc_session_lost(session)
		       : 0;
}

/*
 * arrive -- it has said who it is, and goes from the listener to its worker.  It goes back if the
 * slot was forgotten meanwhile, and belongs to somebody else.
 */
int rpc_session_arrive(struct rpc_session *session)
{
	struct rpc_worker *worker = session->worker;
	struct fid *fid = &session->link.cq->fid;
	int ret;

	if (worker == &session->server->listener)
		return session->claimed < 0 ? claim(session) : 0;
	ret = greet(session);
	if (ret == -ENOENT) {
		session->claimed = -1;
		/* After a refusal it was watched here. */
		return rpc_worker_unwatch(worker, fid) ? rpc_session_lost(session) : 0;
	}
	if (ret == -FI_EAGAIN)
		return 0;
	session->arrives = false;
	return !ret && rpc_worker_watch(worker, fid) ? rpc_session_lost(session) : ret;
}

static int refuse_versions(struct rpc_session *session, const struct rpc_request_message *message)
{
	char text[RPC_TEXT];

	snprintf(text, sizeof(text), "this server has versions %u to %u, and the client %u to %u",
		 RPC_LOWEST, RPC_HIGHEST, le16toh(message->lowest), le16toh(message->highest));
	return refuse(session, -FI_EOPNOTSUPP, text);
}

/* refuse_rights -- the server has to be told whose they are */
static int refuse_rights(struct rpc_session *session)
{
	session->server->counters.refused++;
	rpc_server_say(session->server,
		       "refused: the line of %s in the file peers has a right that is not may=read",
		       session->rights.name);
	return answer(session, RPC_MSG_REFUSED, -FI_EACCES,
		      "your key's rights are none that this server knows");
}

static int hello(struct rpc_session *session, const struct rpc_request_message *message)
{
	if (session->state != RPC_CONNECTED || session->slot >= 0)
		return rpc_session_wrong(session, "a second greeting");
	if (!rpc_version(message->lowest, message->highest))
		return refuse_versions(session, message);
	if (!rpc_rights_of(&session->rights, session->link.ep))
		return refuse_rights(session);
	if (session->cells.cannot)
		return refuse(session, -FI_EOPNOTSUPP, session->cells.cannot);
	/* Before it has a slot, which would stay its. */
	if (session->sends && !rpc_cells_size(&session->server->store, message))
		return refuse(session, -FI_EMSGSIZE, "a ring has no room for such an argument");
	session->hello = *message;
	session->arrives = true;
	return 0;
}

/* make_ready -- from which reply on the client wants them */
static int make_ready(struct rpc_session *session, const struct rpc_request_message *message)
{
	struct rpc_store *store = &session->server->store;
	const struct rpc_slot *state = rpc_store_slot(store, (unsigned int) session->slot);
	uint64_t window = store->sizes.window, from = le64toh(message->replies_from);

	if (session->state != RPC_WELCOMED || !from || from > state->executed + 1 ||
	    from + window <= state->executed)
		return rpc_session_wrong(session, "it wants replies that there can't be");
	store->unkept[session->slot].off = !message->in_order;
	session->reply = from;
	session->state = RPC_READY;
	session->server->counters.connections++;
	session->server->counters.clients++;
	session->counted = true;
	return 0;
}

/* finish_forget -- when nothing is left in its ring */
int rpc_session_finish_forget(struct rpc_session *session)
{
	struct pmemrpc_server *server = session->server;
	struct rpc_work *work = &server->work[session->slot];
	int ret = empty(session, work);

	session->forgets = ret == -FI_EAGAIN;
	if (session->forgets)
		return 0;
	if (!ret)
		ret = rpc_store_forget(&server->store, work->slot);
	work->session = NULL;
	session->slot = -1;
	if (ret)
		return rpc_server_fail(server, "the persistent memory", ret);
	return answer(session, RPC_MSG_FORGOTTEN, 0, "");
}

static int forget(struct rpc_session *session)
{
	if (session->state != RPC_READY || session->notices || session->sends)
		return rpc_session_wrong(session, "it can't be forgotten now");
	/* The ring is closed, and then it may be somebody else's. */
	fi_close(&session->ring_mr->fid);
	session->ring_mr = NULL;
	session->state = RPC_FORGOTTEN;
	session->deadline = rpc_now_ms() + RPC_HANDSHAKE_MS;
	return rpc_session_finish_forget(session);
}

int rpc_session_take_request(struct rpc_session *session, struct rpc_buffer *buffer, size_t len)
{
	/* Once, before it is looked at. */
	const struct rpc_request_message message =
		*(const struct rpc_request_message *) buffer->data;

	if (len != sizeof(message))
		return rpc_session_wrong(session, "a message that is none");
	/* The handshake of a client that sends has a receive for each of its two messages. */
	if (!session->sends && rpc_buffer_receive(buffer))
		return rpc_session_lost(session);
	switch (le32toh(message.type)) {
	case RPC_MSG_HELLO:
		return hello(session, &message);
	case RPC_MSG_READY:
		return session->slot < 0 ? rpc_session_wrong(session, "it has not greeted")
					 : make_ready(session, &message);
	case RPC_MSG_FORGET:
		return forget(session);
	default:
		return rpc_session_wrong(session, "a message that is none");
	}
}
