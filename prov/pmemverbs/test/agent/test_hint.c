/* SPDX-License-Identifier: BSD-2-Clause */
/* test_hint.c -- hints: who sends them and when, and who believes them */
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <criterion/criterion.h>

#include "agent/agent.h"
#include "agent/idle.h"
#include "agent/mailbox.h"
#include "agent/service.h"
#include "base/clock.h"
#include "objects/handshake.h"
#include "test/support/pair.h"

#define SECOND INT64_C(1000000000)
#define HINT sizeof(struct pmv_hint)

/* What the peer's agent listens to is here. */
static struct pmv_hint_socket ear;

/* needs_loopback -- hints go to 127.0.0.1 here; a machine without network may not have that */
static void needs_loopback(void)
{
	const struct sockaddr_in address = {
		.sin_family = AF_INET,
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
		.sin_port = htons(9),
	};
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	int ret = connect(fd, (const struct sockaddr *) &address, sizeof(address));

	close(fd);
	if (ret)
		cr_skip_test("the loopback interface is down");
}

TestSuite(hint, .init = needs_loopback);

static struct pair *open_pair(void)
{
	struct pair_options options = {.hints = true};

	pmv_hint_open(&ear);
	cr_assert_geq(ear.fd, 0);
	options.port = ear.port;
	return pair_open(&options);
}

static void close_pair(struct pair *pair)
{
	pair_close(pair);
	pmv_hint_close(&ear);
}

/* arrive -- a busy machine may hand over a datagram later, also one that it sends to itself */
static void arrive(int fd)
{
	struct pollfd pollfd = {.fd = fd, .events = POLLIN};

	poll(&pollfd, 1, 1000);
}

/* hear -- the next datagram, or what was sent after all that was to be heard */
static ssize_t hear(struct pmv_hint *hint)
{
	arrive(ear.fd);
	return pmv_hint_receive(&ear, hint, sizeof(*hint));
}

/* heard -- how many hints have come from home */
static unsigned int heard(const struct pair *pair, bool ask)
{
	const struct pmv_mailbox *from = &pair->from->mailbox;
	struct pmv_hint_peer self;
	unsigned int count = 0;
	struct pmv_hint hint;
	ssize_t len;

	pmv_hint_find_peer(&ear, pair->from->engine.fid, ear.port, &self);
	pmv_hint_send(&ear, &self, "", 1);
	while ((len = hear(&hint)) != 1) {
		cr_assert_eq(len, sizeof(hint));
		/* The other side was told this port, too. */
		if (hint.key != from->link.peer.key)
			continue;
		cr_expect(pmv_hint_is_genuine(&hint, &pair->to->mailbox.receiver.hint_in));
		cr_expect_eq(hint.ask, ask);
		count++;
	}
	return count;
}

static void commit(struct pair *pair, int n)
{
	accepted(pair_put(pair, DMP, 0, 8, CONTEXT(n), FI_COMMIT));
}

/*
 * answer -- the agent serves what has come, and says that it looks for so long from now on, and
 * whether it has had a hint
 */
static void answer(struct pair *pair, int n, int64_t looks_ns, bool hinted)
{
	struct pmv_look *look = &pair->to->mailbox.receiver.look;

	if (hinted)
		pmv_look_hinted(&pair_agent(pair)->looks, &pair->to->mailbox.receiver, true, 0);
	/* As if there had been one a moment before. */
	look->expect.served_ns = pmv_clock_ns();
	look->expect.window_ns = looks_ns;
	pair_deliver(pair);
	pair_serve(pair);
	rig_expect(pair->home, CONTEXT(n), FI_RMA | FI_WRITE);
}

/*
 * A core that moves data in calls gets none, and has to be called: a mailbox that nobody looks
 * into would get nothing.
 */
Test(hint, is_not_waited_for_without_a_socket)
{
	struct pair *pair = pair_open(NULL);
	struct pmv_agent *agent = pair_agent(pair);

	pmv_look_park(&agent->looks, pmv_clock_ns() + SECOND);
	cr_expect_not(pair->to->mailbox.receiver.look.parked);
	pair_close(pair);
}

Test(hint, is_asked_for_when_the_connection_is_made)
{
	struct pair *pair = open_pair();

	cr_expect_eq(heard(pair, true), 1);
	close_pair(pair);
}

Test(hint, follows_a_request_unless_the_agent_looks_anyway)
{
	struct pair *pair = open_pair();

	heard(pair, true);
	commit(pair, 1);
	cr_expect_eq(heard(pair, false), 1, "nobody knows whether it is awake");
	answer(pair, 1, 3600 * SECOND, true);
	commit(pair, 2);
	cr_expect_eq(heard(pair, false), 0);
	answer(pair, 2, 3600 * SECOND, true);
	/* Three quarters of the time are over. */
	pair->from->mailbox.sender.awake_ns -= 2700 * SECOND;
	commit(pair, 3);
	cr_expect_eq(heard(pair, false), 1);
	close_pair(pair);
}

Test(hint, is_repeated_until_there_is_an_acknowledgement)
{
	struct pair *pair = open_pair();
	struct pmv_mailbox *from = &pair->from->mailbox;

	heard(pair, true);
	commit(pair, 1);
	heard(pair, false);
	for (int64_t wait = 1; wait <= 8; wait *= 2) {
		cr_expect_eq(atomic_load(&from->sender.hint_wait_ns), wait * SECOND / 1000);
		atomic_store(&from->sender.hint_again_ns, INT64_MAX);
		rig_expect_nothing(pair->home);
		cr_expect_eq(heard(pair, false), 0);
		atomic_store(&from->sender.hint_again_ns, 0);
		rig_expect_nothing(pair->home);
		cr_expect_eq(heard(pair, false), 1);
	}
	answer(pair, 1, 0, true);
	atomic_store(&from->sender.hint_again_ns, 0);
	rig_expect_nothing(pair->home);
	cr_expect_eq(heard(pair, false), 0);
	close_pair(pair);
}

/* The target would look at intervals for ever: no thread listens here. */
Test(hint, follows_the_last_acknowledgement_if_none_has_come)
{
	struct pair *pair = open_pair();

	heard(pair, true);
	commit(pair, 1);
	pair_deliver(pair);
	pair_serve(pair);
	commit(pair, 2);
	heard(pair, false);
	rig_expect(pair->home, CONTEXT(1), FI_RMA | FI_WRITE);
	cr_expect_eq(heard(pair, true), 0, "there is a request");
	answer(pair, 2, 0, false);
	cr_expect_eq(heard(pair, true), 1);
	commit(pair, 3);
	heard(pair, false);
	answer(pair, 3, 0, true);
	cr_expect_eq(heard(pair, true), 0, "one has come");
	close_pair(pair);
}

/* A firewall may let none pass. */
Test(hint, follows_few_acknowledgements_if_none_ever_comes)
{
	struct pair *pair = open_pair();
	unsigned int count = 0;

	heard(pair, true);
	for (int n = 1; n <= PMV_IDLE_SHOWN_IN; n++) {
		commit(pair, n);
		heard(pair, false);
		answer(pair, n, 0, false);
		count += heard(pair, true);
	}
	cr_expect_eq(count, PMV_IDLE_SHOWN_AT_FIRST + 1);
	commit(pair, 1);
	answer(pair, 1, 0, true);
	cr_expect_eq(pair->from->mailbox.sender.unhinted, 0);
	close_pair(pair);
}

/* Where a peer has no agent that listens. */
Test(hint, is_not_sent_to_nobody)
{
	struct pair *pair = pair_open(&(struct pair_options){.hints = true});

	cr_expect_eq(pair->from->mailbox.link.hint_peer.len, 0);
	commit(pair, 1);
	answer(pair, 1, 0, true);
	pair_close(pair);
}

/* Believing them */

/* say -- send a datagram to the socket of the agent away */
static void say(const struct pair *pair, const void *buf, size_t len)
{
	const struct pmv_hint_socket *to = &pair->to->domain->agent.hints;
	struct pmv_hint_peer peer;

	pmv_hint_find_peer(&ear, pair->from->engine.fid, to->port, &peer);
	cr_assert_neq(peer.len, 0);
	pmv_hint_send(&ear, &peer, buf, len);
	arrive(to->fd);
}

static bool is_hinted(const struct pair *pair)
{
	struct pmv_agent *agent = &pair->to->domain->agent;
	bool hinted;

	pthread_mutex_lock(&agent->lock);
	hinted = pair->to->mailbox.receiver.look.hinted;
	pthread_mutex_unlock(&agent->lock);
	return hinted;
}

Test(hint, of_the_peer_is_believed_and_answered)
{
	struct pair *pair = open_pair();
	struct pmv_agent *agent = &pair->to->domain->agent;

	heard(pair, true);
	cr_expect_not(is_hinted(pair));
	cr_expect_eq(agent->looks.unhinted, 1);
	cr_expect(pmv_idle_listen(agent, SECOND), "there is none");
	say(pair, &pair->from->mailbox.link.hint, HINT);
	cr_expect(pmv_idle_listen(agent, SECOND));
	cr_expect(is_hinted(pair));
	cr_expect_eq(agent->looks.unhinted, 0);
	cr_expect_gt(agent->looks.until_ns, SECOND, "the request may come behind it");
	cr_expect_gt(pair->to->mailbox.receiver.look.expect.until_ns, SECOND);
	close_pair(pair);
}

/* To read hints takes a call of the system, each 20 us of what peers wait for. */
Test(hint, is_left_unread_while_all_mailboxes_are_looked_into)
{
	struct pair *pair = open_pair();
	struct pmv_agent *agent = &pair->to->domain->agent;
	struct pollfd socket = {.fd = agent->hints.fd, .events = POLLIN};
	struct pmv_idle_plan plan;

	pmv_idle_plan_init(&plan);
	plan.search_ns = INT64_MAX;
	atomic_store(&agent->looks.until_ns, INT64_MAX);
	for (unsigned int unhinted = 0; unhinted < 2; unhinted++) {
		for (unsigned int parked = 0; parked < 2; parked++) {
			agent->looks.unhinted = unhinted;
			agent->looks.num_parked = parked;
			plan.listen_ns = 1;
			say(pair, &pair->from->mailbox.link.hint, HINT);
			pmv_idle(agent, &plan, false);
			cr_expect_eq(poll(&socket, 1, 0), !unhinted && !parked);
			pmv_idle_listen(agent, SECOND);
		}
	}
	agent->looks.num_parked = 0;
	close_pair(pair);
}

Test(hint, that_is_forged_is_not_believed)
{
	struct pair *pair = open_pair();
	struct pmv_agent *agent = &pair->to->domain->agent;
	uint8_t buf[2 * HINT] = {0};

	for (size_t len = 0; len <= sizeof(buf); len++) {
		memcpy(buf, &pair->from->mailbox.link.hint, HINT);
		buf[len % HINT] ^= 1;
		say(pair, buf, len);
		cr_expect_not(pmv_idle_listen(agent, SECOND), "%zu bytes", len);
	}
	/* Its own, sent back to it; and a whole one with something behind it. */
	say(pair, &pair->to->mailbox.link.hint, HINT);
	memcpy(buf, &pair->from->mailbox.link.hint, HINT);
	say(pair, buf, HINT + 1);
	cr_expect_not(pmv_idle_listen(agent, SECOND));
	cr_expect_not(is_hinted(pair));
	cr_expect_eq(agent->looks.until_ns, 0);
	close_pair(pair);
}

Test(hint, floods_are_read_in_parts)
{
	struct pair *pair = open_pair();
	struct pmv_agent *agent = &pair->to->domain->agent;

	for (int i = 0; i < 65; i++)
		say(pair, "", 1);
	say(pair, &pair->from->mailbox.link.hint, HINT);
	cr_expect_not(pmv_idle_listen(agent, SECOND));
	cr_expect_not(is_hinted(pair));
	cr_expect(pmv_idle_listen(agent, SECOND));
	cr_expect(is_hinted(pair));
	close_pair(pair);
}

/* Both sides ask when they are connected, and the other one answers. */
Test(hint, shows_both_agents_that_hints_arrive)
{
	struct pair *pair = pair_open(&(struct pair_options){.hints = true, .thread = true});

	while (!is_hinted(pair))
		sched_yield();
	pair_close(pair);
}

/* Whoever accepts knows the peer before it has a mailbox, and a socket. */
Test(hint, of_who_accepts_is_genuine)
{
	struct pair *pair = open_pair();
	struct pmv_ep *ep = pmv_to_ep(rig_ep(pair->home, pair->home->cq));
	struct pmv_handshake peer = pair->from->mailbox.link.peer;
	struct pmv_seal seal;

	pmv_handshake_connect(ep, &peer);
	accepted(pmv_mailbox_open(&ep->mailbox));
	seal = pmv_seal(ep->mailbox.link.secret, peer.secret, PMV_SEALED_HINT);
	cr_expect_neq(ep->mailbox.link.hint_peer.len, 0);
	cr_expect(pmv_hint_is_genuine(&ep->mailbox.link.hint, &seal));
	cr_expect(pmv_hint_is_genuine(&ep->mailbox.link.asking_hint, &seal));
	accepted(fi_close(&ep->ep_fid.fid));
	close_pair(pair);
}

/* Whoever has seen one may repeat it. */
Test(hint, that_is_repeated_without_a_request_is_not_believed_for_ever)
{
	struct pair *pair = open_pair();
	struct pmv_agent *agent = &pair->to->domain->agent;
	struct pmv_flush_message message = {0};

	for (int i = 0; i < 16; i++) {
		say(pair, &pair->from->mailbox.link.hint, HINT);
		cr_expect(pmv_idle_listen(agent, SECOND));
	}
	say(pair, &pair->from->mailbox.link.hint, HINT);
	cr_expect_not(pmv_idle_listen(agent, SECOND));
	pair_tell(pair, &message);
	pair_serve(pair);
	say(pair, &pair->from->mailbox.link.hint, HINT);
	cr_expect(pmv_idle_listen(agent, SECOND), "there was a request");
	close_pair(pair);
}

static void serve_at(struct pair *pair, int64_t now)
{
	pmv_look_served(&pair->to->domain->agent.looks, &pair->to->mailbox.receiver, now);
}

/* The data before a request may take longer than the hint behind it. */
Test(look, goes_on_in_short_sleeps_behind_a_hint)
{
	struct pair *pair = open_pair();
	struct pmv_agent *agent = &pair->to->domain->agent;
	struct pmv_mailbox *to = &pair->to->mailbox;

	pmv_look_hinted(&agent->looks, &to->receiver, false, SECOND);
	pmv_look_park(&agent->looks, SECOND + SECOND / 200);
	cr_expect_not(to->receiver.look.parked);
	cr_expect(agent->looks.expecting);
	pmv_look_park(&agent->looks, SECOND + SECOND / 50);
	cr_expect(to->receiver.look.parked);
	pmv_look_park(&agent->looks, SECOND + SECOND / 50);
	cr_expect_not(agent->looks.expecting);
	close_pair(pair);
}

/* look_late -- others have had the processor behind the hint of a request, which is not repeated */
static void look_late(int64_t search_ns)
{
	struct pair *pair = open_pair();
	struct pmv_agent *agent = &pair->to->domain->agent;
	struct pmv_receiver *receiver = &pair->to->mailbox.receiver;
	struct pmv_flush_message message = {0};
	struct pmv_idle_plan plan;

	pmv_idle_plan_init(&plan);
	plan.listen_ns = INT64_MAX;
	plan.search_ns = search_ns;
	pmv_look_hinted(&agent->looks, receiver, false, 1);
	pair_tell(pair, &message);
	pmv_idle(agent, &plan, false);
	cr_expect_not(receiver->look.parked);
	pair_serve(pair);
	cr_expect_eq(receiver->served, 1);
	close_pair(pair);
}

Test(look, does_not_end_before_a_request_that_came_in_time)
{
	look_late(INT64_MAX);
}

Test(look, does_not_end_while_all_mailboxes_are_searched)
{
	look_late(0);
}

/* The last gigabytes may take seconds.  The request must not wait for one more hint. */
Test(hint, keeps_the_peer_looking_until_it_is_repeated)
{
	struct pair *pair = open_pair();
	struct pmv_mailbox *from = &pair->from->mailbox, *to = &pair->to->mailbox;
	struct pmv_looks *looks = &pair->to->domain->agent.looks;
	int64_t start, now;

	heard(pair, true);
	commit(pair, 1);
	start = now =
		atomic_load(&from->sender.hint_again_ns) - atomic_load(&from->sender.hint_wait_ns);
	while (now < start + 10 * SECOND) {
		cr_expect(pmv_look_hinted(looks, &to->receiver, false, now));
		heard(pair, false);
		now = atomic_load(&from->sender.hint_again_ns);
		pmv_look_park(looks, now - 1);
		cr_expect(looks->expecting, "%d ms later", (int) ((now - start) / 1000000));
		pmv_sender_hint_again(&from->sender, now);
		cr_expect_eq(heard(pair, false), 1);
	}
	serve_at(pair, now);
	pmv_look_park(looks, now);
	cr_expect_not(looks->expecting);
	close_pair(pair);
}

/* A peer that asks for hints may send no requests at all. */
Test(hint, that_asks_is_answered_now_and_then_for_ever_and_announces_nothing)
{
	struct pair *pair = open_pair();
	struct pmv_agent *agent = &pair->to->domain->agent;
	struct pmv_hint hint;

	heard(pair, true);
	for (int i = 1; i <= 100; i++) {
		say(pair, &pair->from->mailbox.link.asking_hint, HINT);
		cr_assert(pmv_idle_listen(agent, i * SECOND / 10), "the %d.", i);
		cr_expect_eq(hear(&hint), HINT);
		pmv_look_park(&agent->looks, i * SECOND / 10);
		cr_expect_not(agent->looks.expecting);
	}
	cr_expect(is_hinted(pair));
	close_pair(pair);
}

Test(look, goes_on_from_the_acknowledgement)
{
	struct pair *pair = open_pair();
	struct pmv_agent *agent = &pair->to->domain->agent;
	struct pmv_mailbox *to = &pair->to->mailbox;

	to->receiver.look.expect.window_ns = SECOND;
	pmv_look_acknowledged(&agent->looks, &to->receiver, 5 * SECOND);
	cr_expect_eq(to->receiver.look.expect.until_ns, 6 * SECOND);
	cr_expect_eq(agent->looks.until_ns, 6 * SECOND);
	close_pair(pair);
}

/* It may have no thread that could answer. */
Test(look, trusts_a_peer_that_never_answers_and_never_asks)
{
	struct pair *pair = open_pair();
	struct pmv_agent *agent = &pair->to->domain->agent;

	pmv_setting.agent = PMV_AGENT_THREAD;
	for (int i = 0; i < 10; i++) {
		cr_expect_not(is_hinted(pair));
		pmv_idle_ask_for_hints(agent);
	}
	pmv_setting.agent = PMV_AGENT_PROGRESS;
	cr_expect(is_hinted(pair));
	cr_expect_eq(agent->looks.unhinted, 0);
	close_pair(pair);
}

/* Whoever listens to no hints finds every request by looking. */
Test(look, trusts_nobody_without_listening)
{
	struct pair *pair = open_pair();
	struct pmv_agent *agent = &pair->to->domain->agent;

	for (int i = 0; i < 20; i++)
		pmv_idle_ask_for_hints(agent);
	cr_expect_not(is_hinted(pair));
	pmv_look_park(&agent->looks, pmv_clock_ns() + SECOND);
	cr_expect_not(pair->to->mailbox.receiver.look.parked);
	close_pair(pair);
}

Test(hint, that_is_lost_costs_time_only)
{
	struct pair *pair = open_pair();
	struct pmv_agent *agent = &pair->to->domain->agent;
	struct pmv_mailbox *to = &pair->to->mailbox;
	struct pmv_flush_message message = {0};

	say(pair, &pair->from->mailbox.link.hint, HINT);
	cr_expect(pmv_idle_listen(agent, SECOND));
	pmv_look_park(&agent->looks, 2 * SECOND);
	cr_expect(to->receiver.look.parked);
	cr_expect_eq(agent->looks.num_parked, 1);
	pair_tell(pair, &message);
	cr_expect_not(pmv_service_waits(agent));
	cr_expect_not(pmv_service_round(agent, PMV_WHOLE_SLICE));
	pmv_look_everywhere(&agent->looks, false, 2 * SECOND);
	cr_expect_not(to->receiver.look.parked);
	cr_expect_eq(agent->looks.num_parked, 0);
	cr_expect_not(to->receiver.look.hinted, "hints do not arrive");
	cr_expect_eq(agent->looks.unhinted, 1);
	cr_expect(pmv_service_waits(agent));
	pair_serve(pair);
	pair_expect_ack(pair, 1, PMV_FAULT_NONE);
	close_pair(pair);
}

Test(hint, that_is_dropped_here_says_nothing_of_others)
{
	struct pair *pair = open_pair();
	struct pmv_agent *agent = &pair->to->domain->agent;
	struct pmv_flush_message message = {0};

	say(pair, &pair->from->mailbox.link.hint, HINT);
	cr_expect(pmv_idle_listen(agent, SECOND));
	pmv_look_park(&agent->looks, 2 * SECOND);
	pair_tell(pair, &message);
	pmv_look_everywhere(&agent->looks, true, 2 * SECOND);
	cr_expect_not(pair->to->mailbox.receiver.look.parked);
	cr_expect(is_hinted(pair), "they arrive");
	pair_serve(pair);
	pair_expect_ack(pair, 1, PMV_FAULT_NONE);
	close_pair(pair);
}

/* What is left in its mailbox would wake the thread again and again. */
Test(hint, is_not_missed_of_who_is_refused)
{
	struct pair *pair = open_pair();
	struct pmv_agent *agent = &pair->to->domain->agent;
	struct pmv_receiver *receiver = &pair->to->mailbox.receiver;
	struct pmv_flush_message message = {0};

	say(pair, &pair->from->mailbox.link.hint, HINT);
	cr_expect(pmv_idle_listen(agent, SECOND));
	pair_tell(pair, &message);
	receiver->refused = receiver->ended = true;
	pmv_look_park(&agent->looks, 2 * SECOND);
	cr_expect(receiver->look.parked);
	pmv_look_everywhere(&agent->looks, false, 2 * SECOND);
	cr_expect(receiver->look.parked);
	cr_expect(receiver->look.hinted);
	close_pair(pair);
}
