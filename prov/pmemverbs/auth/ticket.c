/* SPDX-License-Identifier: BSD-2-Clause */
/* ticket.c -- what stands for a proof where there is no room for one; ticket.h says how */
#include "auth/ticket.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sodium.h>

#include "base/address.h"

_Static_assert(PMV_TICKET_SIZE == sizeof(((struct pmv_admission *) NULL)->ticket), "ticket");

struct pmv_ticket {
	TAILQ_ENTRY(pmv_ticket) next;
	struct pmv_admission *admission;
	int64_t until_ms;
	size_t len;
	uint8_t data[];
};

void pmv_ticket_make(struct pmv_admission *admission)
{
	uint8_t peer[PMV_NOISE_KEY];

	pmv_noise_split(&admission->noise, admission->ticket, admission->proof_key);
	/* Whoever accepts looks once more whether it is known. */
	memcpy(peer, admission->noise.peer, sizeof(peer));
	pmv_noise_wipe(&admission->noise);
	memcpy(admission->noise.peer, peer, sizeof(peer));
	admission->has_ticket = true;
}

/* The proof behind an acceptance */

static void prove(const struct pmv_admission *admission, const uint8_t *data, size_t len,
		  uint8_t proof[PMV_TICKET_PROOF])
{
	uint8_t whole[crypto_auth_hmacsha256_BYTES];
	crypto_auth_hmacsha256_state state;

	crypto_auth_hmacsha256_init(&state, admission->proof_key, sizeof(admission->proof_key));
	crypto_auth_hmacsha256_update(&state, data, len);
	crypto_auth_hmacsha256_final(&state, whole);
	memcpy(proof, whole, PMV_TICKET_PROOF);
	sodium_memzero(&state, sizeof(state));
	sodium_memzero(whole, sizeof(whole));
}

bool pmv_ticket_reply(struct pmv_admission *admission, uint8_t *data, size_t *len,
		      char why[PMV_KEYS_WHY])
{
	if (!admission->has_ticket) {
		snprintf(why, PMV_KEYS_WHY, "%s has no ticket", admission->name);
		return false;
	}
	if (!pmv_admission_is_known(admission, why))
		return false;
	prove(admission, data, *len, data + *len);
	*len += PMV_TICKET_PROOF;
	return true;
}

bool pmv_ticket_established(struct pmv_admission *admission, const uint8_t *data, size_t *len,
			    char why[PMV_KEYS_WHY])
{
	uint8_t proof[PMV_TICKET_PROOF];
	size_t front = *len - PMV_TICKET_PROOF;

	if (!admission->has_ticket || *len < PMV_TICKET_PROOF) {
		snprintf(why, PMV_KEYS_WHY, "it proves no key at all, and has to prove that of %s",
			 admission->name);
		*len = 0;
		return false;
	}
	prove(admission, data, front, proof);
	if (sodium_memcmp(proof, data + front, sizeof(proof)) != 0) {
		snprintf(why, PMV_KEYS_WHY, "it does not prove the key of %s", admission->name);
		*len = 0;
		return false;
	}
	*len = front;
	return true;
}

/* What a target has given out */

static void drop(struct pmv_tickets *tickets, struct pmv_ticket *ticket)
{
	TAILQ_REMOVE(&tickets->list, ticket, next);
	pmv_admission_free(ticket->admission);
	free(ticket);
}

void pmv_tickets_init(struct pmv_tickets *tickets)
{
	TAILQ_INIT(&tickets->list);
}

void pmv_tickets_forget(struct pmv_tickets *tickets)
{
	while (!TAILQ_EMPTY(&tickets->list))
		drop(tickets, TAILQ_FIRST(&tickets->list));
}

/* drop_old -- all of them are good for the same time */
static void drop_old(struct pmv_tickets *tickets, int64_t now_ms)
{
	struct pmv_ticket *ticket;

	while ((ticket = TAILQ_FIRST(&tickets->list)) && ticket->until_ms <= now_ms)
		drop(tickets, ticket);
}

bool pmv_tickets_add(struct pmv_tickets *tickets, struct pmv_admission *admission,
		     const uint8_t *data, size_t len, int64_t now_ms, char why[PMV_KEYS_WHY])
{
	struct pmv_ticket *ticket = NULL, *other;
	size_t count = 0;

	drop_old(tickets, now_ms);
	TAILQ_FOREACH(other, &tickets->list, next)
	count += !memcmp(other->admission->noise.peer, admission->noise.peer, PMV_NOISE_KEY);
	if (count >= PMV_TICKET_MOST)
		snprintf(why, PMV_KEYS_WHY, "%s has %zu tickets that were not used",
			 admission->name, count);
	else if (!(ticket = malloc(sizeof(*ticket) + len)))
		snprintf(why, PMV_KEYS_WHY, "there is no memory");
	if (!ticket) {
		pmv_admission_free(admission);
		return false;
	}
	ticket->admission = admission;
	ticket->until_ms = now_ms + PMV_TICKET_SECONDS * INT64_C(1000);
	ticket->len = len;
	memcpy(ticket->data, data, len);
	TAILQ_INSERT_TAIL(&tickets->list, ticket, next);
	return true;
}

/* find -- by comparing with all of them: how long it takes tells nothing of any */
static struct pmv_ticket *find(struct pmv_tickets *tickets, const uint8_t *shown)
{
	struct pmv_ticket *ticket, *found = NULL;

	TAILQ_FOREACH(ticket, &tickets->list, next)
	{
		if (!sodium_memcmp(ticket->admission->ticket, shown, PMV_TICKET_SIZE))
			found = ticket;
	}
	return found;
}

struct pmv_admission *pmv_tickets_take(struct pmv_tickets *tickets, const struct sockaddr *from,
				       int64_t now_ms, uint8_t *data, size_t *len,
				       char why[PMV_KEYS_WHY])
{
	struct pmv_admission *admission;
	struct pmv_ticket *ticket;

	drop_old(tickets, now_ms);
	ticket = *len == PMV_TICKET_SIZE ? find(tickets, data) : NULL;
	if (!ticket) {
		snprintf(why, PMV_KEYS_WHY,
			 *len == PMV_TICKET_SIZE
				 ? "its ticket is not valid, or was used, or is older than %d s"
				 : "it shows no ticket",
			 PMV_TICKET_SECONDS);
		return NULL;
	}
	if (!pmv_address_is_same_host(from, (struct sockaddr *) &ticket->admission->other)) {
		/* Others have seen it. */
		snprintf(why, PMV_KEYS_WHY,
			 "its ticket was given to %s at another address, and is void from now on",
			 ticket->admission->name);
		drop(tickets, ticket);
		return NULL;
	}
	admission = ticket->admission;
	*len = ticket->len;
	memcpy(data, ticket->data, ticket->len);
	TAILQ_REMOVE(&tickets->list, ticket, next);
	free(ticket);
	return admission;
}
