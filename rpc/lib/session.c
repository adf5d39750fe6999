/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * session.c -- one client of a server
 *
 * Nothing that a client says is trusted.  It can write to its own ring, which is read once
 * and checked (ring.h), and send messages, whose length and order are checked here.  What is
 * wrong ends its connection, and nobody else's.
 *
 * A call is executed when the client's notice says that it is durable, or that it has arrived: then
 * nobody waits until it is durable.  Its reply goes into persistent memory first, and from there to
 * the client; so there is no difference between a reply and one that was missed.
 */
#include <stdlib.h>
#include <string.h>

#include "server.h"

#define SENDS 16U
#define ENTRIES 16
/* Calls that are executed before it is the next client's turn. */
#define TURN 8

/* take_handshake -- memory for a handshake; there is one for each session that there can be */
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
	session->deadline = rpc_now_ms() + RPC_HANDSHAKE_MS;
	ret = rpc_link_open(&session->link, server->fabric, server->eq, info, true,
			    &session->error);
	if (!ret)
		ret = open_receives(session);
	if (!ret)
		ret = rpc_buffers_open(&session->replies, &session->link, 0, SENDS,
				       len > sizeof(struct rpc_welcome_message)
					       ? len
					       : sizeof(struct rpc_welcome_message));
	/* Each is a sign of life. */
	if (server->silence_ms)
		session->replies.share = 1;
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

/* take_calls -- that are there, as the notice says, or one that has just come into its cell */
static int take_calls(struct rpc_session *session, uint64_t notice)
{
	if (session->state != RPC_WELCOMED && session->state != RPC_READY)
		return rpc_session_wrong(session, "calls without a ring");
	if (!rpc_session_notice(session, notice))
		return rpc_session_wrong(session,
					 "a notice of more calls than its window, or of none");
	return 0;
}

static int take(struct rpc_session *session, const struct fi_cq_data_entry *entry)
{
	struct rpc_buffer *buffer = entry->op_context;

	if (entry->flags & FI_REMOTE_CQ_DATA) {
		if (session->sends)
			return rpc_session_wrong(session, "a notice, and its calls are sent");
		take_calls(session, entry->data);
		/* Notices use a receive on some cores; then it is posted again. */
		return session->state != RPC_ENDED && buffer && rpc_buffer_receive(buffer)
			       ? rpc_session_lost(session)
			       : 0;
	}
	if (!buffer)
		return rpc_session_lost(session);
	if (buffer->set == &session->cells.ring)
		return take_calls(session, 1);
	if (buffer->kind == RPC_RECEIVE)
		return rpc_session_take_request(session, buffer, entry->len);
	rpc_buffer_sent(buffer);
	return 0;
}

/* Instead of a reply that there is not. */
static const struct rpc_reply none;

/* type_of -- a message with this reply to the call that is next */
static uint32_t type_of(const struct rpc_session *session, const struct rpc_reply *reply)
{
	const struct rpc_store *store = &session->server->store;

	if (reply == &none)
		return RPC_MSG_GONE;
	return session->reply > rpc_store_kept(store, (unsigned int) session->slot) ? RPC_MSG_READ
										    : RPC_MSG_REPLY;
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
		/* The client had it once: no reply that it may miss is overwritten, or dropped. */
		if (!reply)
			reply = &none;
		message = buffer->data;
		*message = (struct rpc_reply_message){
			.type = htole32(type_of(session, reply)),
			.status = (int32_t) htole32((uint32_t) reply->status),
			.sequence = htole64(session->reply),
			.len = htole32(reply->len),
			.pace = htole32(pace)};
		memcpy(message + 1, reply + 1, reply->len);
		ret = rpc_buffer_send(buffer, sizeof(*message) + reply->len);
		if (ret)
			return ret == -FI_EAGAIN ? 0 : rpc_session_lost(session);
		session->reply++;
	}
	return 0;
}

int rpc_session_executed(struct rpc_session *session, int ret)
{
	rpc_session_done(session, 1);
	if (!ret)
		return rpc_session_wrong(session, session->sends
							  ? "what it has sent is no call"
							  : "what it has written is no call");
	if (ret < 0)
		return ret;
	/* Now the entry is not needed any more. */
	return session->sends && session->state == RPC_READY && rpc_cells_again(&session->cells)
		       ? rpc_session_lost(session)
		       : 0;
}

/*
 * may_share -- a flush, with calls of other clients of this worker: if there are others, and
 * the next call of this one does not wait for that
 */
static bool may_share(const struct rpc_session *session)
{
	const struct rpc_session *first = session->worker->sessions;

	return first && first->next && session->notices == 1;
}

/* execute -- a call that is durable; its entry has to be there, and its reply needs a place */
static int execute(struct rpc_session *session)
{
	struct rpc_store *store = &session->server->store;
	struct rpc_executor *executor = &session->worker->executor;
	unsigned int slot = (unsigned int) session->slot;
	int ret;

	if (rpc_store_slot(store, slot)->executed + 1 - session->reply >= store->sizes.window)
		return rpc_session_wrong(session, "it has more calls than its window");
	if (session->server->pool.count) {
		rpc_work_execute(&session->server->work[slot]);
		return 0;
	}
	if (!may_share(session))
		return rpc_session_executed(session, rpc_server_execute(executor, slot));
	ret = rpc_server_begin(executor, slot);
	session->begun = ret == 2;
	return session->begun ? 0 : rpc_session_executed(session, ret);
}

int rpc_session_flushed(struct rpc_session *session)
{
	int ret;

	session->begun = false;
	ret = rpc_session_executed(session, 1);
	if (!ret && session->state == RPC_READY)
		ret = send_replies(session);
	rpc_session_weigh(session);
	return ret;
}

/* execute_some -- calls that are durable, as long as it is its turn; 1: more may be waiting */
static int execute_some(struct rpc_session *session)
{
	for (unsigned int i = 0; i < TURN; i++) {
		int ret;

		/* What others have begun has waited for long enough, and is flushed first. */
		if (i && rpc_server_is_due(&session->worker->executor))
			return 1;
		if (!rpc_session_may_execute(session))
			return 0;
		ret = execute(session);
		if (!ret && session->begun)
			return 1;
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
		return rpc_session_lost(session);
	if (session->state == RPC_ENDED)
		return 0;
	if (session->arrives) {
		ret = rpc_session_arrive(session);
		if (ret || session->arrives)
			return ret;
	}
	count = fi_cq_read(session->link.cq, entries, ENTRIES);
	if (count == -FI_EAVAIL) {
		fi_cq_readerr(session->link.cq, &err, 0);
		return rpc_session_lost(session);
	}
	for (ssize_t i = 0; !ret && i < count && session->state != RPC_ENDED; i++)
		ret = session->arrives
			      ? rpc_session_wrong(session, "it does not wait for its welcome")
			      : take(session, &entries[i]);
	if (!ret && session->arrives && session->state != RPC_ENDED)
		ret = rpc_session_arrive(session);
	if (!ret && session->forgets && session->state == RPC_FORGOTTEN)
		ret = rpc_session_finish_forget(session);
	if (!ret && session->state == RPC_READY)
		ret = send_replies(session);
	more = ret ? ret : execute_some(session);
	rpc_session_weigh(session);
	if (session->state != RPC_READY && session->state != RPC_ENDED &&
	    rpc_now_ms() > session->deadline)
		rpc_session_wrong(session, "it has a connection, and no ring");
	if (rpc_session_is_silent(session, count > 0))
		rpc_session_lost(session);
	return more < 0 ? more : more || count > 0;
}
