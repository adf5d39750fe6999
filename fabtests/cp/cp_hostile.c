/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * cp_hostile.c -- a client of fi_pmem_target that means ill, and such a target
 *
 *   cp_hostile HOST PORT ROUNDS
 *   cp_hostile HOST PORT NAME PATH
 *   cp_hostile HOST PORT silent COUNT
 *   cp_hostile HOST PORT told NAME
 *   cp_hostile HOST PORT leaves|sees|holds NAME
 *   cp_hostile HOST PORT other WORDS
 *   cp_hostile target PORT alive|grows SECONDS
 *   cp_hostile target PORT versions LOWEST-HIGHEST
 *   cp_hostile target PORT list|leaves|left_out|endless NAME
 *   cp_hostile target PORT device 0
 *
 * The second form gets NAME, truncates it where it is, and has its digest made.  The third one
 * connects so often, asks for nothing, and ends when the target has disconnected all.  The fourth
 * one puts a small file, and wants to be told that the target gets on behind its records.  The
 * fifth one begins to put a file.  It leaves a part of it, as if it was interrupted; or looks for
 * what an earlier one has left there, and ends with 1 if it sees that; or it says "it is lent", and
 * that it is alive until it is killed.  The sixth one greets with other words.  The last four are
 * a target for one client: it says again and again that it is alive and, with "grows", that it gets
 * on, and answers after so many seconds, with an error, or never (0); or it greets with these
 * versions, and answers so; or it lists a directory of
 * that name, an empty file, something that it leaves out, or again and again what has no bytes.  It
 * says whether the client said behind the list that it is alive; or it serves a device, and goes
 * away when the data are there.
 *
 * In each round it connects and sends messages that are wrong in some way: names that lead
 * out, lengths that are none, requests in the wrong order, bytes at random; writes to memory
 * that is not its own; and goes away at any moment, or takes no answer.  Whether the target
 * survives is seen from outside.  It ends with 1 if the target lets it do what it must not.
 */
#include <endian.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <rdma/fi_cm.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>

#include "../../util/cp/link.h"
#include "../../util/cp/pack.h"
#include "cp_lent.h"

static const char *const names[] = {
	"../outside",
	"/etc/passwd",
	"a/../../outside",
	"dir/../../outside",
	".",
	"..",
	"",
	"/",
	"dir",
	"dir/",
	"fifo",
	"link",
	"linkdir/secret",
	"dir/link",
	".x.fi_pmem_cp",
	"no/such",
	"file",
	"dir/file",
	"\n\033[2J",
	"%s%n%s",
};

static int is_allowed(const char *name)
{
	return !strcmp(name, "file") || !strcmp(name, "dir/file") || !strcmp(name, "\n\033[2J") ||
	       !strcmp(name, "%s%n%s");
}

static void scribble(void *to, size_t len)
{
	for (size_t i = 0; i < len; i++)
		((unsigned char *) to)[i] = (unsigned char) rand();
}

/* is_directory -- may it be made, or get its time? */
static bool is_directory(const char *name)
{
	return !strcmp(name, "dir");
}

/*
 * write_from -- so much of the link's data, somewhere; sometimes with immediate data, which nobody
 * there expects.  The end of the connection is an answer, too.
 */
static int write_from(struct cp_link *link, const struct cp_message *lease, size_t len,
		      uint64_t offset, uint64_t key)
{
	struct cp_op done = {0};
	struct iovec iov = {.iov_base = link->data, .iov_len = len};
	struct fi_rma_iov rma_iov = {.addr = lease->addr + offset, .len = len, .key = key};
	struct fi_msg_rma msg = {
		.msg_iov = &iov,
		.desc = &link->region.desc,
		.iov_count = 1,
		.rma_iov = &rma_iov,
		.rma_iov_count = 1,
		.context = &done,
	};
	int64_t end = connection_now_ms() + TIMEOUT_MS;

	if (fi_writemsg(link->conn.ep, &msg,
			FI_COMPLETION | (lease->type == CP_PUT && rand() % 2 ? FI_COMMIT : 0) |
				(lease->type == CP_PUT && rand() % 2 ? FI_REMOTE_CQ_DATA : 0)))
		return -1;
	while (!done.done && connection_now_ms() < end && !cp_link_poll(link, 100))
		;
	return done.done ? 0 : -1;
}

/* try_name -- put or get it: what must not be is refused */
static int try_name(struct cp_link *link, const char *name)
{
	struct cp_message message = {
		.type = rand() % 2 ? CP_PUT : CP_GET, .size = SIZE, .flags = (uint64_t) rand()};

	snprintf(message.text, sizeof(message.text), "%s", name);
	if (cp_link_send(link, &message, TIMEOUT_MS) || !cp_lent_answer(link, &message))
		return 0;
	if (!message.status && !is_allowed(name)) {
		printf("not ok the target opens '%s'\n", name);
		return 1;
	}
	if (!message.status) {
		message.type = CP_PUT;
		scribble(link->data, SIZE);
		write_from(link, &message, SIZE,
			   rand() % 3 ? 0 : (uint64_t) rand() << (rand() % 32),
			   rand() % 3 ? message.key : message.key + (uint64_t) rand() % 8 - 4);
		cp_link_send(link, &(struct cp_message){.type = CP_FINISH}, TIMEOUT_MS);
		cp_lent_answer(link, &message);
	}
	return 0;
}

enum { WRONG_SIZE, WRONG_DIGEST, WRONG_KIND, WRONG_LENGTH, WRONG_ROOM, RIGHT };

/* pack_of -- a file or directory of that name in the link's data, or nearly */
static size_t pack_of(struct cp_link *link, const char *name, enum cp_kind kind, int wrong)
{
	struct cp_pack pack = {.memory = link->data, .len = SIZE};
	/* With room enough behind it for a name that is too long. */
	struct cp_record record = {
		.kind = kind, .mode = 07777, .size = wrong == WRONG_LENGTH ? SIZE / 2 : 40};
	char *data = cp_pack_place(&pack, name, record.size);

	record.has_data = kind == CP_FILE;
	scribble(data, record.size);
	cp_digest(data, record.size, record.digest);
	switch (wrong) {
	case WRONG_SIZE:
		record.size = rand() % 2 ? UINT64_MAX - (uint64_t) rand() % 64 : SIZE;
		record.has_data = 0;
		break;
	case WRONG_DIGEST:
		record.digest[0] ^= 1;
		break;
	case WRONG_KIND:
		record.kind = CP_LEFT_OUT + (uint32_t) rand() % 2;
		break;
	}
	cp_pack_add(&pack, &record, name);
	if (wrong == WRONG_SIZE)
		((struct cp_record *) link->data)->has_data = htole32(1);
	if (wrong == WRONG_LENGTH) {
		struct cp_record *wire = (void *) link->data;

		wire->name_len = htole32(CP_TEXT + (uint32_t) rand() % CP_TEXT);
		wire->size = htole64(8);
	}
	return pack.used;
}

static int any_kind(void)
{
	return rand() % 3 ? CP_FILE : rand() % 2 ? CP_DIRECTORY : CP_DIRECTORY_END;
}

/* try_pack -- a name that must not be in a pack fails, and wrong data do; 1 if they do not */
static int try_pack(struct cp_link *link, const char *name, enum cp_kind kind, int wrong)
{
	struct cp_message message = {.type = CP_ROOM}, room;
	bool failed = false;
	size_t len;

	if (cp_link_send(link, &message, TIMEOUT_MS) || !cp_lent_answer(link, &room) || room.status)
		return 0;
	len = pack_of(link, name, kind, wrong);
	if (write_from(link, &room, len, 0, room.key))
		return 0;
	message = (struct cp_message){
		.type = kind == CP_DIRECTORY ? CP_OFFER : CP_STORE,
		.flags = CP_TIMES | CP_MODES,
		.addr = rand() % 8 ? 0 : (uint64_t) rand() << (rand() % 33),
		.size = rand() % 8 ? len : (uint64_t) rand() << (rand() % 33),
		.committed = rand() % 8 ? 1 : (uint64_t) rand(),
	};
	if (cp_link_send(link, &message, TIMEOUT_MS))
		return 0;
	while (cp_lent_answer(link, &message) && message.type == CP_FAILED)
		failed = true;
	if (message.type != CP_ANSWER || failed)
		return 0;
	if ((kind != CP_FILE || wrong != WRONG_DIGEST) &&
	    (is_allowed(name) || ((wrong != RIGHT || kind != CP_FILE) && is_directory(name))))
		return 0;
	printf("not ok the target takes a pack with '%s'\n", name);
	return 1;
}

/* send_rubbish -- of any length, in any order */
static void send_rubbish(struct cp_link *link)
{
	static const uint64_t sizes[] = {0, 1, SIZE, CP_MAX_SIZE, CP_MAX_SIZE + 1, UINT64_MAX};
	struct cp_message message;
	int count = rand() % 8;

	while (count--) {
		scribble(&message, sizeof(message));
		if (rand() % 4) {
			message.type = (uint32_t) rand() % 12;
			message.size = sizes[(size_t) rand() % (sizeof(sizes) / sizeof(*sizes))];
		}
		if (!(rand() % 8)) {
			scribble(link->data, SIZE);
			if (fi_send(link->conn.ep, link->data, (size_t) rand() % 3000,
				    link->region.desc, FI_ADDR_UNSPEC, NULL))
				return;
		} else if (cp_link_send(link, &message, TIMEOUT_MS))
			return;
		if (rand() % 2 && !cp_lent_answer(link, &message))
			return;
	}
}

static int try_round(const struct node *node)
{
	struct cp_link link;
	char hello[16];
	size_t len = sizeof(cp_hello);
	int ret = cp_link_open(&link, node, node->info, SIZE), bad = 0;

	memcpy(hello, &cp_hello, sizeof(cp_hello));
	if (rand() % 8 == 0) {
		len = (size_t) rand() % sizeof(hello);
		scribble(hello, sizeof(hello));
	}
	if (!ret)
		ret = fi_connect(link.conn.ep, node->info->dest_addr, len ? hello : NULL, len);
	/* Sometimes gone before it is accepted. */
	if (!ret && rand() % 8 && !cp_link_greeted(&link)) {
		const char *name = names[(size_t) rand() % (sizeof(names) / sizeof(*names))];

		if (rand() % 2)
			bad = rand() % 2 ? try_name(&link, name)
					 : try_pack(&link, name, any_kind(),
						    rand() % 4 ? RIGHT : rand() % RIGHT);
		if (rand() % 2)
			send_rubbish(&link);
	}
	cp_link_close(&link);
	return bad;
}

/*
 * try_wrong -- each mistake once, in a pack with a name that may be there.  What may have come to
 * harm on the way is one file's error; all else is nonsense, and ends the connection.
 */
static int try_wrong(const struct node *node, int wrong)
{
	struct cp_message message = {.type = CP_ROOM}, room;
	struct cp_link link;
	size_t len;
	int bad = cp_link_open(&link, node, node->info, SIZE) || cp_link_connect(&link) ||
		  cp_link_send(&link, &message, TIMEOUT_MS) || !cp_lent_answer(&link, &room);

	len = bad ? 0 : pack_of(&link, "file", CP_FILE, wrong);
	message = (struct cp_message){.type = CP_STORE, .size = len, .committed = 1};
	if (wrong == WRONG_ROOM)
		message.size = CP_PACK_ROOM + 1;
	bad = bad || write_from(&link, &room, len, 0, room.key) ||
	      cp_link_send(&link, &message, TIMEOUT_MS);
	if (!bad && cp_lent_answer(&link, &message) &&
	    (message.type == CP_ANSWER || wrong != WRONG_DIGEST)) {
		printf("not ok the target takes a pack with mistake %d\n", wrong);
		bad = 1;
	}
	cp_link_close(&link);
	return bad;
}

/* be_told -- is it, of the file and of its directory, while a pack of one record becomes durable?
 */
static int be_told(const struct node *node, const char *name)
{
	struct cp_message message = {.type = CP_ROOM}, room;
	struct cp_link link;
	size_t len, told = 0;
	int bad = cp_link_open(&link, node, node->info, SIZE) || cp_link_connect(&link) ||
		  cp_link_send(&link, &message, TIMEOUT_MS) || !cp_lent_answer(&link, &room);

	len = bad ? 0 : pack_of(&link, name, CP_FILE, RIGHT);
	message = (struct cp_message){.type = CP_STORE, .size = len, .committed = 1};
	bad = bad || write_from(&link, &room, len, 0, room.key) ||
	      cp_link_send(&link, &message, TIMEOUT_MS);
	while (!bad && cp_lent_answer(&link, &message) && message.type == CP_ALIVE)
		told += message.committed > 1;
	bad = bad || message.type != CP_ANSWER || message.status || told < 2;
	cp_link_close(&link);
	return bad;
}

/* be_silent -- until each connection has ended; every other client says that it is alive */
static int be_silent(const struct node *node, int count)
{
	const struct cp_message alive = {.type = CP_ALIVE};
	struct cp_link links[16];
	int64_t end;
	int bad = 0;

	for (int i = 0; i < count; i++)
		bad += cp_link_open(&links[i], node, node->info, SIZE) ||
		       cp_link_connect(&links[i]);
	end = connection_now_ms() + TIMEOUT_MS;
	for (int i = 0; !bad && i < count; i++) {
		while (!cp_link_poll(&links[i], 100) && connection_now_ms() < end) {
			if (i % 2 && cp_link_send(&links[i], &alive, TIMEOUT_MS))
				break;
		}
		bad = connection_now_ms() >= end;
	}
	for (int i = 0; i < count; i++)
		cp_link_close(&links[i]);
	return bad;
}

/* kind_listed -- by a target that is called so; 0: it lists nothing */
static enum cp_kind kind_listed(const char *how)
{
	return !strcmp(how, "list")       ? CP_DIRECTORY
	       : !strcmp(how, "leaves")   ? CP_FILE
	       : !strcmp(how, "left_out") ? CP_LEFT_OUT
					  : 0;
}

/* next_request -- its client is alive meanwhile, which is told of; 0: it has gone */
static int next_request(struct cp_link *link, struct cp_message *request)
{
	while (cp_lent_answer(link, request)) {
		if (request->type != CP_ALIVE)
			return 1;
		printf("it is alive\n");
	}
	return 0;
}

/* be_a_list -- a target that lists something of that name, and waits for its client to go */
static int be_a_list(struct cp_link *link, enum cp_kind kind, const char *name)
{
	const struct cp_record record = {.kind = kind};
	struct cp_message message = {.type = CP_ANSWER}, request;
	struct cp_pack pack = {.memory = link->data, .len = SIZE};
	struct region region;
	/* The room, the list, its end, and no more; or again and again one record without a byte.
	 */
	int answers = kind ? 3 : 1000;

	if (kind)
		cp_pack_add(&pack, &record, name);
	if (region_try(&link->node, &region, link->data, SIZE, FI_REMOTE_READ, 0))
		return 1;
	message.addr = region.addr;
	message.key = region.key;
	for (int i = 0; i < answers && !cp_link_send(link, &message, TIMEOUT_MS); i++) {
		if (!next_request(link, &request))
			break;
		message = (struct cp_message){
			.type = CP_ANSWER, .committed = !i || !kind, .size = i ? 0 : pack.used};
	}
	region_close(&region);
	cp_link_close(link);
	return 0;
}

/* be_a_device -- a target that serves one, and goes away when all is there */
static int be_a_device(struct cp_link *link)
{
	struct cp_message message = {.type = CP_ANSWER, .flags = CP_IN_PLACE}, request;
	struct region region;
	int ret = region_try(&link->node, &region, link->data, SIZE, FI_REMOTE_WRITE, 0);

	if (ret)
		return 1;
	message.addr = region.addr;
	message.key = region.key;
	ret = cp_link_send(link, &message, TIMEOUT_MS) || !next_request(link, &request) ||
	      request.type != CP_FINISH;
	region_close(&region);
	cp_link_close(link);
	return ret;
}

/* be_a_target -- for one client, which gets no answer, or one after so many seconds */
static int be_a_target(struct node *node, const char *how, const char *what)
{
	bool grows = !strcmp(how, "grows");
	int seconds = atoi(what);
	struct cp_message message, word = {.type = CP_ALIVE, .committed = 1};
	struct cp_hello hello = cp_hello;
	int64_t end = connection_now_ms() + TIMEOUT_MS;
	struct cm_event event;
	struct cp_link link;
	int ret;

	if (!strcmp(how, "versions") &&
	    sscanf(what, "%hhu-%hhu", &hello.lowest, &hello.highest) != 2)
		return 1;
	printf("waiting on port\n");
	fflush(stdout);
	if (conn_request(node, &event) || cp_link_open(&link, node, event.entry.info, SIZE) ||
	    conn_accept(&link.conn, &hello, sizeof(hello)))
		return 1;
	/* Who has none of these versions goes without a word. */
	if (!cp_lent_answer(&link, &message))
		return strcmp(how, "versions") != 0;
	if (kind_listed(how) || !strcmp(how, "endless")) {
		ret = be_a_list(&link, kind_listed(how), what);
		fi_freeinfo(event.entry.info);
		return ret;
	}
	if (!strcmp(how, "device")) {
		ret = be_a_device(&link);
		fi_freeinfo(event.entry.info);
		return ret;
	}
	if (seconds)
		end = connection_now_ms() + 1000 * (int64_t) seconds;
	do {
		ret = cp_link_send(&link, &word, TIMEOUT_MS);
		word.committed += grows;
		usleep(50000);
	} while (!ret && connection_now_ms() < end);
	word = (struct cp_message){.type = CP_ANSWER, .status = EIO, .text = "enough"};
	if (!ret && seconds)
		ret = cp_link_send(&link, &word, TIMEOUT_MS) || cp_lent_answer(&link, &message);
	cp_link_close(&link);
	fi_freeinfo(event.entry.info);
	return !ret == !seconds;
}

static int try_truncated(const struct node *node, const char *name, const char *path)
{
	struct cp_message message = {.type = CP_GET};
	struct cp_link link;
	int bad = cp_link_open(&link, node, node->info, SIZE) || cp_link_connect(&link);

	snprintf(message.text, sizeof(message.text), "%s", name);
	bad = bad || cp_link_send(&link, &message, TIMEOUT_MS) ||
	      !cp_lent_answer(&link, &message) || message.status || !message.size ||
	      truncate(path, 0);
	message.type = CP_SUM;
	/* It may already have noticed, and be gone. */
	if (!bad && !cp_link_send(&link, &message, TIMEOUT_MS) && cp_lent_answer(&link, &message))
		bad = !message.status;
	cp_link_close(&link);
	return bad;
}

/* be_other -- a client that greets with other words: prints why it is refused */
static int be_other(const struct node *node, const char *words)
{
	char hello[sizeof(cp_hello)] = "";
	struct cp_link link;
	int ret = cp_link_open(&link, node, node->info, SIZE);

	memcpy(hello, words, strnlen(words, sizeof(hello)));
	if (!ret)
		ret = fi_connect(link.conn.ep, node->info->dest_addr, hello, sizeof(hello));
	if (!ret)
		ret = cp_link_greeted(&link);
	printf("%s\n", link.error.text);
	cp_link_close(&link);
	return !ret;
}

static int serve(const char *port, const char *how, const char *what)
{
	struct node node;
	int bad = cp_prepare(&node, NULL, port, TIMEOUT_MS, NULL) || be_a_target(&node, how, what);

	node_close(&node);
	return bad;
}

int main(int argc, char **argv)
{
	struct node node;
	int bad = 0;

	if (argc != 4 && argc != 5)
		return 2;
	if (argc == 5 && !strcmp(argv[1], "target"))
		return serve(argv[2], argv[3], argv[4]);
	if (cp_prepare(&node, argv[1], argv[2], TIMEOUT_MS, NULL))
		return 1;
	if (argc == 5)
		bad = !strcmp(argv[3], "silent")  ? be_silent(&node, atoi(argv[4]))
		      : !strcmp(argv[3], "other") ? be_other(&node, argv[4])
		      : !strcmp(argv[3], "told")  ? be_told(&node, argv[4])
		      : cp_lent_is_way(argv[3])   ? cp_lent_try(&node, argv[3], argv[4])
						  : try_truncated(&node, argv[3], argv[4]);
	for (int round = 0; argc == 4 && round < atoi(argv[3]); round++) {
		srand((unsigned int) round + 1);
		bad += try_round(&node);
		if (round < RIGHT)
			bad += try_wrong(&node, round);
	}
	node_close(&node);
	return bad ? 1 : 0;
}
