/* SPDX-License-Identifier: BSD-2-Clause */
/* key_dirs.h -- directories of FI_PMEMVERBS_KEYS for several ends that are all this process */
#ifndef KEY_DIRS_H
#define KEY_DIRS_H

#include "auth/keys.h"

/* The target and the client know each other.  The stranger knows the target, and nobody him. */
enum { TARGET, CLIENT, STRANGER, ENDS };

extern char key_texts[ENDS][PMV_KEYS_TEXT]; /* their public keys */

void key_dirs_make(void);
void key_dirs_remove(void);

/* key_dirs_be -- whose keys are used from now on; ENDS: nobody's, as if it were not set */
void key_dirs_be(int end);

/* key_dirs_put -- a file of an end's */
void key_dirs_put(int end, const char *name, const char *text);

/* key_dirs_know -- an end knows that peer, and no other; ENDS: nobody */
void key_dirs_know(int end, int peer, const char *where);

#endif /* KEY_DIRS_H */
