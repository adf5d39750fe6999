# SPDX-License-Identifier: BSD-2-Clause
# local.mk -- random operations, each commit checked; %D% is this directory

bin_PROGRAMS += fi_pmem_stress
fi_pmem_stress_SOURCES = %D%/fi_pmem_stress.c util/number.h \
	%D%/completions.c \
	%D%/connect.c \
	%D%/draw.c \
	%D%/initiator.c %D%/initiator.h \
	%D%/oracle.c %D%/oracle.h \
	%D%/oracle_told.c \
	%D%/post.c \
	%D%/shadow.c \
	%D%/stress.h \
	%D%/target.c \
	prov/pmemverbs/base/setting.h \
	prov/pmemverbs/test/support/dice.h
fi_pmem_stress_CPPFLAGS = $(AM_CPPFLAGS) $(PMEM2_CFLAGS) -I$(srcdir)/prov/pmemverbs
fi_pmem_stress_CFLAGS = $(AM_CFLAGS) -pthread
# It stands in for functions that the provider calls.
fi_pmem_stress_LDFLAGS = -export-dynamic
fi_pmem_stress_LDADD = libcommon.la libconnection.la $(LIBFABRIC_LIBS)
