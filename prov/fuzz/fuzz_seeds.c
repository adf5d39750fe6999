/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fuzz_seeds.c -- the fuzzers' first inputs, made from what the provider itself sends
 *
 *	fuzz_seeds DIR
 *
 * An initiator and a target commit in all ways.  What passes between them is written as actions of
 * each fuzzer, into a folder for each below DIR.
 */
#include "peer.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "agent/agent.h"
#include "auth/admission.h"
#include "objects/ep.h"
#include "pmemverbs/test/support/dice.h"

/* The numbers of the actions, as the fuzzers know them. */
enum {
	REQUEST_SEND = 0,
	REQUEST_SERVE = 2,
	REQUEST_WRITE = 3,
	REQUEST_POST = 5,
	REQUEST_RECEIVE = 6
};
enum { REQUEST_READ = 9, REQUEST_BYTES = 8 };
enum { ACK_CALL = 0, ACK_ANSWER = 3, ACK_COMPLETE = 5, ACK_READ = 9 };
enum { ACK_SEND = 1, ACK_FETCH = 2, ACK_PUT = 3 };
enum { CONNECT_REQUEST = 0, CONNECT_CONNECTED = 1, CONNECT_ACCEPT = 3, CONNECT_COMPLETE = 5 };
enum { CONNECT_READ = 6, CONNECT_CALL = 7 };
enum { TICKET_GET = 2, TICKET_AGAIN = 3, TICKET_STAY = 5, TICKET_SHOW = 6, TICKET_SERVE = 7 };
enum { HINT_SEND = 0, HINT_LATER = 2, HINT_LISTEN = 4, HINT_ASKS = 8 };

struct seed {
	uint8_t bytes[16384];
	size_t len;
};

static struct seed request, ack, connection;
static struct peer peer;
static uint64_t acked;

static void add(struct seed *seed, const void *bytes, size_t len)
{
	cr_assert(seed->len + len <= sizeof(seed->bytes));
	memcpy(seed->bytes + seed->len, bytes, len);
	seed->len += len;
}

static void add_8(struct seed *seed, unsigned int value)
{
	add(seed, &(uint8_t){(uint8_t) value}, 1);
}

static void add_16(struct seed *seed, size_t value)
{
	add(seed, &(uint16_t){(uint16_t) value}, 2);
}

static void save(const char *dir, const char *fuzzer, const char *name, struct seed *seed)
{
	char path[4096];
	FILE *file;

	snprintf(path, sizeof(path), "%s/%s", dir, fuzzer);
	if (mkdir(path, 0777) && errno != EEXIST)
		cr_assert_fail("a folder can't be made");
	snprintf(path, sizeof(path), "%s/%s/%s", dir, fuzzer, name);
	file = fopen(path, "we");
	cr_assert(file && fwrite(seed->bytes, 1, seed->len, file) == seed->len && !fclose(file));
	seed->len = 0;
}

/* What passes */

static unsigned int memory_of(uint32_t core_key)
{
	for (unsigned int i = 0; i < PAIR_MEMORIES; i++) {
		if ((uint32_t) pair_key(peer.pair, (enum pair_memory) i) == core_key)
			return i;
	}
	return PEER_NOWHERE;
}

static void add_message(const struct pmv_flush_message *message)
{
	add(&request,
	    (uint8_t[]){0, message->flags, message->count, (uint8_t) message->data,
			(uint8_t) message->envelope.unacked},
	    5);
	for (unsigned int i = 0; i < message->count; i++) {
		const struct pmv_range *range = &message->ranges[i];

		add_8(&request,
		      (unsigned int) (range->key & 7) + (range->key & PMV_RANGE_EVENT ? 8 : 0));
		add_16(&request, range->addr);
		add_16(&request, range->len);
	}
}

static void add_bytes(const struct pmv_flush_message *message)
{
	add_8(&request, REQUEST_BYTES);
	add_16(&request, message->envelope.len);
	add(&request, message, message->envelope.len);
}

/* see_request -- as peer_translate takes it */
static void see_request(struct fake *fake, const struct fake_post *post, void *arg)
{
	unsigned int memory = memory_of((uint32_t) post->op.key);
	struct pmv_flush_message message;

	(void) fake, (void) arg;
	if (memory < PAIR_MEMORIES && post->op.what == RIG_WRITTEN) {
		add_8(&request, REQUEST_WRITE);
		add_8(&request, memory);
		add_16(&request,
		       post->op.addr - pair_addr(peer.pair, (enum pair_memory) memory, 0));
		add_16(&request, post->op.rma_len);
	}
	if (!pair_message(peer.pair, post, &message))
		return;
	for (unsigned int i = 0; i < message.count; i++) {
		struct pmv_range *range = &message.ranges[i];

		memory = memory_of((uint32_t) range->key);
		range->addr -= pair_addr(peer.pair, (enum pair_memory) memory, 0);
		range->key = (range->key & ~(uint64_t) UINT32_MAX) | memory;
	}
	add_8(&request, REQUEST_SEND);
	if (message.envelope.number % 4)
		add_message(&message);
	else
		add_bytes(&message);
}

static void see_ack(struct fake *fake, const struct fake_post *post, void *arg)
{
	struct pmv_ack sent;

	(void) fake, (void) arg;
	if (post->op.key != peer.pair->to->mailbox.link.peer.key)
		return;
	memcpy(&sent, post->op.buf, post->op.len);
	add_8(&ack, ACK_ANSWER);
	add_8(&ack, 0);
	add_8(&ack, (unsigned int) (sent.done - acked));
	add_16(&ack, sent.looks_us | sent.unhinted << 15);
	acked = sent.done;
}

/* What the applications do */

static void put(enum pair_memory memory, size_t offset, size_t len, uint64_t flags)
{
	cr_assert_eq(pair_put(peer.pair, memory, offset, len, CONTEXT(1), flags), 0);
	add(&ack, (uint8_t[]){ACK_CALL, ACK_PUT, (uint8_t) memory}, 3);
	add_8(&ack, (flags & FI_COMMIT ? 1 : 0) | (flags & FI_FENCE ? 2 : 0) |
			    (flags & FI_REMOTE_CQ_DATA ? 4 : 0));
	add_16(&ack, offset);
	add_16(&ack, len);
}

static void send_message(size_t offset)
{
	pair_receive(peer.pair, DMP, offset, 64);
	add(&request, (uint8_t[]){REQUEST_POST, DMP}, 2);
	add_16(&request, offset);
	add_16(&request, 64);
	add_8(&request, REQUEST_RECEIVE);
	cr_assert_eq(pair_send(peer.pair, offset, 64, CONTEXT(1), FI_COMMIT), 0);
	add(&ack, (uint8_t[]){ACK_CALL, ACK_SEND, 1}, 3);
}

static void pass(void)
{
	struct fi_cq_tagged_entry entry;

	pair_deliver(peer.pair);
	add(&ack, (uint8_t[]){ACK_COMPLETE, UINT8_MAX}, 2);
	pair_serve(peer.pair);
	add(&request, (uint8_t[]){REQUEST_SERVE, REQUEST_READ}, 2);
	while (fi_cq_read(peer.pair->home->cq, &entry, 1) == 1 ||
	       fi_cq_read(peer.pair->away->cq, &entry, 1) == 1)
		add_8(&ack, ACK_READ);
}

static void commit_in_all_ways(void)
{
	for (int memory = 0; memory < PAIR_MEMORIES; memory++) {
		put((enum pair_memory) memory, 0, 64, 0);
		put((enum pair_memory) memory, 128, 64, FI_COMMIT);
		pass();
		put((enum pair_memory) memory, 256, 8, FI_COMMIT | FI_FENCE);
		pass();
		put((enum pair_memory) memory, 512, PAIR_LARGE, FI_COMMIT | FI_REMOTE_CQ_DATA);
		pass();
		pass();
	}
	for (size_t i = 0; i < 30; i++)
		put(DMP, i * 128, 8, 0);
	put(DMP, 4096, PAIR_LARGE, FI_COMMIT);
	pass();
	for (size_t i = 0; i < 3; i++)
		send_message(i * 1024);
	pass();
}

/* Connections and hints */

static void add_call(uint64_t key, unsigned int which)
{
	add(&connection, (uint8_t[]){CONNECT_CALL, 0}, 2);
	add(&connection, &key, sizeof(key));
	add_8(&connection, which);
	add(&connection, &(uint64_t){4096}, sizeof(uint64_t));
	add_8(&connection, CALL_LEN);
	add(&connection, (uint8_t[]){CONNECT_COMPLETE, UINT8_MAX, CONNECT_READ}, 3);
}

static void connect_in_both_ways(const char *dir)
{
	uint8_t buf[PMV_HANDSHAKE_SIZE];

	pmv_mailbox_handshake(&peer.pair->to->mailbox, buf);
	for (int passive = 0; passive < 2; passive++) {
		add_8(&connection, 0);
		add(&connection,
		    (uint8_t[]){passive ? CONNECT_REQUEST : CONNECT_CONNECTED, 4 + sizeof(buf), 'd',
				'a', 't', 'a'},
		    6);
		add(&connection, buf, sizeof(buf));
		if (passive)
			add_8(&connection, CONNECT_ACCEPT);
		/* Commits to memory of each kind that a key can say, and of one that is unknown. */
		for (uint64_t persist = 8; persist--;)
			add_call(persist << 32 |
					 (pair_key(peer.pair, READ_DMP) & ~(UINT64_C(7) << 32)),
				 1);
		for (int memory = 0; memory < PAIR_MEMORIES; memory++) {
			for (unsigned int which = 0; which < 8; which++)
				add_call(pair_key(peer.pair, (enum pair_memory) memory), which);
		}
		save(dir, "connect", passive ? "passive" : "active", &connection);
	}
}

static void hint(const char *dir)
{
	struct seed hints = {0};

	add(&hints, (uint8_t[]){HINT_SEND, 0, HINT_LISTEN, HINT_SEND, HINT_ASKS, HINT_LISTEN}, 6);
	add(&hints, (uint8_t[]){HINT_LATER, UINT8_MAX, UINT8_MAX, HINT_SEND, 0, HINT_LISTEN}, 6);
	save(dir, "hint", "genuine", &hints);
}

/* chain -- nothing that the provider sends: bytes that are as good as any, but long enough */
static void chain(const char *dir)
{
	static const char *const names[] = {"one", "two", "three", "four"};
	struct seed chains = {0};
	uint64_t state = 1;

	for (int i = 0; i < 4; i++) {
		for (int j = 0; j < 4096; j++)
			add_8(&chains, dice(&state, i < 2 ? 256 : 64));
		save(dir, "chain", names[i], &chains);
	}
}

/* ticket -- each action, so that each has something to act on */
static void ticket(const char *dir)
{
	struct seed tickets = {0};

	add(&tickets, (uint8_t[]){TICKET_GET, 3, 'a', 's', 'k', 9, TICKET_SHOW, 0}, 8);
	add(&tickets, (uint8_t[PMV_ADMISSION_MOST]){0}, PMV_ADMISSION_MOST);
	/* The ticket as it is; five bytes, and their proof as it is; and all of it once more. */
	add(&tickets, (uint8_t[]){0, 0, 0, 0, 5, 1, 2, 3, 4, 5, 0, 0, 0, 0, TICKET_AGAIN, 1}, 16);
	add(&tickets, (uint8_t[]){TICKET_SERVE, 20, 0, 0, 0, 0, 7, TICKET_STAY, 3, 1, 0, 2, 9}, 13);
	save(dir, "ticket", "genuine", &tickets);
	/* A ticket that is shown from elsewhere, and then from where it was got. */
	add(&tickets, (uint8_t[]){TICKET_GET, 0, 9}, 3);
	for (unsigned int elsewhere = 2; elsewhere--;) {
		add(&tickets, (uint8_t[]){TICKET_SHOW, (uint8_t) elsewhere}, 2);
		add(&tickets, (uint8_t[PMV_ADMISSION_MOST + 4]){0}, PMV_ADMISSION_MOST + 4);
	}
	save(dir, "ticket", "elsewhere", &tickets);
}

/* both_sides -- options: as the first byte of both fuzzers' inputs says them */
static void both_sides(const char *dir, const char *name, const struct pair_options *options,
		       unsigned int target, unsigned int initiator)
{
	acked = 0;
	peer_open(&peer, options);
	add_8(&request, target);
	add_8(&ack, initiator);
	peer.pair->home->fake.on_post = see_request;
	peer.pair->away->fake.on_post = see_ack;
	commit_in_all_ways();
	save(dir, "request", name, &request);
	save(dir, "ack", name, &ack);
	if (!target)
		connect_in_both_ways(dir);
	peer_close(&peer);
}

int main(int argc, char **argv)
{
	if (argc != 2) {
		fprintf(stderr, "usage: fuzz_seeds DIR\n");
		return 2;
	}
	both_sides(argv[1], "plain", &(struct pair_options){0}, 0, 0);
	both_sides(argv[1], "events", &(struct pair_options){.away = {.events = true}}, 1, 32);
	both_sides(argv[1], "stored", &(struct pair_options){.stores = true, .offsets = true}, 4,
		   24);
	hint(argv[1]);
	chain(argv[1]);
	ticket(argv[1]);
	return 0;
}
