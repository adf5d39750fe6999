/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * connect.c -- a client comes, comes back, and goes
 *
 * On each connection the server says which calls it has executed: all that were durable.  The key
 * of the ring's checksums is new.  So what the last connection has left in the ring, or still
 * leaves there, is not valid any more.  What the client sends again, it seals with the new key.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <unistd.h>

#include "client.h"

/* The pause between attempts, each of which opens a domain and more.  It is twice as long each
 * time. */
#define PAUSE_MS 20U
#define MAX_PAUSE_MS 320U

/* No server comes so far.  Sequences and positions count on from there, and don't wrap. */
#define MOST (UINT64_MAX / 2)

static void end_link(struct pmemrpc_client *client)
{
	client->connected = false;
	rpc_variant_end(client);
	rpc_link_end(&client->link);
	if (client->mirror_mr)
		fi_close(&client->mirror_mr->fid);
	client->mirror_mr = NULL;
	rpc_buffers_close(&client->handshake);
	rpc_buffers_close(&client->replies);
	rpc_link_close(&client->link);
	if (client->eq)
		fi_close(&client->eq->fid);
	client->eq = NULL;
}

/*
 * watch -- the client's descriptor becomes readable when this one does.  A descriptor that is
 * closed is not watched any more.
 */
static int watch(struct pmemrpc_client *client, struct fid *fid)
{
	struct epoll_event event = {.events = EPOLLIN};
	int fd, ret = fi_control(fid, FI_GETWAIT, &fd);

	if (ret)
		return explain_call(&client->error, "FI_GETWAIT", ret);
	if (epoll_ctl(client->epoll_fd, EPOLL_CTL_ADD, fd, &event) && errno != EEXIST)
		return explain_call(&client->error, "epoll_ctl", -errno);
	return 0;
}

static int begin_link(struct pmemrpc_client *client)
{
	struct fi_eq_attr attr = {.wait_obj = FI_WAIT_FD};
	int ret = fi_eq_open(client->fabric, &attr, &client->eq, NULL);

	if (ret)
		return explain_call(&client->error, "fi_eq_open", ret);
	ret = rpc_link_open(&client->link, client->fabric, client->eq, client->info, false,
			    &client->error);
	if (!ret)
		ret = watch(client, &client->eq->fid);
	if (!ret)
		ret = watch(client, &client->link.cq->fid);
	if (!ret)
		ret = rpc_buffers_open(&client->handshake, &client->link, 1, 3,
				       sizeof(struct rpc_welcome_message));
	return ret;
}

/*
 * is_crowded -- the server has no room, since it does not know yet that some connections are lost,
 * perhaps this client's own.  They end when others come back.
 */
static bool is_crowded(const struct fi_eq_err_entry *err)
{
	return err->err_data_size >= sizeof(RPC_CROWDED) &&
	       !memcmp(err->err_data, RPC_CROWDED, sizeof(RPC_CROWDED));
}

static int unreached(struct pmemrpc_client *client, ssize_t ret)
{
	return explain(&client->error, (int) ret, "no connection to %s, port %s: %s", client->node,
		       client->service, fi_strerror((int) -ret));
}

/* reach -- connect; -FI_ECONNREFUSED: nobody listens there, or the server has no room now */
static int reach(struct pmemrpc_client *client, int timeout_ms)
{
	struct fi_eq_err_entry err = {0};
	const struct rpc_connect_message message = {.magic = RPC_MAGIC,
						    .transport = (uint8_t) client->attr.transport};
	struct rpc_event event;
	ssize_t ret =
		fi_connect(client->link.ep, client->info->dest_addr, &message, sizeof(message));

	if (ret)
		return unreached(client, ret);
	do {
		ret = fi_eq_sread(client->eq, &event.type, event.room, sizeof(event.room),
				  timeout_ms, 0);
	} while (ret == -FI_EINTR);
	if (ret == -FI_EAVAIL && fi_eq_readerr(client->eq, &err, 0) > 0) {
		if (err.err_data_size && err.err_data_size < RPC_TEXT)
			return explain(&client->error,
				       is_crowded(&err) ? -FI_ECONNREFUSED : -FI_EACCES,
				       "the server refuses: %.*s", (int) err.err_data_size,
				       (const char *) err.err_data);
		/* tcp says other things of a peer that is not there, or goes away meanwhile. */
		return unreached(client, -FI_ECONNREFUSED);
	}
	if (ret == -FI_EAGAIN)
		return unreached(client, -FI_ETIMEDOUT);
	if (ret < 0 || event.type != FI_CONNECTED)
		return unreached(client, ret < 0 ? ret : -FI_ECONNREFUSED);
	return 0;
}

static int send_request(struct pmemrpc_client *client, uint32_t type, uint64_t from, int64_t end)
{
	struct rpc_buffer *buffer = rpc_buffers_unused(&client->handshake);
	struct rpc_request_message *message;
	int ret;

	if (!buffer)
		return explain_call(&client->error, "a message", -EPROTO);
	message = buffer->data;
	*message = (struct rpc_request_message){.type = htole32(type),
						.lowest = htole16(RPC_LOWEST),
						.highest = htole16(RPC_HIGHEST),
						.replies_from = htole64(from)};
	memcpy(message->id, client->attr.id, sizeof(message->id));
	message->process = htole64(client->process);
	message->resumes = htole64(client->lived);
	if (client->lived)
		rpc_client_resumes(client, message);
	message->in_order = htole64(client->in_order);
	message->argument_max = htole64(client->attr.argument_max);
	while ((ret = rpc_buffer_send(buffer, sizeof(*message))) == -FI_EAGAIN) {
		ret = rpc_client_poll(client, 1);
		if (ret < 0)
			return ret;
		if (rpc_now_ms() > end)
			return explain_call(&client->error, "the server", -FI_ETIMEDOUT);
	}
	return ret;
}

/* hear -- what the server answers */
static int hear(struct pmemrpc_client *client, uint32_t type, int64_t end)
{
	struct rpc_welcome_message *welcome = &client->welcome;

	while (!client->greeted) {
		int ret = rpc_client_poll(client, 100);

		if (ret < 0)
			return ret;
		if (rpc_now_ms() > end)
			return explain_call(&client->error, "the server", -FI_ETIMEDOUT);
	}
	if (le32toh(welcome->type) == RPC_MSG_REFUSED && le32toh(welcome->error) & 0xfff) {
		welcome->text[RPC_TEXT - 1] = 0;
		return explain(&client->error, -(int) (le32toh(welcome->error) & 0xfff),
			       "the server refuses: %s", welcome->text);
	}
	if (le32toh(welcome->type) != type || !rpc_version(welcome->lowest, welcome->highest))
		return explain_call(&client->error, "what the server says", -EPROTO);
	return 0;
}

/* are_cells -- if entries are sent: is the size right, and has each call of the window a cell? */
static bool are_cells(const struct pmemrpc_client *client, uint64_t cell, uint64_t size,
		      unsigned int window)
{
	if (client->attr.transport != PMEMRPC_SEND)
		return !cell;
	return cell && cell % RPC_ALIGN == 0 && size % cell == 0 && size / cell == window;
}

/* receive_len -- of a reply, or of what the server says when it forgets */
static size_t receive_len(size_t reply_max)
{
	size_t len = sizeof(struct rpc_reply_message) + reply_max;

	if (len < sizeof(struct rpc_welcome_message))
		len = sizeof(struct rpc_welcome_message);
	return rpc_buffer_len(len);
}

/* make_mirror -- on the first connection: make the copy of the ring, by the server's sizes */
static int make_mirror(struct pmemrpc_client *client)
{
	const struct rpc_welcome_message *welcome = &client->welcome;
	uint64_t size = le64toh(welcome->ring), reply_max = le64toh(welcome->reply_max);
	uint64_t cell = le64toh(welcome->cell), needed;
	unsigned int window = le32toh(welcome->window);
	/* Each reply needs a receive, and one more may be on its way to be used again. */
	unsigned int receives = (unsigned int) client->info->rx_attr->size;

	if (!size || size > PMEMRPC_MAX_RING || size % RPC_ALIGN || !window ||
	    window > PMEMRPC_MAX_WINDOW || reply_max > PMEMRPC_MAX_REPLY || receives < 3 ||
	    !are_cells(client, cell, size, window))
		return explain_call(&client->error, "what the server says", -EPROTO);
	client->window = window < receives - 2 ? window : receives - 2;
	needed = 2 * size + (client->window + 1) * receive_len(reply_max);
	if (client->attr.memory_max && needed > client->attr.memory_max)
		return explain(&client->error, -FI_E2BIG,
			       "the server's ring and replies need %llu bytes here: more than "
			       "memory_max, which is %zu",
			       (unsigned long long) needed, client->attr.memory_max);
	client->reply_max = reply_max;
	client->batch_max = rpc_batch_max(client->attr.batch, client->window);
	free(client->calls);
	client->calls = calloc(client->window, sizeof(*client->calls));
	client->mirror_len = 2 * size;
	client->ring.size = size;
	client->ring.cell = cell;
	client->ring.base = mmap(NULL, client->mirror_len, PROT_READ | PROT_WRITE,
				 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (client->ring.base == MAP_FAILED)
		client->ring.base = NULL;
	if (!client->calls || !client->ring.base)
		return explain_call(&client->error, "a copy of the ring", -FI_ENOMEM);
	return 0;
}

static struct rpc_posted *posted_at(struct pmemrpc_client *client, uint64_t sequence)
{
	return &client->calls[sequence % client->window];
}

/* begin -- a client that is new in this process */
static uint64_t begin(struct pmemrpc_client *client, uint64_t executed, uint64_t position)
{
	uint64_t from = client->attr.replies_from;
	uint64_t oldest = executed >= client->window ? executed - client->window + 1 : 1;

	client->next = (struct rpc_place){executed + 1, position};
	client->tail = position;
	client->posted = client->pushed = client->durable = client->executed = client->freed =
		client->kept = client->committed = executed;
	client->kept_position = position;
	client->missed_from = 0;
	if (!from || from > executed)
		return executed + 1;
	client->missed_from = from < oldest ? oldest : from;
	client->missed_to = executed;
	return client->missed_from;
}

void rpc_client_resumes(const struct pmemrpc_client *client, struct rpc_request_message *hello)
{
	struct rpc_place place = client->next;

	if (client->executed < client->posted)
		place = client->calls[(client->executed + 1) % client->window].place;
	hello->executed = htole64(client->executed);
	hello->position = htole64(place.position);
	/* What has a reply may have left nothing behind. */
	hello->durable =
		htole64(client->durable > client->executed ? client->durable : client->kept);
}

int rpc_client_resume(struct pmemrpc_client *client, uint64_t executed, uint64_t position,
		      uint64_t *from)
{
	struct rpc_place place = client->next;

	if (executed < client->durable || executed > client->posted)
		return explain(&client->error, -EUCLEAN,
			       "the server has executed %llu calls, and should have between %llu "
			       "and %llu: it has lost some, or another client has this identity",
			       (unsigned long long) executed, (unsigned long long) client->durable,
			       (unsigned long long) client->posted);
	if (executed < client->posted)
		place = posted_at(client, executed + 1)->place;
	if (place.position != position)
		return explain(&client->error, -EUCLEAN, "another client has used this identity");
	for (uint64_t i = client->freed + 1; i <= client->posted; i++) {
		struct rpc_posted *posted = posted_at(client, i);

		posted->pending = false;
		posted->plain &= client->in_order;
		if (i <= executed)
			continue;
		if (!posted->plain)
			client->committed = i;
		client->sent_again += posted->pieces != 0;
		posted->pieces = 0;
		rpc_ring_seal(&client->ring, posted->place, posted->argument_len);
	}
	client->pushed = executed;
	client->kept = executed;
	client->kept_position = position;
	/* Commits of the last connection won't complete any more: nothing else would free these. */
	rpc_client_free(client);
	*from = client->missed_from ? client->missed_from : client->executed + 1;
	return 0;
}

/*
 * decline -- the ring is not what was asked for: give it back if it has no calls.  The server's
 * answer changes nothing.
 */
static void decline(struct pmemrpc_client *client, int64_t end)
{
	const struct connection_error error = client->error;

	if (client->lived || client->welcome.executed ||
	    rpc_buffer_receive(&client->handshake.buffers[0]))
		return;
	client->greeted = false;
	if (!send_request(client, RPC_MSG_READY, 1, end) &&
	    !send_request(client, RPC_MSG_FORGET, 0, end))
		hear(client, RPC_MSG_FORGOTTEN, end);
	client->error = error;
}

/* settle -- the ring is this client's: take over what the server says, and say from where on */
static int settle(struct pmemrpc_client *client, int64_t end)
{
	const struct rpc_welcome_message *welcome = &client->welcome;
	uint64_t executed = le64toh(welcome->executed), position = le64toh(welcome->position);
	uint64_t from = 0;
	/* An attempt may have come so far, and failed later. */
	int ret = client->ring.base ? 0 : make_mirror(client);

	if (ret == -FI_E2BIG && client->attr.transport == PMEMRPC_WRITE)
		decline(client, end);
	if (ret)
		return ret;
	if (le64toh(welcome->ring) != client->ring.size ||
	    le64toh(welcome->cell) != client->ring.cell ||
	    le64toh(welcome->reply_max) != client->reply_max ||
	    le32toh(welcome->window) < client->window ||
	    position % (client->ring.cell ? client->ring.cell : RPC_ALIGN) || executed > MOST ||
	    position > MOST)
		return explain_call(&client->error, "what the server says", -EPROTO);
	client->ring.key = le64toh(welcome->check_key);
	client->ring_addr = le64toh(welcome->ring_addr);
	client->ring_mr_key = le64toh(welcome->ring_mr_key);
	/* Of messages that was known before. */
	ret = client->ring.cell ? 0 : rpc_variant_find(client);
	if (ret) {
		decline(client, end);
		return ret;
	}
	if (client->lived)
		ret = rpc_client_resume(client, executed, position, &from);
	else
		from = begin(client, executed, position);
	if (!ret)
		ret = rpc_link_register(&client->link, client->ring.base, client->ring.size,
					client->ring.cell ? FI_SEND : FI_WRITE, 0,
					&client->mirror_mr);
	if (!ret)
		ret = rpc_buffers_open(&client->replies, &client->link, client->window + 1, 0,
				       receive_len(client->reply_max));
	if (!ret)
		ret = send_request(client, RPC_MSG_READY, from, end);
	if (ret)
		return ret;
	client->lived = true;
	client->connected = true;
	rpc_client_pace(client, le64toh(welcome->pace));
	rpc_client_durable(client, executed);
	return 0;
}

/* attempt -- try once to connect */
static int attempt(struct pmemrpc_client *client, int64_t end)
{
	int64_t left = end - rpc_now_ms();
	int ret;

	end_link(client);
	client->over = client->greeted = client->forgetting = false;
	rpc_client_unsent(client);
	ret = begin_link(client);
	if (!ret)
		ret = reach(client, left > 0 ? (int) left : 0);
	if (!ret && client->attr.transport == PMEMRPC_SEND)
		ret = rpc_variant_find(client);
	if (!ret)
		ret = send_request(client, RPC_MSG_HELLO, 0, end);
	if (!ret)
		ret = hear(client, RPC_MSG_WELCOME, end);
	if (!ret)
		ret = settle(client, end);
	if (ret)
		end_link(client);
	return ret;
}

/*
 * take_pause -- since the last attempt, if so many behind one another were fruitless; no longer
 * than leaves time for the next one
 */
static void take_pause(const struct pmemrpc_client *client, unsigned int fruitless, int64_t end)
{
	int64_t now = rpc_now_ms(), pause_ms = PAUSE_MS;

	if (!fruitless)
		return;
	while (--fruitless && pause_ms < MAX_PAUSE_MS)
		pause_ms *= 2;
	pause_ms -= now - client->tried_ms;
	if (pause_ms > (end - now) / 2)
		pause_ms = (end - now) / 2 + 1;
	if (pause_ms > 0)
		usleep((useconds_t) pause_ms * 1000);
}

/*
 * keep_trying -- try again as long as nobody listens, or the server has no room.  A connection on
 * which nothing came of a call was fruitless, too: whatever has ended it may end the next one as
 * soon.  The first one may have had no calls.
 */
static int keep_trying(struct pmemrpc_client *client, int timeout_ms)
{
	unsigned int fruitless = client->fruitless ? client->fruitless - 1 : 0;
	int64_t end = rpc_now_ms() + timeout_ms;

	for (;; fruitless++) {
		int ret;

		take_pause(client, fruitless, end);
		ret = attempt(client, end);
		client->tried_ms = rpc_now_ms();
		client->fruitless += !ret;
		if ((ret != -FI_ECONNREFUSED && ret != -FI_ENOTCONN) || client->tried_ms >= end)
			return ret;
	}
}

static int copy_attr(struct pmemrpc_client *client, const struct pmemrpc_client_attr *attr)
{
	client->attr = *attr;
	client->node = strdup(attr->node);
	client->service = strdup(attr->service);
	client->provider = attr->provider ? strdup(attr->provider) : NULL;
	if (!client->node || !client->service || (attr->provider && !client->provider))
		return explain_call(&client->error, "memory", -FI_ENOMEM);
	return 0;
}

/*
 * decline_cells -- the cells are too large.  The request to be forgotten can't be sent into cells,
 * so connect as a client that writes, whose ring is no smaller.
 */
static void decline_cells(struct pmemrpc_client *client, int64_t end)
{
	const struct connection_error error = client->error;

	client->attr.transport = PMEMRPC_WRITE;
	attempt(client, end);
	client->error = error;
}

static int open_client(struct pmemrpc_client *client, const struct pmemrpc_client_attr *attr)
{
	int64_t end = rpc_now_ms() + attr->timeout_ms;
	int ret;

	if (!attr->node || !attr->service)
		return explain(&client->error, -FI_EINVAL, "node and service are needed");
	ret = copy_attr(client, attr);
	if (ret)
		return ret;
	if (getrandom(&client->process, sizeof(client->process), 0) != sizeof(client->process))
		return explain_call(&client->error, "random numbers", -FI_EIO);
	rpc_spin_open(&client->spin, attr->spin_us);
	client->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (client->epoll_fd < 0)
		return explain_call(&client->error, "epoll_create1", -errno);
	ret = rpc_find_provider(client->provider, false, client->node, client->service, 0,
				&client->info, &client->error);
	if (ret)
		return ret;
	ret = fi_fabric(client->info->fabric_attr, &client->fabric, NULL);
	if (ret)
		return explain_call(&client->error, "fi_fabric", ret);
	ret = keep_trying(client, attr->timeout_ms);
	if (ret == -FI_E2BIG && attr->transport == PMEMRPC_SEND)
		decline_cells(client, end);
	return ret;
}

int pmemrpc_connect(const struct pmemrpc_client_attr *attr, struct pmemrpc_client **client,
		    char *error, size_t size)
{
	struct pmemrpc_client *made = calloc(1, sizeof(*made));
	int ret = -FI_ENOMEM;

	*client = NULL;
	if (made) {
		made->epoll_fd = -1;
		ret = open_client(made, attr);
	}
	if (!ret) {
		*client = made;
		return 0;
	}
	if (size) {
		strncpy(error, made ? made->error.text : "no memory", size - 1);
		error[size - 1] = 0;
	}
	if (made)
		pmemrpc_close(made);
	return ret;
}

int pmemrpc_reconnect(struct pmemrpc_client *client, int timeout_ms)
{
	int ret = client->refused;

	client->refused = 0;
	if (ret)
		return explain(&client->error, ret,
			       "the provider refuses to make calls durable at this server");
	ret = keep_trying(client, timeout_ms);
	if (!ret)
		client->reconnects++;
	return ret;
}

void pmemrpc_close(struct pmemrpc_client *client)
{
	end_link(client);
	if (client->fabric)
		fi_close(&client->fabric->fid);
	fi_freeinfo(client->info);
	if (client->epoll_fd >= 0)
		close(client->epoll_fd);
	if (client->ring.base)
		munmap(client->ring.base, client->mirror_len);
	free(client->calls);
	free(client->node);
	free(client->service);
	free(client->provider);
	free(client);
}

/* become_writer -- connect again to be forgotten: that request can't be sent into cells */
static int become_writer(struct pmemrpc_client *client, int timeout_ms)
{
	end_link(client);
	munmap(client->ring.base, client->mirror_len);
	client->ring = (struct rpc_ring){0};
	/* No commit is under way any more. */
	client->freed = client->executed;
	client->tail = client->next.position;
	client->attr.transport = PMEMRPC_WRITE;
	client->attr.flush = PMEMRPC_FLUSH_ANY;
	return keep_trying(client, timeout_ms);
}

int pmemrpc_forget(struct pmemrpc_client *client, int timeout_ms)
{
	int64_t end = rpc_now_ms() + timeout_ms;
	int ret;

	if (client->executed < client->posted || client->missed_from)
		return explain(&client->error, -FI_EBUSY, "calls wait for their replies");
	ret = client->connected ? 0 : -FI_ENOTCONN;
	if (!ret && client->ring.cell)
		ret = become_writer(client, timeout_ms);
	client->greeted = false;
	client->forgetting = true;
	if (!ret)
		ret = send_request(client, RPC_MSG_FORGET, 0, end);
	if (!ret)
		ret = hear(client, RPC_MSG_FORGOTTEN, end);
	pmemrpc_close(client);
	/* What says that nothing was done, and that the client is there still, is not the server's.
	 */
	return ret == -FI_EBUSY ? -FI_EOTHER : ret;
}
