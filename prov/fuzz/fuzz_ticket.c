/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fuzz_ticket.c -- where tickets are given out, got and shown, with peers that send anything
 *
 * The requests, the answers, the tickets and the proofs are genuine, or the input's, or genuine
 * ones that the input has changed, cut off or repeated.  They go through sockets.  The provider has
 * to
 *   - answer a request, take a ticket and believe an answer or a proof if it is genuine, and only
 *     then; requests and tickets once, tickets from where they were got,
 *   - answer somebody who is known, whoever else keeps connections open,
 *   - end every other connection.
 * Whose keys are used changes with the poller's lock only, as its thread reads them.
 */
#include "input.h"

#include <endian.h>
#include <netinet/in.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <criterion/criterion.h>
#include <sodium.h>

#include "auth/ticket.h"
#include "auth/ticket_client.h"
#include "auth/ticket_server.h"
#include "base/poller.h"
#include "pmemverbs/test/support/key_dirs.h"

#define LENGTH PMV_TICKET_SERVER_LENGTH
#define MOST_ACTIONS 32
#define MOST_OPEN 64
#define ROOM (LENGTH + PMV_ADMISSION_MOST)

/* What somebody sends. */
struct message {
	size_t len;
	uint8_t bytes[ROOM];
};

struct scene {
	struct input input;
	struct pmv_ticket_server *server;
	struct sockaddr_in at;     /* where that is */
	struct message last;       /* the latest request that was answered */
	struct pmv_admission *own; /* the latest ticket that was got, at the initiator */
	bool is_shown;             /* it was, or is void */
	int open[MOST_OPEN];
	size_t num_open;
};

static const struct sockaddr_in nowhere = {.sin_family = AF_INET};
static struct sockaddr_in here; /* where somebody listens in a target's place */
static int place = -1, over_fd = -1;
static char why[PMV_KEYS_WHY];

static const struct sockaddr *any(const struct sockaddr_in *addr)
{
	return (const struct sockaddr *) addr;
}

static void be(int end)
{
	pmv_poller_lock();
	key_dirs_be(end);
	pmv_poller_unlock();
}

static void see_refusal(const struct sockaddr *from, const char *says)
{
	cr_assert(from->sa_family == AF_INET && *says && strlen(says) < PMV_KEYS_WHY);
}

/* change -- a byte of it, or its end; false: nothing */
static bool change(struct input *input, uint8_t *bytes, size_t *len)
{
	uint8_t how = input_8(input), by = input_8(input);
	size_t at = input_16(input);

	if (!(how & 3) || !*len)
		return false;
	if ((how & 3) == 1) {
		*len = at % *len;
		return true;
	}
	bytes[at % *len] ^= by;
	return by;
}

/* Sockets */

/* leave -- without a trace: many connections come after it */
static void leave(int fd)
{
	const struct linger at_once = {.l_onoff = 1};

	setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
	close(fd);
}

static int reach(const struct sockaddr_in *addr)
{
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	cr_assert(fd >= 0 && !connect(fd, any(addr), sizeof(*addr)));
	return fd;
}

/* send_all -- in two pieces; the other end may have had enough */
static void send_all(int fd, const struct message *message, size_t first)
{
	if (first > message->len)
		first = message->len;
	send(fd, message->bytes, first, MSG_NOSIGNAL);
	send(fd, message->bytes + first, message->len - first, MSG_NOSIGNAL);
}

/* receive -- until the end, or until the room is full */
static size_t receive(int fd, uint8_t *bytes, size_t room)
{
	size_t len = 0;
	ssize_t ret;

	while (len < room && (ret = recv(fd, bytes + len, room - len, 0)) > 0)
		len += (size_t) ret;
	return len;
}

/* ask -- the server; whatever was asked, it ends the connection: how many bytes it has answered */
static size_t ask(struct scene *scene, const struct message *message, uint8_t *answer)
{
	int fd = reach(&scene->at);
	size_t len;

	send_all(fd, message, input_8(&scene->input));
	shutdown(fd, SHUT_WR);
	len = receive(fd, answer, PMV_ADMISSION_REPLY + 1);
	leave(fd);
	return len;
}

/* The initiator */

static struct pmv_admission *make(struct scene *scene, int end, struct message *message)
{
	struct pmv_admission *admission;
	size_t len = input_8(&scene->input) % 64;
	uint16_t whole;

	input_copy(&scene->input, message->bytes + LENGTH, len);
	be(end);
	admission = pmv_admission_request(PMV_ADMISSION_BEFORE, any(&scene->at),
					  message->bytes + LENGTH, &len, why);
	be(TARGET);
	cr_assert_not_null(admission);
	whole = htole16((uint16_t) len);
	memcpy(message->bytes, &whole, LENGTH);
	message->len = LENGTH + len;
	return admission;
}

/* keep -- an admission with a ticket that nobody has shown */
static void keep(struct scene *scene, struct pmv_admission *admission)
{
	pmv_admission_free(scene->own);
	scene->own = admission;
	scene->is_shown = false;
}

/* get -- a ticket, by a genuine request that may be changed, or is a stranger's */
static void get(struct scene *scene, bool may_change, int end)
{
	struct message message;
	struct pmv_admission *admission = make(scene, end, &message);
	uint8_t answer[PMV_ADMISSION_REPLY + 1];
	bool changed = may_change && change(&scene->input, message.bytes, &message.len);
	size_t len = ask(scene, &message, answer), data = PMV_ADMISSION_REPLY;

	cr_assert_eq(len, changed || end != TARGET ? 0 : PMV_ADMISSION_REPLY);
	if (!len) {
		pmv_admission_free(admission);
		return;
	}
	scene->last = message;
	cr_assert(pmv_admission_established(admission, answer, &data, why) && !data);
	pmv_ticket_make(admission);
	keep(scene, admission);
}

static void ask_anything(struct scene *scene)
{
	uint8_t answer[PMV_ADMISSION_REPLY + 1];
	struct message message;

	message.len = input_16(&scene->input) % sizeof(message.bytes);
	input_copy(&scene->input, message.bytes, message.len);
	cr_assert_eq(ask(scene, &message, answer), 0);
}

static void ask_again(struct scene *scene)
{
	uint8_t answer[PMV_ADMISSION_REPLY + 1];

	cr_assert_eq(ask(scene, &scene->last, answer), 0);
}

/* stay -- connections that say little, or nothing; and somebody who is known is answered */
static void stay(struct scene *scene)
{
	size_t count = input_8(&scene->input) % MOST_OPEN;

	while (scene->num_open < count) {
		int fd = reach(&scene->at);
		struct message message = {.len = input_8(&scene->input) % 4};

		input_copy(&scene->input, message.bytes, message.len);
		send_all(fd, &message, 1);
		scene->open[scene->num_open++] = fd;
	}
	get(scene, false, TARGET);
}

/* The connection request that shows a ticket, and its acceptance */

/* accept -- both ends have the admission: the proof, as it may be changed */
static void prove(struct scene *scene, struct pmv_admission *peer)
{
	uint8_t data[64], sent[64];
	size_t len = input_8(&scene->input) % 32, whole;
	bool changed, ok;

	input_copy(&scene->input, data, len);
	whole = len;
	cr_assert(pmv_ticket_reply(peer, data, &whole, why));
	cr_assert_eq(whole, len + PMV_TICKET_PROOF);
	memcpy(sent, data, sizeof(sent));
	changed = change(&scene->input, data, &whole);
	ok = pmv_ticket_established(scene->own, data, &whole, why);
	cr_assert_eq(ok, !changed);
	cr_assert(ok ? whole == len && !memcmp(data, sent, len) : !whole);
}

static void show(struct scene *scene)
{
	struct sockaddr_in from = nowhere;
	uint8_t data[PMV_ADMISSION_MOST], how = input_8(&scene->input);
	struct pmv_admission *peer;
	size_t len = PMV_TICKET_SIZE;
	bool changed = true, elsewhere = how & 1;

	from.sin_addr.s_addr = htonl(INADDR_LOOPBACK + elsewhere);
	input_copy(&scene->input, data, sizeof(data));
	if (scene->own && !(how & 2)) {
		memcpy(data, scene->own->ticket, len);
		changed = change(&scene->input, data, &len);
	} else {
		len = input_16(&scene->input) % sizeof(data);
	}
	peer = pmv_ticket_server_take(scene->server, any(&from), data, &len, why);
	cr_assert_eq(!peer, changed || elsewhere || scene->is_shown);
	scene->is_shown |= !changed;
	if (!peer)
		return;
	cr_assert(len < PMV_ADMISSION_MOST);
	prove(scene, peer);
	pmv_admission_free(peer);
}

/* Somebody in a target's place */

static void tell_over(void *arg)
{
	(void) arg;
	eventfd_write(over_fd, 1);
}

/* answer -- as the target does, if it has the key */
static bool answer(const struct message *asked, struct message *reply)
{
	size_t len = asked->len - LENGTH;
	struct pmv_admission *admission =
		pmv_admission_asked(PMV_ADMISSION_BEFORE, any(&nowhere), ntohs(here.sin_port), 0,
				    asked->bytes + LENGTH, &len, why);
	bool ok;

	reply->len = 0;
	ok = admission && pmv_admission_reply(admission, reply->bytes, &reply->len, why);
	pmv_admission_free(admission);
	return ok;
}

/* hear -- the client's request, whole */
static void hear(int fd, struct message *asked)
{
	uint16_t len;

	cr_assert_eq(receive(fd, asked->bytes, LENGTH), LENGTH);
	memcpy(&len, asked->bytes, LENGTH);
	asked->len = LENGTH + le16toh(len);
	cr_assert(asked->len <= sizeof(asked->bytes));
	cr_assert_eq(receive(fd, asked->bytes + LENGTH, asked->len - LENGTH), asked->len - LENGTH);
}

/* serve -- a client that takes whoever is there for a target: it believes a genuine answer */
static void serve(struct scene *scene)
{
	uint8_t data[64] = {0}, how = input_8(&scene->input);
	struct message asked, reply;
	struct pmv_ticket_client *client = pmv_ticket_client_begin(
		NULL, any(&here), data, how % sizeof(data), tell_over, NULL, why);
	int fd, ret;
	struct pmv_admission *admission;
	bool genuine = !(how & 128);
	eventfd_t times;

	cr_assert_not_null(client);
	fd = accept(place, NULL, NULL);
	cr_assert(fd >= 0);
	hear(fd, &asked);
	if (genuine) {
		cr_assert(answer(&asked, &reply));
		genuine = !change(&scene->input, reply.bytes, &reply.len);
	} else {
		reply.len = input_16(&scene->input) % sizeof(reply.bytes);
		input_copy(&scene->input, reply.bytes, reply.len);
	}
	send_all(fd, &reply, input_8(&scene->input));
	shutdown(fd, SHUT_WR);
	eventfd_read(over_fd, &times);
	cr_assert(pmv_ticket_client_is_over(client));
	ret = pmv_ticket_client_end(client, &admission, why);
	cr_assert(!ret == genuine && !admission == !genuine);
	cr_assert(genuine ? admission->has_ticket : *why);
	pmv_admission_free(admission);
	leave(fd);
}

static void act(struct scene *scene)
{
	switch (input_8(&scene->input) % 8) {
	case 0:
		ask_anything(scene);
		break;
	case 1:
		get(scene, true, TARGET);
		break;
	case 2:
		get(scene, false, TARGET);
		break;
	case 3:
		ask_again(scene);
		break;
	case 4:
		get(scene, true, STRANGER);
		break;
	case 5:
		stay(scene);
		break;
	case 6:
		show(scene);
		break;
	default:
		serve(scene);
	}
}

static void begin(void)
{
	socklen_t len = sizeof(here);

	cr_assert(sodium_init() >= 0);
	key_dirs_make();
	atexit(key_dirs_remove);
	/* One key is both; the stranger knows it. */
	key_dirs_know(TARGET, TARGET, "");
	key_dirs_be(TARGET);
	cr_assert(!pmv_admission_check(why));
	here = nowhere;
	here.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	place = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	over_fd = eventfd(0, EFD_CLOEXEC);
	cr_assert(!bind(place, any(&here), len) &&
		  !getsockname(place, (struct sockaddr *) &here, &len) && !listen(place, 8));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct scene scene = {.input = {data, size}, .at = nowhere};

	if (place < 0)
		begin();
	scene.at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	cr_assert(!pmv_ticket_server_bind(any(&scene.at), see_refusal, &scene.server));
	scene.at.sin_port = htons(pmv_ticket_server_port(scene.server));
	cr_assert(!pmv_ticket_server_listen(scene.server, 0));
	for (int i = 0; i < MOST_ACTIONS && scene.input.left; i++)
		act(&scene);
	while (scene.num_open)
		leave(scene.open[--scene.num_open]);
	pmv_ticket_server_close(scene.server);
	pmv_admission_free(scene.own);
	return 0;
}
