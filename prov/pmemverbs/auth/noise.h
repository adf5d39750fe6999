/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * noise.h -- Noise_IK_25519_ChaChaPoly_SHA256 (noiseprotocol.org, revision 34): two messages
 *
 *      <- s                       the initiator knows the responder's public key
 *    1 -> e, es, s, ss, payload   the responder learns the initiator's, and that he has the secret
 *    2 <- e, ee, se, payload      the initiator learns that the responder has his
 *
 * No messages are sent behind them.  The keys that they agree on are made for tickets only
 * (ticket.h).  These are pure functions: the caller draws the ephemeral key.  Each of them is used
 * for one exchange only.
 * Whoever sends message 1 binds everything that the prologue has to it.
 */
#ifndef PMV_NOISE_H
#define PMV_NOISE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PMV_NOISE_KEY 32
#define PMV_NOISE_TAG 16

/* How long the messages are, with a payload of so many bytes. */
#define PMV_NOISE_REQUEST(payload) (2 * PMV_NOISE_KEY + 2 * PMV_NOISE_TAG + (payload))
#define PMV_NOISE_REPLY(payload) (PMV_NOISE_KEY + PMV_NOISE_TAG + (payload))

struct pmv_noise_pair {
	uint8_t secret[PMV_NOISE_KEY];
	uint8_t public[PMV_NOISE_KEY];
};

/* One end's state.  It has secrets: pmv_noise_wipe. */
struct pmv_noise {
	struct pmv_noise_pair own;       /* static */
	struct pmv_noise_pair ephemeral; /* own */
	uint8_t peer[PMV_NOISE_KEY];     /* static, public: a responder has it after message 1 */
	uint8_t peer_ephemeral[PMV_NOISE_KEY];
	uint8_t hash[32];     /* of all that both have seen */
	uint8_t chaining[32]; /* of all that both have agreed on */
	uint8_t key[32];
};

/* pmv_noise_public -- of a secret key; false: it is none */
bool pmv_noise_public(struct pmv_noise_pair *pair);

void pmv_noise_initiator(struct pmv_noise *noise, const struct pmv_noise_pair *own,
			 const uint8_t peer[PMV_NOISE_KEY], const void *prologue, size_t len);
void pmv_noise_responder(struct pmv_noise *noise, const struct pmv_noise_pair *own,
			 const void *prologue, size_t len);

/*
 * The writers put PMV_NOISE_REQUEST or _REPLY(len) bytes there.  The readers are given a message of
 * that length, and put its payload of len bytes there.  False: a message is not genuine (of what
 * was read nothing may be used), or a key is none.
 */
bool pmv_noise_write_request(struct pmv_noise *noise, const struct pmv_noise_pair *ephemeral,
			     const void *payload, size_t len, uint8_t *message);
bool pmv_noise_read_request(struct pmv_noise *noise, const uint8_t *message, void *payload,
			    size_t len);
bool pmv_noise_write_reply(struct pmv_noise *noise, const struct pmv_noise_pair *ephemeral,
			   const void *payload, size_t len, uint8_t *message);
bool pmv_noise_read_reply(struct pmv_noise *noise, const uint8_t *message, void *payload,
			  size_t len);

/* pmv_noise_split -- Split(), after both messages: two keys that nobody else has */
void pmv_noise_split(const struct pmv_noise *noise, uint8_t first[32], uint8_t second[32]);

void pmv_noise_wipe(struct pmv_noise *noise);

#endif /* PMV_NOISE_H */
