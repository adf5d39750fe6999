/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * client.c -- a client: its calls, from being posted to being executed
 *
 * The client keeps a copy of its ring: an entry is at the same place in both. Entries are
 * posted in order, and each batch of them (batch.h) ends with a commit, which covers all that was
 * written before it.  So when one call is durable, all calls before it are.  A place in the
 * ring is used again when the call that had it was replied to, and its commit has completed: the
 * reply may come first.
 *
 * A call whose caller waits for its reply only is not committed.  The server executes it when it
 * has arrived, and its reply says that it has, so it needs no completion.
 */
#include "client.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <unistd.h>

/* The event queue is looked at so often: by a client that looks for what comes, and that sleeps. */
#define LOOKS 16U
#define SLEEP_MS 200
/* That are read in one go. */
#define ENTRIES 16

static struct rpc_posted *posted_at(struct pmemrpc_client *client, uint64_t sequence)
{
	return &client->calls[sequence % client->window];
}

/* set_state -- the caller may be told, and may post calls then */
static void set_state(struct pmemrpc_call *call, enum pmemrpc_state state)
{
	call->state = state;
	if (call->notify)
		call->notify(call);
}

void rpc_client_durable(struct pmemrpc_client *client, uint64_t sequence)
{
	while (client->durable < sequence) {
		struct rpc_posted *posted = posted_at(client, ++client->durable);

		set_state(posted->call, PMEMRPC_DURABLE);
	}
}

/*
 * post_piece -- write part of an entry, or a batch; the last part tells the server of so many
 * calls.  Unless it is plain it has a completion, which means that they are durable, and all before
 * them
 */
static int post_piece(struct pmemrpc_client *client, struct rpc_posted *posted,
		      const struct rpc_piece *piece, unsigned int calls, bool plain)
{
	void *desc = fi_mr_desc(client->mirror_mr);
	struct iovec iov = {.iov_base = client->ring.base + piece->offset, .iov_len = piece->len};
	struct fi_rma_iov rma = {.addr = client->ring_addr + piece->offset,
				 .len = piece->len,
				 .key = client->ring_mr_key};
	struct fi_msg_rma msg = {.msg_iov = &iov,
				 .desc = &desc,
				 .iov_count = 1,
				 .rma_iov = &rma,
				 .rma_iov_count = 1,
				 .context = posted,
				 .data = calls};
	uint64_t flags = 0;
	ssize_t ret;

	/* The server is told when the entry is there, or durable. */
	if (piece->commit)
		flags = FI_REMOTE_CQ_DATA;
	if (piece->commit && !plain)
		flags |= FI_COMPLETION | FI_COMMIT_COMPLETE | (piece->fence ? FI_FENCE : 0);
	ret = fi_writemsg(client->link.ep, &msg, flags);
	/* What the fence follows has failed: the queue, which is read next, says how. */
	if (ret == -FI_ECANCELED)
		return -FI_EAGAIN;
	if (ret && ret != -FI_EAGAIN)
		explain_call(&client->error, "fi_writemsg", ret);
	return (int) ret;
}

/* post_pieces -- write what is not written yet of an entry */
static int post_pieces(struct pmemrpc_client *client, struct rpc_posted *posted)
{
	struct rpc_piece pieces[RPC_MAX_PIECES];
	unsigned int count = rpc_ring_plan(client->ring.size, posted->place.position,
					   posted->argument_len, pieces);

	while (posted->pieces < count) {
		int ret = post_piece(client, posted, &pieces[posted->pieces], 1, posted->plain);

		if (ret)
			return ret;
		posted->pieces++;
		posted->pending = pieces[posted->pieces - 1].commit && !posted->plain;
	}
	return 0;
}

/*
 * post_batch -- write the entries that were held back; `last` is the last one of them.  It is
 * committed unless all of them are plain.
 */
static int post_batch(struct pmemrpc_client *client, struct rpc_posted *last)
{
	const struct rpc_batch *batch = &client->batch;
	const struct rpc_piece piece = {
		.offset = batch->position % client->ring.size, .len = batch->len, .commit = true};
	bool plain = true;
	int ret;

	for (unsigned int i = 0; i < batch->calls; i++)
		plain &= posted_at(client, last->place.sequence - i)->plain;
	ret = post_piece(client, last, &piece, batch->calls, plain);
	for (unsigned int i = 0; !ret && i < batch->calls; i++) {
		struct rpc_posted *posted = posted_at(client, last->place.sequence - i);

		posted->pieces = 1;
		posted->pending = !plain;
	}
	return ret;
}

/* gather -- posted calls into the batch; 0: the next one has to be written or sent alone */
static unsigned int gather(struct pmemrpc_client *client)
{
	struct rpc_batch *batch = &client->batch;
	uint64_t next;

	if (client->ring.cell)
		return 0;
	while ((next = client->pushed + batch->calls + 1) <= client->posted && !batch->closed) {
		const struct rpc_posted *posted = posted_at(client, next);

		if (!rpc_batch_join(batch, client->batch_max, client->ring.size,
				    posted->place.position, posted->argument_len))
			break;
	}
	return batch->calls;
}

/*
 * is_held -- calls that are not written yet wait for a commit, and not for room.  A reply may come
 * before its commit has completed: then there is nothing to wait for.
 */
static bool is_held(const struct pmemrpc_client *client)
{
	return client->batch.calls && !client->batch.closed && client->commits &&
	       client->executed < client->pushed;
}

/*
 * push -- post what is not posted yet, and not held back; 0 also if there is no room now.  Nothing
 * overtakes the READY of a connection: before that the server has no place for calls
 */
static int push(struct pmemrpc_client *client)
{
	while (client->connected && client->pushed < client->posted) {
		unsigned int held = gather(client), calls = held ? held : 1;
		struct rpc_posted *last = posted_at(client, client->pushed + calls);
		int ret;

		if (is_held(client))
			return 0;
		ret = held                ? post_batch(client, last)
		      : client->ring.cell ? rpc_send_entry(client, last)
					  : post_pieces(client, last);
		if (ret)
			return ret == -FI_EAGAIN ? 0 : ret;
		last->covers = calls;
		client->pushed += calls;
		client->commits += last->pending;
		client->flushes += last->pending;
		client->batch = (struct rpc_batch){0};
	}
	return 0;
}

/* committed -- a commit has completed: its calls are durable */
static void committed(struct pmemrpc_client *client, const struct rpc_posted *last)
{
	uint64_t sequence = last->place.sequence;

	for (unsigned int i = 0; i < last->covers; i++)
		posted_at(client, sequence - i)->pending = false;
	client->commits--;
	client->fruitless = 0;
	rpc_client_free(client);
	rpc_client_durable(client, sequence);
}

void rpc_client_unsent(struct pmemrpc_client *client)
{
	client->batch = (struct rpc_batch){0};
	client->commits = 0;
}

void rpc_client_pace(struct pmemrpc_client *client, uint64_t pace)
{
	unsigned int calls = pace < client->window ? (unsigned int) pace : 0;

	if (calls == client->pace)
		return;
	client->paced += !client->pace;
	client->pace = calls;
	if (client->attr.paced)
		client->attr.paced(calls, client->attr.context);
}

/* is_full -- the window, or the number that the server allows now, is used up */
static bool is_full(const struct pmemrpc_client *client)
{
	return client->posted - client->freed >= client->window ||
	       (client->pace && client->posted - client->executed >= client->pace);
}

/* breaks -- does an entry that ends there overwrite one that a server finds after a crash? */
static bool breaks(const struct pmemrpc_client *client, uint64_t end)
{
	return end - client->kept_position > client->ring.size;
}

/* lose -- the connection is lost; pmemrpc_reconnect makes another one */
static int lose(struct pmemrpc_client *client, const char *what, int ret)
{
	explain_call(&client->error, what, ret);
	client->connected = false;
	return -FI_ENOTCONN;
}

/*
 * push_or_lose -- 0, or the connection is lost.  What the provider does not do for this server it
 * won't do on the next connection either: pmemrpc_reconnect says so.
 */
static int push_or_lose(struct pmemrpc_client *client)
{
	int ret = push(client);

	if (ret == -FI_EOPNOTSUPP)
		client->refused = ret;
	return ret ? lose(client, "connection", ret) : 0;
}

int pmemrpc_post(struct pmemrpc_client *client, struct pmemrpc_call *call)
{
	struct rpc_place place = client->next;
	struct rpc_posted *posted;
	bool plain;
	size_t len;

	if (call->state == PMEMRPC_POSTED || call->state == PMEMRPC_DURABLE)
		return explain(&client->error, -FI_EBUSY, "the call is under way already");
	if (call->argument_len > rpc_argument_max(&client->ring))
		return explain(&client->error, -FI_EMSGSIZE,
			       "the argument has %zu bytes, and the %s has room for %zu",
			       call->argument_len, client->ring.cell ? "cell" : "ring",
			       rpc_argument_max(&client->ring));
	if (!client->connected)
		return -FI_ENOTCONN;
	/* Replies of an earlier life need their places at the server as those of calls do. */
	if (client->missed_from)
		return -FI_EAGAIN;
	len = rpc_footprint(&client->ring, call->argument_len);
	if (is_full(client) || place.position + len - client->tail > client->ring.size)
		return -FI_EAGAIN;
	plain = call->reply_only && client->in_order;
	if (breaks(client, place.position + len)) {
		if (client->committed > client->executed || !client->in_order)
			return -FI_EAGAIN;
		plain = true;
	}
	rpc_ring_write(&client->ring, place, call->op,
		       (uint32_t) (client->posted - client->executed), call->argument,
		       call->argument_len);
	posted = posted_at(client, place.sequence);
	*posted = (struct rpc_posted){.kind = RPC_COMMIT,
				      .call = call,
				      .place = place,
				      .argument_len = call->argument_len,
				      .plain = plain};
	call->sequence = place.sequence;
	call->state = PMEMRPC_POSTED;
	client->posted = place.sequence;
	if (!plain)
		client->committed = place.sequence;
	client->next.sequence++;
	client->next.position += len;
	/* The call is accepted: if this fails it is sent when the client is connected again. */
	push_or_lose(client);
	return 0;
}

void rpc_client_free(struct pmemrpc_client *client)
{
	while (client->freed < client->executed) {
		struct rpc_posted *posted = posted_at(client, client->freed + 1);

		if (posted->pending)
			return;
		client->tail =
			posted->place.position + rpc_footprint(&client->ring, posted->argument_len);
		client->freed++;
	}
}

/* take_missed -- a reply to a call that this client made before it was started again */
static void take_missed(struct pmemrpc_client *client, struct pmemrpc_call *call, void *data)
{
	call->reply = data;
	call->reply_size = call->reply_len;
	call->state = PMEMRPC_EXECUTED;
	if (client->attr.missed)
		client->attr.missed(call, client->attr.context);
}

/* is_reply -- is it one of the three messages that stand for one, and whole? */
static bool is_reply(const struct rpc_reply_message *message, size_t len)
{
	uint32_t type;

	if (len < sizeof(*message) || le32toh(message->len) != len - sizeof(*message))
		return false;
	type = le32toh(message->type);
	return type == RPC_MSG_REPLY || type == RPC_MSG_READ || type == RPC_MSG_GONE;
}

/* take_reply -- a message from the server, which may say anything */
static int take_reply(struct pmemrpc_client *client, const struct rpc_buffer *buffer, size_t len)
{
	const struct rpc_reply_message *message = buffer->data;
	char *data = (char *) buffer->data + sizeof(*message);
	struct rpc_posted *posted;
	struct pmemrpc_call *call, missed;
	uint32_t type = le32toh(message->type);
	uint64_t sequence;

	if (!is_reply(message, len))
		return -EPROTO;
	sequence = le64toh(message->sequence);
	if (client->missed_from && sequence == client->missed_from) {
		missed = (struct pmemrpc_call){.sequence = sequence,
					       .status = (int) le32toh((uint32_t) message->status),
					       .reply_len = len - sizeof(*message)};
		client->missed_from = sequence < client->missed_to ? sequence + 1 : 0;
		rpc_client_pace(client, le32toh(message->pace));
		if (type != RPC_MSG_GONE)
			take_missed(client, &missed, data);
		return 0;
	}
	if (type == RPC_MSG_GONE || sequence != client->executed + 1 || sequence > client->pushed)
		return -EPROTO;
	rpc_client_durable(client, sequence);
	posted = posted_at(client, sequence);
	call = posted->call;
	call->status = (int) le32toh((uint32_t) message->status);
	call->reply_len = len - sizeof(*message);
	if (call->reply_size)
		memcpy(call->reply, data,
		       call->reply_len < call->reply_size ? call->reply_len : call->reply_size);
	client->executed = sequence;
	client->fruitless = 0;
	if (type == RPC_MSG_REPLY && sequence > client->kept) {
		client->kept = sequence;
		client->kept_position =
			posted->place.position + rpc_footprint(&client->ring, posted->argument_len);
	}
	rpc_client_free(client);
	rpc_client_pace(client, le32toh(message->pace));
	set_state(call, PMEMRPC_EXECUTED);
	return 0;
}

/* take -- one completion */
static int take(struct pmemrpc_client *client, const struct fi_cq_data_entry *entry)
{
	enum rpc_kind *kind = entry->op_context;
	struct rpc_buffer *buffer = entry->op_context;
	struct rpc_posted *posted = entry->op_context;
	int ret;

	/* A server writes nothing here. */
	if (!kind || (entry->flags & FI_REMOTE_CQ_DATA))
		return -EPROTO;
	switch (*kind) {
	case RPC_COMMIT:
		committed(client, posted);
		return 0;
	case RPC_SEND:
		rpc_buffer_sent(buffer);
		return 0;
	default:
		break;
	}
	client->greeted = buffer->set == &client->handshake;
	if (client->greeted || client->forgetting) {
		client->greeted = true;
		memset(&client->welcome, 0, sizeof(client->welcome));
		memcpy(&client->welcome, buffer->data,
		       entry->len < sizeof(client->welcome) ? entry->len : sizeof(client->welcome));
		return 0;
	}
	ret = take_reply(client, buffer, entry->len);
	return ret ? ret : rpc_buffer_receive(buffer);
}

/* waits_for_room -- something was not posted, and waits only for room */
static bool waits_for_room(const struct pmemrpc_client *client)
{
	return client->connected && client->pushed < client->posted && !is_held(client);
}

/* is_over -- does the event queue say that the connection has ended, or was not made? */
static bool is_over(struct pmemrpc_client *client)
{
	struct fi_eq_err_entry err = {0};
	struct rpc_event event;
	ssize_t ret = fi_eq_read(client->eq, &event.type, event.room, sizeof(event.room), 0);

	if (ret == -FI_EAVAIL) {
		fi_eq_readerr(client->eq, &err, 0);
		return true;
	}
	return ret != -FI_EAGAIN && ret != -FI_EINTR;
}

/* is_loss -- it has ended with the connection, perhaps since the server's machine is silent */
static bool is_loss(int err)
{
	return err == FI_ECANCELED || err == FI_ETIMEDOUT;
}

/* poll_queue -- rpc_client_poll; hears: it looks at the event queue, too, which takes a call */
static int poll_queue(struct pmemrpc_client *client, int timeout_ms, bool hears)
{
	struct fi_cq_data_entry entries[ENTRIES];
	struct fi_cq_err_entry err = {0};
	ssize_t count;
	int ret = push_or_lose(client);

	if (ret)
		return ret;
	if (hears)
		client->over |= is_over(client);
	if (timeout_ms && !client->over)
		/* Nobody tells of room. */
		count = fi_cq_sread(client->link.cq, entries, ENTRIES, NULL,
				    waits_for_room(client) ? 1 : timeout_ms);
	else
		count = fi_cq_read(client->link.cq, entries, ENTRIES);
	if (count == -FI_EAVAIL && fi_cq_readerr(client->link.cq, &err, 0) > 0)
		return lose(client, "connection", is_loss(err.err) ? -FI_ENOTCONN : -err.err);
	for (ssize_t i = 0; i < count; i++) {
		ret = take(client, &entries[i]);
		if (ret)
			return lose(client, "what the server says", ret);
	}
	/* What these commits have held back goes now, though the caller may not come again soon. */
	if (count > 0)
		ret = push_or_lose(client);
	if (ret)
		return ret;
	/* What has arrived before the end counts, so that is read first. */
	if (count <= 0 && client->over)
		return lose(client, "connection", -FI_ENOTCONN);
	return count > 0 ? (int) count : 0;
}

int rpc_client_poll(struct pmemrpc_client *client, int timeout_ms)
{
	return poll_queue(client, timeout_ms, true);
}

/*
 * take_rest -- what is behind so many entries.  If there was room for more, another look would most
 * often find nothing, and hold up the caller's next call: over tcp it takes a system call.  The
 * next look finds what there is, and who wants to sleep asks pmemrpc_trywait first.
 */
static int take_rest(struct pmemrpc_client *client, int ret)
{
	while (ret == ENTRIES)
		ret = poll_queue(client, 0, false);
	return ret < 0 ? ret : 0;
}

int pmemrpc_progress(struct pmemrpc_client *client)
{
	if (!client->connected)
		return -FI_ENOTCONN;
	return take_rest(client, rpc_client_poll(client, 0));
}

/*
 * look_or_sleep -- poll; if nothing comes, and it has looked for long enough, sleep until there is
 * something.  Returns as rpc_client_poll.
 */
static int look_or_sleep(struct pmemrpc_client *client, int64_t left_ms)
{
	bool spins = left_ms <= 0 || rpc_spin_again(&client->spin, rpc_now_ns());
	int timeout_ms = left_ms < SLEEP_MS ? (int) left_ms : SLEEP_MS;
	int ret = poll_queue(client, spins ? 0 : timeout_ms,
			     !spins || left_ms <= 0 || client->spin.looks % LOOKS == 0);

	if (ret > 0)
		rpc_spin_busy(&client->spin, rpc_now_ns());
	else if (!ret && spins && left_ms > 0 && rpc_spin_yields(&client->spin))
		sched_yield();
	return ret;
}

int pmemrpc_wait(struct pmemrpc_client *client, const struct pmemrpc_call *call,
		 enum pmemrpc_state state, int timeout_ms)
{
	int64_t end = rpc_now_ms() + timeout_ms;

	if (call->state == PMEMRPC_IDLE)
		return -FI_EINVAL;
	client->spin.idle_ns = 0;
	while (call->state < state) {
		int64_t left = end - rpc_now_ms();
		int ret;

		if (!client->connected)
			return -FI_ENOTCONN;
		ret = look_or_sleep(client, left);
		if (ret < 0)
			return ret;
		if (!ret && left <= 0)
			return explain(&client->error, -FI_ETIMEDOUT, "the server has not %s",
				       state == PMEMRPC_DURABLE ? "made the call durable in time"
								: "replied in time");
	}
	return 0;
}

int pmemrpc_rest(struct pmemrpc_client *client, int timeout_ms)
{
	int64_t end = rpc_now_ms() + timeout_ms, left;
	int ret;

	client->spin.idle_ns = 0;
	do {
		if (!client->connected)
			return -FI_ENOTCONN;
		left = end - rpc_now_ms();
		ret = look_or_sleep(client, left);
	} while (!ret && left > 0);
	return take_rest(client, ret);
}

int pmemrpc_fd(const struct pmemrpc_client *client)
{
	return client->epoll_fd;
}

int pmemrpc_trywait(struct pmemrpc_client *client)
{
	struct fid *fids[2];

	if (!client->connected)
		return -FI_ENOTCONN;
	if (waits_for_room(client) || client->over)
		return -FI_EAGAIN;
	fids[0] = &client->link.cq->fid;
	fids[1] = &client->eq->fid;
	return fi_trywait(client->fabric, fids, 2);
}

void pmemrpc_get_limits(const struct pmemrpc_client *client, struct pmemrpc_limits *limits)
{
	*limits = (struct pmemrpc_limits){.argument_max = rpc_argument_max(&client->ring),
					  .reply_max = client->reply_max,
					  .window = client->window,
					  .executed = client->executed,
					  .durable = client->durable,
					  .posted = client->posted,
					  .sent_again = client->sent_again,
					  .reconnects = client->reconnects,
					  .batch = client->batch_max,
					  .flushes = client->flushes,
					  .pace = client->pace,
					  .paced = client->paced,
					  .flush = client->flush};
	rpc_variant_commits(client, &limits->flushed_by_sender, &limits->flushed_by_receiver);
}

const char *pmemrpc_client_error(const struct pmemrpc_client *client)
{
	return client->error.text;
}
