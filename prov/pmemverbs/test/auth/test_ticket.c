/* SPDX-License-Identifier: BSD-2-Clause */
/* test_ticket.c -- what stands for a proof: for whom, how often, and how long */
#include "auth/ticket.h"

#include <netinet/in.h>
#include <string.h>

#include <criterion/criterion.h>

#include "test/support/key_dirs.h"

#define PORT 9228
#define ASKS "what the application asks, and a handshake"
#define SAYS "what the application replies"
#define NOW 1000000

static char why[PMV_KEYS_WHY];
static struct sockaddr_in there = {
	.sin_family = AF_INET, .sin_addr.s_addr = 0x010200c0, .sin_port = 0};
static const struct sockaddr *from = (struct sockaddr *) &there;
static struct pmv_tickets tickets;

static void setup(void)
{
	there.sin_port = htons(PORT);
	key_dirs_make();
	key_dirs_be(TARGET);
	cr_assert_eq(pmv_admission_check(why), 0, "%s", why);
	pmv_tickets_init(&tickets);
}

static void teardown(void)
{
	pmv_tickets_forget(&tickets);
	key_dirs_remove();
}

TestSuite(ticket, .init = setup, .fini = teardown);

/* One exchange: what both ends have of it. */
struct both {
	struct pmv_admission *initiator, *target;
	uint8_t data[PMV_ADMISSION_MOST];
	size_t len;
};

static void exchange(struct both *both)
{
	uint8_t reply[PMV_ADMISSION_REPLY];
	size_t len = 0;

	both->len = sizeof(ASKS);
	memcpy(both->data, ASKS, both->len);
	key_dirs_be(CLIENT);
	both->initiator =
		pmv_admission_request(PMV_ADMISSION_BEFORE, from, both->data, &both->len, why);
	cr_assert_not_null(both->initiator, "%s", why);
	key_dirs_be(TARGET);
	both->target = pmv_admission_asked(PMV_ADMISSION_BEFORE, from, PORT, 0, both->data,
					   &both->len, why);
	cr_assert_not_null(both->target, "%s", why);
	cr_assert(pmv_admission_reply(both->target, reply, &len, why), "%s", why);
	cr_assert(pmv_admission_established(both->initiator, reply, &len, why), "%s", why);
	pmv_ticket_make(both->initiator);
	pmv_ticket_make(both->target);
}

static void forget(struct both *both)
{
	pmv_admission_free(both->initiator);
	pmv_admission_free(both->target);
}

/* give -- the target has given it out at NOW */
static void give(struct both *both)
{
	exchange(both);
	cr_assert(pmv_tickets_add(&tickets, both->target, both->data, both->len, NOW, why), "%s",
		  why);
	both->target = NULL;
}

/* show -- NULL: it is refused */
static struct pmv_admission *show(const struct both *both, const struct sockaddr *whence,
				  int64_t now, uint8_t data[PMV_ADMISSION_MOST], size_t *len)
{
	*len = PMV_TICKET_SIZE;
	memcpy(data, both->initiator->ticket, *len);
	return pmv_tickets_take(&tickets, whence, now, data, len, why);
}

static void expect_taken(const struct both *both, int64_t now)
{
	uint8_t data[PMV_ADMISSION_MOST];
	struct pmv_admission *admission;
	size_t len;

	admission = show(both, from, now, data, &len);
	cr_assert_not_null(admission, "%s", why);
	cr_expect_eq(len, sizeof(ASKS), "what it stands for is in its place");
	cr_expect_str_eq((char *) data, ASKS);
	cr_expect_str_eq(admission->name, "peer1");
	pmv_admission_free(admission);
}

static void expect_refused(const struct both *both, const struct sockaddr *whence, int64_t now,
			   const char *says)
{
	uint8_t data[PMV_ADMISSION_MOST];
	size_t len;

	cr_expect_null(show(both, whence, now, data, &len));
	cr_expect(strstr(why, says), "%s", why);
}

Test(ticket, is_known_to_both_ends_and_never_the_same)
{
	struct both one, other;

	exchange(&one);
	exchange(&other);
	cr_expect_arr_eq(one.initiator->ticket, one.target->ticket, PMV_TICKET_SIZE);
	cr_expect_arr_eq(one.initiator->proof_key, one.target->proof_key, PMV_TICKET_SIZE);
	cr_expect_arr_neq(one.target->ticket, one.target->proof_key, PMV_TICKET_SIZE);
	cr_expect_arr_neq(one.target->ticket, other.target->ticket, PMV_TICKET_SIZE);
	cr_expect_arr_neq(one.target->proof_key, other.target->proof_key, PMV_TICKET_SIZE);
	forget(&one);
	forget(&other);
}

Test(ticket, is_taken_once)
{
	uint8_t data[PMV_ADMISSION_MOST];
	struct pmv_admission *admission;
	struct both one, other;
	size_t len;

	give(&one);
	give(&other);
	admission = show(&other, from, NOW, data, &len);
	cr_assert_not_null(admission, "%s", why);
	expect_refused(&other, from, NOW, "its ticket is not valid, or was used");
	pmv_admission_free(admission);
	expect_taken(&one, NOW);
	forget(&one);
	forget(&other);
}

Test(ticket, is_good_for_seconds)
{
	struct both one, other;

	give(&one);
	give(&other);
	expect_taken(&one, NOW + PMV_TICKET_SECONDS * 1000 - 1);
	expect_refused(&other, from, NOW + PMV_TICKET_SECONDS * 1000, "is older than");
	expect_refused(&other, from, NOW, "its ticket is not valid");
	forget(&one);
	forget(&other);
}

Test(ticket, is_void_once_it_was_shown_from_elsewhere)
{
	struct sockaddr_in elsewhere = there;
	struct both one;

	elsewhere.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	give(&one);
	expect_refused(&one, (struct sockaddr *) &elsewhere, NOW, "at another address");
	expect_refused(&one, from, NOW, "its ticket is not valid");
	forget(&one);
	give(&one);
	expect_refused(&one, NULL, NOW, "at another address");
	forget(&one);
}

/* The address is that of the host: the port, and how it is written, are others. */
Test(ticket, is_good_from_another_port)
{
	struct sockaddr_in6 mapped = {.sin6_family = AF_INET6,
				      .sin6_addr.s6_addr = {[10] = 0xff, 0xff, 192, 0, 2, 1}};
	uint8_t data[PMV_ADMISSION_MOST];
	struct pmv_admission *admission;
	struct both one;
	size_t len;

	give(&one);
	admission = show(&one, (struct sockaddr *) &mapped, NOW, data, &len);
	cr_expect_not_null(admission, "%s", why);
	pmv_admission_free(admission);
	forget(&one);
}

/* RDMA does not tell behind which interface a peer is, and sockets do. */
Test(ticket, is_good_from_a_link_local_address_behind_one_interface)
{
	struct sockaddr_in6 link = {.sin6_family = AF_INET6,
				    .sin6_addr.s6_addr = {0xfe, 0x80, [15] = 1},
				    .sin6_scope_id = 2};
	static const struct {
		uint32_t scope;
		bool is_good;
	} cases[] = {{2, true}, {0, true}, {3, false}};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct sockaddr_in6 shown = link;
		uint8_t data[PMV_ADMISSION_MOST];
		struct pmv_admission *admission;
		struct both one;
		size_t len;

		exchange(&one);
		memcpy(&one.target->other, &link, sizeof(link));
		cr_assert(pmv_tickets_add(&tickets, one.target, one.data, one.len, NOW, why));
		one.target = NULL;
		shown.sin6_scope_id = cases[i].scope;
		admission = show(&one, (struct sockaddr *) &shown, NOW, data, &len);
		cr_expect_eq(!!admission, cases[i].is_good, "%zu: %s", i, why);
		pmv_admission_free(admission);
		forget(&one);
	}
}

Test(ticket, of_one_who_listens_is_none_of_another_one)
{
	struct pmv_tickets others;
	uint8_t data[PMV_ADMISSION_MOST];
	size_t len = PMV_TICKET_SIZE;
	struct both one;

	pmv_tickets_init(&others);
	give(&one);
	memcpy(data, one.initiator->ticket, len);
	cr_expect_null(pmv_tickets_take(&others, from, NOW, data, &len, why));
	expect_taken(&one, NOW);
	forget(&one);
}

Test(ticket, differs_in_every_bit)
{
	struct both one;

	give(&one);
	for (size_t bit = 0; bit < 8 * PMV_TICKET_SIZE; bit++) {
		one.initiator->ticket[bit / 8] ^= (uint8_t) (1 << bit % 8);
		expect_refused(&one, from, NOW, "its ticket is not valid");
		one.initiator->ticket[bit / 8] ^= (uint8_t) (1 << bit % 8);
	}
	expect_taken(&one, NOW);
	forget(&one);
}

Test(ticket, is_of_one_length)
{
	uint8_t data[PMV_ADMISSION_MOST] = {0};
	struct both one;

	give(&one);
	memcpy(data, one.initiator->ticket, PMV_TICKET_SIZE);
	for (size_t shown = 0; shown <= 256; shown++) {
		size_t len = shown;

		if (shown == PMV_TICKET_SIZE)
			continue;
		cr_expect_null(pmv_tickets_take(&tickets, from, NOW, data, &len, why));
		cr_expect(strstr(why, "it shows no ticket"), "%s", why);
	}
	expect_taken(&one, NOW);
	forget(&one);
}

/* Whoever gets them and uses none is shut out until they are too old, and nobody else is. */
Test(ticket, is_refused_to_who_has_many)
{
	struct both many[2], one;

	for (size_t n = 0; n < PMV_TICKET_MOST; n++) {
		give(&many[0]);
		forget(&many[0]);
	}
	exchange(&many[1]);
	cr_expect_not(
		pmv_tickets_add(&tickets, many[1].target, many[1].data, many[1].len, NOW, why));
	cr_expect(strstr(why, "peer1 has 4096 tickets that were not used"), "%s", why);
	many[1].target = NULL;
	forget(&many[1]);
	/* Somebody else. */
	exchange(&one);
	memset(one.target->noise.peer, 1, PMV_NOISE_KEY);
	cr_expect(pmv_tickets_add(&tickets, one.target, one.data, one.len, NOW, why), "%s", why);
	one.target = NULL;
	forget(&one);
	exchange(&one);
	cr_expect(pmv_tickets_add(&tickets, one.target, one.data, one.len,
				  NOW + PMV_TICKET_SECONDS * 1000, why),
		  "%s", why);
	one.target = NULL;
	forget(&one);
}

/* The proof behind an acceptance */

static bool established(const struct pmv_admission *initiator, const uint8_t *data, size_t len)
{
	struct pmv_admission copy = *initiator;
	bool ok = pmv_ticket_established(&copy, data, &len, why);

	cr_expect_eq(len, ok ? sizeof(SAYS) : 0);
	return ok;
}

Test(ticket, proves_what_is_accepted)
{
	uint8_t data[sizeof(SAYS) + PMV_TICKET_PROOF] = SAYS;
	struct both one, other;
	size_t len = sizeof(SAYS);

	exchange(&one);
	exchange(&other);
	cr_assert(pmv_ticket_reply(one.target, data, &len, why), "%s", why);
	cr_assert_eq(len, sizeof(data));
	cr_expect(established(one.initiator, data, len), "%s", why);
	cr_expect_not(established(other.initiator, data, len), "it is another one's");
	cr_expect(strstr(why, "it does not prove the key of peer0"), "%s", why);
	for (size_t bit = 0; bit < 8 * len; bit++) {
		data[bit / 8] ^= (uint8_t) (1 << bit % 8);
		cr_expect_not(established(one.initiator, data, len), "bit %zu", bit);
		data[bit / 8] ^= (uint8_t) (1 << bit % 8);
	}
	for (size_t less = 0; less < len; less++)
		cr_expect_not(established(one.initiator, data, less), "%zu bytes", less);
	forget(&one);
	forget(&other);
}

Test(ticket, proves_nothing_once_its_peer_was_taken_out)
{
	uint8_t data[PMV_ADMISSION_MOST];
	size_t len = 0;
	struct both one;

	exchange(&one);
	key_dirs_know(TARGET, STRANGER, "");
	cr_expect_not(pmv_ticket_reply(one.target, data, &len, why));
	cr_expect(strstr(why, "is not in the file peers"), "%s", why);
	cr_expect_eq(len, 0);
	forget(&one);
}

/* Zeros are no keys. */
Test(ticket, that_was_not_made_proves_nothing)
{
	struct pmv_admission none = {.name = "peer0"};
	uint8_t data[PMV_ADMISSION_MOST] = {0};
	size_t len = PMV_TICKET_PROOF;
	struct both one;

	cr_expect_not(pmv_ticket_established(&none, data, &len, why));
	exchange(&one);
	one.target->has_ticket = false;
	len = 0;
	cr_expect_not(pmv_ticket_reply(one.target, data, &len, why));
	forget(&one);
}

/* What was made for a ticket is no connection request of tcp, and the other way round. */
Test(ticket, is_got_by_messages_of_its_own)
{
	uint8_t data[PMV_ADMISSION_MOST] = ASKS;

	for (int way = 0; way < 2; way++) {
		size_t len = sizeof(ASKS);

		key_dirs_be(CLIENT);
		pmv_admission_free(pmv_admission_request(
			way ? PMV_ADMISSION_BEFORE : PMV_ADMISSION_WITHIN, from, data, &len, why));
		key_dirs_be(TARGET);
		cr_expect_null(
			pmv_admission_asked(way ? PMV_ADMISSION_WITHIN : PMV_ADMISSION_BEFORE, from,
					    PORT, 0, data, &len, why));
		cr_expect(strstr(why, "it proves no key"), "%s", why);
	}
}
