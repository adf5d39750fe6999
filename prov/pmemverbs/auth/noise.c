/* SPDX-License-Identifier: BSD-2-Clause */
/* noise.c -- Noise_IK_25519_ChaChaPoly_SHA256; noise.h says which messages */
#include "auth/noise.h"

#include <string.h>

#include <sodium.h>

#define NAME "Noise_IK_25519_ChaChaPoly_SHA256"

/* The protocol's name is as long as a hash, so it begins as one. */
_Static_assert(sizeof(NAME) - 1 == crypto_hash_sha256_BYTES, "name");
_Static_assert(crypto_scalarmult_BYTES == PMV_NOISE_KEY, "key");
_Static_assert(crypto_aead_chacha20poly1305_ietf_ABYTES == PMV_NOISE_TAG, "tag");

static void hmac(uint8_t out[32], const uint8_t key[32], const void *data, size_t len, uint8_t last)
{
	crypto_auth_hmacsha256_state state;

	crypto_auth_hmacsha256_init(&state, key, 32);
	crypto_auth_hmacsha256_update(&state, data, len);
	if (last)
		crypto_auth_hmacsha256_update(&state, &last, 1);
	crypto_auth_hmacsha256_final(&state, out);
	sodium_memzero(&state, sizeof(state));
}

static void mix_hash(struct pmv_noise *noise, const void *data, size_t len)
{
	crypto_hash_sha256_state state;

	crypto_hash_sha256_init(&state);
	crypto_hash_sha256_update(&state, noise->hash, sizeof(noise->hash));
	crypto_hash_sha256_update(&state, data, len);
	crypto_hash_sha256_final(&state, noise->hash);
}

/* expand -- the first two outputs of HKDF; temp is the key that was extracted */
static void expand(const uint8_t temp[32], uint8_t first[32], uint8_t second[32])
{
	uint8_t text[33];

	hmac(first, temp, NULL, 0, 1);
	memcpy(text, first, 32);
	hmac(second, temp, text, 32, 2);
	sodium_memzero(text, sizeof(text));
}

/* mix_key -- what the two have agreed on: HKDF, the second output of which encrypts from now on */
static bool mix_key(struct pmv_noise *noise, const uint8_t secret[32], const uint8_t public[32])
{
	uint8_t shared[32], temp[32];
	/* A public key of small order gives 0, whoever has the secret one. */
	bool ok = !crypto_scalarmult(shared, secret, public);

	if (ok) {
		hmac(temp, noise->chaining, shared, sizeof(shared), 0);
		expand(temp, noise->chaining, noise->key);
	}
	sodium_memzero(shared, sizeof(shared));
	sodium_memzero(temp, sizeof(temp));
	return ok;
}

/*
 * The nonce counts what one key has encrypted.  Each key of these two messages encrypts one text:
 * es the static key, ss payload 1, se payload 2.
 */
static const uint8_t nonce[crypto_aead_chacha20poly1305_ietf_NPUBBYTES];

static void seal(struct pmv_noise *noise, uint8_t *out, const void *text, size_t len)
{
	crypto_aead_chacha20poly1305_ietf_encrypt(out, NULL, text, len, noise->hash,
						  sizeof(noise->hash), NULL, nonce, noise->key);
	mix_hash(noise, out, len + PMV_NOISE_TAG);
}

static bool open(struct pmv_noise *noise, void *text, const uint8_t *in, size_t len)
{
	if (crypto_aead_chacha20poly1305_ietf_decrypt(text, NULL, NULL, in, len + PMV_NOISE_TAG,
						      noise->hash, sizeof(noise->hash), nonce,
						      noise->key))
		return false;
	mix_hash(noise, in, len + PMV_NOISE_TAG);
	return true;
}

bool pmv_noise_public(struct pmv_noise_pair *pair)
{
	return !crypto_scalarmult_base(pair->public, pair->secret);
}

static void begin(struct pmv_noise *noise, const struct pmv_noise_pair *own,
		  const uint8_t *responder, const void *prologue, size_t len)
{
	noise->own = *own;
	memcpy(noise->hash, NAME, sizeof(noise->hash));
	memcpy(noise->chaining, NAME, sizeof(noise->chaining));
	mix_hash(noise, prologue, len);
	mix_hash(noise, responder, PMV_NOISE_KEY);
}

void pmv_noise_initiator(struct pmv_noise *noise, const struct pmv_noise_pair *own,
			 const uint8_t peer[PMV_NOISE_KEY], const void *prologue, size_t len)
{
	memset(noise, 0, sizeof(*noise));
	memcpy(noise->peer, peer, PMV_NOISE_KEY);
	begin(noise, own, peer, prologue, len);
}

void pmv_noise_responder(struct pmv_noise *noise, const struct pmv_noise_pair *own,
			 const void *prologue, size_t len)
{
	memset(noise, 0, sizeof(*noise));
	begin(noise, own, own->public, prologue, len);
}

bool pmv_noise_write_request(struct pmv_noise *noise, const struct pmv_noise_pair *ephemeral,
			     const void *payload, size_t len, uint8_t *message)
{
	uint8_t *at = message;

	noise->ephemeral = *ephemeral;
	memcpy(at, ephemeral->public, PMV_NOISE_KEY);
	mix_hash(noise, at, PMV_NOISE_KEY);
	at += PMV_NOISE_KEY;
	if (!mix_key(noise, ephemeral->secret, noise->peer))
		return false;
	seal(noise, at, noise->own.public, PMV_NOISE_KEY);
	at += PMV_NOISE_KEY + PMV_NOISE_TAG;
	if (!mix_key(noise, noise->own.secret, noise->peer))
		return false;
	seal(noise, at, payload, len);
	return true;
}

bool pmv_noise_read_request(struct pmv_noise *noise, const uint8_t *message, void *payload,
			    size_t len)
{
	const uint8_t *at = message;

	memcpy(noise->peer_ephemeral, at, PMV_NOISE_KEY);
	mix_hash(noise, at, PMV_NOISE_KEY);
	at += PMV_NOISE_KEY;
	if (!mix_key(noise, noise->own.secret, noise->peer_ephemeral) ||
	    !open(noise, noise->peer, at, PMV_NOISE_KEY))
		return false;
	at += PMV_NOISE_KEY + PMV_NOISE_TAG;
	return mix_key(noise, noise->own.secret, noise->peer) && open(noise, payload, at, len);
}

bool pmv_noise_write_reply(struct pmv_noise *noise, const struct pmv_noise_pair *ephemeral,
			   const void *payload, size_t len, uint8_t *message)
{
	memcpy(message, ephemeral->public, PMV_NOISE_KEY);
	mix_hash(noise, message, PMV_NOISE_KEY);
	if (!mix_key(noise, ephemeral->secret, noise->peer_ephemeral) ||
	    !mix_key(noise, ephemeral->secret, noise->peer))
		return false;
	seal(noise, message + PMV_NOISE_KEY, payload, len);
	return true;
}

bool pmv_noise_read_reply(struct pmv_noise *noise, const uint8_t *message, void *payload,
			  size_t len)
{
	memcpy(noise->peer_ephemeral, message, PMV_NOISE_KEY);
	mix_hash(noise, message, PMV_NOISE_KEY);
	return mix_key(noise, noise->ephemeral.secret, noise->peer_ephemeral) &&
	       mix_key(noise, noise->own.secret, noise->peer_ephemeral) &&
	       open(noise, payload, message + PMV_NOISE_KEY, len);
}

void pmv_noise_split(const struct pmv_noise *noise, uint8_t first[32], uint8_t second[32])
{
	uint8_t temp[32];

	hmac(temp, noise->chaining, NULL, 0, 0);
	expand(temp, first, second);
	sodium_memzero(temp, sizeof(temp));
}

void pmv_noise_wipe(struct pmv_noise *noise)
{
	sodium_memzero(noise, sizeof(*noise));
}
