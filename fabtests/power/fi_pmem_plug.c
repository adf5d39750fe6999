/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fi_pmem_plug.c -- is what was acknowledged still there after a power failure?
 *
 * The initiator appends numbered records to a log in the target's memory, and
 * prints each commit when it has completed.  After the power failure the
 * checker compares the log with what was printed.  fabtests/power/plug does it
 * all.
 */
#include <stdio.h>
#include <stdlib.h>

#include "plug.h"

#define FENCED_BIT 8
#define MIN_SLOTS 256

static const struct program program = {
	.name = "fi_pmem_plug",
	.summary = "A log to pull the plug on, and to check afterwards (-A).\n"
		   "Without -I the client goes on for ever; -W is 8 if not given.",
	.letters = "pfdsBPMNSInWAoh",
	.operations = "server: sleep: leave all work to the provider's thread (default); "
		      "progress: read the completion queue meanwhile",
};

size_t log_size(const struct layout *layout)
{
	return TAIL_ROOM + layout->slots * layout->size;
}

size_t log_file_size(const struct layout *layout, const struct options *opts, size_t log)
{
	bool alone = log % LOGS_OF_FILE == 0 && log + 1 == opts->connections;

	return log_size(layout) * (alone ? 1 : LOGS_OF_FILE);
}

size_t log_offset(const struct layout *layout, size_t log)
{
	return log % LOGS_OF_FILE * log_size(layout);
}

const char *log_file(const struct options *opts, size_t log, char room[PATH_MAX])
{
	if (opts->connections == 1 || !opts->memory)
		return opts->memory;
	snprintf(room, PATH_MAX, "%s.%zu", opts->memory, log / LOGS_OF_FILE);
	return room;
}

bool is_fenced(uint64_t number)
{
	return number & FENCED_BIT;
}

bool layout_is_sane(const struct layout *layout)
{
	if (layout->slots >= MIN_SLOTS && layout->slots <= MAX_SLOTS && layout->size >= 16 &&
	    layout->size <= UINT32_MAX && layout->size % 8 == 0 && layout->window >= 1 &&
	    layout->window <= MAX_WINDOW)
		return true;
	fprintf(stderr,
		"a log has from %d to %d records, of at least 16 bytes and a multiple of 8 each, "
		"and up to %d are written at a time\n",
		MIN_SLOTS, MAX_SLOTS, MAX_WINDOW);
	return false;
}

int main(int argc, char **argv)
{
	struct options opts = {
		.window = 8,
		.records = 1024,
		.sizes = {256},
		.nsizes = 1,
		.connections = 1,
	};
	int ret;

	if (!options_parse(&opts, &program, argc, argv))
		return opts.status;
	if (opts.connections > MAX_LOGS) {
		fprintf(stderr, "at most %d connections\n", MAX_LOGS);
		return EXIT_USAGE;
	}
	if (opts.acks)
		ret = be_checker(&opts);
	else
		ret = opts.dst_addr ? be_initiator(&opts) : be_target(&opts);
	return ret ? EXIT_FAILURE : EXIT_SUCCESS;
}
