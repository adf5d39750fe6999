# SPDX-License-Identifier: BSD-2-Clause
# local.mk -- what the programs of fabtests share; %D% is this directory

common_sources = \
	%D%/memory.c %D%/memory.h \
	%D%/options.c %D%/options.h \
	%D%/steps.h \
	%D%/stats.c %D%/stats.h
# Of those on libfabric.
fabric_sources = $(common_sources) \
	%D%/common.c %D%/common.h \
	%D%/memory_direct.c %D%/memory_direct.h
# Of those that talk beside their connections.
control_sources = %D%/control.c %D%/control.h

EXTRA_DIST += %D%/await.sh %D%/pair

# Preloaded by runtests, and in the lab.
noinst_LTLIBRARIES += libstart.la
libstart_la_SOURCES = %D%/start.c
libstart_la_LDFLAGS = -module -avoid-version -shared -rpath $(pkglibdir)
