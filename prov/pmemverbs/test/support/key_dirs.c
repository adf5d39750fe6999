/* SPDX-License-Identifier: BSD-2-Clause */
/* key_dirs.c -- directories of FI_PMEMVERBS_KEYS */
#include "key_dirs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <criterion/criterion.h>
#include <sodium.h>

#include "base/setting.h"

static char dirs[ENDS][64];
char key_texts[ENDS][PMV_KEYS_TEXT];

static const char *path_of(int end, const char *name)
{
	static char path[256];

	snprintf(path, sizeof(path), "%s/%s", dirs[end], name);
	return path;
}

void key_dirs_put(int end, const char *name, const char *text)
{
	const char *path = path_of(end, name);
	FILE *file;

	unlink(path);
	file = fopen(path, "w");
	cr_assert_not_null(file);
	fputs(text, file);
	cr_assert_eq(fclose(file), 0);
	cr_assert_eq(chmod(path, 0600), 0);
}

void key_dirs_know(int end, int peer, const char *where)
{
	char line[256] = "";

	if (peer < ENDS)
		snprintf(line, sizeof(line), "%s peer%d %s\n", key_texts[peer], peer, where);
	key_dirs_put(end, "peers", line);
}

void key_dirs_be(int end)
{
	pmv_setting.keys = end < ENDS ? dirs[end] : NULL;
}

void key_dirs_make(void)
{
	for (int end = 0; end < ENDS; end++) {
		struct pmv_noise_pair pair;
		char secret[PMV_KEYS_TEXT];

		strcpy(dirs[end], "/tmp/key_dirs.XXXXXX");
		cr_assert_not_null(mkdtemp(dirs[end]));
		randombytes_buf(pair.secret, sizeof(pair.secret));
		cr_assert(pmv_noise_public(&pair));
		pmv_keys_text(secret, pair.secret);
		pmv_keys_text(key_texts[end], pair.public);
		key_dirs_put(end, "key", secret);
	}
	key_dirs_know(TARGET, CLIENT, "");
	key_dirs_know(CLIENT, TARGET, "");
	key_dirs_know(STRANGER, TARGET, "");
}

void key_dirs_remove(void)
{
	for (int end = 0; end < ENDS; end++) {
		unlink(path_of(end, "key"));
		unlink(path_of(end, "peers"));
		rmdir(dirs[end]);
	}
	key_dirs_be(ENDS);
}
