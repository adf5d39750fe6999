/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * admission.h -- who may connect: a message of Noise (noise.h) behind all other CM data
 *
 * A connection request ends with message 1, its acceptance with message 2.
 *
 *    request     CM data, as long as there are any
 *                message 1; its payload: u64 time at which it was made (CLOCK_REALTIME, ns)
 *                                        u16 port to which it goes
 *    acceptance  CM data
 *                message 2; its payload: SHA-256 of the CM data in front of it
 *
 * Numbers are little-endian.  The prologue is PMV_ADMISSION_PROLOGUE and the CM data of the
 * request.  So neither side's CM data, handshake included, can be exchanged for others.
 *
 * Message 1 can be read only with the target's secret key, so it is of no use elsewhere.  But
 * several processes of a host may share a key, and each knows only what it has taken itself
 * (replay.h).  The port tells them apart: a request that was recorded on its way to one is of no
 * use at another one.  The address is not sent: behind a translation of addresses a target would
 * see another one.  So hosts that share a key would take each other's requests, where they listen
 * at the same port; the manual says that no two hosts may.
 *
 * Where CM data have no room for them, the messages go before it over a connection of their own
 * (ticket_server.h), and the CM data have a ticket (ticket.h).  They are the same, but for the
 * prologue: the CM data of the request are in front of message 1, and none in front of message 2.
 *
 * All functions may be called by any thread.
 */
#ifndef PMV_ADMISSION_H
#define PMV_ADMISSION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <sys/socket.h>

#include "auth/keys.h"
#include "auth/noise.h"
#include "base/setting.h"

#define PMV_ADMISSION_PROLOGUE "pmemverbs-keys-1"
#define PMV_ADMISSION_PROLOGUE_BEFORE "pmemverbs-tick-1"
#define PMV_ADMISSION_REQUEST PMV_NOISE_REQUEST(10)
#define PMV_ADMISSION_REPLY PMV_NOISE_REPLY(32)

/* More CM data than any core carries. */
#define PMV_ADMISSION_MOST 512

/* What is left of the room for CM data: the longer message is that of the request. */
_Static_assert(PMV_ADMISSION_REPLY <= PMV_ADMISSION_REQUEST, "room");

enum pmv_admission_way {
	PMV_ADMISSION_WITHIN, /* the messages are in CM data */
	PMV_ADMISSION_BEFORE, /* they are exchanged before, for a ticket */
};

/* One end of one exchange, while that is under way.  It has secrets: pmv_admission_free. */
struct pmv_admission {
	struct pmv_noise noise;
	char name[PMV_KEYS_NAME];      /* the peer's, in the file peers */
	char rights[PMV_KEYS_RIGHTS];  /* so */
	struct sockaddr_storage other; /* the peer's address; AF_UNSPEC: it is not known */
	/* Of a ticket, which both ends have made. */
	bool has_ticket;
	uint8_t ticket[PMV_NOISE_KEY];
	uint8_t proof_key[PMV_NOISE_KEY];
};

static inline bool pmv_admission_is_on(void)
{
	return pmv_setting.keys;
}

/* pmv_admission_check -- can the keys be used?  0, or a negative errno, and why */
int pmv_admission_check(char why[PMV_KEYS_WHY]);

/* pmv_admission_now -- the time that requests carry */
uint64_t pmv_admission_now(void);

/*
 * The initiator.  _request puts message 1 behind *len bytes; NULL: nobody is known there, and why.
 * _established looks for message 2 behind the CM data of the acceptance, and takes it off; false:
 * it is not there, or not genuine: *len is 0 then.  _refused says, behind what is known, what an
 * initiator can know of a refusal without a reason.
 */
struct pmv_admission *pmv_admission_request(enum pmv_admission_way way, const struct sockaddr *to,
					    uint8_t *data, size_t *len, char why[PMV_KEYS_WHY]);
void pmv_admission_refused(const struct pmv_admission *admission, const char *what,
			   char why[PMV_KEYS_WHY]);
bool pmv_admission_established(struct pmv_admission *admission, const uint8_t *data, size_t *len,
			       char why[PMV_KEYS_WHY]);

/*
 * The target.  _asked looks for message 1, and takes it off; NULL: the peer may not connect, and
 * why.  It listens at that port since since_ns: what was made before may have been taken by another
 * process that listened there.  _reply puts message 2 behind *len bytes, if the peer is still
 * known; false: it is not, and why.
 */
struct pmv_admission *pmv_admission_asked(enum pmv_admission_way way, const struct sockaddr *from,
					  uint16_t port, uint64_t since_ns, const uint8_t *data,
					  size_t *len, char why[PMV_KEYS_WHY]);
bool pmv_admission_reply(struct pmv_admission *admission, uint8_t *data, size_t *len,
			 char why[PMV_KEYS_WHY]);

/* pmv_admission_is_known -- is the peer that has asked still known?  False: it is not, and why. */
bool pmv_admission_is_known(const struct pmv_admission *admission, char why[PMV_KEYS_WHY]);

void pmv_admission_free(struct pmv_admission *admission);

#endif /* PMV_ADMISSION_H */
