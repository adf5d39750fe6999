# SPDX-License-Identifier: BSD-2-Clause
# local.mk -- what the programs of fabtests share; %D% is this directory

# Compiled once.  memory_direct.c is for programs on libfabric, control.c for those that talk beside their connections;
# the provider's flushes are for references that have none, its keys and messages for who asks what they say.
noinst_LTLIBRARIES += libcommon.la
libcommon_la_CFLAGS = $(AM_CFLAGS) $(PMEM2_CFLAGS)
libcommon_la_SOURCES = \
	%D%/common.c %D%/common.h \
	%D%/control.c %D%/control.h \
	%D%/memory.c %D%/memory.h \
	%D%/memory_direct.c %D%/memory_direct.h \
	%D%/options.c %D%/options.h \
	%D%/stats.c %D%/stats.h \
	%D%/random.c %D%/random.h \
	%D%/steps.h \
	%D%/turns.c %D%/turns.h \
	prov/pmemverbs/agent/flush.c prov/pmemverbs/agent/flush.h \
	prov/pmemverbs/agent/wire.c prov/pmemverbs/agent/wire.h \
	prov/pmemverbs/memory/key.c prov/pmemverbs/memory/key.h \
	util/sync_name.h

EXTRA_DIST += %D%/await.sh %D%/pair

# Preloaded by runtests, and in the lab.
noinst_LTLIBRARIES += libstart.la
libstart_la_SOURCES = %D%/start.c
libstart_la_LDFLAGS = -module -avoid-version -shared -rpath $(pkglibdir)
