/* SPDX-License-Identifier: BSD-2-Clause */
/* rs_client.h -- reads and writes of blocks, by a majority of the targets */
#ifndef PMEM_RS_CLIENT_H
#define PMEM_RS_CLIENT_H

#include "rs_replica.h"

struct rs_client {
	const struct options *opts;
	unsigned int count; /* of targets */
	struct rs_replica replicas[MAX_HOSTS];
	unsigned int only;       /* bits; not 0: the targets that this client looks at */
	uint64_t writer;         /* who this is */
	uint64_t number;         /* of its greatest tag */
	bool spins;              /* waits without sleeping */
	struct rs_request asked; /* the last one */
	struct rs_record record; /* that is written, or was read */
	struct connection_error error;
};

/*
 * Functions return 0 or a negative fi_errno; the text is in `error`.  -FI_ETIMEDOUT: no majority
 * has answered in time, so that a write may have been made, or may yet be made, or not.
 */

/* rs_open -- a client of the options' hosts; it waits for none of them */
int rs_open(struct rs_client *client, const struct options *opts);
void rs_close(struct rs_client *client);

/* rs_get -- into record.value and record.tag */
int rs_get(struct rs_client *client, uint64_t block);

/* rs_put -- record.value; it is durable now at a majority, unless the option says that it need not
 * be */
int rs_put(struct rs_client *client, uint64_t block);

/* ---- the parts of these ---- */

/* rs_ask -- all targets, until `enough` of them have answered; all: and until each one has that is
 * not away */
int rs_ask(struct rs_client *client, enum rs_what what, uint64_t block, unsigned int enough,
	   bool all);

/* rs_write -- client->record, whose tag is set; a bit in `have`: that target has it already */
int rs_write(struct rs_client *client, unsigned int have);

/* rs_has_answered -- what was asked last */
bool rs_has_answered(const struct rs_client *client, unsigned int number);

/* rs_failed -- tell it, and give it back */
int rs_failed(const struct rs_client *client, int ret);

/* rs_blocks -- how many there are; 0: no target has told that yet */
uint64_t rs_blocks(const struct rs_client *client);

#endif /* PMEM_RS_CLIENT_H */
