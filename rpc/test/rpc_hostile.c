/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * rpc_hostile.c -- a client that means ill
 *
 * It connects as a client does, gets a ring of its own, and then does something that no client
 * does.  Each time the server has to end the connection, and to go on for the others.  In the end
 * it sends more than the server has room for, but good calls: these are executed.
 */
#include <argp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "client.h"

#ifdef HAVE_CONFIG_H
#include "config.h"
#else
#define PACKAGE_VERSION "(unknown version)"
#endif

const char *argp_program_version = "rpc_hostile of pmemverbs " PACKAGE_VERSION;

#define WAIT_MS 60000
#define FLOOD 64U

enum attack {
	RANDOM_ENTRY,    /* random bytes in the ring, and a notice */
	LONG_ENTRY,      /* an entry that says that it is longer than the ring */
	WRONG_KEY,       /* a good entry, sealed with the last connection's key */
	LATER_ENTRY,     /* a good entry with a later sequence */
	NOTHING,         /* a notice, and no entry */
	RANDOM_MESSAGE,  /* a message that is none */
	SECOND_GREETING, /* another ring, please */
	TWICE,           /* two processes with one identity: the later one has the ring */
	BEYOND_RING,     /* a write behind the ring */
	NO_CALLS,        /* a good entry, and a notice of no calls */
	MANY_CALLS,      /* a notice of more calls than the window has */
	MORE_CALLS,      /* a good entry, and a notice of two */
	/* By clients that send. */
	RANDOM_SENT,    /* random bytes in a cell */
	LONG_SENT,      /* more bytes than a cell has */
	WRONG_KEY_SENT, /* as the written ones */
	LATER_SENT,
	MESSAGE_SENT,   /* a message that other clients may send */
	IMMEDIATE_SENT, /* with a notice, as of what was written */
	ATTACKS
};

static const char *const names[ATTACKS] = {"random bytes",
					   "an entry longer than the ring",
					   "a wrong key",
					   "a later sequence",
					   "a notice without an entry",
					   "a random message",
					   "a second greeting",
					   "an older connection",
					   "a write behind the ring",
					   "a notice of no calls",
					   "a notice of too many calls",
					   "a notice of two calls, and one is there",
					   "random bytes, sent",
					   "a message longer than its cell",
					   "a wrong key, sent",
					   "a later sequence, sent",
					   "a request in a cell",
					   "a notice, sent"};

static int die(const char *what)
{
	fprintf(stderr, "rpc_hostile: %s\n", what);
	exit(EXIT_FAILURE);
}

/* write_bytes -- write these bytes, and tell the server that they are so many calls */
static void write_bytes(struct pmemrpc_client *client, size_t offset, size_t from, size_t len,
			uint64_t calls)
{
	static enum rpc_kind kind = RPC_COMMIT;
	void *desc = fi_mr_desc(client->mirror_mr);
	struct iovec iov = {.iov_base = client->ring.base + from, .iov_len = len};
	struct fi_rma_iov rma = {
		.addr = client->ring_addr + offset, .len = len, .key = client->ring_mr_key};
	struct fi_msg_rma msg = {.msg_iov = &iov,
				 .desc = &desc,
				 .iov_count = 1,
				 .rma_iov = &rma,
				 .rma_iov_count = 1,
				 .context = &kind,
				 .data = calls};
	ssize_t ret;

	while ((ret = fi_writemsg(client->link.ep, &msg, FI_COMMIT_COMPLETE | FI_REMOTE_CQ_DATA)) ==
	       -FI_EAGAIN)
		rpc_client_poll(client, 1);
	if (ret)
		die("the write was not posted");
}

/* send_bytes -- send these bytes of the ring's copy */
static void send_bytes(struct pmemrpc_client *client, size_t from, size_t len, uint64_t flags)
{
	static enum rpc_kind kind = RPC_COMMIT;
	void *desc = fi_mr_desc(client->mirror_mr);
	struct iovec iov = {.iov_base = client->ring.base + from, .iov_len = len};
	struct fi_msg msg = {.msg_iov = &iov, .desc = &desc, .iov_count = 1, .context = &kind};
	ssize_t ret;

	while ((ret = fi_sendmsg(client->link.ep, &msg, flags)) == -FI_EAGAIN)
		rpc_client_poll(client, 1);
	if (ret)
		die("the message was not posted");
}

/* attack_by_message -- what comes first in the ring's copy is an attack already */
static void attack_by_message(struct pmemrpc_client *client, enum attack kind)
{
	size_t cell = client->ring.cell, from = client->next.position % client->ring.size;
	uint32_t forget = htole32(RPC_MSG_FORGET);

	switch (kind) {
	case WRONG_KEY_SENT:
	case LATER_SENT:
		send_bytes(client, from, 64, FI_COMMIT_COMPLETE);
		break;
	case LONG_SENT:
		send_bytes(client, 0, cell + 1, FI_COMMIT_COMPLETE);
		break;
	case MESSAGE_SENT:
		memcpy(client->ring.base, &forget, sizeof(forget));
		send_bytes(client, 0, sizeof(struct rpc_request_message), 0);
		break;
	default:
		send_bytes(client, 0, 64, kind == IMMEDIATE_SENT ? FI_REMOTE_CQ_DATA : 0);
	}
}

static void say(struct pmemrpc_client *client, const void *data, size_t len)
{
	struct rpc_buffer *buffer = rpc_buffers_unused(&client->handshake);

	if (!buffer)
		die("no room for a message");
	memcpy(buffer->data, data, len);
	while (rpc_buffer_send(buffer, len) == -FI_EAGAIN)
		rpc_client_poll(client, 1);
}

/* stay_away -- its identity is somebody else's now, who does not notice that it comes back */
static void stay_away(struct pmemrpc_client *client, struct pmemrpc_client *other)
{
	if (pmemrpc_reconnect(client, WAIT_MS) != -EUCLEAN)
		die("two processes use one identity");
	if (pmemrpc_forget(other, WAIT_MS))
		die("who came later has lost its ring");
}

/* attack -- returns another client that is there now, too, or NULL */
static struct pmemrpc_client *attack(struct pmemrpc_client *client, enum attack kind,
				     uint64_t last_key)
{
	struct rpc_ring *ring = &client->ring;
	struct rpc_place place = client->next;
	struct pmemrpc_client *other = NULL;
	char error[256];
	struct rpc_request_message message = {.type = htole32(RPC_MSG_HELLO),
					      .lowest = htole16(RPC_LOWEST),
					      .highest = htole16(RPC_HIGHEST)};

	if (getrandom(ring->base, 256, 0) != 256 || getrandom(message.id, 16, 0) != 16)
		die("no random numbers");
	switch (kind) {
	case LONG_ENTRY:
		*(uint64_t *) ring->base |= 0xffffff;
		break;
	case WRONG_KEY:
	case WRONG_KEY_SENT:
		ring->key = last_key;
		rpc_ring_write(ring, place, 1, 0, "", 0);
		break;
	case LATER_ENTRY:
	case LATER_SENT:
		place.sequence++;
		rpc_ring_write(ring, place, 1, 0, "", 0);
		break;
	case RANDOM_MESSAGE:
		say(client, ring->base, 64);
		return NULL;
	case SECOND_GREETING:
		say(client, &message, sizeof(message));
		return NULL;
	case TWICE:
		if (pmemrpc_connect(&client->attr, &other, error, sizeof(error)))
			die(error);
		return other;
	case BEYOND_RING:
		write_bytes(client, ring->size - 8, 0, 64, 1);
		return NULL;
	case NO_CALLS:
	case MANY_CALLS:
	case MORE_CALLS:
		rpc_ring_write(ring, place, 1, 0, "", 0);
		write_bytes(client, place.position % ring->size, place.position % ring->size, 16,
			    kind == NO_CALLS     ? 0
			    : kind == MANY_CALLS ? client->window + 1
						 : 2);
		return NULL;
	default:
		break;
	}
	if (kind >= RANDOM_SENT)
		attack_by_message(client, kind);
	else
		write_bytes(client, kind == NOTHING ? 128 : 0, 0, 64, 1);
	return NULL;
}

/* put_entry -- call number i of a flood, at a place of its own; returns it */
static size_t put_entry(struct pmemrpc_client *client, unsigned char *copy, uint64_t i)
{
	struct rpc_ring ring = client->ring;
	struct rpc_place place = {client->next.sequence + i, client->next.position + i * ring.cell};

	ring.base = copy;
	rpc_ring_write(&ring, place, 1, 0, "", 0);
	memcpy(client->ring.base + i * 64, copy + place.position % ring.size, 64);
	return i * 64;
}

/*
 * flood -- good calls, many more than there are cells, from a client that waits for nothing: each
 * has to wait until its cell is free
 */
static void flood(struct pmemrpc_client_attr *attr)
{
	struct pmemrpc_call call = {.state = PMEMRPC_IDLE};
	int64_t end = rpc_now_ms() + WAIT_MS;
	struct pmemrpc_client *client;
	unsigned char *copy;
	char error[256];

	attr->transport = PMEMRPC_SEND;
	attr->argument_max = 20000;
	if (pmemrpc_connect(attr, &client, error, sizeof(error)))
		die(error);
	copy = calloc(1, client->ring.size);
	if (!copy)
		die("no memory");
	for (unsigned int i = 0; i < client->window; i++)
		client->calls[i].call = &call;
	client->posted = client->pushed = client->executed + FLOOD;
	for (uint64_t i = 0; i < FLOOD; i++)
		send_bytes(client, put_entry(client, copy, i), 16, FI_COMMIT_COMPLETE);
	while (client->executed < client->posted) {
		if (rpc_client_poll(client, 100) < 0 || rpc_now_ms() > end)
			die("a call of a flood is lost");
	}
	printf("rpc_hostile: a flood: %u calls in %zu cells\n", FLOOD,
	       client->ring.size / client->ring.cell);
	free(copy);
	pmemrpc_close(client);
}

/* executed_before -- entries that are good, of the attacks before this one */
static unsigned int executed_before(enum attack kind)
{
	enum attack next = kind < RANDOM_SENT ? kind : RANDOM_SENT;

	return next > NO_CALLS ? next - NO_CALLS : 0;
}

/* try_attack -- as this kind says; ATTACKS: only look at what the last one has done */
static void try_attack(struct pmemrpc_client_attr *attr, enum attack kind, uint64_t *last_key)
{
	int64_t end = rpc_now_ms() + WAIT_MS;
	struct pmemrpc_client *client, *other;
	char error[256];
	uint64_t key;

	attr->transport = kind >= RANDOM_SENT ? PMEMRPC_SEND : PMEMRPC_WRITE;
	if (pmemrpc_connect(attr, &client, error, sizeof(error)))
		die(error);
	/* Entries that are good are executed, whatever was said of them. */
	if (client->executed != executed_before(kind))
		die("the server has executed what is no call, or has not what is one");
	if (kind == ATTACKS) {
		pmemrpc_close(client);
		return;
	}
	key = client->ring.key;
	other = attack(client, kind, *last_key);
	*last_key = key;
	while (rpc_client_poll(client, 100) >= 0) {
		if (rpc_now_ms() > end)
			die(names[kind]);
	}
	if (other)
		stay_away(client, other);
	printf("rpc_hostile: %s: %s\n", names[kind], pmemrpc_client_error(client));
	pmemrpc_close(client);
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct pmemrpc_client_attr *attr = state->input;

	if (key == ARGP_KEY_END && state->arg_num < 2)
		argp_error(state, "it needs HOST and PORT");
	if (key != ARGP_KEY_ARG || state->arg_num > 1)
		return ARGP_ERR_UNKNOWN;
	if (state->arg_num == 0)
		attr->node = arg;
	else
		attr->service = arg;
	return 0;
}

static const struct argp argp = {
	NULL,        parse,
	"HOST PORT", "Attack the server of libpmemrpc that listens there: do what no client does.",
	NULL,        NULL,
	NULL};

int main(int argc, char **argv)
{
	struct pmemrpc_client_attr attr = {.timeout_ms = WAIT_MS};
	uint64_t last_key = 0;

	argp_err_exit_status = 2;
	argp_parse(&argp, argc, argv, 0, NULL, &attr);
	if (getrandom(attr.id, sizeof(attr.id), 0) != sizeof(attr.id))
		die("no random numbers");
	for (enum attack kind = 0; kind <= ATTACKS; kind++)
		try_attack(&attr, kind, &last_key);
	flood(&attr);
	return EXIT_SUCCESS;
}
