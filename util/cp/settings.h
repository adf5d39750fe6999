/* SPDX-License-Identifier: BSD-2-Clause */
/* settings.h -- the command line of fi_pmem_target, and a file with more of its options */
#ifndef CP_SETTINGS_H
#define CP_SETTINGS_H

#include <stdbool.h>
#include <stdint.h>

struct cp_settings {
	const char *path;
	char port[8];
	const char *file; /* NULL: none */
	unsigned int clients;
	int timeout_ms;
	bool verbose;
	bool read_only;
	uint64_t max_file;
	uint64_t max_memory;
	uint64_t max_total;
};

/* cp_settings_parse -- what the command line says; anything wrong ends the program */
void cp_settings_parse(struct cp_settings *settings, int argc, char **argv);

/*
 * cp_settings_add -- the options of the file: its last line OPTIONS=, as systemd reads it.  -1: it
 * is wrong, or has no such line; that was told, and the settings are as they were.
 */
int cp_settings_add(struct cp_settings *settings);

#endif /* CP_SETTINGS_H */
