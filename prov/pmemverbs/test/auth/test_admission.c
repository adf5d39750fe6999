/* SPDX-License-Identifier: BSD-2-Clause */
/* test_admission.c -- two processes that know each other, and all that isn't them */
#include "auth/admission.h"
#include "base/address.h"
#include "base/log.h"

#include <netinet/in.h>
#include <string.h>
#include <time.h>

#include <criterion/criterion.h>
#include <sodium.h>

#include "auth/replay.h"
#include "test/support/key_dirs.h"

#define PORT 9228
#define ASKS "what the application asks, and a handshake"
#define SAYS "what the application replies"

int __real_clock_gettime(clockid_t clock, struct timespec *time);
int __wrap_clock_gettime(clockid_t clock, struct timespec *time);

static time_t ahead; /* of the machine's clock */

/* It is told: so often. */
static int alerts;

void __wrap_pmv_log_alert(struct pmv_alerts *each, enum fi_log_subsys subsys, const char *func,
			  int line, const char *fmt, ...);

void __wrap_pmv_log_alert(struct pmv_alerts *each, enum fi_log_subsys subsys, const char *func,
			  int line, const char *fmt, ...)
{
	(void) each;
	(void) subsys;
	(void) func;
	(void) line;
	(void) fmt;
	alerts++;
}

int __wrap_clock_gettime(clockid_t clock, struct timespec *time)
{
	int ret = __real_clock_gettime(clock, time);

	time->tv_sec += clock == CLOCK_REALTIME ? ahead : 0;
	return ret;
}

static char why[PMV_KEYS_WHY];
static uint64_t since; /* the target has listened */
static const struct sockaddr_in to = {
	.sin_family = AF_INET, .sin_addr.s_addr = 0x010200c0, .sin_port = 0};

static void setup(void)
{
	key_dirs_make();
	key_dirs_be(TARGET);
	cr_assert_eq(pmv_admission_check(why), 0, "%s", why);
	/* What is made from now on is newer than the table. */
	ahead = 1;
}

TestSuite(admission, .init = setup, .fini = key_dirs_remove);

struct cm_data {
	size_t len;
	uint8_t data[PMV_ADMISSION_MOST];
};

static struct pmv_admission *request_by(int end, struct cm_data *cm)
{
	struct sockaddr_in there = to;
	struct pmv_admission *initiator;

	there.sin_port = htons(PORT);
	cm->len = sizeof(ASKS);
	memcpy(cm->data, ASKS, cm->len);
	key_dirs_be(end);
	initiator = pmv_admission_request(PMV_ADMISSION_WITHIN, (struct sockaddr *) &there,
					  cm->data, &cm->len, why);
	cr_assert_not_null(initiator, "%s", why);
	cr_expect_eq(cm->len, sizeof(ASKS) + PMV_ADMISSION_REQUEST);
	return initiator;
}

/* ask -- the target, of which the caller frees what it says */
static struct pmv_admission *ask(const struct cm_data *cm, uint16_t port)
{
	size_t len = cm->len;
	struct pmv_admission *target;

	key_dirs_be(TARGET);
	target = pmv_admission_asked(PMV_ADMISSION_WITHIN, (struct sockaddr *) &to, port, since,
				     cm->data, &len, why);
	cr_expect(!target || len == sizeof(ASKS));
	return target;
}

static void expect_refused(const struct cm_data *cm, uint16_t port, const char *says)
{
	struct pmv_admission *target = ask(cm, port);

	cr_expect_null(target);
	cr_expect(strstr(why, says), "%s", why);
	pmv_admission_free(target);
}

static void expect_taken(const struct cm_data *cm)
{
	struct pmv_admission *target = ask(cm, PORT);

	cr_expect_not_null(target, "%s", why);
	pmv_admission_free(target);
}

static void reply(struct pmv_admission *target, struct cm_data *cm)
{
	cm->len = sizeof(SAYS);
	memcpy(cm->data, SAYS, cm->len);
	cr_assert(pmv_admission_reply(target, cm->data, &cm->len, why), "%s", why);
	cr_expect_eq(cm->len, sizeof(SAYS) + PMV_ADMISSION_REPLY);
}

static bool established(const struct pmv_admission *initiator, const struct cm_data *cm)
{
	struct pmv_admission copy = *initiator;
	size_t len = cm->len;
	bool ok = pmv_admission_established(&copy, cm->data, &len, why);

	cr_expect_eq(len, ok ? sizeof(SAYS) : 0);
	return ok;
}

Test(admission, lets_two_in_who_know_each_other)
{
	struct cm_data asks, says;
	struct pmv_admission *initiator = request_by(CLIENT, &asks), *target = ask(&asks, PORT);

	cr_assert_not_null(target, "%s", why);
	cr_expect_str_eq(initiator->name, "peer0");
	cr_expect_str_eq(target->name, "peer1");
	reply(target, &says);
	cr_expect(established(initiator, &says), "%s", why);
	pmv_admission_free(initiator);
	pmv_admission_free(target);
}

Test(admission, is_refused_without_a_proof)
{
	struct cm_data asks = {.len = 0};

	expect_refused(&asks, PORT, "it proves no key");
	asks.len = PMV_ADMISSION_REQUEST - 1;
	expect_refused(&asks, PORT, "it proves no key");
	/* Zeros, and noise. */
	memset(asks.data, 0, sizeof(asks.data));
	for (asks.len = 0; asks.len <= sizeof(asks.data); asks.len++)
		expect_refused(&asks, PORT, "it proves no key");
	randombytes_buf(asks.data, sizeof(asks.data));
	asks.len = sizeof(ASKS) + PMV_ADMISSION_REQUEST;
	expect_refused(&asks, PORT, "it proves no key");
}

Test(admission, is_refused_to_a_key_that_is_unknown)
{
	struct cm_data asks;

	pmv_admission_free(request_by(STRANGER, &asks));
	expect_refused(&asks, PORT, key_texts[STRANGER]);
}

Test(admission, is_refused_from_elsewhere)
{
	struct cm_data asks;

	pmv_admission_free(request_by(CLIENT, &asks));
	key_dirs_know(TARGET, CLIENT, "192.0.2.2");
	expect_refused(&asks, PORT, "who may not connect from that address");
	key_dirs_know(TARGET, CLIENT, "192.0.2.1");
	expect_taken(&asks);
}

Test(admission, is_refused_to_a_key_that_was_taken_out)
{
	struct cm_data asks;

	pmv_admission_free(request_by(CLIENT, &asks));
	expect_taken(&asks);
	key_dirs_know(TARGET, ENDS, "");
	pmv_admission_free(request_by(CLIENT, &asks));
	expect_refused(&asks, PORT, "is not in the file peers");
}

Test(admission, is_refused_while_the_files_are_bad)
{
	struct cm_data asks;

	pmv_admission_free(request_by(CLIENT, &asks));
	key_dirs_put(TARGET, "peers", "nonsense\n");
	expect_refused(&asks, PORT, "line 1");
	key_dirs_know(TARGET, CLIENT, "");
	expect_taken(&asks);
}

Test(admission, is_refused_if_any_bit_in_front_is_another)
{
	struct cm_data asks;

	pmv_admission_free(request_by(CLIENT, &asks));
	for (size_t bit = 0; bit < 8 * asks.len; bit++) {
		asks.data[bit / 8] ^= (uint8_t) (1 << bit % 8);
		expect_refused(&asks, PORT, "it proves no key");
		asks.data[bit / 8] ^= (uint8_t) (1 << bit % 8);
	}
	expect_taken(&asks);
}

Test(admission, is_refused_if_something_in_front_is_missing)
{
	struct cm_data asks, less;

	pmv_admission_free(request_by(CLIENT, &asks));
	for (size_t cut = 1; cut <= sizeof(ASKS); cut++) {
		less.len = asks.len - cut;
		memcpy(less.data, asks.data + cut, less.len);
		expect_refused(&less, PORT, "it proves no key");
	}
}

Test(admission, is_refused_the_second_time)
{
	struct cm_data asks;

	pmv_admission_free(request_by(CLIENT, &asks));
	expect_taken(&asks);
	expect_refused(&asks, PORT, "it was here before");
	ahead += PMV_REPLAY_WINDOW_S - 60;
	expect_refused(&asks, PORT, "it was here before");
	ahead += 61;
	expect_refused(&asks, PORT, "the clocks differ by 12");
}

Test(admission, is_refused_to_a_clock_that_is_wrong)
{
	struct cm_data asks;

	ahead += 1000;
	pmv_admission_free(request_by(CLIENT, &asks));
	ahead -= 1000;
	expect_refused(&asks, PORT, "the clocks differ by ");
	pmv_admission_free(request_by(CLIENT, &asks));
	expect_taken(&asks);
	ahead += PMV_REPLAY_WINDOW_S + 1;
	pmv_admission_free(request_by(CLIENT, &asks));
	expect_taken(&asks);
}

Test(admission, is_refused_to_what_was_made_before_the_target_began)
{
	struct cm_data asks;

	ahead = -10;
	pmv_admission_free(request_by(CLIENT, &asks));
	expect_refused(&asks, PORT, "it was made before this process listened");
}

/* Another process may have listened there, and taken it. */
Test(admission, is_refused_to_what_was_made_before_the_target_listened)
{
	struct cm_data asks;

	pmv_admission_free(request_by(CLIENT, &asks));
	since = pmv_admission_now();
	expect_refused(&asks, PORT, "it was made before this process listened");
	pmv_admission_free(request_by(CLIENT, &asks));
	expect_taken(&asks);
}

/* Else one that an earlier process has taken could be newer than the next process. */
Test(admission, is_refused_to_a_clock_that_is_far_ahead)
{
	struct cm_data asks;

	ahead += PMV_REPLAY_AHEAD_S + 2;
	pmv_admission_free(request_by(CLIENT, &asks));
	ahead -= PMV_REPLAY_AHEAD_S + 2;
	expect_refused(&asks, PORT, "s, and 5 s are allowed");
}

/* Whoever makes requests without end fills his own table. */
Test(admission, is_refused_to_nobody_because_of_others)
{
	struct cm_data first, asks;

	key_dirs_put(TARGET, "peers", "");
	key_dirs_know(TARGET, STRANGER, "");
	pmv_admission_free(request_by(STRANGER, &first));
	ahead += 60;
	for (int n = 0; n < 2 * PMV_REPLAY_SETS * PMV_REPLAY_WAYS; n++) {
		pmv_admission_free(request_by(STRANGER, &asks));
		expect_taken(&asks);
	}
	expect_refused(&first, PORT, "too many requests came at once");
	ahead -= 30;
	pmv_admission_free(request_by(CLIENT, &first));
	ahead += 30;
	key_dirs_know(TARGET, CLIENT, "");
	expect_taken(&first);
}

Test(admission, is_not_granted_when_its_key_was_taken_out)
{
	struct cm_data asks, says = {.len = 0};
	struct pmv_admission *target;

	pmv_admission_free(request_by(CLIENT, &asks));
	target = ask(&asks, PORT);
	cr_assert_not_null(target);
	key_dirs_know(TARGET, STRANGER, "");
	cr_expect_not(pmv_admission_reply(target, says.data, &says.len, why));
	cr_expect(strstr(why, "is not in the file peers"), "%s", why);
	pmv_admission_free(target);
}

Test(admission, is_refused_at_another_port)
{
	struct cm_data asks;

	pmv_admission_free(request_by(CLIENT, &asks));
	expect_refused(&asks, PORT + 1, "it was made for port 9228, and this is port 9229");
	expect_taken(&asks);
}

Test(admission, needs_a_target_that_has_to_be_there)
{
	struct sockaddr_in there = to;
	struct cm_data asks = {.len = 0};

	key_dirs_know(CLIENT, TARGET, "192.0.2.2");
	key_dirs_be(CLIENT);
	cr_expect_null(pmv_admission_request(PMV_ADMISSION_WITHIN, (struct sockaddr *) &there,
					     asks.data, &asks.len, why));
	cr_expect(strstr(why, "no line for it"), "%s", why);
	cr_expect_null(
		pmv_admission_request(PMV_ADMISSION_WITHIN, NULL, asks.data, &asks.len, why));
	cr_expect_eq(asks.len, 0);
}

Test(admission, is_refused_by_the_client_to_what_is_not_the_target)
{
	struct cm_data asks, says;
	struct pmv_admission *initiator = request_by(CLIENT, &asks), *target = ask(&asks, PORT);

	cr_assert_not_null(target);
	says.len = 0;
	cr_expect_not(established(initiator, &says));
	cr_expect(strstr(why, "it proves no key at all"), "%s", why);
	reply(target, &says);
	for (size_t bit = 0; bit < 8 * says.len; bit++) {
		says.data[bit / 8] ^= (uint8_t) (1 << bit % 8);
		cr_expect_not(established(initiator, &says), "bit %zu", bit);
		says.data[bit / 8] ^= (uint8_t) (1 << bit % 8);
	}
	cr_expect(strstr(why, "it does not prove the key of peer0"), "%s", why);
	cr_expect(established(initiator, &says));
	says.len--;
	cr_expect_not(established(initiator, &says));
	pmv_admission_free(initiator);
	pmv_admission_free(target);
}

/* One who has the target's address, but not its key, can't read the request. */
Test(admission, can_not_be_granted_by_who_has_another_key)
{
	struct cm_data asks, says;
	struct pmv_admission *initiator = request_by(CLIENT, &asks);
	size_t len = asks.len;

	key_dirs_be(STRANGER);
	key_dirs_know(STRANGER, CLIENT, "");
	cr_expect_null(pmv_admission_asked(PMV_ADMISSION_WITHIN, (struct sockaddr *) &to, PORT, 0,
					   asks.data, &len, why));
	cr_expect(strstr(why, "was made for another target's"), "%s", why);
	/* He sends what he was sent. */
	says = asks;
	cr_expect_not(established(initiator, &says));
	pmv_admission_free(initiator);
}

Test(admission, tells_a_client_that_is_refused_which_keys_may_be_missing)
{
	struct cm_data asks;
	struct pmv_admission *initiator = request_by(CLIENT, &asks);

	pmv_admission_refused(initiator, "nobody listens there, or", why);
	cr_expect_eq(strncmp(why, "nobody listens there, or it ", 28), 0, "%s", why);
	cr_expect(strstr(why, key_texts[CLIENT]), "%s", why);
	cr_expect(strstr(why, key_texts[TARGET]), "%s", why);
	cr_expect_null(strchr(why, '\n'));
	cr_expect_eq(pmv_address_port((struct sockaddr *) &initiator->other), PORT);
	pmv_admission_free(initiator);
}

/* Without FI_LOG_LEVEL, too, and whoever asks how often. */
Test(admission, tells_once_when_the_files_go_bad)
{
	struct cm_data asks;

	for (int times = 1; times <= 2; times++) {
		pmv_admission_free(request_by(CLIENT, &asks));
		expect_taken(&asks);
		key_dirs_put(TARGET, "peers", "nonsense\n");
		for (int i = 0; i < 3; i++)
			expect_refused(&asks, PORT, "line 1");
		cr_expect_eq(alerts, times);
		key_dirs_know(TARGET, CLIENT, "");
	}
}
