/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fuzz_rpc_client.c -- a server that says anything to a client of libpmemrpc
 *
 * The real client; whenever it looks at its queues and finds nothing, the input says what comes:
 * WELCOME, REPLY and other messages with any lengths and sequences, completions, failures, events.
 * Whatever the server says, the client must
 *   - write to the ring that it was given, with that key, and nowhere else; what it has committed
 *     is the entry of the next call, valid and whole, and never lies where the entry of a call is
 * that waits for its reply or whose commit is under way,
 *   - call a call durable only when a commit of it or of a later one has completed, or the server
 *     has said so; and executed only with a reply to it,
 *   - take each call through its states in order, and never put more into its buffer than there is
 *     room for,
 *   - give each call back when it is closed, and leave nothing open.
 */
#include <stdlib.h>
#include <sys/types.h>

#include <xxhash.h>

#include <rdma/fi_ext_pmemverbs.h>

#include "client.h"
#include "criterion/criterion.h"
#include "input.h"
#include "net.h"

#define CALLS 12
#define MAX_POSTS 128
#define MAX_SAID 2048

struct entry {
	uint64_t position;
	size_t footprint;
	uint32_t op;
	size_t len;
	bool committed, completed, replied;
};

struct sent {
	uint64_t calls;    /* of a commit */
	uint64_t sequence; /* the last one */
};

struct scene {
	struct input input;
	uint64_t random;
	enum pmemrpc_transport transport;
	struct pmemrpc_client *client;
	struct pmemrpc_call calls[CALLS];
	/* As the first welcome has said. */
	bool begun;
	uint64_t base;
	uint64_t next_position;
	struct entry entries[MAX_POSTS]; /* of the call base + i */
	unsigned int posted;
	/* The connection, as the server has it. */
	unsigned int ep; /* its number */
	bool welcomed;
	struct rpc_welcome_message welcome;
	unsigned char *ring, *body;
	struct rpc_place next;
	struct sent sent[64];
	unsigned int num_sent;
	/* What was said of calls. */
	uint64_t durable;
	uint64_t said[MAX_SAID];
	unsigned int num_said;
	bool posts_again;
};

static struct scene scene;
static int64_t now;

ssize_t __wrap_getrandom(void *buf, size_t len, unsigned int flags);
int64_t __wrap_rpc_now_ms(void);
int64_t __wrap_rpc_now_ns(void);
int __wrap_usleep(useconds_t us);

ssize_t __wrap_getrandom(void *buf, size_t len, unsigned int flags)
{
	(void) flags;
	memset(buf, (int) scene.random, len);
	return (ssize_t) len;
}

/* Time passes only where somebody waits. */
int64_t __wrap_rpc_now_ms(void)
{
	return now++;
}

int64_t __wrap_rpc_now_ns(void)
{
	return __wrap_rpc_now_ms() * 1000000;
}

int __wrap_usleep(useconds_t us)
{
	now += us / 1000;
	return 0;
}

static struct entry *entry_of(uint64_t sequence)
{
	cr_assert(scene.begun && sequence - scene.base < scene.posted);
	return &scene.entries[sequence - scene.base];
}

/* What the client posts */

/* see_commit -- the next entry is there now */
static void see_commit(const struct testcore_request *request)
{
	struct rpc_ring ring = {.base = scene.ring,
				.size = le64toh(scene.welcome.ring),
				.key = le64toh(scene.welcome.check_key),
				.cell = le64toh(scene.welcome.cell)};
	struct entry *entry = entry_of(scene.next.sequence);
	size_t len = rpc_ring_read(&ring, scene.next, scene.body);
	uint32_t op;

	cr_assert(ring.cell || (request->flags & FI_REMOTE_CQ_DATA));
	cr_assert_eq(scene.next.position, entry->position);
	cr_assert_eq(len, entry->len + RPC_BODY_HEAD);
	memcpy(&op, scene.body, sizeof(op));
	cr_assert_eq(le32toh(op), entry->op);
	for (size_t i = 0; i < entry->len; i++)
		cr_assert_eq(scene.body[RPC_BODY_HEAD + i], (unsigned char) entry->op);
	/* What has no completion need not have one: then only a reply frees its place. */
	entry->committed = request->flags & FI_COMMIT_COMPLETE;
	entry->completed = false;
	scene.next.sequence++;
	scene.next.position += entry->footprint;
}

/* see_place -- nothing that is still needed is there */
static void see_place(uint64_t sequence)
{
	const struct entry *entry = entry_of(sequence);

	for (uint64_t i = scene.base; i < sequence; i++) {
		const struct entry *before = entry_of(i);

		if (!before->replied || (before->committed && !before->completed))
			cr_assert(entry->position + entry->footprint - before->position <=
				  le64toh(scene.welcome.ring));
	}
}

static void see_write(const struct testcore_request *request)
{
	uint64_t size = le64toh(scene.welcome.ring);
	uint64_t at = request->addr - le64toh(scene.welcome.ring_addr);

	cr_assert(scene.welcomed && scene.ring);
	cr_assert_eq(request->key, le64toh(scene.welcome.ring_mr_key));
	cr_assert(at <= size && request->rma_len <= size - at);
	cr_assert_eq(request->rma_len, request->len);
	see_place(scene.next.sequence);
	testcore_gather(request, (char *) scene.ring + at);
	/* The notice says how many calls are there with it. */
	cr_assert(!(request->flags & FI_COMMIT_COMPLETE) || (request->flags & FI_REMOTE_CQ_DATA));
	cr_assert(!(request->flags & FI_REMOTE_CQ_DATA) || request->data);
	for (uint64_t i = 0; (request->flags & FI_REMOTE_CQ_DATA) && i < request->data; i++) {
		see_place(scene.next.sequence);
		see_commit(request);
	}
}

/* see_sent -- an entry; the server has it in its next cell, which has to be free */
static void see_sent(const struct testcore_request *request)
{
	uint64_t size = le64toh(scene.welcome.ring), cell = le64toh(scene.welcome.cell);

	cr_assert(scene.welcomed && scene.ring && cell && request->len <= cell);
	see_place(scene.next.sequence);
	testcore_gather(request, (char *) scene.ring + scene.next.position % size);
	see_commit(request);
}

static void see(struct net_ep *ep, const struct testcore_request *request)
{
	bool commit = request->flags & FI_COMMIT_COMPLETE;
	bool entry = commit || *(const enum rpc_kind *) request->context == RPC_COMMIT;
	uint64_t before = scene.next.sequence;

	if (ep->number != scene.ep) {
		scene.ep = ep->number;
		scene.welcomed = false;
		scene.num_sent = 0;
		/* Of the last connection nothing is under way any more. */
		for (unsigned int i = 0; i < scene.posted; i++)
			scene.entries[i].committed = false;
	}
	if ((request->what & FI_SEND) && entry) {
		see_sent(request);
	} else if (request->what & FI_SEND) {
		const struct rpc_request_message *message = request->buf;

		cr_assert_eq(request->len, sizeof(*message));
		cr_assert_eq(le16toh(message->lowest), RPC_LOWEST);
		cr_assert_eq(le16toh(message->highest), RPC_HIGHEST);
	} else {
		see_write(request);
	}
	cr_assert(scene.num_sent < 64);
	scene.sent[scene.num_sent++] =
		(struct sent){commit ? scene.next.sequence - before : 0, scene.next.sequence - 1};
}

/* What the server says */

static void complete(struct net_ep *ep, int err)
{
	struct sent sent;

	if (!ep->num_transmits)
		return;
	sent = scene.sent[0];
	scene.num_sent--;
	memmove(scene.sent, scene.sent + 1, scene.num_sent * sizeof(sent));
	for (uint64_t i = 0; !err && i < sent.calls; i++)
		entry_of(sent.sequence - i)->completed = true;
	if (!err && sent.calls) {
		if (sent.sequence > scene.durable)
			scene.durable = sent.sequence;
	}
	net_complete(ep, err);
}

/* place_of -- where a call is, also one that was not made yet */
static uint64_t place_of(uint64_t sequence)
{
	return sequence - scene.base < scene.posted ? entry_of(sequence)->position
						    : scene.next_position;
}

static uint64_t odd(uint64_t value, unsigned int how, unsigned int bit)
{
	if (!(how & bit))
		return value;
	return how & 1 ? input_64(&scene.input) : value + (uint64_t) (int8_t) input_8(&scene.input);
}

static void make_welcome(struct rpc_welcome_message *message)
{
	unsigned int how = input_16(&scene.input);
	bool sends = scene.transport == PMEMRPC_SEND;
	uint64_t executed = scene.begun ? scene.base - 1 : how & 2 ? input_16(&scene.input) : 0;

	if (scene.begun) {
		executed = scene.client && scene.client->executed > scene.durable
				   ? scene.client->executed
				   : scene.durable;
		executed += how & 2 ? input_8(&scene.input) % 4 : 0;
	}
	*message = (struct rpc_welcome_message){
		.type = htole32((uint32_t) odd(RPC_MSG_WELCOME, how, 4)),
		.lowest = htole16((uint16_t) odd(RPC_LOWEST, how, 8)),
		.highest = htole16((uint16_t) odd(RPC_HIGHEST, how, 8)),
		.error = htole32((uint32_t) odd(0, how, 16)),
		.window = htole32((uint32_t) odd(3, how, 32)),
		.ring = htole64(odd(sends ? 384 : 320, how, 64)),
		.cell = htole64(odd(sends ? 128 : 0, how, 16384)),
		.ring_addr = htole64(odd(4096, how, 128)),
		.ring_mr_key = htole64(odd(7, how, 256)),
		.check_key = htole64(odd(scene.random, how, 512)),
		.reply_max = htole64(odd(24, how, 1024)),
		.executed = htole64(odd(executed, how, 2048)),
		.position = htole64(odd(place_of(executed + 1), how, 4096)),
	};
	if (how & 8192)
		input_copy(&scene.input, message->text, sizeof(message->text));
}

/* begin_ring -- the server has it as its WELCOME says, if a client can take that */
static void begin_ring(const void *data, size_t len)
{
	struct rpc_welcome_message *welcome = &scene.welcome;
	uint64_t size;

	scene.welcomed = true;
	memset(welcome, 0, sizeof(*welcome));
	memcpy(welcome, data, len < sizeof(*welcome) ? len : sizeof(*welcome));
	if (le32toh(welcome->type) != RPC_MSG_WELCOME)
		return;
	size = le64toh(welcome->ring);
	free(scene.ring);
	free(scene.body);
	scene.ring = size && size <= PMEMRPC_MAX_RING ? calloc(1, size) : NULL;
	scene.body = scene.ring ? malloc(size) : NULL;
	scene.next = (struct rpc_place){le64toh(welcome->executed) + 1, le64toh(welcome->position)};
	if (le64toh(welcome->executed) > scene.durable || !scene.begun)
		scene.durable = le64toh(welcome->executed);
}

static void deliver(struct net_ep *ep, const void *data, size_t len)
{
	const struct rpc_reply_message *reply = data;

	if (ep->number != scene.ep || !ep->num_receives)
		return;
	if (!scene.welcomed) {
		begin_ring(data, len);
	} else if (len >= sizeof(*reply) && (le32toh(reply->type) == RPC_MSG_REPLY ||
					     le32toh(reply->type) == RPC_MSG_READ)) {
		cr_assert(scene.num_said < MAX_SAID);
		scene.said[scene.num_said++] = le64toh(reply->sequence);
	}
	net_deliver(ep, data, len);
}

static void send_reply(struct net_ep *ep)
{
	unsigned int how = input_8(&scene.input);
	size_t len = input_8(&scene.input) % 48;
	struct {
		struct rpc_reply_message head;
		char data[256];
	} message;
	uint64_t sequence = scene.client ? scene.client->executed + 1 : 1;
	uint32_t status = input_8(&scene.input), type = RPC_MSG_REPLY;

	if (scene.client && scene.client->missed_from)
		sequence = scene.client->missed_from;
	if (status & 3)
		type = status & 1 ? RPC_MSG_READ : RPC_MSG_GONE;
	memset(message.data, 'r', sizeof(message.data));
	message.head = (struct rpc_reply_message){
		.type = htole32((uint32_t) odd(type, how, 4)),
		.status = (int32_t) htole32(status),
		.sequence = htole64(odd(sequence, how, 8)),
		.len = htole32((uint32_t) odd(len, how, 16)),
		.pace = htole32(how & 128 ? input_8(&scene.input) : 0),
	};
	if (how & 32)
		len = input_8(&scene.input);
	deliver(ep, &message, how & 64 ? len % sizeof(message.head) : sizeof(message.head) + len);
}

static void send_anything(struct net_ep *ep)
{
	unsigned char bytes[256];
	size_t len = input_8(&scene.input);

	input_copy(&scene.input, bytes, len);
	memset(bytes + len, 0, sizeof(bytes) - len);
	deliver(ep, bytes, len);
}

/* happen -- what the client finds when it looks */
static void happen(int timeout_ms)
{
	struct net_ep *ep = net.eps;
	struct rpc_welcome_message welcome;
	unsigned char bytes[RPC_TEXT + 16];
	uint8_t what = input_8(&scene.input);

	now += timeout_ms;
	if (!ep)
		return;
	switch (what % 12) {
	case 1:
	case 2:
		make_welcome(&welcome);
		deliver(ep, &welcome,
			what & 128 ? input_8(&scene.input) % 200 % sizeof(welcome)
				   : sizeof(welcome));
		break;
	case 3:
	case 4:
	case 5:
		send_reply(ep);
		break;
	case 6:
	case 7:
		for (int i = what / 16; i >= 0; i--)
			complete(ep, 0);
		break;
	case 8:
		complete(ep, what & 128 ? FI_ECANCELED : FI_EIO);
		break;
	case 9:
		send_anything(ep);
		break;
	case 10:
		if (what & 128)
			net_notice(ep, 1, what & 64);
		else
			net_raise(net.eq, FI_SHUTDOWN, &ep->core.fid.fid, NULL, NULL, 0);
		break;
	case 11:
		input_copy(&scene.input, bytes, sizeof(bytes));
		net_fail(net.eq, &ep->core.fid.fid, bytes, what / 16 * 7);
		break;
	default:
		break;
	}
}

/* What the application does */

static bool was_said(uint64_t sequence)
{
	for (unsigned int i = 0; i < scene.num_said; i++) {
		if (scene.said[i] == sequence)
			return true;
	}
	return false;
}

static void post(struct pmemrpc_client *client, struct pmemrpc_call *call);

/* As the first byte of its reply buffer's context: how far a call has come. */
static void notify(struct pmemrpc_call *call)
{
	enum pmemrpc_state *before = call->context;

	cr_assert(call->state == PMEMRPC_DURABLE || call->state == PMEMRPC_EXECUTED);
	cr_assert(call->state == *before + 1);
	*before = call->state;
	if (call->state == PMEMRPC_DURABLE) {
		cr_assert(call->sequence <= scene.durable || was_said(call->sequence));
		return;
	}
	cr_assert(was_said(call->sequence));
	entry_of(call->sequence)->replied = true;
	if (scene.posts_again && scene.client)
		post(scene.client, call);
}

static void free_call(struct pmemrpc_call *call)
{
	free(call->context);
	free(call->reply);
	*call = (struct pmemrpc_call){0};
}

static void post(struct pmemrpc_client *client, struct pmemrpc_call *call)
{
	static unsigned char argument[2048];
	uint32_t op = input_8(&scene.input);
	size_t len = input_16(&scene.input) % sizeof(argument), reply_size = op % 40;
	enum pmemrpc_state *state;
	bool under_way = call->state == PMEMRPC_POSTED || call->state == PMEMRPC_DURABLE;
	int ret;

	if (scene.posted == MAX_POSTS || under_way)
		return;
	if (!scene.begun)
		scene.base = client->next.sequence;
	scene.begun = true;
	len = op & 128 ? len : len % 64;
	free_call(call);
	memset(argument, (int) op, len);
	state = malloc(sizeof(*state));
	*call = (struct pmemrpc_call){.op = op,
				      .argument = argument,
				      .argument_len = len,
				      .reply = reply_size ? malloc(reply_size) : NULL,
				      .reply_size = reply_size,
				      .notify = notify,
				      .reply_only = op & 64,
				      .context = state};
	*state = PMEMRPC_POSTED;
	/* Before it is posted: the writes are seen meanwhile. */
	scene.entries[scene.posted++] =
		(struct entry){.position = client->next.position,
			       .footprint = rpc_footprint(&scene.client->ring, len),
			       .op = op,
			       .len = len};
	ret = pmemrpc_post(client, call);
	if (ret) {
		scene.posted--;
		cr_assert(ret == -FI_EAGAIN || ret == -FI_EMSGSIZE || ret == -FI_ENOTCONN);
		return;
	}
	cr_assert_eq(call->sequence, scene.base + scene.posted - 1);
	scene.next_position = client->next.position;
}

static void check_limits(const struct pmemrpc_client *client)
{
	struct pmemrpc_limits limits;

	pmemrpc_get_limits(client, &limits);
	cr_assert(limits.executed <= limits.durable && limits.durable <= limits.posted);
	cr_assert(limits.posted - limits.executed <= limits.window);
}

static void missed(const struct pmemrpc_call *call, void *context)
{
	(void) context;
	cr_assert(was_said(call->sequence));
	/* All of it is there. */
	XXH3_64bits(call->reply, call->reply_len);
}

static void act(void)
{
	struct pmemrpc_client *client = scene.client;
	uint8_t what = input_8(&scene.input);
	struct pmemrpc_call *call = &scene.calls[what / 16 % CALLS];

	switch (what % 16) {
	case 0:
	case 1:
	case 2:
	case 3:
	case 4:
		post(client, call);
		break;
	case 5:
		pmemrpc_wait(client, call, PMEMRPC_DURABLE, what);
		break;
	case 6:
		pmemrpc_wait(client, call, PMEMRPC_EXECUTED, what);
		break;
	case 7:
	case 8:
		pmemrpc_reconnect(client, what);
		break;
	case 9:
		net.room = what / 16;
		break;
	case 10:
		scene.posts_again = what & 128;
		break;
	case 11:
		if (client->executed == client->posted && !client->missed_from) {
			scene.client = NULL;
			pmemrpc_forget(client, what);
			return;
		}
		break;
	case 12:
		pmemrpc_trywait(client);
		break;
	default:
		pmemrpc_progress(client);
	}
	check_limits(client);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct pmemrpc_client_attr attr = {
		.node = "there", .service = "1", .missed = missed, .timeout_ms = 1000};
	char error[256];
	uint8_t how;

	scene = (struct scene){
		.input = {data, size}, .random = XXH3_64bits(data, size), .ep = UINT32_MAX};
	net = (struct net){.room = 16,
			   .on_transmit = see,
			   .on_idle = happen,
			   .relaxed = data && size && *data & 64};
	now = 0;
	how = input_8(&scene.input);
	attr.replies_from = how % 8;
	attr.transport = scene.transport = how & 8 ? PMEMRPC_SEND : PMEMRPC_WRITE;
	attr.argument_max = how & 16 ? 100 : 0;
	attr.flush = (enum pmemrpc_flush)(how / 32 % 3);
	net.method = how & 128 ? FI_PMEMVERBS_AGENT : FI_PMEMVERBS_READ;
	if (!pmemrpc_connect(&attr, &scene.client, error, sizeof(error))) {
		scene.next_position = scene.client->next.position;
		scene.base = scene.client->next.sequence;
		scene.begun = true;
		while (scene.client && scene.input.left)
			act();
		if (scene.client)
			pmemrpc_close(scene.client);
	}
	cr_assert(!net.eps && !net.objects);
	for (size_t i = 0; i < CALLS; i++)
		free_call(&scene.calls[i]);
	free(scene.ring);
	free(scene.body);
	return 0;
}
