# SPDX-License-Identifier: BSD-2-Clause
# local.mk -- for cp-test: a disk that forgets, and a client that means ill; %D% is this directory

noinst_LTLIBRARIES += libcp_crash.la
libcp_crash_la_SOURCES = %D%/cp_crash.c
libcp_crash_la_LDFLAGS = -module -avoid-version -shared -rpath $(pkglibdir)
noinst_PROGRAMS += cp_hostile
cp_hostile_SOURCES = %D%/cp_hostile.c \
	%D%/cp_lent.c %D%/cp_lent.h
cp_hostile_CFLAGS = $(AM_CFLAGS) $(XXHASH_CFLAGS)
cp_hostile_LDADD = libcp.la $(LIBFABRIC_LIBS) $(XXHASH_LIBS)

EXTRA_DIST += %D%/cp-test %D%/kept.sh %D%/trees.sh %D%/ways.sh
