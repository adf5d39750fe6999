/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fuzz_hint.c -- an agent whose peer, and everybody else, sends it anything as a hint
 *
 * The datagrams are the input's and go through a socket.  The agent must
 *   - heed only hints that have the seal of the connection, the right key and the right length,
 *   - answer no others, and none more than once,
 *   - take in all that has come, so that nobody can fill the socket for long.
 */
#include "peer.h"

#include <sys/socket.h>

#include "agent/agent.h"
#include "agent/hint.h"
#include "agent/idle.h"
#include "agent/mailbox.h"

#define MOST_SENT 48 /* fewer than are read in one go */
#define MOST_LEN 40

/* What the peer listens to is here. */
static struct pmv_hint_socket ear;

struct hearing {
	struct pair *pair;
	struct pmv_agent *agent;
	struct input input;
	unsigned int sent, genuine, asked;
	int64_t now;
};

enum {
	OTHER_KEY = 1,
	WRONG_SEAL = 2,
	OTHER_LENGTH = 4,
	ASKS = 8,
};

static unsigned int count_answers(void)
{
	char buf[MOST_LEN];
	unsigned int count = 0;

	while (pmv_hint_receive(&ear, buf, sizeof(buf)) >= 0)
		count++;
	return count;
}

static void send_hint(struct hearing *hearing)
{
	struct pmv_mailbox *to = &hearing->pair->to->mailbox;
	uint8_t buf[MOST_LEN], how = input_8(&hearing->input);
	struct pmv_hint hint = {.key = hearing->pair->from->mailbox.link.peer.key,
				.ask = !!(how & ASKS)};
	size_t len = sizeof(hint);

	if (hearing->sent == MOST_SENT)
		return;
	if (how & OTHER_KEY)
		hint.key = (uint32_t) input_64(&hearing->input);
	if (how & WRONG_SEAL)
		hint.seal = input_64(&hearing->input);
	else
		reseal(&hint, sizeof(hint), &to->receiver.hint_in);
	if (how & OTHER_LENGTH)
		len = input_8(&hearing->input) % MOST_LEN;
	input_copy(&hearing->input, buf, sizeof(buf));
	memcpy(buf, &hint, sizeof(hint));
	if (sendto(ear.fd, buf, len, 0, &hearing->pair->from->mailbox.link.hint_peer.addr.any,
		   hearing->pair->from->mailbox.link.hint_peer.len) == (ssize_t) len)
		hearing->sent++;
	if (hint.key != hearing->pair->from->mailbox.link.peer.key || (how & WRONG_SEAL) ||
	    len != sizeof(hint))
		return;
	hearing->genuine++;
	hearing->asked += hint.ask;
}

static void listen_to_all(struct hearing *hearing)
{
	struct pmv_look *look = &hearing->pair->to->mailbox.receiver.look;
	unsigned int before = look->expect.unanswered_hints;
	bool heard = pmv_idle_listen(hearing->agent, hearing->now);
	unsigned int answers = count_answers();

	cr_assert(answers <= hearing->asked);
	/* Some may be forgotten, too. */
	cr_assert(look->expect.unanswered_hints <= before + hearing->genuine);
	cr_assert(!hearing->sent || hearing->genuine || !heard);
	/* There is none left. */
	cr_assert(pmv_idle_listen(hearing->agent, hearing->now));
	cr_assert_eq(count_answers(), 0);
	hearing->sent = hearing->genuine = hearing->asked = 0;
}

static void act(struct hearing *hearing)
{
	struct pmv_looks *looks = &hearing->agent->looks;

	switch (input_8(&hearing->input) % 5) {
	case 0:
	case 1:
		send_hint(hearing);
		break;
	case 2:
		hearing->now += (int64_t) input_16(&hearing->input) << 12;
		pmv_look_park(looks, hearing->now);
		break;
	case 3:
		pmv_look_everywhere(looks, false, hearing->now);
		break;
	default:
		listen_to_all(hearing);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct pair_options options = {.hints = true};
	struct hearing hearing = {.input = {data, size}};
	struct peer peer;
	struct pmv_hint_peer *to;

	if (!ear.tried) {
		pmv_hint_open(&ear);
		cr_assert(ear.fd >= 0);
	}
	options.port = ear.port;
	peer_open(&peer, &options);
	hearing.pair = peer.pair;
	hearing.agent = &peer.pair->to->domain->agent;
	/* The fuzzer sends to the agent; the agent answers to the ear. */
	to = &peer.pair->from->mailbox.link.hint_peer;
	to->addr.in.sin_port = htons(hearing.agent->hints.port);
	count_answers();
	while (hearing.input.left)
		act(&hearing);
	listen_to_all(&hearing);
	peer_close(&peer);
	return 0;
}
