/* SPDX-License-Identifier: BSD-2-Clause */
/* test_noise.c -- two messages: as others make them, and everything that is not genuine */
#include "auth/noise.h"

#include <string.h>

#include <criterion/criterion.h>
#include <sodium.h>

#define TEXT "what one says to the other"
#define REQUEST PMV_NOISE_REQUEST(sizeof(TEXT))
#define REPLY PMV_NOISE_REPLY(sizeof(TEXT))

/* The test vector of Noise_IK_25519_ChaChaPoly_SHA256 that comes with cacophony. */
#define PROLOGUE "4a6f686e2047616c74"
#define I_STATIC "e61ef9919cde45dd5f82166404bd08e38bceb5dfdfded0a34c8df7ed542214d1"
#define I_EPHEMERAL "893e28b9dc6ca8d611ab664754b8ceb7bac5117349a4439a6b0569da977c464a"
#define R_PUBLIC "31e0303fd6418d2f8c0e78b91f22e8caed0fbe48656dcf4767e4834f701b8f62"
#define R_STATIC "4a3acbfdb163dec651dfa3194dece676d437029c62a408b4c5ea9114246e4893"
#define R_EPHEMERAL "bbdb4cdbd309f1a1f2e1456967fe288cadd6f712d65dc7b7793d5e63da6b375b"
#define PAYLOAD_1 "4c756477696720766f6e204d69736573"
#define PAYLOAD_2 "4d757272617920526f746862617264"
#define MESSAGE_1                                                                                  \
	"ca35def5ae56cec33dc2036731ab14896bc4c75dbb07a61f879f8e3afa4c7944718da798efbcd91528520204" \
	"f904b9bd6c7413dccdc214d951e15253e39987f18146e8cd0873654207148333479d4d16c289f0294b29960a" \
	"72f48e0b7bba2e89083169825e59642148d492020664ccf7"
#define MESSAGE_2                                                                                  \
	"95ebc60d2b1fa672c1f46a8aa265ef51bfe38e7ccb39ec5be34069f1448088435361e70b2ed446e6c9ec387d" \
	"1d6b3b840f194e373979d241b203c4acafccf5"

/* What is sent behind them: with either key that Split() gives. */
#define PAYLOAD_3 "462e20412e20486179656b"
#define PAYLOAD_4 "4361726c204d656e676572"
#define MESSAGE_3 "050e9f3c8fac16b68dbce8f8c4bfbf6617c897f9ada4aa29aa19c8"
#define MESSAGE_4 "344233a6cabb7141d80f3da2fedc311d9646bbb0f505afe403a667"

static size_t unhex(uint8_t *out, const char *hex)
{
	size_t len;

	cr_assert_eq(sodium_hex2bin(out, 256, hex, strlen(hex), NULL, &len, NULL), 0);
	return len;
}

static struct pmv_noise_pair pair_of(const char *hex)
{
	struct pmv_noise_pair pair;
	uint8_t secret[256];

	cr_assert_eq(unhex(secret, hex), PMV_NOISE_KEY);
	memcpy(pair.secret, secret, PMV_NOISE_KEY);
	cr_assert(pmv_noise_public(&pair));
	return pair;
}

static void expect_opens(const uint8_t key[32], const char *message, const char *payload)
{
	static const uint8_t nonce[crypto_aead_chacha20poly1305_ietf_NPUBBYTES];
	uint8_t sealed[256], expected[256], text[256];
	size_t len = unhex(sealed, message);

	cr_expect_eq(crypto_aead_chacha20poly1305_ietf_decrypt(text, NULL, NULL, sealed, len, NULL,
							       0, nonce, key),
		     0);
	len = unhex(expected, payload);
	cr_expect_arr_eq(text, expected, len);
}

static void expect_split(const struct pmv_noise *noise)
{
	uint8_t first[32], second[32];

	pmv_noise_split(noise, first, second);
	expect_opens(first, MESSAGE_3, PAYLOAD_3);
	expect_opens(second, MESSAGE_4, PAYLOAD_4);
}

Test(noise, makes_the_messages_that_others_make)
{
	struct pmv_noise_pair i_own = pair_of(I_STATIC), i_ephemeral = pair_of(I_EPHEMERAL);
	struct pmv_noise_pair r_own = pair_of(R_STATIC), r_ephemeral = pair_of(R_EPHEMERAL);
	uint8_t prologue[256], peer[256], text[256], expected[256], message[256], got[256];
	size_t prologue_len = unhex(prologue, PROLOGUE), len;
	struct pmv_noise i, r;

	unhex(peer, R_PUBLIC);
	cr_expect_arr_eq(r_own.public, peer, PMV_NOISE_KEY);
	pmv_noise_initiator(&i, &i_own, peer, prologue, prologue_len);
	pmv_noise_responder(&r, &r_own, prologue, prologue_len);

	len = unhex(text, PAYLOAD_1);
	cr_assert_eq(unhex(expected, MESSAGE_1), PMV_NOISE_REQUEST(len));
	cr_assert(pmv_noise_write_request(&i, &i_ephemeral, text, len, message));
	cr_expect_arr_eq(message, expected, PMV_NOISE_REQUEST(len));
	cr_assert(pmv_noise_read_request(&r, message, got, len));
	cr_expect_arr_eq(got, text, len);
	cr_expect_arr_eq(r.peer, i_own.public, PMV_NOISE_KEY, "he knows who it is");

	len = unhex(text, PAYLOAD_2);
	cr_assert_eq(unhex(expected, MESSAGE_2), PMV_NOISE_REPLY(len));
	cr_assert(pmv_noise_write_reply(&r, &r_ephemeral, text, len, message));
	cr_expect_arr_eq(message, expected, PMV_NOISE_REPLY(len));
	cr_assert(pmv_noise_read_reply(&i, message, got, len));
	cr_expect_arr_eq(got, text, len);
	cr_expect_arr_eq(i.hash, r.hash, sizeof(i.hash));
	expect_split(&i);
	expect_split(&r);
}

/* Two ends that know each other, and what they have sent. */
struct exchange {
	struct pmv_noise_pair i_own, r_own, i_ephemeral, r_ephemeral;
	struct pmv_noise i, r;
	uint8_t request[REQUEST], reply[REPLY];
};

static void draw(struct pmv_noise_pair *pair)
{
	randombytes_buf(pair->secret, sizeof(pair->secret));
	cr_assert(pmv_noise_public(pair));
}

static void start(struct exchange *x)
{
	draw(&x->i_own);
	draw(&x->r_own);
	draw(&x->i_ephemeral);
	draw(&x->r_ephemeral);
	pmv_noise_initiator(&x->i, &x->i_own, x->r_own.public, "p", 1);
	pmv_noise_responder(&x->r, &x->r_own, "p", 1);
	cr_assert(pmv_noise_write_request(&x->i, &x->i_ephemeral, TEXT, sizeof(TEXT), x->request));
}

static void answer(struct exchange *x)
{
	char text[sizeof(TEXT)];

	cr_assert(pmv_noise_read_request(&x->r, x->request, text, sizeof(text)));
	cr_assert_str_eq(text, TEXT);
	cr_assert(pmv_noise_write_reply(&x->r, &x->r_ephemeral, TEXT, sizeof(TEXT), x->reply));
}

Test(noise, carries_what_one_says_to_the_other)
{
	char text[sizeof(TEXT)];
	struct exchange x;

	start(&x);
	answer(&x);
	cr_assert(pmv_noise_read_reply(&x.i, x.reply, text, sizeof(text)));
	cr_expect_str_eq(text, TEXT);
	pmv_noise_wipe(&x.i);
	cr_expect(sodium_is_zero((uint8_t *) &x.i, sizeof(x.i)));
}

Test(noise, refuses_a_request_in_which_any_bit_is_another)
{
	char text[sizeof(TEXT)];
	struct exchange x;

	start(&x);
	for (size_t bit = 0; bit < 8 * REQUEST; bit++) {
		struct pmv_noise r = x.r;

		x.request[bit / 8] ^= (uint8_t) (1 << bit % 8);
		cr_expect_not(pmv_noise_read_request(&r, x.request, text, sizeof(text)), "bit %zu",
			      bit);
		x.request[bit / 8] ^= (uint8_t) (1 << bit % 8);
	}
	answer(&x);
}

Test(noise, refuses_a_reply_in_which_any_bit_is_another)
{
	char text[sizeof(TEXT)];
	struct exchange x;

	start(&x);
	answer(&x);
	for (size_t bit = 0; bit < 8 * REPLY; bit++) {
		struct pmv_noise i = x.i;

		x.reply[bit / 8] ^= (uint8_t) (1 << bit % 8);
		cr_expect_not(pmv_noise_read_reply(&i, x.reply, text, sizeof(text)), "bit %zu",
			      bit);
		x.reply[bit / 8] ^= (uint8_t) (1 << bit % 8);
	}
	cr_expect(pmv_noise_read_reply(&x.i, x.reply, text, sizeof(text)));
}

/* A payload that is taken for a shorter one: the tag is elsewhere. */
Test(noise, refuses_messages_that_were_cut)
{
	char text[sizeof(TEXT)];
	struct exchange x;

	start(&x);
	for (size_t len = 0; len < sizeof(TEXT); len++) {
		struct pmv_noise r = x.r;

		cr_expect_not(pmv_noise_read_request(&r, x.request, text, len), "%zu", len);
	}
	answer(&x);
	for (size_t len = 0; len < sizeof(TEXT); len++) {
		struct pmv_noise i = x.i;

		cr_expect_not(pmv_noise_read_reply(&i, x.reply, text, len), "%zu", len);
	}
}

Test(noise, binds_the_prologue)
{
	char text[sizeof(TEXT)];
	struct exchange x;
	struct pmv_noise r;

	start(&x);
	pmv_noise_responder(&r, &x.r_own, "q", 1);
	cr_expect_not(pmv_noise_read_request(&r, x.request, text, sizeof(text)));
	pmv_noise_responder(&r, &x.r_own, "pp", 2);
	cr_expect_not(pmv_noise_read_request(&r, x.request, text, sizeof(text)));
}

Test(noise, is_for_one_target_only)
{
	char text[sizeof(TEXT)];
	struct exchange x, y;
	struct pmv_noise r;

	start(&x);
	start(&y);
	pmv_noise_responder(&r, &y.r_own, "p", 1);
	cr_expect_not(pmv_noise_read_request(&r, x.request, text, sizeof(text)));
	answer(&x);
	answer(&y);
	cr_expect_not(pmv_noise_read_reply(&x.i, y.reply, text, sizeof(text)), "of another");
}

/* Whoever has only a peer's public key can't make what looks like that peer's. */
Test(noise, needs_the_secret_of_the_key_that_it_names)
{
	char text[sizeof(TEXT)];
	struct pmv_noise_pair liar;
	struct exchange x;
	struct pmv_noise i, r;
	uint8_t request[REQUEST];

	start(&x);
	draw(&liar);
	memcpy(liar.public, x.i_own.public, sizeof(liar.public));
	pmv_noise_initiator(&i, &liar, x.r_own.public, "p", 1);
	cr_assert(pmv_noise_write_request(&i, &x.i_ephemeral, TEXT, sizeof(TEXT), request));
	r = x.r;
	cr_expect_not(pmv_noise_read_request(&r, request, text, sizeof(text)));

	/* ... nor the target's: he can't even read the request, so he makes a reply without. */
	answer(&x);
	pmv_noise_responder(&r, &liar, "p", 1);
	memcpy(r.peer, x.i_own.public, sizeof(r.peer));
	memcpy(r.peer_ephemeral, x.i_ephemeral.public, sizeof(r.peer_ephemeral));
	cr_assert(pmv_noise_write_reply(&r, &x.r_ephemeral, TEXT, sizeof(TEXT), x.reply));
	cr_expect_not(pmv_noise_read_reply(&x.i, x.reply, text, sizeof(text)));
}

Test(noise, refuses_keys_of_small_order)
{
	static const uint8_t zeros[PMV_NOISE_KEY], one[PMV_NOISE_KEY] = {1};
	const uint8_t *const bad[] = {zeros, one};
	char text[sizeof(TEXT)];

	for (size_t n = 0; n < 2; n++) {
		struct exchange x;

		start(&x);
		pmv_noise_initiator(&x.i, &x.i_own, bad[n], "p", 1);
		cr_expect_not(pmv_noise_write_request(&x.i, &x.i_ephemeral, TEXT, sizeof(TEXT),
						      x.request));
		memcpy(x.request, bad[n], PMV_NOISE_KEY);
		cr_expect_not(pmv_noise_read_request(&x.r, x.request, text, sizeof(text)));
	}
}
