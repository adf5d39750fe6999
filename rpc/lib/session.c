/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * session.c -- one client of a server
 *
 * Nothing that a client says is trusted.  It can write to its own ring, which is read once
 * and checked (ring.h), and send messages, whose length and order are checked here.  What is
 * wrong ends its connection, and nobody else's.
 *
 * A call is executed when the client's notice says that it is durable.  Its reply goes into
 * persistent memory first, and from there to the client; so there is no difference
 * between a reply and one that was missed.
 */
#include <stdlib.h>
#include <string.h>

#include "server.h"

#define GREETING_MS 30000
#define SENDS 16U
#define ENTRIES 16
/* Calls that are executed before it is the next client's turn. */
#define TURN 8
#define LOST_ALL "it has lost all calls of this identity"

/* take_handshake -- there is one for each session that there may be */
static int take_handshake(struct pmemrpc_server *server)
{
	int handshake = 0;

	pthread_mutex_lock(&server->lock);
	while (server->handshakes[handshake])
		handshake++;
	server->handshakes[handshake] = true;
	pthread_mutex_unlock(&server->lock);
	return handshake;
}

/* open_receives -- for who it is, and what it wants */
static int open_receives(struct rpc_session *session)
{
	struct rpc_store *store = &session->server->store;

	if (!session->sends)
		return rpc_buffers_open(&session->requests, &session->link,
					(unsigned int) store->sizes.window + 3, 0,
					sizeof(struct rpc_request_message));
	session->handshake = take_handshake(session->server);
	return rpc_cells_handshake(&session->cells, &session->link,
				   rpc_store_handshake(store, (unsigned int) session->handshake));
}

/* close_link -- from now on the client can't write or send any more */
static void close_link(struct rpc_session *session)
{
	struct pmemrpc_server *server = session->server;

	rpc_link_end(&session->link);
	if (session->ring_mr)
		fi_close(&session->ring_mr->fid);
	rpc_cells_close(&session->cells);
	rpc_buffers_close(&session->requests);
	rpc_buffers_close(&session->replies);
	rpc_link_close(&session->link);
	if (session->handshake < 0)
		return;
	pthread_mutex_lock(&server->lock);
	server->handshakes[session->handshake] = false;
	pthread_mutex_unlock(&server->lock);
}

int rpc_session_begin(struct pmemrpc_server *server, struct fi_info *info, bool sends)
{
	const struct rpc_sizes *sizes = &server->store.sizes;
	struct rpc_session *session = calloc(1, sizeof(*session));
	size_t len = sizeof(struct rpc_reply_message) + sizes->reply_max;
	int ret;

	if (!session)
		return -FI_ENOMEM;
	session->server = server;
	session->worker = &server->listener;
	session->sends = sends;
	session->slot = session->claimed = session->handshake = -1;
	session->deadline = rpc_now_ms() + GREETING_MS;
	ret = rpc_link_open(&session->link, server->fabric, server->eq, info, &session->error);
	if (!ret)
		ret = open_receives(session);
	if (!ret)
		ret = rpc_buffers_open(&session->replies, &session->link, 0, SENDS,
				       len > sizeof(struct rpc_welcome_message)
					       ? len
					       : sizeof(struct rpc_welcome_message));
	if (!ret)
		ret = rpc_worker_watch(&server->listener, &session->link.cq->fid);
	if (!ret) {
		session->fid = &session->link.ep->fid;
		ret = fi_accept(session->link.ep, NULL, 0);
	}
	if (ret) {
		close_link(session);
		rpc_server_say(server, "%s", session->error.text);
		free(session);
		return ret;
	}
	session->info = info;
	session->next = server->listener.sessions;
	server->listener.sessions = session;
	pthread_mutex_lock(&server->lock);
	session->all_next = server->all;
	server->all = session;
	server->num_sessions++;
	pthread_mutex_unlock(&server->lock);
	return 0;
}

int rpc_session_end(struct rpc_session *session)
{
	struct rpc_worker *worker = session->worker;
	struct pmemrpc_server *server = session->server;
	struct rpc_session **at = &worker->sessions;
	int slot = session->slot, ret;

	while (*at != session)
		at = &(*at)->next;
	*at = session->next;
	/* Before its endpoint is closed: another one may get that address, and its events. */
	pthread_mutex_lock(&server->lock);
	for (at = &server->all; *at != session; at = &(*at)->all_next)
		;
	*at = session->all_next;
	pthread_mutex_unlock(&server->lock);
	rpc_session_done(session, session->notices);
	rpc_session_weigh(session);
	server->counters.clients -= session->counted;
	/* First it can't write any more; then what it has written is what there is. */
	close_link(session);
	server->num_sessions--;
	fi_freeinfo(session->info);
	free(session);
	if (slot < 0)
		return 0;
	server->work[slot].session = NULL;
	ret = rpc_work_drain(&server->work[slot]);
	return ret == -FI_EAGAIN ? 0 : ret;
}

/* wrong -- the client has broken the protocol */
static int wrong(struct rpc_session *session, const char *what)
{
	session->state = RPC_ENDED;
	session->server->counters.refused++;
	rpc_server_say(session->server, "client %d: %s", session->slot, what);
	return 0;
}

/* lost -- the connection, or this side could not go on with it */
static int lost(struct rpc_session *session)
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
		return wrong(session, "it asks, and takes no answers");
	message = buffer->data;
	memset(message, 0, sizeof(*message));
	message->type = htole32(type);
	message->version = htole32(RPC_VERSION);
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
	return rpc_buffer_send(buffer, sizeof(*message)) ? lost(session) : 0;
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
	if (!ret)
		ret = rpc_server_random(&key, sizeof(key));
	if (!ret)
		ret = rpc_store_greet(&server->store, (unsigned int) slot,
				      le64toh(message->process), key, cell);
	if (ret)
		return rpc_server_fail(server, "the persistent memory", ret);
	ret = lend_ring(session);
	if (ret)
		return refuse(session, ret, "the server can't lend its memory");
	session->state = RPC_WELCOMED;
	/* It may have waited for a call of its slot. */
	session->deadline = rpc_now_ms() + GREETING_MS;
	return answer(session, RPC_MSG_WELCOME, 0, "");
}

/* claim -- in the listener: find the slot of its identity */
static int claim(struct rpc_session *session)
{
	struct pmemrpc_server *server = session->server;
	const struct fi_info *info = session->info;
	const struct rpc_peer peer = {
		.address =
			rpc_peer_address(info->dest_addr, info->dest_addrlen, server->store.secret),
		.rings = server->rings_per_peer};
	int slot =
		rpc_store_claim(&server->store, session->hello.id, !session->hello.resumes, &peer);

	session->arrives = false;
	if (slot == -ENOENT)
		return refuse(session, -EUCLEAN, LOST_ALL);
	if (slot == -ENOSPC)
		return refuse(session, -FI_EBUSY, "all rings have an owner");
	if (slot == -EDQUOT)
		return refuse(session, -FI_EBUSY, "this address has as many rings as it may");
	session->arrives = true;
	if (slot < 0)
		return rpc_server_fail(server, "the persistent memory", slot);
	session->claimed = slot;
	return rpc_worker_unwatch(&server->listener, &session->link.cq->fid) ? lost(session) : 0;
}

/*
 * arrive -- it has said who it is, and goes from the listener to its worker.  It goes back if the
 * slot was forgotten meanwhile, and belongs to somebody else.
 */
static int arrive(struct rpc_session *session)
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
		return rpc_worker_unwatch(worker, fid) ? lost(session) : 0;
	}
	if (ret == -FI_EAGAIN)
		return 0;
	session->arrives = false;
	return !ret && rpc_worker_watch(worker, fid) ? lost(session) : ret;
}

static int hello(struct rpc_session *session, const struct rpc_request_message *message)
{
	if (session->state != RPC_CONNECTED || session->slot >= 0)
		return wrong(session, "a second greeting");
	if (le32toh(message->version) != RPC_VERSION)
		return refuse(session, -FI_EOPNOTSUPP, "this server has another version");
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
static int make_ready(struct rpc_session *session, uint64_t from)
{
	const struct rpc_slot *state =
		rpc_store_slot(&session->server->store, (unsigned int) session->slot);
	uint64_t window = session->server->store.sizes.window;

	if (session->state != RPC_WELCOMED || !from || from > state->executed + 1 ||
	    from + window <= state->executed)
		return wrong(session, "it wants replies that there can't be");
	session->reply = from;
	session->state = RPC_READY;
	session->server->counters.connections++;
	session->server->counters.clients++;
	session->counted = true;
	return 0;
}

/* finish_forget -- when nothing is left in its ring */
static int finish_forget(struct rpc_session *session)
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
		return wrong(session, "it can't be forgotten now");
	/* The ring is closed, and then it may be somebody else's. */
	fi_close(&session->ring_mr->fid);
	session->ring_mr = NULL;
	session->state = RPC_FORGOTTEN;
	session->deadline = rpc_now_ms() + GREETING_MS;
	return finish_forget(session);
}

static int take_request(struct rpc_session *session, struct rpc_buffer *buffer, size_t len)
{
	/* Once, before it is looked at. */
	const struct rpc_request_message message =
		*(const struct rpc_request_message *) buffer->data;

	if (len != sizeof(message))
		return wrong(session, "a message that is none");
	/* The handshake of a client that sends has a receive for each of its two messages. */
	if (!session->sends && rpc_buffer_receive(buffer))
		return lost(session);
	switch (le32toh(message.type)) {
	case RPC_MSG_HELLO:
		return hello(session, &message);
	case RPC_MSG_READY:
		return session->slot < 0 ? wrong(session, "it has not greeted")
					 : make_ready(session, le64toh(message.replies_from));
	case RPC_MSG_FORGET:
		return forget(session);
	default:
		return wrong(session, "a message that is none");
	}
}

/* take_calls -- that are durable, as the notice says, or one that has just come into its cell */
static int take_calls(struct rpc_session *session, uint64_t notice)
{
	if (session->state != RPC_WELCOMED && session->state != RPC_READY)
		return wrong(session, "calls without a ring");
	if (!rpc_session_notice(session, notice))
		return wrong(session, "a notice of more calls than its window, or of none");
	return 0;
}

static int take(struct rpc_session *session, const struct fi_cq_data_entry *entry)
{
	struct rpc_buffer *buffer = entry->op_context;

	if (entry->flags & FI_REMOTE_CQ_DATA) {
		if (session->sends)
			return wrong(session, "a notice, and its calls are sent");
		take_calls(session, entry->data);
		/* Notices use a receive on some cores; then it is posted again. */
		return session->state != RPC_ENDED && buffer && rpc_buffer_receive(buffer)
			       ? lost(session)
			       : 0;
	}
	if (!buffer)
		return lost(session);
	if (buffer->pool == &session->cells.ring)
		return take_calls(session, 1);
	if (buffer->kind == RPC_RECEIVE)
		return take_request(session, buffer, entry->len);
	buffer->busy = false;
	return 0;
}

/* send_replies -- those that there are, as long as there is room */
static int send_replies(struct rpc_session *session)
{
	struct rpc_store *store = &session->server->store;
	unsigned int slot = (unsigned int) session->slot;
	uint32_t pace;

	/* The pool may be writing the next one; all before it are sent. */
	if (session->server->work[slot].busy)
		return 0;
	pace = rpc_throttle_pace(&session->server->throttle, session->server->counters.clients);
	while (session->reply <= rpc_store_slot(store, slot)->executed) {
		const struct rpc_reply *reply = rpc_store_reply(store, slot, session->reply);
		struct rpc_buffer *buffer = rpc_buffers_unused(&session->replies);
		struct rpc_reply_message *message;
		int ret;

		if (!buffer)
			return 0;
		if (!reply)
			return wrong(session, "it has more calls than its window");
		message = buffer->data;
		*message = (struct rpc_reply_message){
			.type = htole32(RPC_MSG_REPLY),
			.status = (int32_t) htole32((uint32_t) reply->status),
			.sequence = htole64(session->reply),
			.len = htole32(reply->len),
			.pace = htole32(pace)};
		memcpy(message + 1, reply + 1, reply->len);
		ret = rpc_buffer_send(buffer, sizeof(*message) + reply->len);
		if (ret)
			return ret == -FI_EAGAIN ? 0 : lost(session);
		session->reply++;
	}
	return 0;
}

int rpc_session_executed(struct rpc_session *session, int ret)
{
	rpc_session_done(session, 1);
	if (!ret)
		return wrong(session, session->sends ? "what it has sent is no call"
						     : "what it has written is no call");
	if (ret < 0)
		return ret;
	/* Now the entry is not needed any more. */
	return session->sends && session->state == RPC_READY && rpc_cells_again(&session->cells)
		       ? lost(session)
		       : 0;
}

/* execute -- a call that is durable; its entry has to be there, and its reply needs a place */
static int execute(struct rpc_session *session)
{
	struct rpc_store *store = &session->server->store;
	unsigned int slot = (unsigned int) session->slot;

	if (rpc_store_slot(store, slot)->executed + 1 - session->reply >= store->sizes.window)
		return wrong(session, "it has more calls than its window");
	if (session->server->pool.count) {
		rpc_work_execute(&session->server->work[slot]);
		return 0;
	}
	return rpc_session_executed(session, rpc_server_execute(&session->worker->executor, slot));
}

/* execute_some -- calls that are durable, as long as it is its turn; 1: more may be waiting */
static int execute_some(struct rpc_session *session)
{
	for (unsigned int i = 0; i < TURN; i++) {
		int ret;

		if (!rpc_session_may_execute(session))
			return 0;
		ret = execute(session);
		if (!ret && session->state == RPC_READY)
			ret = send_replies(session);
		if (ret)
			return ret;
	}
	return 1;
}

int rpc_session_serve(struct rpc_session *session)
{
	struct fi_cq_data_entry entries[ENTRIES];
	struct fi_cq_err_entry err = {0};
	ssize_t count;
	int ret = 0, more;

	if (session->gone)
		return lost(session);
	if (session->state == RPC_ENDED)
		return 0;
	if (session->arrives) {
		ret = arrive(session);
		if (ret || session->arrives)
			return ret;
	}
	count = fi_cq_read(session->link.cq, entries, ENTRIES);
	if (count == -FI_EAVAIL) {
		fi_cq_readerr(session->link.cq, &err, 0);
		return lost(session);
	}
	for (ssize_t i = 0; !ret && i < count && session->state != RPC_ENDED; i++)
		ret = session->arrives ? wrong(session, "it does not wait for its welcome")
				       : take(session, &entries[i]);
	if (!ret && session->arrives && session->state != RPC_ENDED)
		ret = arrive(session);
	if (!ret && session->forgets && session->state == RPC_FORGOTTEN)
		ret = finish_forget(session);
	if (!ret && session->state == RPC_READY)
		ret = send_replies(session);
	more = ret ? ret : execute_some(session);
	rpc_session_weigh(session);
	if (session->state != RPC_READY && session->state != RPC_ENDED &&
	    rpc_now_ms() > session->deadline)
		wrong(session, "it has a connection, and no ring");
	if (rpc_session_is_silent(session, count > 0))
		lost(session);
	return more < 0 ? more : more || count > 0;
}
