/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * tx_judge.c -- judges the histories of fi_pmem_tx -o soak, which it reads from standard input
 *
 * A transaction has two lines:
 * call BEGIN CLIENT NUMBER KEY:READ:WRITTEN ...
 * back END CLIENT NUMBER made or aborted
 * READ and WRITTEN are identities of values; WRITTEN is 0 if the key was only read.  If there is no
 * line "back" the transaction may have been made or not.  A client that was killed may have
 * written a part of a line, which is passed over.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tx_history.h"

struct line {
	bool back;
	uint64_t client, number;
	struct tx_transaction transaction; /* of "back": its end, and whether it was aborted */
};

/* parse_events -- up to the end of the line */
static bool parse_events(const char *text, struct tx_transaction *transaction)
{
	while (transaction->count < TX_ACCESSES) {
		struct tx_event *event = &transaction->events[transaction->count];
		int end = 0;

		if (sscanf(text, " %" SCNu64 ":%" SCNu64 ":%" SCNu64 "%n", &event->key,
			   &event->read, &event->written, &end) != 3)
			break;
		transaction->count++;
		text += end;
	}
	return transaction->count && *text == '\n';
}

static bool parse(const char *text, struct line *line)
{
	char kind[8];
	uint64_t time;
	int end = 0;

	*line = (struct line){0};
	if (sscanf(text, "%4s %" SCNu64 " %" SCNu64 " %" SCNu64 "%n", kind, &time, &line->client,
		   &line->number, &end) != 4)
		return false;
	line->back = !strcmp(kind, "back");
	line->transaction.begin = time;
	line->transaction.end = line->back ? time : TX_NEVER;
	line->transaction.aborted = !strcmp(text + end, " aborted\n");
	return line->back ? line->transaction.aborted || !strcmp(text + end, " made\n")
			  : parse_events(text + end, &line->transaction);
}

/* by_transaction -- its call before its back */
static int by_transaction(const void *one, const void *other)
{
	const struct line *a = one, *b = other;

	if (a->client != b->client)
		return a->client < b->client ? -1 : 1;
	if (a->number != b->number)
		return a->number < b->number ? -1 : 1;
	return a->back - b->back;
}

/* read_lines -- all of them; *count: how many */
static struct line *read_lines(FILE *from, size_t *count)
{
	struct line *lines = NULL;
	char text[512];
	size_t room = 0;

	*count = 0;
	while (fgets(text, sizeof(text), from)) {
		if (*count == room) {
			room = 2 * room + 1024;
			lines = realloc(lines, room * sizeof(*lines));
			if (!lines)
				abort();
		}
		*count += parse(text, &lines[*count]);
	}
	return lines;
}

/* pair -- calls with what came back: how many transactions that makes */
static size_t pair(const struct line *lines, size_t count, struct tx_transaction *transactions)
{
	size_t found = 0;

	for (size_t i = 0; i < count; i++) {
		const struct line *call = &lines[i], *back = &lines[i + 1];

		if (call->back)
			continue;
		transactions[found] = call->transaction;
		if (i + 1 < count && back->back && back->client == call->client &&
		    back->number == call->number) {
			transactions[found].end = back->transaction.end;
			transactions[found].aborted = back->transaction.aborted;
		}
		found++;
	}
	return found;
}

int main(void)
{
	struct tx_transaction *transactions;
	struct tx_verdict verdict;
	size_t count, found;
	struct line *lines = read_lines(stdin, &count);

	transactions = calloc(count + 1, sizeof(*transactions));
	if (!transactions)
		abort();
	if (lines)
		qsort(lines, count, sizeof(*lines), by_transaction);
	found = pair(lines, count, transactions);
	verdict = tx_judge_history(transactions, found);
	if (verdict.wrong)
		printf("key %" PRIu64 ", value %" PRIu64 ": %s\n", verdict.key, verdict.value,
		       verdict.why);
	else
		printf("%zu transactions of %zu were made, and are strictly serializable\n",
		       verdict.judged, found);
	free(transactions);
	free(lines);
	/* A history of nothing is none. */
	return verdict.wrong || !verdict.judged ? EXIT_FAILURE : EXIT_SUCCESS;
}
