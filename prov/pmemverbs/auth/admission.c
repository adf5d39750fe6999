/* SPDX-License-Identifier: BSD-2-Clause */
/* admission.c -- who may connect; admission.h has the format */
#include "auth/admission.h"

#include <endian.h>
#include <inttypes.h>
#include <pthread.h>
#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <sodium.h>

#include "auth/replay.h"
#include "base/address.h"
#include "base/log.h"

#define PAYLOAD 10 /* of message 1 */

/* What the process knows: loaded again when its files have changed. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct pmv_keys *keys;
static struct pmv_keys_seen seen;
static uint64_t start_ns;
static void *tables; /* struct table, by the peers' keys: as many as were ever known */

struct table {
	uint8_t key[PMV_NOISE_KEY];
	struct pmv_replay replay;
};

uint64_t pmv_admission_now(void)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return (uint64_t) now.tv_sec * UINT64_C(1000000000) + (uint64_t) now.tv_nsec;
}

/* load -- with the lock.  Whoever has spoilt the files of a running process hears of it: once each
 * time
 */
static int load(char why[PMV_KEYS_WHY])
{
	struct pmv_alerts alerts = {0};
	bool had = keys;
	int ret;

	if (!start_ns)
		start_ns = pmv_admission_now();
	ret = pmv_keys_load(pmv_setting.keys, &keys, &seen, why);
	if (ret && had)
		pmv_log_alert(&alerts, FI_LOG_EP_CTRL, __func__, __LINE__,
			      "FI_PMEMVERBS_KEYS can't be used any more: %s\n", why);
	return ret;
}

int pmv_admission_check(char why[PMV_KEYS_WHY])
{
	int ret;

	pthread_mutex_lock(&lock);
	ret = load(why);
	pthread_mutex_unlock(&lock);
	return ret;
}

void pmv_admission_free(struct pmv_admission *admission)
{
	if (!admission)
		return;
	sodium_memzero(admission, sizeof(*admission));
	free(admission);
}

static struct pmv_admission *new_admission(char why[PMV_KEYS_WHY])
{
	struct pmv_admission *admission = calloc(1, sizeof(*admission));

	if (!admission)
		snprintf(why, PMV_KEYS_WHY, "there is no memory");
	return admission;
}

_Static_assert(sizeof(PMV_ADMISSION_PROLOGUE_BEFORE) == sizeof(PMV_ADMISSION_PROLOGUE), "prologue");

/* make_prologue -- of a request with this in front of message 1; returns its length */
static size_t make_prologue(enum pmv_admission_way way, uint8_t *prologue, const uint8_t *data,
			    size_t len)
{
	memcpy(prologue,
	       way == PMV_ADMISSION_BEFORE ? PMV_ADMISSION_PROLOGUE_BEFORE : PMV_ADMISSION_PROLOGUE,
	       sizeof(PMV_ADMISSION_PROLOGUE));
	if (len)
		memcpy(prologue + sizeof(PMV_ADMISSION_PROLOGUE), data, len);
	return sizeof(PMV_ADMISSION_PROLOGUE) + len;
}

/* The initiator */

/* start_initiator -- towards whoever has to be at that address */
static bool start_initiator(struct pmv_admission *admission, const struct sockaddr *to,
			    const void *prologue, size_t len, char why[PMV_KEYS_WHY])
{
	const struct pmv_keys_peer *peer = NULL;

	pthread_mutex_lock(&lock);
	if (!load(why) && (peer = pmv_keys_target(keys, to, why))) {
		strcpy(admission->name, peer->name);
		strcpy(admission->rights, peer->rights);
		pmv_noise_initiator(&admission->noise, &keys->own, peer->key, prologue, len);
	}
	pthread_mutex_unlock(&lock);
	return peer;
}

struct pmv_admission *pmv_admission_request(enum pmv_admission_way way, const struct sockaddr *to,
					    uint8_t *data, size_t *len, char why[PMV_KEYS_WHY])
{
	uint8_t prologue[sizeof(PMV_ADMISSION_PROLOGUE) + PMV_ADMISSION_MOST], payload[PAYLOAD];
	struct pmv_admission *admission = new_admission(why);
	struct pmv_noise_pair ephemeral;
	uint64_t made;
	uint16_t port;
	bool ok;

	if (!admission)
		return NULL;
	ok = start_initiator(admission, to, prologue, make_prologue(way, prologue, data, *len),
			     why);
	if (ok) {
		made = htole64(pmv_admission_now());
		port = htole16(pmv_address_port(to));
		memcpy(payload, &made, sizeof(made));
		memcpy(payload + sizeof(made), &port, sizeof(port));
		pmv_keys_draw(&ephemeral);
		ok = pmv_noise_write_request(&admission->noise, &ephemeral, payload,
					     sizeof(payload), data + *len);
		sodium_memzero(&ephemeral, sizeof(ephemeral));
		if (!ok)
			snprintf(why, PMV_KEYS_WHY, "the key of %s is no valid public key",
				 admission->name);
	}
	if (ok) {
		*len += PMV_ADMISSION_REQUEST;
		memcpy(&admission->other, to, pmv_address_len(to));
		return admission;
	}
	pmv_admission_free(admission);
	return NULL;
}

void pmv_admission_refused(const struct pmv_admission *admission, const char *what,
			   char why[PMV_KEYS_WHY])
{
	char own[PMV_KEYS_TEXT], peer[PMV_KEYS_TEXT];

	pmv_keys_text(own, admission->noise.own.public);
	pmv_keys_text(peer, admission->noise.peer);
	snprintf(why, PMV_KEYS_WHY,
		 "%s it does not know this process's key, %s, or its own key is not that of %s, %s",
		 what, own, admission->name, peer);
}

bool pmv_admission_established(struct pmv_admission *admission, const uint8_t *data, size_t *len,
			       char why[PMV_KEYS_WHY])
{
	uint8_t said[crypto_hash_sha256_BYTES], hash[crypto_hash_sha256_BYTES];
	size_t front;

	if (*len < PMV_ADMISSION_REPLY) {
		snprintf(why, PMV_KEYS_WHY, "it proves no key at all, and has to prove that of %s",
			 admission->name);
		*len = 0;
		return false;
	}
	front = *len - PMV_ADMISSION_REPLY;
	crypto_hash_sha256(hash, data, front);
	if (!pmv_noise_read_reply(&admission->noise, data + front, said, sizeof(said)) ||
	    sodium_memcmp(said, hash, sizeof(hash)) != 0) {
		snprintf(why, PMV_KEYS_WHY, "it does not prove the key of %s", admission->name);
		*len = 0;
		return false;
	}
	*len = front;
	return true;
}

/* The target */

/* explain -- why a genuine request of a known peer is not taken; true: it is */
static bool explain(enum pmv_replay_verdict verdict, const char *name, uint64_t now, uint64_t made,
		    char why[PMV_KEYS_WHY])
{
	switch (verdict) {
	case PMV_REPLAY_NEW:
		return true;
	case PMV_REPLAY_SKEWED:
		snprintf(why, PMV_KEYS_WHY,
			 "the clocks differ by %" PRIu64 " s, and %d s are allowed; or it was "
			 "recorded (%s)",
			 (made > now ? made - now : now - made) / 1000000000 + 1,
			 made > now ? PMV_REPLAY_AHEAD_S : PMV_REPLAY_WINDOW_S, name);
		return false;
	case PMV_REPLAY_BEFORE:
		snprintf(why, PMV_KEYS_WHY,
			 "it was made before this process listened, as the clocks tell; the peer "
			 "may try again (%s)",
			 name);
		return false;
	case PMV_REPLAY_REPEATED:
		snprintf(why, PMV_KEYS_WHY, "it was here before: somebody has recorded it (%s)",
			 name);
		return false;
	default:
		snprintf(why, PMV_KEYS_WHY,
			 "too many requests came at once to tell whether it was here before (%s)",
			 name);
		return false;
	}
}

static int compare_tables(const void *a, const void *b)
{
	return memcmp(a, b, PMV_NOISE_KEY);
}

/* table_of -- with the lock: of the peer's requests; NULL: no memory */
static struct pmv_replay *table_of(const uint8_t key[PMV_NOISE_KEY])
{
	struct table **node = tfind(key, &tables, compare_tables);
	struct table *table;

	if (node)
		return &(*node)->replay;
	table = calloc(1, sizeof(*table));
	if (!table)
		return NULL;
	memcpy(table->key, key, sizeof(table->key));
	if (tsearch(table, &tables, compare_tables))
		return &table->replay;
	free(table);
	return NULL;
}

/* may_enter -- with the lock: message 1 is genuine.  Is it from a known peer, for us, and new? */
static bool may_enter(struct pmv_admission *admission, const struct sockaddr *from, uint16_t port,
		      uint64_t since_ns, const uint8_t payload[PAYLOAD], char why[PMV_KEYS_WHY])
{
	const struct pmv_keys_peer *peer = pmv_keys_find(keys, admission->noise.peer, from, why);
	uint64_t made, now = pmv_admission_now();
	struct pmv_replay *replay;
	uint16_t meant;

	if (!peer)
		return false;
	strcpy(admission->name, peer->name);
	strcpy(admission->rights, peer->rights);
	memcpy(&made, payload, sizeof(made));
	memcpy(&meant, payload + sizeof(made), sizeof(meant));
	made = le64toh(made);
	meant = le16toh(meant);
	if (meant != port) {
		snprintf(why, PMV_KEYS_WHY, "it was made for port %u, and this is port %u (%s)",
			 meant, port, peer->name);
		return false;
	}
	replay = table_of(admission->noise.peer);
	if (!replay) {
		snprintf(why, PMV_KEYS_WHY, "there is no memory");
		return false;
	}
	since_ns = since_ns > start_ns ? since_ns : start_ns;
	return explain(
		pmv_replay_check(replay, since_ns, now, made, admission->noise.peer_ephemeral),
		peer->name, now, made, why);
}

struct pmv_admission *pmv_admission_asked(enum pmv_admission_way way, const struct sockaddr *from,
					  uint16_t port, uint64_t since_ns, const uint8_t *data,
					  size_t *len, char why[PMV_KEYS_WHY])
{
	uint8_t prologue[sizeof(PMV_ADMISSION_PROLOGUE) + PMV_ADMISSION_MOST], payload[PAYLOAD];
	struct pmv_admission *admission;
	bool ok = false;
	size_t front;

	if (*len < PMV_ADMISSION_REQUEST || *len > PMV_ADMISSION_MOST) {
		snprintf(why, PMV_KEYS_WHY, "it proves no key");
		return NULL;
	}
	admission = new_admission(why);
	if (!admission)
		return NULL;
	front = *len - PMV_ADMISSION_REQUEST;
	pthread_mutex_lock(&lock);
	if (!load(why)) {
		pmv_noise_responder(&admission->noise, &keys->own, prologue,
				    make_prologue(way, prologue, data, front));
		if (pmv_noise_read_request(&admission->noise, data + front, payload, PAYLOAD))
			ok = may_enter(admission, from, port, since_ns, payload, why);
		else
			snprintf(why, PMV_KEYS_WHY,
				 "it proves no key, or was made for another target's");
	}
	pthread_mutex_unlock(&lock);
	if (ok) {
		/* Message 2 takes it no more. */
		sodium_memzero(&admission->noise.own, sizeof(admission->noise.own));
		/* For the look at the file peers when it is accepted. */
		if (from)
			memcpy(&admission->other, from, pmv_address_len(from));
		*len = front;
		return admission;
	}
	pmv_admission_free(admission);
	return NULL;
}

/* Its key may have been taken out since it asked. */
bool pmv_admission_is_known(const struct pmv_admission *admission, char why[PMV_KEYS_WHY])
{
	const struct sockaddr *from = (const struct sockaddr *) &admission->other;
	bool ok;

	pthread_mutex_lock(&lock);
	ok = !load(why) && pmv_keys_find(keys, admission->noise.peer,
					 from->sa_family == AF_UNSPEC ? NULL : from, why);
	pthread_mutex_unlock(&lock);
	return ok;
}

bool pmv_admission_reply(struct pmv_admission *admission, uint8_t *data, size_t *len,
			 char why[PMV_KEYS_WHY])
{
	uint8_t hash[crypto_hash_sha256_BYTES];
	struct pmv_noise_pair ephemeral;
	bool ok;

	if (!pmv_admission_is_known(admission, why))
		return false;
	crypto_hash_sha256(hash, data, *len);
	pmv_keys_draw(&ephemeral);
	ok = pmv_noise_write_reply(&admission->noise, &ephemeral, hash, sizeof(hash), data + *len);
	sodium_memzero(&ephemeral, sizeof(ephemeral));
	if (ok)
		*len += PMV_ADMISSION_REPLY;
	else
		snprintf(why, PMV_KEYS_WHY, "the key of %s is no valid public key",
			 admission->name);
	return ok;
}
